// SPDX-License-Identifier: Apache-2.0
// math.cuh: what kernels/ptx/math.cuh says in PTX.
#pragma once

#include <cmath>

namespace carat_kernel {

inline float reciprocal(float value) {
    return 1.0f / value;
}

inline float exp_for_16_bits(float x) {
    return exp2f(x * 1.4426950408889634f);
}

}  // namespace carat_kernel
