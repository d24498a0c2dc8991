// SPDX-License-Identifier: Apache-2.0
// gemm_ws.cuh: the Hopper kernel of Carat: one warp-specialised, persistent kernel whose parts are slots.
//   mainloop   mainloop/stages.cuh          a ring of stages; each operand by the copy engine or by threads; wgmma
//              mainloop/cluster_split.cuh   parts of K in the blocks of a cluster, added up through their shared memory
//              mainloop/split_in_l2.cuh     parts of K in any blocks, added up through L2
//   scheduler  scheduler/raster_tiles.cuh   clusters of blocks over D in an order that suits L2
//              scheduler/work_items.cuh     each tile of a block, or a part of its K
//              scheduler/stream_k.cuh       the last waves of tiles, dealt out evenly in steps of K
//   epilogue   epilogue/fragment_box.cuh    what happens to an accumulator on its way to D
//   store      store/boxes.cuh              through shared memory, in bulk or by threads
// A producer warpgroup fills stages. The consumers multiply
// - together (cooperative): each takes kTM x 64 rows of the block's tile; or alone, for tiles of 64 rows, or
// - in turn (kPingPong): each takes a whole tile of kTM x 64 rows, and one stores while the other multiplies. For small
//   tiles and short K, where a tile's store is a good part of its time.
// Nothing inside of the loop over tiles waits for the whole block.
// It begins while the kernel before it in its stream may still run (programmatic dependent launch) and reads nothing that
// one may write before it has ended; but the begin of what a block alone reads comes to L2 meanwhile (mainloop/fetch_early.cuh).
#pragma once

#include <epilogue/fetch_ahead.cuh>
#include <mainloop/cluster_split.cuh>
#include <mainloop/fetch_early.cuh>
#include <mainloop/split_in_l2.cuh>
#include <mainloop/stages.cuh>
#include <ptx/dependent_launch.cuh>
#include <scheduler/stream_k.cuh>
#include <store/boxes.cuh>

namespace carat_kernel {

template <class Config, bool = Config::kStreamK>
struct Schedule {
    using Items = WorkItems<Config>;
};
template <class Config>
struct Schedule<Config, true> {
    using Items = StreamKItems<Config>;
};

// A tile may have fewer rows than its wgmma (kBM, a multiple of 8), so that rows can be dealt evenly to all SMs where the
// operands' bytes are the time: 6144 rows are 96 tiles of 64, but 128 of 48. The rest of the products is of whatever lies behind
// the tile in shared memory, and is not stored.
// Config: kBM up to 64 kTM (x kConsumers, unless kPingPong), kBN, kBK in 64s, kStages, kClusterM, kClusterN, kClusterK,
// kSerialParts, kSeparateParts, kStreamK, kConsumers, kPingPong, kThreads = 128 (1 + kConsumers), kFillThreads = 128, kMinBlocks of an SM,
// kProducerRegisters, kConsumerRegisters; kBulkA, kBulkB, kStageBoxA, kStageBoxB, kBulkC, kBulkStore; kRowMajorA, kRowMajorB, kRowMajorD;
// kTypeA = kTypeB; the epilogue's constants (epilogue/ops.cuh).
template <class Config>
struct GemmWs {
    static constexpr int kRows = 64 * Config::kTM * (Config::kPingPong ? 1 : Config::kConsumers);  // of wgmma
    static_assert(Config::kBM <= kRows && Config::kBM > kRows - 64 * Config::kTM && Config::kBM % 8 == 0);
    static_assert(!Config::kPingPong || Config::kConsumers == 2);
    static_assert(Config::kThreads == kWarpgroupThreads * (1 + Config::kConsumers));
    using Place = ClusterPlace<Config>;
    using Ring = Stages<Config, kConsumerStoreBytes<Config> + SplitBoxes<Config>::kBytes>;
    using Boxes = StoreBoxes<Config, Ring::kStores>;
    using Split = ClusterSplit<Config, Ring::kStores + Config::kConsumers * kConsumerStoreBytes<Config>>;
    static_assert(Config::kBM % 64 == 0 || !Config::kBulkC, "C would come to boxes that nobody stores");
    static_assert((Config::kBulkA || Place::kN == 1) && (Config::kBulkB || Place::kM == 1),
                  "only the copy engine writes to other blocks");
    using Items = typename Schedule<Config>::Items;
    using InL2 = SplitInL2<Config>;
    // A lone consumer and the producer have as many as a thread can name.
    static constexpr bool kSharesRegisters = Config::kConsumers > 1;
    // One a warp of each block that reads what this block loads.
    static constexpr int kReleases = (Config::kPingPong ? 1 : Config::kConsumers) * 4 * Place::kReaders;

    // Stages that are still to be asked for when the next kernel may start. Where its blocks find room beside this one's, they take a
    // while to come; sooner they would take from memory what this one's are waiting for. 16 x 7168 x 2048: 8.6 us; 12.3 with 0, 9.3
    // with 4, 9.9 with 8.
    static constexpr int kStepsBehindStart = Config::kMinBlocks > 1 ? 2 : 0;

    // Few tokens lie in one box that is not whole.
    static __device__ const BulkMap& first_map_a(const BulkGemmParams& params) {
        return Ring::TileA::template map_of<Config::kClusterN, 1>(params.a_maps, 0, static_cast<int>(params.m));
    }
    static __device__ const BulkMap& first_map_b(const BulkGemmParams& params) {
        return Ring::TileB::template map_of<Config::kClusterM, kPiecesOfB<Config>>(params.b_maps, 0,
                                                                                   static_cast<int>(params.n));
    }

    static __device__ void produce(const BulkGemmParams& params, const Ring& stages, const Items& items,
                                   const Place& place) {
        if (!Ring::kByThreads && threadIdx.x != 0) return;
        RingPosition<Config::kStages> at;
        for (int index = items.first(); index < items.count(); index += items.step()) {
            const WorkItem item = items.at(index);
            const bool last = index + items.step() >= items.count();
#pragma unroll 1  // its 24 registers do not hold four turns at once
            for (int step = 0; step < item.steps.count; ++step, at.advance()) {
                if (kStepsBehindStart > 0 && last && step + kStepsBehindStart == item.steps.count)
                    let_next_kernel_start();
                barrier_wait(stages.empty(at.stage), at.parity ^ 1);
                fill_stage(params, stages, at.stage, item.tile, item.steps.first + step, place);
            }
        }
        let_next_kernel_start();
    }

    static __device__ void consume(const BulkGemmParams& params, const Ring& stages, const Items& items,
                                   const Place& place, const Scalars& scalars, int consumer) {
        const int row = Config::kPingPong ? 0 : consumer * 64 * Config::kTM;
        const auto release = [&](int stage) { release_stage<Config>(stages, stage, place); };
        // The other one's stages are all asked for. Not only for order: a wait for a phase that is two turns of the ring
        // away would end at once.
        const auto pass_turn = [&] {
            if (Config::kPingPong && threadIdx.x % kWarpThreads == 0) barrier_arrive(stages.turn(1 - consumer));
        };
        RingPosition<Config::kStages> at;
        int parity = consumer == 0;  // the first turn has come before any arrival
        ComingC c = {stages.coming_c(consumer)};
        for (int index = items.first(), turn = 0; index < items.count(); index += items.step(), ++turn) {
            if (Config::kPingPong && turn % Config::kConsumers != consumer) {
                at.skip(items.steps(index).count);
                continue;
            }
            const WorkItem item = items.at(index);
            const RasterTile& tile = item.tile;
            const bool stores = InL2::stores(item);
            if (stores) fetch_ahead<Config, 64 * Config::kTM>(params, scalars, tile.row + row, tile.col, tile.batch);
            const TileBias<Config> bias(params, tile.row + row, tile.col, tile.batch);
            const auto ask_for_c = [&] {
                if (stores) Boxes::ask_for_c(params, scalars, tile, row, c);
            };
            // Whose turn has yet to come has time to wait for its stores. Else the first products are worth more.
            const auto begun = [&] {
                Boxes::lay_down(bias);
                if (!Config::kPingPong) ask_for_c();
            };
            if constexpr (Config::kPingPong) {
                ask_for_c();
                barrier_wait(stages.turn(consumer), parity);
                parity ^= 1;
            }
            float accumulators[Config::kTM][Config::kBN / 2];
            multiply_tile<Config>(accumulators, stages, at, item.steps.count, row, release, begun, pass_turn);
            Split::add_up(accumulators, stages.sums(0), place, consumer, c.tiles);
            InL2::add_up(params, item, consumer, accumulators);
            if (!stores) continue;
            Boxes::store_tile(params, scalars, accumulators, tile, row, c, owned_boxes<Split>(place));
            ++c.tiles;
        }
        Boxes::finish();
    }
};

template <class Config>
__device__ void gemm_ws(const BulkGemmParams& params) {
    using Kernel = GemmWs<Config>;
    const typename Kernel::Ring stages;
    const typename Kernel::Place place;
    if (threadIdx.x == 0) {
        if (Config::kPingPong)
            for (int consumer = 0; consumer < 2; ++consumer) barrier_init(stages.turn(consumer), 4);  // one a warp
        if (Config::kBulkC)
            for (int box = 0; box < kStoreBoxes * Config::kConsumers; ++box)
                barrier_init(stages.coming_c(0) + box * kBarrierBytes, 1);
        Kernel::Split::init_barriers(stages.sums(0));
        stages.init_barriers(Kernel::kReleases);
        if (Config::kBulkA) bulk_prefetch(Kernel::first_map_a(params));
        if (Config::kBulkB) bulk_prefetch(Kernel::first_map_b(params));
        if (Config::kBulkC) bulk_prefetch(params.c_map);
        if (Config::kBulkStore) bulk_prefetch(params.d_map);
    }
    start_together<Config>();
    // Not where alpha is yet to be read: A and B may be no operands then.
    if constexpr (!Config::kDeviceScalars)
        if (threadIdx.x < Config::kFillThreads) {
            const int steps = step_count<Config>(params, load_scalars<Config>(params.epilogue));
            fetch_early<Config>(params, typename Kernel::Items(params.walk, place, steps));
        }
    wait_for_kernels_before();

    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const typename Kernel::Items items(params.walk, place, step_count<Config>(params, scalars));
    const int consumer = warpgroup_index() - 1;
    if (consumer < 0) {
        if constexpr (Kernel::kSharesRegisters) shrink_registers<Config::kProducerRegisters>();
        Kernel::produce(params, stages, items, place);
    } else {
        if constexpr (Kernel::kSharesRegisters) grow_registers<Config::kConsumerRegisters>();
        Kernel::consume(params, stages, items, place, scalars, consumer);
    }
    end_together<Config>();
}

}  // namespace carat_kernel
