// SPDX-License-Identifier: Apache-2.0
// warp.cuh: exchange between the 32 lanes of a warp.
#pragma once

namespace carat_kernel {

// The largest value of the warp, in every lane. All 32 lanes must call it.
__device__ inline unsigned warp_max(unsigned value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const unsigned other = __shfl_xor_sync(0xffffffffu, value, step);
        value = other > value ? other : value;
    }
    return value;
}

}  // namespace carat_kernel
