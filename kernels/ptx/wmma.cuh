// SPDX-License-Identifier: Apache-2.0
// wmma.cuh: PTX `wmma`, 16 x 16 x 16, f16 or bf16 onto f32, under the names of CUDA's WMMA API. A fragment is spread over
// the registers of a warp in a way that PTX leaves undefined: it is filled, loaded, multiplied and stored as a whole, by
// all 32 lanes.
// Matrices are in shared memory, in 16-bit elements or f32; `ld` counts elements, 16 bytes or a multiple of that. A and
// B must begin at a multiple of 32 bytes.
#pragma once

#include <shared/gemm_params.h>
#include <ptx/shared.cuh>

namespace carat_kernel::wmma {

using namespace carat_shared;

enum Use { matrix_a, matrix_b, accumulator };
enum Layout { row_major, col_major };

template <Use kUse, int kType, Layout kLayout>
struct fragment {
    static_assert(kUse != accumulator && (kType == kTypeF16 || kType == kTypeBf16));
    unsigned x[kType == kTypeF16 ? 8 : 4];
};

struct accumulator_fragment {
    float x[8];
};

__device__ inline void fill_fragment(accumulator_fragment& d, float value) {
#pragma unroll
    for (float& x : d.x) x = value;
}

// The opcode names operand, layout and type, so each combination is an instruction of its own.
#define CARAT_LOAD_F16(operand, layout)                                                                      \
    asm volatile("wmma.load." operand ".sync.aligned." layout                                                \
                 ".m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"                         \
                 : "=r"(to.x[0]), "=r"(to.x[1]), "=r"(to.x[2]), "=r"(to.x[3]), "=r"(to.x[4]), "=r"(to.x[5]), \
                   "=r"(to.x[6]), "=r"(to.x[7])                                                              \
                 : "r"(from), "r"(ld)                                                                        \
                 : "memory")
#define CARAT_LOAD_BF16(operand, layout)                                                                           \
    asm volatile("wmma.load." operand ".sync.aligned." layout ".m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;" \
                 : "=r"(to.x[0]), "=r"(to.x[1]), "=r"(to.x[2]), "=r"(to.x[3])                                      \
                 : "r"(from), "r"(ld)                                                                              \
                 : "memory")

// from: a shared address.
template <Use kUse, int kType, Layout kLayout>
__device__ inline void load_matrix_sync(fragment<kUse, kType, kLayout>& to, unsigned from, int ld) {
    if constexpr (kType == kTypeF16) {
        if constexpr (kUse == matrix_a && kLayout == row_major) CARAT_LOAD_F16("a", "row");
        if constexpr (kUse == matrix_a && kLayout == col_major) CARAT_LOAD_F16("a", "col");
        if constexpr (kUse == matrix_b && kLayout == row_major) CARAT_LOAD_F16("b", "row");
        if constexpr (kUse == matrix_b && kLayout == col_major) CARAT_LOAD_F16("b", "col");
    } else {
        if constexpr (kUse == matrix_a && kLayout == row_major) CARAT_LOAD_BF16("a", "row");
        if constexpr (kUse == matrix_a && kLayout == col_major) CARAT_LOAD_BF16("a", "col");
        if constexpr (kUse == matrix_b && kLayout == row_major) CARAT_LOAD_BF16("b", "row");
        if constexpr (kUse == matrix_b && kLayout == col_major) CARAT_LOAD_BF16("b", "col");
    }
}

#define CARAT_ACCUMULATORS \
    "+f"(d.x[0]), "+f"(d.x[1]), "+f"(d.x[2]), "+f"(d.x[3]), "+f"(d.x[4]), "+f"(d.x[5]), "+f"(d.x[6]), "+f"(d.x[7])
#define CARAT_MMA_F16(layouts)                                                                                \
    asm volatile("wmma.mma.sync.aligned." layouts                                                             \
                 ".m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "                                      \
                 "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, "         \
                 "{%0, %1, %2, %3, %4, %5, %6, %7};"                                                          \
                 : CARAT_ACCUMULATORS                                                                         \
                 : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(a.x[4]), "r"(a.x[5]), "r"(a.x[6]), \
                   "r"(a.x[7]), "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]), "r"(b.x[4]), "r"(b.x[5]), \
                   "r"(b.x[6]), "r"(b.x[7]))
#define CARAT_MMA_BF16(layouts)                                                                               \
    asm volatile("wmma.mma.sync.aligned." layouts                                                             \
                 ".m16n16k16.f32.bf16.bf16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, "        \
                 "{%12, %13, %14, %15}, {%0, %1, %2, %3, %4, %5, %6, %7};"                                    \
                 : CARAT_ACCUMULATORS                                                                         \
                 : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), \
                   "r"(b.x[3]))

// d += a b
template <int kType, Layout kLayoutA, Layout kLayoutB>
__device__ inline void mma_sync(accumulator_fragment& d, const fragment<matrix_a, kType, kLayoutA>& a,
                                const fragment<matrix_b, kType, kLayoutB>& b) {
    if constexpr (kType == kTypeF16) {
        if constexpr (kLayoutA == row_major && kLayoutB == row_major) CARAT_MMA_F16("row.row");
        if constexpr (kLayoutA == row_major && kLayoutB == col_major) CARAT_MMA_F16("row.col");
        if constexpr (kLayoutA == col_major && kLayoutB == row_major) CARAT_MMA_F16("col.row");
        if constexpr (kLayoutA == col_major && kLayoutB == col_major) CARAT_MMA_F16("col.col");
    } else {
        if constexpr (kLayoutA == row_major && kLayoutB == row_major) CARAT_MMA_BF16("row.row");
        if constexpr (kLayoutA == row_major && kLayoutB == col_major) CARAT_MMA_BF16("row.col");
        if constexpr (kLayoutA == col_major && kLayoutB == row_major) CARAT_MMA_BF16("col.row");
        if constexpr (kLayoutA == col_major && kLayoutB == col_major) CARAT_MMA_BF16("col.col");
    }
}

#define CARAT_STORE(layout)                                                                                 \
    asm volatile("wmma.store.d.sync.aligned." layout                                                        \
                 ".m16n16k16.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;" ::"r"(to),             \
                 "f"(d.x[0]), "f"(d.x[1]), "f"(d.x[2]), "f"(d.x[3]), "f"(d.x[4]), "f"(d.x[5]), "f"(d.x[6]), \
                 "f"(d.x[7]), "r"(ld)                                                                       \
                 : "memory")

// to: a shared address. Other lanes see the elements after __syncwarp().
template <Layout kLayout>
__device__ inline void store_matrix_sync(unsigned to, const accumulator_fragment& d, int ld) {
    if constexpr (kLayout == row_major)
        CARAT_STORE("row");
    else
        CARAT_STORE("col");
}

#undef CARAT_LOAD_F16
#undef CARAT_LOAD_BF16
#undef CARAT_ACCUMULATORS
#undef CARAT_MMA_F16
#undef CARAT_MMA_BF16
#undef CARAT_STORE

}  // namespace carat_kernel::wmma
