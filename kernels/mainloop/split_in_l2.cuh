// SPDX-License-Identifier: Apache-2.0
// split_in_l2.cuh: split-K over any blocks, whose partial sums, always f32, come together in the caller's workspace, that is,
// in L2. In the order of the parts, so that every run gives the same bits.
// - kSerialParts: one part after the other. An item waits until the parts before it have left their sum, adds it to its own, and
//   leaves the sum for the next one; the last part has it all in its accumulators and runs the epilogue. A tile has one slot.
//   Each warp waits for the warp of the part before that has the same rows, at a word of their own, and for nobody else.
//   The words are 0 before the launch.
// - kStreamK: the same, of parts that end where the steps of a cluster of blocks do. Each block has a slot for what it leaves.
// - kSeparateParts: every item leaves its sums in a slot of its own and waits for nobody; a second kernel (reduce_splits.cuh)
//   adds them up.
#pragma once

#include <shared/split_sums.h>
#include <ptx/block.cuh>
#include <ptx/through_l2.cuh>
#include <scheduler/work_items.cuh>

namespace carat_kernel {

template <class Config>
class SplitInL2 {
    static constexpr int kParts = kItemParts<Config>, kStrips = Config::kConsumers * Config::kTM;
    static constexpr int kEights = Config::kBN / 8;  // of columns
    static constexpr bool kSeparate = Config::kSeparateParts > 1, kSplit = kParts > 1 || Config::kStreamK;
    static_assert(Config::kSerialParts == 1 || !kSeparate);
    static_assert(!kSplit || !Config::kPingPong, "a consumer has rows of its own in every tile");

    using Accumulators = float[Config::kTM][Config::kBN / 2];

  public:
    // Whether this block stores a tile, once it has added it up.
    __device__ static bool stores(const WorkItem& item) { return !kSplit || item.sums.complete; }

    // All threads of a consumer, after its products.
    __device__ static void add_up(const BulkGemmParams& params, const WorkItem& item, int consumer,
                                  Accumulators& accumulators) {
        if constexpr (kSplit) {
            const SumsInL2& sums = item.sums;
            const bool leader = threadIdx.x % kWarpThreads == 0;
            if (sums.ready > 0) {
                if (leader) wait_for_word(word_of(params, sums.before, consumer), sums.ready);
                __syncwarp();
                add(slot_of(params, sums.before, consumer), accumulators);
            }
            if (sums.complete) return;
            leave(slot_of(params, sums.after, consumer), accumulators);
            __syncwarp();
            if (!kSeparate && leader) set_word(word_of(params, sums.after, consumer), sums.left);
        }
    }

  private:
    // The thread's first quad.
    __device__ static float4* slot_of(const BulkGemmParams& params, int slot, int consumer) {
        const int thread = static_cast<int>(threadIdx.x % kWarpgroupThreads);
        return reinterpret_cast<float4*>(params.split.sums) + slot * carat_shared::slot_quads(kStrips, Config::kBN) +
               carat_shared::quad_at(consumer * Config::kTM, Config::kBN, 0, thread);
    }
    // The warp's.
    __device__ static unsigned* word_of(const BulkGemmParams& params, int slot, int consumer) {
        const int warp = static_cast<int>(threadIdx.x % kWarpgroupThreads / kWarpThreads);
        return params.split.turns + i64(slot) * carat_shared::turns_of_tile(Config::kConsumers) + consumer * 4 + warp;
    }

    // So many quads are on their way together as leave the accumulators their registers: the compiler asks for all, and spills,
    // where nothing keeps the loads apart.
    __device__ static void add(const float4* sums, Accumulators& accumulators) {
        constexpr int kTogether = Config::kTM * Config::kBN / 2 > 160 ? 4 : 8;
#pragma unroll
        for (int i = 0; i < Config::kTM * kEights; ++i) {
            if (i % kTogether == 0) __syncwarp();
            const float4 four = load_from_l2(sums + i * kWarpgroupThreads);
            float* const to = accumulators[i / kEights] + 4 * (i % kEights);
            to[0] += four.x, to[1] += four.y, to[2] += four.z, to[3] += four.w;
        }
    }

    __device__ static void leave(float4* sums, const Accumulators& accumulators) {
#pragma unroll
        for (int i = 0; i < Config::kTM * kEights; ++i) {
            const float* const from = accumulators[i / kEights] + 4 * (i % kEights);
            sums[i * kWarpgroupThreads] = make_float4(from[0], from[1], from[2], from[3]);
        }
    }
};

}  // namespace carat_kernel
