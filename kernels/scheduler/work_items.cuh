// SPDX-License-Identifier: Apache-2.0
// work_items.cuh: what a block of the Hopper kernel has to do, one item after the other: a tile of D each, or a part of the K
// of one. Parts lie
// - in the blocks of a cluster (kClusterK): all of a tile's at once, each block's items have its own part; or
// - in items of their own (kSerialParts, kSeparateParts: mainloop/split_in_l2.cuh), those of a tile one after the other, the
//   first part first, so that an item only ever waits for items before it.
#pragma once

#include <scheduler/raster_tiles.cuh>

namespace carat_kernel {

// Parts of a tile in items of their own.
template <class Config>
constexpr int kItemParts = Config::kSerialParts* Config::kSeparateParts;

// Of the steps of K of a tile those of one of `parts`: as many in each as whole steps allow, in some none where there are few.
struct StepRange {
    int first, count;
};
template <int kParts>
__device__ StepRange part_of(int steps, int part) {
    if (kParts == 1) return {0, steps};
    // 32 bits: of K, which has 31 where blocks share it, steps are 2^25 at most.
    static_assert(kParts <= 80);
    const unsigned all = static_cast<unsigned>(steps), of_part = static_cast<unsigned>(part);
    const unsigned first = all * of_part / kParts, end = all * (of_part + 1) / kParts;
    return {static_cast<int>(first), static_cast<int>(end - first)};
}

struct WorkItem {
    RasterTile tile;
    StepRange steps;
    int number, part;  // of the tile; of those in items of their own
};

template <class Config>
class WorkItems {
    static constexpr int kParts = kItemParts<Config>;
    static_assert(kParts == 1 || Config::kClusterK == 1, "K is split once");

  public:
    // steps: of K of a whole tile.
    __device__ WorkItems(const carat_shared::TileWalk& walk, const ClusterPlace<Config>& place, int steps)
        : tiles_(walk, place), place_(place), steps_(steps) {}

    __device__ int first() const { return tiles_.first(); }
    __device__ int step() const { return tiles_.step(); }
    __device__ int count() const { return tiles_.count() * kParts; }

    __device__ StepRange steps(int index) const {
        return kParts > 1 ? part_of<kParts>(steps_, index - tile_of(index) * kParts)
                          : part_of<Config::kClusterK>(steps_, place_.part);
    }
    __device__ WorkItem at(int index) const {
        const int tile = tile_of(index);
        return {tiles_.at(tile), steps(index), tile, index - tile * kParts};
    }

  private:
    // Unsigned: a division is half as long.
    __device__ static int tile_of(int index) { return static_cast<int>(static_cast<unsigned>(index) / kParts); }

    RasterTiles<Config> tiles_;
    const ClusterPlace<Config>& place_;
    int steps_;
};

}  // namespace carat_kernel
