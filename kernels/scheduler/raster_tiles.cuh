// SPDX-License-Identifier: Apache-2.0
// raster_tiles.cuh: the tiles of D in an order that keeps L2 useful, for clusters of blocks. Clusters walk strips of so many
// tiles, every second strip backwards: the 66 clusters of 256 x 256 that run together on an H200 cover, in strips of 8,
// about 2048 x 2112 elements and share as many lines of A as of B. Row by row they would cover 256 x 16896: a whole B for
// a line of tiles, again and again from memory.
// 32-bit numbers, since 64-bit divisions do not fit the producer's registers: the host gives at most 2^31 - 1 tiles.
#pragma once

#include <scheduler/cluster_place.cuh>
#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

// Columns of D in a tile: under a gate two columns of B make one.
template <class Config>
constexpr int kTileCols = Config::kGate == carat_shared::kGateNone ? Config::kBN : Config::kBN / 2;

template <class Config>
class RasterTiles {
    using Place = ClusterPlace<Config>;
    static constexpr int kRows = Config::kBM * Place::kM, kCols = kTileCols<Config> * Place::kN;

  public:
    // cols: of D. strip: tiles of a cluster across a strip; above 0 a strip is so many rows of tiles and is walked along
    // N, below 0 so many columns and walked along M.
    __device__ RasterTiles(i64 rows, i64 cols, i64 batch, int strip, const Place& place)
        : row_(place.row * Config::kBM),
          col_(place.col * kTileCols<Config>),
          along_n_(strip > 0),
          strip_(strip > 0 ? strip : -strip) {
        const int down = static_cast<int>((rows + kRows - 1) / kRows);
        const int across = static_cast<int>((cols + kCols - 1) / kCols);
        lines_ = along_n_ ? down : across;
        steps_ = along_n_ ? across : down;
        count_ = down * across * static_cast<int>(batch);
    }

    // Every block of a cluster walks the same numbers, even where its own tile lies outside of D: the others wait for its
    // share of the copies.
    __device__ int first() const { return static_cast<int>(blockIdx.x) / Place::kBlocks; }
    __device__ int step() const { return static_cast<int>(gridDim.x) / Place::kBlocks; }
    __device__ int count() const { return count_; }

    __device__ Tile at(int index) const {
        const int matrix = lines_ * steps_, batch = index / matrix, in_matrix = index - batch * matrix;
        const int strip = in_matrix / (strip_ * steps_), in_strip = in_matrix - strip * strip_ * steps_;
        const int top = strip * strip_, height = lines_ - top < strip_ ? lines_ - top : strip_;
        const int forward = in_strip / height, line = top + in_strip - forward * height;
        const int along = strip % 2 == 0 ? forward : steps_ - 1 - forward;
        return {i64(along_n_ ? line : along) * kRows + row_, i64(along_n_ ? along : line) * kCols + col_, batch};
    }

  private:
    int row_, col_;  // of this block in the cluster's tile
    bool along_n_;
    int strip_;  // lines of a strip
    int lines_, steps_, count_;
};

}  // namespace carat_kernel
