// SPDX-License-Identifier: Apache-2.0
// squares.cuh: from a thread's kTM x kTN accumulators in f32 to D. A thread holds them as squares of 4 x 4 elements, so
// that what it has of a line of D is 4 elements in a row: one 16-byte store where D is aligned.
#pragma once

#include <epilogue/ops.cuh>

namespace carat_kernel {

// Lanes of a warp down and across, and the distance between squares of a thread: those of its warp lie between.
enum Squares : int { kLanesDown = 4, kLanesAcross = 8, kSquareRows = 4 * kLanesDown, kSquareCols = 4 * kLanesAcross };

// The first `count` of 4 elements.
__device__ inline void store_quad(float* to, const float (&values)[4], int count) {
    if (count == 4 && reinterpret_cast<unsigned long long>(to) % 16 == 0) {
        *reinterpret_cast<float4*>(to) = make_float4(values[0], values[1], values[2], values[3]);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
        if (e < count) to[e] = values[e];
}

// How many of the 4 elements from `at` on lie before `end`.
__device__ inline int quad_count(i64 at, i64 end) {
    return end - at >= 4 ? 4 : end > at ? static_cast<int>(end - at) : 0;
}

// Element (row, col) of D is that of sums[0][0]. All threads of a warp must call it. Destroys `sums`: the loop over
// lines is not unrolled (kTM kTN copies of an erfc are tens of kilobytes of code), so it always takes line 0 and moves
// the others up, for registers cannot be indexed.
template <class Config, int kTM, int kTN>
__device__ void write_squares(const GemmParams& params, const Scalars& scalars, i64 batch, i64 row, i64 col,
                              float (&sums)[kTM][kTN]) {
    constexpr bool kRows = Config::kRowMajorD;  // lines, contiguous in memory, are rows of D; else columns
    constexpr int kLines = kRows ? kTM : kTN, kQuads = (kRows ? kTN : kTM) / 4;
    const Strided& s = params.d_strides;
    Largest<Config> largest;
#pragma unroll 1
    for (int line = 0; line < kLines; ++line) {
        const int line_at = line / 4 * (kRows ? kSquareRows : kSquareCols) + line % 4;
#pragma unroll
        for (int quad = 0; quad < kQuads; ++quad) {
            const i64 i = row + (kRows ? line_at : quad * kSquareRows);
            const i64 j = col + (kRows ? quad * kSquareCols : line_at);
            const bool inside = kRows ? i < params.m : j < params.n;
            const int count = !inside ? 0 : kRows ? quad_count(j, params.n) : quad_count(i, params.m);
            float values[4] = {};
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (e >= count) continue;
                const i64 row_e = kRows ? i : i + e, col_e = kRows ? j + e : j;
                const float sum[2] = {kRows ? sums[0][4 * quad + e] : sums[4 * quad + e][0], 0.0f};
                const float v = epilogue_value<Config>(params, scalars, sum, batch, row_e, col_e);
                largest.note(v);
                values[e] = output_value<Config>(params, v, batch, row_e);
            }
            store_quad(static_cast<float*>(params.d) + i * s.row + j * s.col + batch * s.batch, values, count);
        }
#pragma unroll
        for (int i = 0; i < kTM; ++i)
#pragma unroll
            for (int j = 0; j < kTN; ++j)
                if (kRows ? i + 1 < kTM : j + 1 < kTN) sums[i][j] = sums[kRows ? i + 1 : i][kRows ? j : j + 1];
    }
    largest.publish(params);
}

}  // namespace carat_kernel
