// SPDX-License-Identifier: Apache-2.0
// math.cuh: single instructions for what the language makes a function with a slow path: a branch for each element keeps
// the compiler from working on several at once (SiLU at 4096^3 cost 130 us in place of 2).
#pragma once

namespace carat_kernel {

// 1 / value, off by at most one unit in the last place; 0 for an infinity. For values that are not denormal.
__device__ inline float reciprocal(float value) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

}  // namespace carat_kernel
