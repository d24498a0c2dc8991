// SPDX-License-Identifier: Apache-2.0
// cluster_split.cuh: split-K inside of a cluster. kClusterK of its blocks multiply parts of K of one tile and then add their
// accumulators up through distributed shared memory: each box of the tile (store/boxes.cuh) in one block, which takes the
// partial sums of the others in their order, so that every run gives the same bits. No workspace, no flags, and
// nothing beside the tile's consumers waits.
// Each consumer has two barriers: that the partial sums have come, and that every block has taken those of the tile
// before, so that the next may be sent.
#pragma once

#include <shared/cluster_split.h>
#include <epilogue/fragment_box.cuh>
#include <ptx/block.cuh>
#include <ptx/cluster_store.cuh>
#include <ptx/shared.cuh>
#include <scheduler/cluster_place.cuh>

namespace carat_kernel {

template <class Config>
struct SplitBoxes {
    using Values = FragmentBox<Config>;
    static constexpr int kParts = Config::kClusterK;
    static constexpr int kBoxes = Config::kTM * Values::kCount;  // of a consumer in a tile
    // Of a lane in a box; a tile of one box may be narrower than others.
    static constexpr int kAccumulators =
        Values::kCount == 1 ? Values::kLastCols * Values::kBlocks / Values::kCols * 4 : Values::kAccumulators;
    static constexpr int kBytes = carat_shared::exchange_bytes(kBoxes, kAccumulators, kParts);
};

// kBegin: where the consumers' parts of shared memory begin, SplitBoxes::kBytes each. barriers: of the first consumer.
template <class Config, int kBegin>
class ClusterSplit {
    using Boxes = SplitBoxes<Config>;
    using Values = FragmentBox<Config>;
    static constexpr int kParts = Boxes::kParts, kBoxes = Boxes::kBoxes;
    static constexpr int kSlotBytes = Boxes::kAccumulators * kWarpgroupThreads * 4;
    static_assert(kParts == 1 || Config::kGate == carat_shared::kGateNone, "a gate's halves are not in one box");
    static_assert(!Config::kBulkC || kParts == 1, "C would come to boxes that another block stores");

  public:
    using Place = ClusterPlace<Config>;
    static constexpr int kBarriers = kParts == 1 ? 0 : 2 * Config::kConsumers;

    // One thread.
    __device__ static void init_barriers(unsigned barriers) {
        for (int consumer = 0; consumer < Config::kConsumers && kParts > 1; ++consumer) {
            barrier_init(come(barriers, consumer), 1);
            barrier_init(taken(barriers, consumer), 4 * kParts);  // one a warp
        }
    }

    // Whether this block adds up and stores a box of a consumer.
    __device__ static bool owns(const Place& place, int consumer, int box) {
        return kParts == 1 || carat_shared::box_owner(consumer, box, kBoxes, kParts) == place.part;
    }
    // Which of a consumer's boxes that this block owns it is.
    __device__ static int turn_of(int box) { return kParts == 1 ? box : box / kParts; }

    // All threads of a consumer, after its products. tiles: how many this consumer has added up before. Those accumulators
    // are then sums whose boxes this block owns; the others are not to be used.
    __device__ static void add_up(float (&accumulators)[Config::kTM][Config::kBN / 2], unsigned barriers,
                                  const Place& place, int consumer, int tiles) {
        if constexpr (kParts > 1) {
            const unsigned thread = threadIdx.x % kWarpgroupThreads;
            barrier_wait_cluster(taken(barriers, consumer), (tiles & 1) ^ 1);
            int bytes = 0;
#pragma unroll
            for (int box = 0; box < kBoxes; ++box)
                owns(place, consumer, box) ? void(bytes += (kParts - 1) * box_count(box) * kWarpgroupThreads * 4)
                                           : send(accumulators, box, barriers, place, consumer, thread);
            if (bytes > 0) {
                if (thread == 0) barrier_arrive_expect(come(barriers, consumer), static_cast<unsigned>(bytes));
                barrier_wait_cluster(come(barriers, consumer), tiles & 1);
            }
#pragma unroll
            for (int box = 0; box < kBoxes; ++box)
                if (owns(place, consumer, box)) take(accumulators, box, consumer, thread);
            __syncwarp();
            const int lane = static_cast<int>(thread % kWarpThreads);
            if (lane < kParts) barrier_arrive_release_at(taken(barriers, consumer), place.with_part(lane));
        }
    }

  private:
    __device__ static unsigned come(unsigned barriers, int consumer) {
        return barriers + consumer * 2 * kBarrierBytes;
    }
    __device__ static unsigned taken(unsigned barriers, int consumer) {
        return come(barriers, consumer) + kBarrierBytes;
    }

    // Where accumulators of a box begin, and how many it has.
    __device__ static constexpr int first_of(int box) {
        return box / Values::kCount * (Config::kBN / 2) + box % Values::kCount * Values::kAccumulators;
    }
    __device__ static constexpr int box_count(int box) {
        const bool last = box % Values::kCount == Values::kCount - 1;
        return last ? Values::kLastCols * Values::kBlocks / Values::kCols * 4 : Values::kAccumulators;
    }

    // In the owner: of the `from`th of the other blocks in the order of parts.
    __device__ static int slot(int consumer, int box, int from) {
        return kBegin + consumer * Boxes::kBytes + (turn_of(box) * (kParts - 1) + from) * kSlotBytes;
    }

    __device__ static void send(const float (&accumulators)[Config::kTM][Config::kBN / 2], int box, unsigned barriers,
                                const Place& place, int consumer, unsigned thread) {
        const int owner = carat_shared::box_owner(consumer, box, kBoxes, kParts);
        const unsigned to =
            shared_address(dynamic_shared()) + slot(consumer, box, place.part - (place.part > owner)) + thread * 16;
        const float* const from = accumulators[0] + first_of(box);
#pragma unroll
        for (int i = 0; i < box_count(box); i += 4)
            store_at(to + i / 4 * kWarpgroupThreads * 16, come(barriers, consumer), place.with_part(owner),
                     make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]));
    }

    __device__ static void take(float (&accumulators)[Config::kTM][Config::kBN / 2], int box, int consumer,
                                unsigned thread) {
        float* const to = accumulators[0] + first_of(box);
#pragma unroll
        for (int from = 0; from < kParts - 1; ++from) {
            const float4* const sums =
                reinterpret_cast<const float4*>(dynamic_shared() + slot(consumer, box, from)) + thread;
#pragma unroll
            for (int i = 0; i < box_count(box); i += 4) {
                const float4 four = sums[i / 4 * kWarpgroupThreads];
                to[i] += four.x, to[i + 1] += four.y, to[i + 2] += four.z, to[i + 3] += four.w;
            }
        }
    }
};

}  // namespace carat_kernel
