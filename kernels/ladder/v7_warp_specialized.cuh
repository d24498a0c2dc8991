// SPDX-License-Identifier: Apache-2.0
// v7_warp_specialized.cuh: rung 7 of the ladder: roles instead of barriers. What is new:
// - One warpgroup only fills stages, two only multiply. Two mbarriers a stage, full and empty, are all that they share:
//   nobody waits for a thread that has other work, and the copies run as far ahead as there are stages.
// - setmaxnreg moves registers from the producer, which needs few, to the consumers: 24 + 2 x 240 of the 512 that
//   three warpgroups may have a thread.
// - Blocks are persistent: one an SM, tile after tile. The producer is on the next tile while the consumers store this
//   one, so a tile's first copies are never waited for.
// - The epilogue goes through shared memory: stmatrix, then the copy engine writes whole lines (store/boxes.cuh).
//
// Expected: above 90 % of cuBLASLt: what one consumer stores, the other's products hide.
// What is left: traffic. At 128 x 256 an SM wants 48 bytes a clock from L2, which 132 SMs at full clock do not get (39; at
// the power limit the SMs are slow enough), and row by row the tiles fetch B again and again from memory, which shows
// at 8192^3.
// Measured on an H200: 4096^3 759 TFLOP/s, 99 % of cuBLASLt; 8192^3 738 TFLOP/s, 96 % of cuBLASLt. See docs/ladder.md.
#pragma once

#include <mainloop/stages.cuh>
#include <store/boxes.cuh>

namespace carat_kernel {

// Config: kBM = 128, kBN, kBK = 64, kStages, kConsumers = 2, kFillThreads = 128, kThreads = 384, kProducerRegisters,
// kConsumerRegisters, kBulkA, kBulkB, kStageBoxA = kStageBoxB = false, kBulkStore, kClusterM = kClusterN = 1; kRowMajorA, kRowMajorB, kRowMajorD;
// kTypeA = kTypeB; the epilogue's constants.
template <class Config>
__device__ void v7_warp_specialized(const BulkGemmParams& params) {
    static_assert(Config::kBM == 128 && Config::kThreads == 384 && Config::kBK == kTileDepth);
    constexpr int kReleases = Config::kConsumers * kWarpgroupThreads / kWarpThreads;  // one a warp
    using Ring = Stages<Config, kConsumerStoreBytes<Config>>;
    using Boxes = StoreBoxes<Config, Ring::kStores>;
    const Ring stages;
    if (threadIdx.x == 0) stages.init_barriers(kReleases);
    __syncthreads();

    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const int steps = step_count<Config>(params, scalars);
    const LinearTiles<Config::kBM, Config::kBN> tiles(params.m, params.n, params.batch);
    const int consumer = warpgroup_index() - 1;
    RingPosition<Config::kStages> at;

    if (consumer < 0) {
        shrink_registers<Config::kProducerRegisters>();
        if (!Ring::kByThreads && threadIdx.x != 0) return;
        for (i64 index = blockIdx.x; index < tiles.count; index += gridDim.x) {
            const Tile tile = tiles.at(index);
#pragma unroll 1
            for (int step = 0; step < steps; ++step, at.advance()) {
                barrier_wait(stages.empty(at.stage), at.parity ^ 1);
                fill_stage<Config>(params, stages, at.stage, tile, step);
            }
        }
    } else {
        grow_registers<Config::kConsumerRegisters>();
        const int row = consumer * 64;
        const auto release = [&](int stage) {
            if (threadIdx.x % kWarpThreads == 0) barrier_arrive(stages.empty(stage));
        };
        for (i64 index = blockIdx.x; index < tiles.count; index += gridDim.x) {
            const Tile tile = tiles.at(index);
            const TileBias<Config> bias(params, static_cast<int>(tile.row) + row, static_cast<int>(tile.col),
                                        static_cast<int>(tile.batch));
            float accumulators[1][Config::kBN / 2];
            multiply_tile<Config>(
                accumulators, stages, at, steps, row, release, [&] { Boxes::lay_down(bias); }, [] {});
            Boxes::store_tile(params, scalars, accumulators, tile, row);
        }
        Boxes::finish();
    }
}

}  // namespace carat_kernel
