// SPDX-License-Identifier: Apache-2.0
// v0_naive.cuh: rung 0 of the ladder: one thread computes one element of D and reads its row of A and its column of B
// from global memory, one element of each a step.
//
// Intensity: a multiply-add (2 FLOP) for every 8 bytes asked for, 0.25 FLOP/byte. What saves it from HBM speed is that
// the 32 threads of a warp lie along D's contiguous dimension: one of the two loads is the same address for all of them
// and the other is one 128-byte line if that operand is contiguous the same way, else 32 lines.
// Bound: the load/store units and the L1, never the multipliers.
// Takes any M, N, K, layout, leading dimension and batch; offsets are 64-bit.
// Measured on an H200: 4096^3 5.22 TFLOP/s, 10 % of cuBLASLt. See docs/ladder.md.
#pragma once

#include <epilogue/ops.cuh>
#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

// Config: kBM x kBN elements of D a block, one a thread; kRowMajorD; the epilogue's constants.
template <class Config>
__device__ void v0_naive(const GemmParams& params) {
    constexpr int kParts = Config::kGate == kGateNone ? 1 : 2;
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 columns = params.n / kParts;
    const i64 depth = depth_of(params, scalars);
    const LinearTiles<Config::kBM, Config::kBN> tiles(params.m, columns, params.batch);

    const int thread = static_cast<int>(threadIdx.x);
    const int row = Config::kRowMajorD ? thread / Config::kBN : thread % Config::kBM;
    const int col = Config::kRowMajorD ? thread % Config::kBN : thread / Config::kBM;

    for (i64 index = blockIdx.x; index < tiles.count; index += gridDim.x) {
        const Tile tile = tiles.at(index);
        const i64 i = tile.row + row, j = tile.col + col;
        const bool inside = i < params.m && j < columns;

        float accumulators[2] = {0.0f, 0.0f};
        if (inside && depth > 0) {
            const Strided &as = params.a_strides, &bs = params.b_strides;
            const float* a = static_cast<const float*>(params.a) + i * as.row + tile.batch * as.batch;
            const float* b = static_cast<const float*>(params.b) + tile.batch * bs.batch;
            const i64 first = source_column<Config>(params, j, 0) * bs.col;
            const i64 second = source_column<Config>(params, j, 1) * bs.col;
            for (i64 k = 0; k < depth; ++k) {
                accumulators[0] = fmaf(a[k * as.col], b[k * bs.row + first], accumulators[0]);
                if constexpr (kParts == 2)
                    accumulators[1] = fmaf(a[k * as.col], b[k * bs.row + second], accumulators[1]);
            }
        }
        finish<Config>(params, scalars, accumulators, tile.batch, i, j, inside);
    }
}

}  // namespace carat_kernel
