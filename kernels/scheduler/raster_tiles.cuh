// SPDX-License-Identifier: Apache-2.0
// raster_tiles.cuh: the tiles of D in an order that keeps L2 useful, for clusters of blocks. Clusters walk strips of
// kStripRows rows of D column by column, every second strip backwards: the 66 clusters of 256 x 256 that run together
// cover about 2048 x 2112 elements and share as many lines of A as of B. Row by row they would cover 256 x 16896: a
// whole B for a line of tiles, again and again from memory.
// 32-bit numbers, since 64-bit divisions do not fit the producer's registers: the host gives at most 2^31 - 1 tiles.
#pragma once

#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

template <class Config>
struct RasterTiles {
    static constexpr int kRows = Config::kBM * Config::kClusterM, kCols = Config::kBN * Config::kClusterN;
    static constexpr int kBlocks = Config::kClusterM * Config::kClusterN;
    static constexpr int kStripRows = 2048, kStrip = kStripRows / kRows;  // in elements, in tiles
    int row, col;                                                         // of this block in the cluster's tile
    int down, across, count;

    __device__ RasterTiles(i64 rows, i64 cols, i64 batch, int rank)
        : row(rank % Config::kClusterM * Config::kBM),
          col(rank / Config::kClusterM * Config::kBN),
          down(static_cast<int>((rows + kRows - 1) / kRows)),
          across(static_cast<int>((cols + kCols - 1) / kCols)),
          count(down * across * static_cast<int>(batch)) {}

    __device__ int first() const { return static_cast<int>(blockIdx.x) / kBlocks; }
    __device__ int step() const { return static_cast<int>(gridDim.x) / kBlocks; }

    __device__ Tile at(int index) const {
        const int matrix = down * across, batch = index / matrix, in_matrix = index - batch * matrix;
        const int strip = in_matrix / (kStrip * across), in_strip = in_matrix - strip * kStrip * across;
        const int top = strip * kStrip, height = down - top < kStrip ? down - top : kStrip;
        const int step = in_strip / height;
        const int column = strip % 2 == 0 ? step : across - 1 - step;
        return {i64(top + in_strip - step * height) * kRows + row, i64(column) * kCols + col, batch};
    }
};

}  // namespace carat_kernel
