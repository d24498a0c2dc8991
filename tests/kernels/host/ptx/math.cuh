// SPDX-License-Identifier: Apache-2.0
// math.cuh: what kernels/ptx/math.cuh says in PTX.
#pragma once

namespace carat_kernel {

inline float reciprocal(float value) {
    return 1.0f / value;
}

}  // namespace carat_kernel
