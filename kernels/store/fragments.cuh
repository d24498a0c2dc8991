// SPDX-License-Identifier: Apache-2.0
// fragments.cuh: from the accumulators of a warpgroup to D. They lie as wgmma.cuh says, 16 rows a warp; each is taken
// through the epilogue and stored
// - by its thread (store_direct): any order, pitch and type of D. A warp writes 8 rows of 16 bytes at once: half-used
//   sectors.
// - staged (store_staged): 16 x 32 elements of a warp at a time go through shared memory in f32, and the epilogue runs in
//   a loop, along D's lines. For what reads C, for column-major D, and for activations of many instructions, which
//   unrolled over 128 accumulators would take the compiler ten seconds.
// The way of rung 6; from rung 7 on D leaves in boxes (boxes.cuh).
#pragma once

#include <epilogue/fragment.cuh>
#include <epilogue/staged.cuh>
#include <ptx/block.cuh>
#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

// `tile`: of the whole block; `row`: the first of this warpgroup's kBlocks x 64 rows in it.
template <class Config, int kBlocks>
__device__ void store_direct(const GemmParams& params, const Scalars& scalars,
                             const float (&accumulators)[kBlocks][Config::kBN / 2], const Tile& tile, int row) {
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads;
    Largest<Config> largest;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
        finish_strip<Config, Config::kBN / 8>(params, scalars, accumulators[block], tile.batch,
                                              tile.row + row + block * 64 + warp * 16, tile.col, largest);
    largest.publish(params);
}

constexpr int kStagedCols = 32;
constexpr int kStagedBytes = 16384;  // of a warpgroup

// `parts`: shared memory of this warpgroup's four warps, 16-byte aligned.
template <class Config, int kBlocks>
__device__ void store_staged(const GemmParams& params, const Scalars& scalars,
                             const float (&accumulators)[kBlocks][Config::kBN / 2], const Tile& tile, int row,
                             char* parts) {
    using Strip = StagedStrip<Config, kStagedCols>;
    static_assert(4 * Strip::kBytes <= kStagedBytes);
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads;
    float* const part = reinterpret_cast<float*>(parts + warp * Strip::kBytes);
    Largest<Config> largest;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
        for (int col = 0; col < Config::kBN; col += kStagedCols)
            Strip::finish(params, scalars, accumulators[block] + col / 2, part, tile.batch,
                          tile.row + row + block * 64 + warp * 16, tile.col + col, largest);
    largest.publish(params);
}

// In the way that Config says. memory: kStagedBytes of this warpgroup's, if it is staged.
template <class Config, int kBlocks>
__device__ void store_fragments(const GemmParams& params, const Scalars& scalars,
                                const float (&accumulators)[kBlocks][Config::kBN / 2], const Tile& tile, int row,
                                char* memory) {
    if constexpr (wants_staging<Config>())
        store_staged<Config>(params, scalars, accumulators, tile, row, memory);
    else
        store_direct<Config>(params, scalars, accumulators, tile, row);
}

}  // namespace carat_kernel
