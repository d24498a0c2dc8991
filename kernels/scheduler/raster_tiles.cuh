// SPDX-License-Identifier: Apache-2.0
// raster_tiles.cuh: the tiles of a block of a persistent kernel, in clusters, in the order of shared/tile_walk.h. 32-bit
// numbers, since 64-bit divisions do not fit the producer's registers: the host sees to it.
#pragma once

#include <shared/tile_walk.h>
#include <scheduler/cluster_place.cuh>

namespace carat_kernel {

// Columns of D in a tile: under a gate two columns of B make one.
template <class Config>
constexpr int kTileCols = Config::kGate == carat_shared::kGateNone ? Config::kBN : Config::kBN / 2;

// A tile by its first element of D.
struct RasterTile {
    int row, col, batch;
};

template <class Config>
class RasterTiles {
    using Place = ClusterPlace<Config>;
    static constexpr int kRows = Config::kBM * Place::kM, kCols = kTileCols<Config> * Place::kN;

  public:
    // walk: of tiles of kRows x kCols.
    __device__ RasterTiles(const carat_shared::TileWalk& walk, const Place& place) : walk_(walk), place_(place) {}

    // Every block of a cluster walks the same numbers, even where its own tile lies outside of D: the others wait for its
    // share of the copies.
    __device__ int first() const { return static_cast<int>(blockIdx.x) / Place::kBlocks; }
    __device__ int step() const { return static_cast<int>(gridDim.x) / Place::kBlocks; }
    __device__ int count() const { return walk_.count; }

    __device__ RasterTile at(int index) const {
        const carat_shared::TilePlace tile = carat_shared::tile_place(walk_, index);
        return {tile.row * kRows + place_.row * Config::kBM, tile.col * kCols + place_.col * kTileCols<Config>,
                tile.batch};
    }

  private:
    const carat_shared::TileWalk& walk_;
    const Place& place_;
};

}  // namespace carat_kernel
