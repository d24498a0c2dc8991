// SPDX-License-Identifier: Apache-2.0
// v8_cluster.cuh: rung 8 of the ladder: less traffic. What is new:
// - Clusters: kClusterM x kClusterN blocks that run at the same time on neighbouring SMs take neighbouring tiles. Blocks
//   above each other need the same tile of B, blocks beside each other the same of A: each loads its share of it, and the
//   copy engine writes it into the shared memory of all (multicast). At 128 x 256 and 2 x 1, an SM asks L2 for 32 bytes
//   a clock instead of 48.
// - A stage is free when the consumers of all blocks that the copy writes to have released it.
// - Bigger tiles: a consumer may hold kTM blocks of 64 rows (256 x 128, 256 x 192), for more products a byte.
// - The tiles that run together form a square rather than a line of the matrix (RasterTiles), so that they share lines
//   of A and B in L2 instead of fetching B once a row of tiles from memory.
//
// Expected: 97 to 103 % of cuBLASLt, as only the power limit is left. What is less traffic is less power, and so a higher
// clock.
// Measured on an H200: 4096^3 760 TFLOP/s, 100 % of cuBLASLt; 8192^3 769 TFLOP/s, 100 % of cuBLASLt. See docs/ladder.md.
#pragma once

#include <mainloop/stages.cuh>
#include <scheduler/raster_tiles.cuh>

namespace carat_kernel {

// Config: kBM = 128 kTM, kBN, kBK = 64, kStages, kClusterM, kClusterN, kConsumers = 2, kFillThreads = 128, kThreads =
// 384, kProducerRegisters, kConsumerRegisters, kBulk, kBulkStore; kRowMajorA, kRowMajorB, kRowMajorD; kTypeA = kTypeB;
// the epilogue's constants. Without kBulk the cluster is 1 x 1.
template <class Config>
__device__ void v8_cluster(const BulkGemmParams& params) {
    static_assert(Config::kBM == 128 * Config::kTM && Config::kThreads == 384 && Config::kBK == kTileDepth);
    constexpr int kBlocks = Config::kClusterM * Config::kClusterN;
    constexpr int kReleases = Config::kConsumers * kWarpgroupThreads / kWarpThreads * kBlocks;  // one a warp
    static_assert(kBlocks <= 2, "a block's rank is its part of one shared operand");
    static_assert(Config::kBulk || kBlocks == 1, "only the copy engine can write to other blocks");
    const Stages<Config> stages;
    if (threadIdx.x == 0) stages.init_barriers(kReleases);
    kBlocks > 1 ? cluster_barrier() : __syncthreads();

    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const int steps = step_count(params, scalars);
    const int rank = kBlocks > 1 ? cluster_rank() : 0;
    // Every block of a cluster walks the same tiles of the cluster, even where its own part lies outside of D: the others
    // wait for its share of the copies.
    const RasterTiles<Config> tiles(params.m, params.n, params.batch, rank);
    const int consumer = warpgroup_index() - 1;
    RingPosition<Config::kStages> at;

    if (consumer < 0) {
        shrink_registers<Config::kProducerRegisters>();
        for (int index = tiles.first(); index < tiles.count && (threadIdx.x == 0 || !Config::kBulk);
             index += tiles.step()) {
            const Tile tile = tiles.at(index);
            for (int step = 0; step < steps; ++step, at.advance()) {
                barrier_wait(stages.empty(at.stage), at.parity ^ 1);
                fill_stage<Config, Config::kClusterN, Config::kClusterM>(params, stages, at.stage, tile,
                                                                         i64(step) * kTileDepth, rank);
            }
        }
    } else {
        grow_registers<Config::kConsumerRegisters>();
        const int row = consumer * 64 * Config::kTM;
        const auto release = [&](int stage) {
            const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
            if constexpr (kBlocks == 1) {
                if (lane == 0) barrier_arrive(stages.empty(stage));
            } else {
                if (lane < kBlocks) barrier_arrive_at(stages.empty(stage), lane);
            }
        };
        for (int index = tiles.first(); index < tiles.count; index += tiles.step()) {
            float accumulators[Config::kTM][Config::kBN / 2];
            multiply_tile(accumulators, stages, at, steps, row, release);
            store_fragments<Config>(params, scalars, accumulators, tiles.at(index), row, stages.boxes(consumer),
                                    1 + consumer);
        }
        finish_stores<Config>();
    }
    // No block may end while another can still write to its memory or arrive at its barriers.
    if constexpr (kBlocks > 1) cluster_barrier();
}

}  // namespace carat_kernel
