// SPDX-License-Identifier: Apache-2.0
// fragment.cuh: the epilogue of accumulators that lie in a warp as the tensor cores leave them: of each 16 x 8 block of
// D, with g = lane / 4 and t = 2 (lane % 4), a lane holds (g, t), (g, t + 1), (g + 8, t), (g + 8, t + 1).
// A row of a row-major D is stored in pairs: 4 lanes write 16 or 32 bytes in a row.
#pragma once

#include <epilogue/ops.cuh>

namespace carat_kernel {

// The elements of one row that a lane holds of kBlocks blocks: d[4 block] and d[4 block + 1], at columns
// j + 8 block + {0, 1}. kWhole: all of them are inside of D and pairs may be stored.
template <class Config, int kBlocks, bool kWhole>
__device__ void finish_row(const GemmParams& params, const Scalars& scalars, const float* d, i64 batch, i64 i, i64 j,
                           Largest<Config>& largest) {
    const Strided& s = params.d_strides;
    const i64 column_step = Config::kRowMajorD ? 1 : s.col;
    const i64 first = i * s.row + j * column_step + batch * s.batch;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
        float values[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            if (!kWhole && j + 8 * block + e >= params.n) continue;
            const float accumulators[2] = {d[4 * block + e], 0.0f};
            const float v = epilogue_value<Config>(params, scalars, accumulators, batch, i, j + 8 * block + e);
            largest.note(v);
            values[e] = output_value<Config>(params, v, batch, i);
            if (!kWhole) store_element<Config::kTypeD>(params.d, first + (8 * block + e) * column_step, values[e]);
        }
        if (kWhole) store_pair<Config::kTypeD>(params.d, first + 8 * block, values[0], values[1]);
    }
}

// A strip of 16 x 8 kBlocks elements of D from (i, j) on, d[4 block ...] of each block. All lanes of the warp call it.
template <class Config, int kBlocks>
__device__ void finish_strip(const GemmParams& params, const Scalars& scalars, const float (&d)[4 * kBlocks], i64 batch,
                             i64 i, i64 j, Largest<Config>& largest) {
    constexpr int kPairBytes = Config::kTypeD == kTypeF32 ? 8 : 4;
    const Strided& s = params.d_strides;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool whole = Config::kRowMajorD && j + 8 * kBlocks <= params.n;
    j += lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const i64 row = i + lane / 4 + 8 * half;
        if (row >= params.m) continue;
        // j is even, so the row's own begin decides whether pairs are aligned.
        const i64 begin = (row * s.row + batch * s.batch) * (kPairBytes / 2);
        const bool aligned = (reinterpret_cast<unsigned long long>(params.d) + begin) % kPairBytes == 0;
        if (whole && aligned)
            finish_row<Config, kBlocks, true>(params, scalars, d + 2 * half, batch, row, j, largest);
        else
            finish_row<Config, kBlocks, false>(params, scalars, d + 2 * half, batch, row, j, largest);
    }
}

}  // namespace carat_kernel
