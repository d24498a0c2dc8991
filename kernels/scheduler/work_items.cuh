// SPDX-License-Identifier: Apache-2.0
// work_items.cuh: what a block of the Hopper kernel has to do, one item after the other: a tile of D each, or a part of the K
// of one. Parts lie
// - in the blocks of a cluster (kClusterK): all of a tile's at once, each block's items have its own part; or
// - in items of their own (kSerialParts, kSeparateParts: mainloop/split_in_l2.cuh), those of a tile one after the other, the
//   first part first, so that an item only ever waits for items before it; or
// - in what a cluster of blocks has of the last tiles' steps (kStreamK: scheduler/stream_k.cuh).
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

// Where the sum of an item's products meets those of the other parts of its tile, in the workspace (mainloop/split_in_l2.cuh).
struct SumsInL2 {
    int before;      // the slot with the sum of the parts before,
    unsigned ready;  // and what its word says once it is there; 0: there are none before
    int after;       // the slot for the sum with this one's,
    unsigned left;   // and what its word says then
    bool complete;   // all parts are in: the sum goes to D and not to a slot
};
constexpr SumsInL2 kComplete = {0, 0, 0, 0, true};

struct WorkItem {
    RasterTile tile;
    StepRange steps;
    SumsInL2 sums;
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
        return {tiles_.at(tile), steps(index), sums(tile, index - tile * kParts)};
    }

  private:
    __device__ static SumsInL2 sums(int tile, int part) {
        if (kParts == 1) return kComplete;
        if (Config::kSeparateParts > 1) return {0, 0, tile * kParts + part, 0, false};
        const unsigned before = static_cast<unsigned>(part);
        return {tile, before, tile, before + 1, part == kParts - 1};
    }
    // Unsigned: a division is half as long.
    __device__ static int tile_of(int index) { return static_cast<int>(static_cast<unsigned>(index) / kParts); }

    RasterTiles<Config> tiles_;
    const ClusterPlace<Config>& place_;
    int steps_;
};

}  // namespace carat_kernel
