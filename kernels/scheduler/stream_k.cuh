// SPDX-License-Identifier: Apache-2.0
// stream_k.cuh: what a cluster of blocks has to do where the last waves of tiles are dealt out in steps of K (stream-K). Tiles that fill
// whole waves are taken whole, one a cluster and wave. The others, which do not, come with the wave before them and are dealt out
// evenly: each cluster has as many steps, one after the other over these tiles, so it has the end of a tile, perhaps some whole ones,
// and the begin of another. Their sums meet in L2 (mainloop/split_in_l2.cuh).
// A cluster takes its last steps first: the begin of a tile, that waits for nobody. The end of a tile, which needs the sum of the
// cluster before, comes last of its steps, when that one has long left it. A cluster waits for the one with the next lower number
// alone, which starts first: so somebody can always go on, even where not all clusters run at once.
#pragma once

#include <scheduler/work_items.cuh>

namespace carat_kernel {

template <class Config>
class StreamKItems {
    using Place = ClusterPlace<Config>;
    static_assert(kItemParts<Config> == 1 && Config::kClusterK == 1, "K is split once");
    // The host sees to it that the steps of all dealt tiles, of two waves at most, have 31 bits.

  public:
    // steps: of K of a whole tile; without any there is nothing to deal.
    __device__ StreamKItems(const carat_shared::TileWalk& walk, const Place& place, int steps)
        : tiles_(walk, place), steps_(steps) {
        const int clusters = tiles_.step(), over = tiles_.count() % clusters;
        const int dealt = over == 0 || steps == 0 ? 0 : tiles_.count() < clusters ? over : over + clusters;
        whole_ = tiles_.count() - dealt;
        const int each = dealt * steps / clusters, more = dealt * steps % clusters, number = tiles_.first();
        begin_ = each * number + (number < more ? number : more);
        end_ = begin_ + each + (number < more);
        parts_ = begin_ == end_ ? 0 : (end_ - 1) / steps - begin_ / steps + 1;
    }

    __device__ int first() const { return 0; }
    __device__ int step() const { return 1; }
    __device__ int count() const {
        const int left = whole_ - tiles_.first();
        return parts_ + (left > 0 ? (left + tiles_.step() - 1) / tiles_.step() : 0);
    }

    __device__ StepRange steps(int index) const { return at(index).steps; }
    __device__ WorkItem at(int index) const { return index < parts_ ? part(index) : whole(index - parts_); }

  private:
    // Steps are numbered over all dealt tiles.
    __device__ WorkItem part(int index) const {
        const int tile = (end_ - 1) / steps_ - index, zero = tile * steps_;
        const int first = begin_ > zero ? begin_ - zero : 0, end = end_ - zero < steps_ ? end_ - zero : steps_;
        const int slot = static_cast<int>(blockIdx.x);  // of its own: a cluster leaves one sum
        return {
            tiles_.at(whole_ + tile), {first, end - first}, {slot - Place::kBlocks, first > 0, slot, 1, end == steps_}};
    }
    __device__ WorkItem whole(int index) const {
        return {tiles_.at(tiles_.first() + index * tiles_.step()), {0, steps_}, kComplete};
    }

    RasterTiles<Config> tiles_;
    int steps_, whole_, begin_, end_, parts_;
};

}  // namespace carat_kernel
