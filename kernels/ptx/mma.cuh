// SPDX-License-Identifier: Apache-2.0
// mma.cuh: the tensor cores' instruction of a warp: a 16x16 tile of A times a 16x8 tile of B onto f32. In registers, with
// g = lane / 4 and t = 2 (lane % 4), a pair of 16-bit elements a register:
//     a: (g, t), (g + 8, t), (g, t + 8), (g + 8, t + 8), pairs along K
//     b: (t, g), (t + 8, g), pairs along K
//     d: (g, t), (g, t + 1), (g + 8, t), (g + 8, t + 1)
#pragma once

#include <shared/gemm_params.h>

namespace carat_kernel {

using namespace carat_shared;

// d[0..3] += a b
template <int kType>
__device__ inline void mma_m16n8k16(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (kType == kTypeBf16)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace carat_kernel
