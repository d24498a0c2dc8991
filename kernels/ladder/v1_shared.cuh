// SPDX-License-Identifier: Apache-2.0
// v1_shared.cuh: rung 1 of the ladder: a block copies a kBM x kBK tile of A and a kBK x kBN tile of B into shared
// memory, then each of its kBM x kBN threads computes its element of D from there. Each element fetched from global
// memory is now used kBN (A) or kBM (B) times instead of once.
//
// Intensity against global memory: 2 kBM kBN FLOP for 4 (kBM + kBN) bytes a step: 8 FLOP/byte at 32 x 32, 32 times rung
// 0. Bound: shared memory. Every multiply-add still wants two shared loads (of which one is a broadcast), so the
// multipliers wait; rung 2 gives a thread several elements to use a loaded value again.
//
// - Loads are coalesced in every layout: consecutive threads walk the dimension whose stride is 1 (kRowMajorA,
// kRowMajorB).
// - Rows are padded by one float. Without it, consecutive threads that write a column (or read one, for column-major D)
// would
//   hit one of the 32 banks all together, 32 times slower.
// - A tile at the end of K runs only over its real elements, so nothing past the extent is multiplied in and the sums
// are
//   those of rung 0, bit for bit.
#pragma once

#include <epilogue/ops.cuh>
#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

template <class Config>
struct SharedTiles {
    static constexpr int kParts = Config::kGate == kGateNone ? 1 : 2;
    float a[Config::kBM][Config::kBK + 1];
    float b[kParts][Config::kBK][Config::kBN + 1];
};

// `a` points at the tile's first element; rows and depth are what is left of the operand from there.
template <class Config>
__device__ void copy_a(SharedTiles<Config>& tiles, const float* a, const Strided& strides, i64 rows, i64 depth) {
    constexpr int kThreads = Config::kBM * Config::kBN;
    for (int e = static_cast<int>(threadIdx.x); e < Config::kBM * Config::kBK; e += kThreads) {
        const int i = Config::kRowMajorA ? e / Config::kBK : e % Config::kBM;
        const int k = Config::kRowMajorA ? e % Config::kBK : e / Config::kBM;
        if (i < rows && k < depth) tiles.a[i][k] = a[i * strides.row + k * strides.col];
    }
}

// `b` points at row 0 of the tile, column 0 of the operand; `first` is the tile's first column of D.
template <class Config>
__device__ void copy_b(SharedTiles<Config>& tiles, const float* b, const GemmParams& params, i64 first, i64 columns,
                       i64 depth) {
    constexpr int kThreads = Config::kBM * Config::kBN;
    const Strided& strides = params.b_strides;
    for (int e = static_cast<int>(threadIdx.x); e < Config::kBK * Config::kBN; e += kThreads) {
        const int k = Config::kRowMajorB ? e / Config::kBN : e % Config::kBK;
        const int j = Config::kRowMajorB ? e % Config::kBN : e / Config::kBK;
        if (first + j >= columns || k >= depth) continue;
#pragma unroll
        for (int part = 0; part < SharedTiles<Config>::kParts; ++part) {
            const i64 column = source_column<Config>(params, first + j, part);
            tiles.b[part][k][j] = b[k * strides.row + column * strides.col];
        }
    }
}

// One step of K of one element.
template <class Config>
__device__ void multiply(const SharedTiles<Config>& tiles, float (&accumulators)[2], int row, int col, int k) {
#pragma unroll
    for (int part = 0; part < SharedTiles<Config>::kParts; ++part)
        accumulators[part] = fmaf(tiles.a[row][k], tiles.b[part][k][col], accumulators[part]);
}

// Config: kBM, kBN, kBK; kBM x kBN threads; kRowMajorA, kRowMajorB, kRowMajorD; the epilogue's constants.
template <class Config>
__device__ void v1_shared(const GemmParams& params) {
    __shared__ SharedTiles<Config> tiles;
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 columns = params.n / SharedTiles<Config>::kParts;
    const i64 depth = scalars.alpha == 0.0f ? 0 : params.k;  // alpha = 0: A and B are not read
    const LinearTiles<Config::kBM, Config::kBN> walk(params.m, columns, params.batch);

    // A warp lies along D's contiguous dimension, so that its stores are coalesced.
    const int thread = static_cast<int>(threadIdx.x);
    const int row = Config::kRowMajorD ? thread / Config::kBN : thread % Config::kBM;
    const int col = Config::kRowMajorD ? thread % Config::kBN : thread / Config::kBM;

    for (i64 index = blockIdx.x; index < walk.count; index += gridDim.x) {
        const Tile tile = walk.at(index);
        float accumulators[2] = {0.0f, 0.0f};
        for (i64 k0 = 0; k0 < depth; k0 += Config::kBK) {
            const Strided &as = params.a_strides, &bs = params.b_strides;
            const float* a =
                static_cast<const float*>(params.a) + tile.batch * as.batch + tile.row * as.row + k0 * as.col;
            const float* b = static_cast<const float*>(params.b) + tile.batch * bs.batch + k0 * bs.row;
            const i64 left = depth - k0;
            copy_a<Config>(tiles, a, as, params.m - tile.row, left);
            copy_b<Config>(tiles, b, params, tile.col, columns, left);
            __syncthreads();
            if (left >= Config::kBK) {
#pragma unroll
                for (int k = 0; k < Config::kBK; ++k) multiply<Config>(tiles, accumulators, row, col, k);
            } else {
                for (int k = 0; k < static_cast<int>(left); ++k) multiply<Config>(tiles, accumulators, row, col, k);
            }
            __syncthreads();
        }
        const i64 i = tile.row + row, j = tile.col + col;
        finish<Config>(params, scalars, accumulators, tile.batch, i, j, i < params.m && j < columns);
    }
}

}  // namespace carat_kernel
