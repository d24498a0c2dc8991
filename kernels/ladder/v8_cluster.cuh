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
#include <store/boxes.cuh>

namespace carat_kernel {

// Config: kBM = 128 kTM, kBN, kBK = 64, kStages, kClusterM, kClusterN, kConsumers = 2, kFillThreads = 128, kThreads =
// 384, kProducerRegisters, kConsumerRegisters, kBulkA, kBulkB, kStageBoxA = kStageBoxB = false, kBulkStore; kRowMajorA, kRowMajorB, kRowMajorD; kTypeA =
// kTypeB; the epilogue's constants. Without bulk copies the cluster is 1 x 1.
template <class Config>
__device__ void v8_cluster(const BulkGemmParams& params) {
    static_assert(Config::kBM == 128 * Config::kTM && Config::kThreads == 384 && Config::kBK == kTileDepth);
    using Place = ClusterPlace<Config>;
    using Ring = Stages<Config, kConsumerStoreBytes<Config>>;
    using Boxes = StoreBoxes<Config, Ring::kStores>;
    static_assert(!Ring::kByThreads || Place::kBlocks == 1, "only the copy engine can write to other blocks");
    constexpr int kReleases = Config::kConsumers * 4 * Place::kReaders;  // one a warp
    const Ring stages;
    const Place place;
    if (threadIdx.x == 0) stages.init_barriers(kReleases);
    start_together<Config>();

    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const int steps = step_count<Config>(params, scalars);
    const RasterTiles<Config> tiles(params.walk, place);
    const int consumer = warpgroup_index() - 1;
    RingPosition<Config::kStages> at;

    if (consumer < 0) {
        shrink_registers<Config::kProducerRegisters>();
        for (int index = tiles.first(); index < tiles.count() && (threadIdx.x == 0 || Ring::kByThreads);
             index += tiles.step()) {
            const RasterTile tile = tiles.at(index);
#pragma unroll 1
            for (int step = 0; step < steps; ++step, at.advance()) {
                barrier_wait(stages.empty(at.stage), at.parity ^ 1);
                fill_stage(params, stages, at.stage, tile, step, place);
            }
        }
    } else {
        grow_registers<Config::kConsumerRegisters>();
        const int row = consumer * 64 * Config::kTM;
        const auto release = [&](int stage) { release_stage<Config>(stages, stage, place); };
        for (int index = tiles.first(); index < tiles.count(); index += tiles.step()) {
            const RasterTile tile = tiles.at(index);
            const TileBias<Config> bias(params, static_cast<int>(tile.row) + row, static_cast<int>(tile.col),
                                        static_cast<int>(tile.batch));
            float accumulators[Config::kTM][Config::kBN / 2];
            multiply_tile<Config>(
                accumulators, stages, at, steps, row, release, [&] { Boxes::lay_down(bias); }, [] {});
            Boxes::store_tile(params, scalars, accumulators, tile, row);
        }
        Boxes::finish();
    }
    end_together<Config>();
}

}  // namespace carat_kernel
