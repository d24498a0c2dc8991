// SPDX-License-Identifier: Apache-2.0
// v6_wgmma.cuh: rung 6 of the ladder: Hopper's units. What is new:
// - wgmma: 128 threads multiply 64 x N x 16 at once, both operands straight from shared memory. No fragment passes through
//   registers, so ldmatrix and its instructions are gone, and the tensor cores reach their full rate (mma.sync: 63 %).
// - TMA: one thread asks for a whole tile, swizzled as wgmma reads it, with zeros beyond the operand's edge. The address
//   arithmetic and the predicates of cp.async are gone.
// - mbarrier: the copy engine counts the bytes that landed; all threads wait for a phase of the stage's barrier.
//
// Two warpgroups share a kBM x kBN tile, 64 rows each. At 128 x 256 a step of 64 along K is 1024 clocks of tensor cores
// for 48 KB of copies (85 FLOP/byte), and its operands are read from shared memory in 640.
// What is left: every step the block meets at a barrier, about 100 clocks; while a tile is stored or its first copies are
// under way the tensor cores idle.
// Expected: 75 to 85 % of cuBLASLt at 4096^3.
// Measured on an H200: 4096^3 664 TFLOP/s, 87 % of cuBLASLt; 8192^3 704 TFLOP/s, 91 % of cuBLASLt. See docs/ladder.md.
#pragma once

#include <mainloop/stages.cuh>
#include <store/fragments.cuh>

namespace carat_kernel {

// Config: kBM = 128, kBN, kBK = 64, kStages, kConsumers = 2, kFillThreads = kThreads = 256, kBulkA, kBulkB, kStageBoxA = kStageBoxB = false,
// kClusterM = kClusterN = 1; kRowMajorA, kRowMajorB, kRowMajorD; kTypeA = kTypeB; the epilogue's constants.
template <class Config>
__device__ void v6_wgmma(const BulkGemmParams& params) {
    static_assert(Config::kBM == 128 && Config::kThreads == 256 && Config::kBK == kTileDepth);
    using Ring = Stages<Config, wants_staging<Config>() ? kStagedBytes : 0>;
    const Ring stages;
    if (threadIdx.x == 0) stages.init_barriers(1);
    __syncthreads();

    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const int steps = step_count<Config>(params, scalars);
    const LinearTiles<Config::kBM, Config::kBN> tiles(params.m, params.n, params.batch);
    const int row = warpgroup_index() * 64;  // of this warpgroup's part of the tile
    RingPosition<Config::kStages> at;

    for (i64 index = blockIdx.x; index < tiles.count; index += gridDim.x) {
        const Tile tile = tiles.at(index);
        const auto fill = [&](int stage, int step) {
            if (Ring::kByThreads || threadIdx.x == 0) fill_stage<Config>(params, stages, stage, tile, step);
        };
        RingPosition<Config::kStages> next = at;  // the stage to fill
        int filled = 0;
        for (; filled < Config::kStages && filled < steps; ++filled, next.advance()) fill(next.stage, filled);

        float accumulators[1][Config::kBN / 2];
        clear(accumulators);
        for (int step = 0; step < steps; ++step, at.advance()) {
            barrier_wait(stages.full(at.stage), at.parity);
            multiply_stage<Config>(accumulators, stages, at.stage, row);
            // The step before this one has read its stage. (No product may be under way while its threads run a loop of
            // copies: the compiler would make all of them wait.)
            wgmma_wait<Ring::kByThreads ? 0 : 1>();
            __syncthreads();  // in both warpgroups, so it can be filled again
            if (step > 0 && filled < steps) {
                fill(next.stage, filled++);
                next.advance();
            }
        }
        wgmma_wait<0>();
        store_fragments<Config>(params, scalars, accumulators, tile, row,
                                dynamic_shared() + Ring::kStores + warpgroup_index() * kStagedBytes);
        __syncthreads();  // the next tile's copies go into the stages of the last products
    }
}

}  // namespace carat_kernel
