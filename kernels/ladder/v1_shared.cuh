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
//   kRowMajorB).
// - Rows are padded by one float. Without it, consecutive threads that write a column (or read one, for column-major D)
//   would hit one of the 32 banks all together, 32 times slower.
// - A tile at the end of K runs only over its real elements, so nothing past the extent is multiplied in and the sums
//   are those of rung 0, bit for bit.
// Measured on an H200: 4096^3 6.62 TFLOP/s, 13 % of cuBLASLt. See docs/ladder.md.
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

// The one element of an operand that a thread copies at every step. Where it lies is worked out once a tile, and from
// then on a step costs an addition: with addresses computed anew at each step, 8 instructions were issued for a
// multiply-add (ncu, H200), where 3 are the work.
struct Share {
    const float* from;
    i64 step;     // floats from one step of K to the next
    int k;        // its place along K within the tile
    bool inside;  // within the operand's own extent

    __device__ void take(int left, float& value) {
        if (inside && k < left) value = *from;
        from += step;
    }
};

// One step of K of one element.
template <class Config>
__device__ void multiply(const SharedTiles<Config>& tiles, float (&accumulators)[2], int row, int col, int k) {
#pragma unroll
    for (int part = 0; part < SharedTiles<Config>::kParts; ++part)
        accumulators[part] = fmaf(tiles.a[row][k], tiles.b[part][k][col], accumulators[part]);
}

// Config: kBM = kBN = kBK, as many threads as a tile has elements; kRowMajorA, kRowMajorB, kRowMajorD; the epilogue's
// constants.
template <class Config>
__device__ void v1_shared(const GemmParams& params) {
    static_assert(Config::kBM == Config::kBK && Config::kBN == Config::kBK, "a thread copies one element a step");
    constexpr int kSide = Config::kBK, kParts = SharedTiles<Config>::kParts;
    __shared__ SharedTiles<Config> tiles;
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 columns = params.n / kParts;
    const i64 depth = depth_of(params, scalars);
    const LinearTiles<kSide, kSide> walk(params.m, columns, params.batch);
    const Strided &as = params.a_strides, &bs = params.b_strides;

    // `fast` runs along a warp: for loads it walks the operand's contiguous dimension, for D that of D, so that every
    // access is coalesced.
    const int fast = static_cast<int>(threadIdx.x) % kSide, slow = static_cast<int>(threadIdx.x) / kSide;
    const int row = Config::kRowMajorD ? slow : fast, col = Config::kRowMajorD ? fast : slow;
    const int a_row = Config::kRowMajorA ? slow : fast, a_k = Config::kRowMajorA ? fast : slow;
    const int b_k = Config::kRowMajorB ? slow : fast, b_col = Config::kRowMajorB ? fast : slow;

    for (i64 index = blockIdx.x; index < walk.count; index += gridDim.x) {
        const Tile tile = walk.at(index);
        Share a = {
            static_cast<const float*>(params.a) + tile.batch * as.batch + (tile.row + a_row) * as.row + a_k * as.col,
            kSide * as.col, a_k, tile.row + a_row < params.m};
        Share b[kParts];
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            const i64 column = source_column<Config>(params, tile.col + b_col, part);
            b[part] = {static_cast<const float*>(params.b) + tile.batch * bs.batch + column * bs.col + b_k * bs.row,
                       kSide * bs.row, b_k, tile.col + b_col < columns};
        }
        float accumulators[2] = {0.0f, 0.0f};
        for (i64 k0 = 0; k0 < depth; k0 += kSide) {
            const int left = static_cast<int>(depth - k0 < kSide ? depth - k0 : kSide);
            a.take(left, tiles.a[a_row][a_k]);
#pragma unroll
            for (int part = 0; part < kParts; ++part) b[part].take(left, tiles.b[part][b_k][b_col]);
            __syncthreads();
            if (left == kSide) {
#pragma unroll
                for (int k = 0; k < kSide; ++k) multiply<Config>(tiles, accumulators, row, col, k);
            } else {
                for (int k = 0; k < left; ++k) multiply<Config>(tiles, accumulators, row, col, k);
            }
            __syncthreads();
        }
        const i64 i = tile.row + row, j = tile.col + col;
        finish<Config>(params, scalars, accumulators, tile.batch, i, j, i < params.m && j < columns);
    }
}

}  // namespace carat_kernel
