// SPDX-License-Identifier: Apache-2.0
// through_l2.cuh: what blocks of one launch tell each other through L2, where all SMs meet: words that one waits for and another
// one sets, and what was written before. A warp's lanes write, come together (__syncwarp()), and one of them sets the word;
// on the other side one lane waits, and the lanes come together before they read.
#pragma once

namespace carat_kernel {

// Until the word is `value`: everything is visible then that was written before it was set.
__device__ inline void wait_for_word(const unsigned* word, unsigned value) {
    asm volatile(
        "{\n"
        ".reg .pred other;\n"
        ".reg .u32 now;\n"
        "again:\n"
        "ld.acquire.gpu.global.u32 now, [%0];\n"
        "setp.ne.u32 other, now, %1;\n"
        "@other bra again;\n"
        "}" ::"l"(word),
        "r"(value)
        : "memory");
}

// What the warp has written before is written then.
__device__ inline void set_word(unsigned* word, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

// What another block may have written while this one ran, so not from L1.
__device__ inline float4 load_from_l2(const float4* from) {
    float4 four;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "l"(from)
                 : "memory");
    return four;
}

}  // namespace carat_kernel
