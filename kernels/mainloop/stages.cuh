// SPDX-License-Identifier: Apache-2.0
// stages.cuh: the ring of stages in shared memory between the copies and the tensor cores: where its parts lie, how a
// stage is filled, and the products of a tile over it.
// Layout of dynamic shared memory: kStages x (A, B), the boxes of each consumer's stores (unless they go straight from
// registers), then for each stage a barrier `full` and a barrier `empty`. The host computes the same size (rows_wgmma.cpp).
#pragma once

#include <mainloop/operand_tile.cuh>
#include <mainloop/tile_copy.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shared.cuh>
#include <ptx/wgmma.cuh>
#include <scheduler/linear_tiles.cuh>
#include <store/fragments.cuh>

namespace carat_kernel {

// All in addresses of the shared window.
template <class Config>
struct Stages {
    using TileA = OperandTile<Config::kRowMajorA, Config::kBM>;
    using TileB = OperandTile<!Config::kRowMajorB, Config::kBN>;
    static constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
    static constexpr int kBoxesOfConsumer =
        Config::kBulkStore || wants_staging<Config>() ? kStoreBoxes * kStoreBoxBytes : 0;

    unsigned memory = shared_address(dynamic_shared());

    __device__ unsigned a(int stage) const { return memory + stage * kStageBytes; }
    __device__ unsigned b(int stage) const { return a(stage) + TileA::kBytes; }
    __device__ static char* boxes(int consumer) {
        return dynamic_shared() + Config::kStages * kStageBytes + consumer * kBoxesOfConsumer;
    }
    __device__ unsigned full(int stage) const {
        return a(Config::kStages) + Config::kConsumers * kBoxesOfConsumer + stage * 2 * kBarrierBytes;
    }
    __device__ unsigned empty(int stage) const { return full(stage) + kBarrierBytes; }

    // One thread. releases: how many arrivals empty a stage.
    __device__ void init_barriers(int releases) const {
        for (int stage = 0; stage < Config::kStages; ++stage) {
            barrier_init(full(stage), Config::kBulk ? 1 : Config::kFillThreads);
            barrier_init(empty(stage), releases);
        }
        barrier_init_fence();
    }
};

// Fills a stage with A's and B's tiles at k. Config::kBulk: one thread asks the copy engine; else kFillThreads threads
// copy, for operands whose address or pitch is no multiple of 16 bytes. kPartsA, kPartsB: the blocks of the cluster that
// share the tile, each of which loads the part of its own rank for all.
template <class Config, int kPartsA = 1, int kPartsB = 1>
__device__ void fill_stage(const BulkGemmParams& params, const Stages<Config>& stages, int stage, const Tile& tile,
                           i64 k, int rank = 0) {
    using Ring = Stages<Config>;
    const unsigned full = stages.full(stage);
    if constexpr (Config::kBulk) {
        // A batch stride of 0 is a map of one matrix.
        const int batch_a = params.a_strides.batch ? static_cast<int>(tile.batch) : 0;
        const int batch_b = params.b_strides.batch ? static_cast<int>(tile.batch) : 0;
        const int row = static_cast<int>(tile.row), col = static_cast<int>(tile.col), depth = static_cast<int>(k);
        barrier_arrive_expect(full, Ring::kStageBytes);
        Ring::TileA::template load<kPartsA>(stages.a(stage), params.a_map, full, row, depth, batch_a, rank % kPartsA);
        Ring::TileB::template load<kPartsB>(stages.b(stage), params.b_map, full, col, depth, batch_b, rank % kPartsB);
    } else {
        const int thread = static_cast<int>(threadIdx.x);
        const Strided &as = params.a_strides, &bs = params.b_strides;
        const unsigned short* a = static_cast<const unsigned short*>(params.a) + tile.batch * as.batch;
        const unsigned short* b = static_cast<const unsigned short*>(params.b) + tile.batch * bs.batch;
        TileCopy<Config::kRowMajorA, Config::kBM, Config::kFillThreads>(a, as.row, as.col, params.m, params.k, tile.row,
                                                                        k, thread)
            .copy(stages.a(stage));
        TileCopy<!Config::kRowMajorB, Config::kBN, Config::kFillThreads>(b, bs.col, bs.row, params.n, params.k,
                                                                         tile.col, k, thread)
            .copy(stages.b(stage));
        async_proxy_fence();
        barrier_arrive(full);
    }
}

// Stages of a tile.
__device__ inline int step_count(const GemmParams& params, const Scalars& scalars) {
    return static_cast<int>((depth_of(params, scalars) + kTileDepth - 1) / kTileDepth);
}

template <int kBlocks, int kElements>
__device__ void clear(float (&accumulators)[kBlocks][kElements]) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
        for (int i = 0; i < kElements; ++i) accumulators[block][i] = 0.0f;
}

// A warpgroup multiplies one stage: kBlocks x 64 rows of A from `row` on by all columns of B. Asynchronous.
template <class Config, int kBlocks>
__device__ void multiply_stage(float (&accumulators)[kBlocks][Config::kBN / 2], const Stages<Config>& stages, int stage,
                               int row) {
    using Ring = Stages<Config>;
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kTileDepth / kStepDepth; ++step)
#pragma unroll
        for (int block = 0; block < kBlocks; ++block)
            Wgmma<Config::kBN, Config::kTypeA, Config::kRowMajorA, !Config::kRowMajorB>::multiply(
                accumulators[block], Ring::TileA::descriptor(stages.a(stage), row + block * 64, step),
                Ring::TileB::descriptor(stages.b(stage), 0, step));
    wgmma_commit();
}

// A warpgroup's products of a tile, over `steps` stages of the ring. One step stays in flight, so that the tensor cores
// have work while the warpgroup waits for the next stage; release(stage) is called once nothing reads it any more.
template <class Config, int kBlocks, class Release>
__device__ void multiply_tile(float (&accumulators)[kBlocks][Config::kBN / 2], const Stages<Config>& stages,
                              RingPosition<Config::kStages>& at, int steps, int row, Release release) {
    clear(accumulators);
    int before = 0;  // the stage of the step in flight
    for (int step = 0; step < steps; ++step, at.advance()) {
        barrier_wait(stages.full(at.stage), at.parity);
        multiply_stage<Config>(accumulators, stages, at.stage, row);
        wgmma_wait<1>();
        if (step > 0) release(before);
        before = at.stage;
    }
    wgmma_wait<0>();
    if (steps > 0) release(before);
}

}  // namespace carat_kernel
