// SPDX-License-Identifier: Apache-2.0
// fetch_ahead.cuh: what the epilogue of a tile will read, asked for before the products of the tile are: C on its way to
// L2, the output scales in L1. They are then there when the accumulators are: the 500 clocks that a load from
// memory takes, four times a tile, cost 12 % of a 4096^3 product for C.
#pragma once

#include <epilogue/ops.cuh>
#include <ptx/block.cuh>
#include <ptx/prefetch.cuh>

namespace carat_kernel {

// `count` elements of kType from `first` on, a sector of 32 bytes a thread.
template <int kType>
__device__ void fetch_vector(const void* from, i64 first, i64 count, int thread) {
    constexpr int kEach = 32 / type_bytes(kType);
    for (i64 i = i64(thread) * kEach; i < count; i += kWarpgroupThreads * kEach)
        prefetch_to_l1(static_cast<const char*>(from) + (first + i) * type_bytes(kType));
}

// rows x cols of C from (row, col) on, a line of 128 bytes a thread.
template <class Config>
__device__ void fetch_c(const GemmParams& params, int row, int col, int rows, int cols, int batch, int thread) {
    constexpr int kBytes = type_bytes(Config::kTypeC), kEach = 128 / kBytes;
    const Strided& s = params.c_strides;
    const int across = ((Config::kRowMajorD ? cols : rows) + kEach - 1) / kEach,
              lines = Config::kRowMajorD ? rows : cols;
    for (int i = thread; i < lines * across; i += kWarpgroupThreads) {
        const int line = i / across, along = i % across * kEach;
        const i64 at_row = row + (Config::kRowMajorD ? line : along),
                  at_col = col + (Config::kRowMajorD ? along : line);
        if (at_row < params.m && at_col < params.n)
            prefetch_to_l2(static_cast<const char*>(params.c) +
                           (at_row * s.row + at_col * s.col + batch * s.batch) * kBytes);
    }
}

// Of a warpgroup's part of a tile: kRows rows from `row` on, and the tile's columns from `col` on (of D).
template <class Config, int kRows>
__device__ void fetch_ahead(const GemmParams& params, const Scalars& scalars, int row, int col, int batch) {
    constexpr int kPieces = Config::kGate == kGateSplit ? 2 : 1, kCols = Config::kBN / kPieces;  // of B
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
    const i64 rows = params.m - row < kRows ? params.m - row : kRows;
    for (int piece = 0; piece < kPieces; ++piece) {
        const i64 first = source_column<Config>(params, col, piece);
        if constexpr (Config::kHasC)
            if (scalars.beta != 0.0f)
                fetch_c<Config>(params, row, static_cast<int>(first), kRows, kCols, batch, thread);
    }
    if constexpr (Config::kOutScale == kOutScaleRow)
        fetch_vector<kTypeF32>(params.epilogue.out_scale, row + batch * params.m, rows, thread);
}

}  // namespace carat_kernel
