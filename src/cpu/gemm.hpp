// SPDX-License-Identifier: Apache-2.0
// gemm.hpp: what fast.cpp hands to an instruction set: one plain GEMM (a batch entry, a group) with D row-major, and a
// tile of its D. The isa_*.cpp files are compiled with flags that other machines lack, so this header holds plain data
// only: an inline function here could be kept by the linker in the wrong machine's code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "carat/carat.h"

namespace carat::cpu {

// A or B as "extent x K": A by its rows, B by its columns. All positions are element indices, so sub-byte types work.
struct View {
    const void* data;
    carat_dtype dtype;
    int64_t offset;                // index of element (0, 0)
    int64_t ext_stride, k_stride;  // one of them is 1
    int64_t extent;
    // Scales applied while packing, null if there are none: grid [(e + ext_origin) / ext_block, k / k_block].
    const float* scale;
    const float* zero;
    int64_t scale_ext_stride, scale_k_stride, ext_origin, ext_block, k_block;
};

// What a packed panel holds and what its sums are kept in.
enum class Panel : uint8_t {
    f32,      // f32 panels, f32 sums
    f64,      // f64 panels, f64 sums
    bf16,     // pairs of bf16, f32 sums
    s8,       // f32 panels of small integers, s32 sums
    s8_bf16,  // the same in pairs of bf16, which hold every s8 exactly
};

struct Job {
    Panel panel;
    int64_t m, n, k;  // n counts B's columns; k = 0: the sum is empty and A, B are not read
    bool few_rows;    // at most kSmallM, and B is not packed: other bits than with more rows
    View a, b;
    const void* c;  // null: not read
    carat_dtype c_dtype;
    int64_t c_offset, ldc;
    void* d;
    carat_dtype d_dtype;
    int64_t d_offset, ldd;
    double alpha, beta;
    const float *row_scale, *col_scale;  // null: 1; step 0: one for all
    int64_t row_scale_step, col_scale_step;
    const void* bias;  // null: none
    carat_dtype bias_dtype;
    int64_t bias_offset;
    bool bias_on_rows;
    carat_activation activation;
    carat_gate gate;
    bool clamp, want_amax;
    float clamp_lo, clamp_hi;
    carat_out_scale out_scale;
    const float* out_scale_values;
    float* d_scales;  // COMPUTED_1X128: row i starts at d_scales + i * ld_scales
    int64_t ld_scales;
    float d_largest;
};

// Rows and columns of D. Columns start at a multiple of 128 (scale blocks and panels are not cut).
struct Tile {
    int64_t row0, row1, col0, col1;
};

struct Geometry {
    int mr, nr, kc;
};

// m up to this reads B once, unpacked: such a problem is bound by memory.
inline constexpr int64_t kSmallM = 8;

struct IsaKernels {
    Geometry (*geometry)(Panel panel);
    size_t (*scratch_bytes)(const Job& job, const Tile& tile);
    // Computes the tile of D. Returns max |v| if job.want_amax. `scratch` is 64-byte aligned.
    float (*run_tile)(const Job& job, const Tile& tile, void* scratch);
    // Multiplies `rounds` times out of the first-level cache, for the peak rate; returns the multiply-adds done.
    int64_t (*spin)(Panel panel, int64_t rounds, void* scratch);
};

const IsaKernels* portable_kernels();
const IsaKernels* avx2_kernels();
const IsaKernels* avx512_kernels();
const IsaKernels* avx512_bf16_kernels();

}  // namespace carat::cpu
