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

// e^x in two instructions where expf() takes nine. Off by |x| 2^-23 + 2^-22 of itself, since x log2(e) is rounded: 10^-5 at
// most before the result is 0 or infinity, a fortieth of what rounding to f16 takes.
__device__ inline float exp_for_16_bits(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.4426950408889634f));
    return result;
}

}  // namespace carat_kernel
