// SPDX-License-Identifier: Apache-2.0
// fragments.cuh: from the accumulators of a warpgroup to D. They lie as wgmma.cuh says, 16 rows a warp; each is taken
// through the epilogue and stored
// - by its thread (store_direct): any order, pitch and type of D. A warp writes 8 rows of 16 bytes at once: half-used
//   sectors.
// - staged (store_staged): 16 x 32 elements of a warp at a time go through shared memory in f32, and the epilogue runs in
//   a loop, along D's lines. For what reads C, for column-major D, and for activations of many instructions, which
//   unrolled over 128 accumulators would take the compiler ten seconds.
// - in bulk (store_bulk): 64 x 64 elements at a time go through shared memory by stmatrix, and one thread asks the copy
//   engine to store them: whole lines, no addresses, edges clipped by the engine. For row-major D of a 16-bit type whose
//   address and pitch are multiples of 16 bytes.
#pragma once

#include <shared/swizzle.h>
#include <epilogue/fragment.cuh>
#include <epilogue/staged.cuh>
#include <ptx/block.cuh>
#include <ptx/bulk_copy.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/shared.cuh>
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

constexpr int kStoreBoxBytes = 64 * kLineBytes;  // 64 x 64 elements of 16 bits
constexpr int kStoreBoxes = 2;                   // of a warpgroup: one is filled while the other is stored
constexpr int kStagedCols = 32;

// `parts`: shared memory of this warpgroup's four warps, 16-byte aligned.
template <class Config, int kBlocks>
__device__ void store_staged(const GemmParams& params, const Scalars& scalars,
                             const float (&accumulators)[kBlocks][Config::kBN / 2], const Tile& tile, int row,
                             char* parts) {
    using Strip = StagedStrip<Config, kStagedCols>;
    static_assert(4 * Strip::kBytes <= kStoreBoxes * kStoreBoxBytes);
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

// An accumulator through the epilogue; 0 for an element outside of D, of which nothing may be read.
template <class Config>
__device__ float fragment_value(const GemmParams& params, const Scalars& scalars, Largest<Config>& largest,
                                float accumulator, i64 batch, i64 i, i64 j) {
    constexpr bool kReads = Config::kHasC || Config::kBias != kBiasNone || Config::kOutScale == kOutScaleRow;
    if constexpr (kReads || Config::kAmax)
        if (i >= params.m || j >= params.n) return 0.0f;
    const float v = epilogue_value<Config>(params, scalars, {accumulator, 0.0f}, batch, i, j);
    largest.note(v);
    return output_value<Config>(params, v, batch, i);
}

// 16 x 64 of a warp's accumulators into its rows of a box.
template <class Config>
__device__ void fill_box(const BulkGemmParams& params, const Scalars& scalars, Largest<Config>& largest,
                         const float* accumulators, unsigned box, i64 batch, i64 row, i64 col) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads;
    const i64 i = row + warp * 16 + lane / 4;
    // A lane gives the address of one row of 8 elements: of the upper or lower 8 rows, of the left or right 8 columns.
    const int line = warp * 16 + lane % 16;
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        unsigned packed[4];
#pragma unroll
        for (int quarter = 0; quarter < 4; ++quarter) {
            const float* pair = accumulators + part * 8 + quarter * 2;
            const i64 j = col + part * 16 + quarter / 2 * 8 + lane % 4 * 2;
            const i64 at = i + quarter % 2 * 8;
            packed[quarter] =
                pack_pair<Config::kTypeD>(fragment_value<Config>(params, scalars, largest, pair[0], batch, at, j),
                                          fragment_value<Config>(params, scalars, largest, pair[1], batch, at, j + 1));
        }
        stmatrix_x4<false>(box + swizzle_128(line, part * 2 + lane / 16), packed);
    }
}

// `boxes`: this warpgroup's kStoreBoxes boxes. `barrier`: a named barrier that no other warpgroup uses.
template <class Config, int kBlocks>
__device__ void store_bulk(const BulkGemmParams& params, const Scalars& scalars,
                           const float (&accumulators)[kBlocks][Config::kBN / 2], const Tile& tile, int row,
                           unsigned boxes, int barrier) {
    static_assert(Config::kBN % 64 == 0);
    const bool leader = threadIdx.x % kWarpgroupThreads == 0;
    Largest<Config> largest;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
        for (int part = 0; part < Config::kBN / 64; ++part) {
            const unsigned box = boxes + (block * (Config::kBN / 64) + part) % kStoreBoxes * kStoreBoxBytes;
            const i64 i = tile.row + row + block * 64, j = tile.col + part * 64;
            // At a tile's begin all boxes: how many the tile before had may be odd.
            if (leader && block + part == 0) bulk_store_wait_read<0>();
            if (leader && block + part != 0) bulk_store_wait_read<kStoreBoxes - 1>();
            named_barrier<kWarpgroupThreads>(barrier);  // the box is free
            fill_box<Config>(params, scalars, largest, accumulators[block] + part * 32, box, tile.batch, i, j);
            async_proxy_fence();
            named_barrier<kWarpgroupThreads>(barrier);  // the box is full
            if (leader) {
                bulk_store(params.d_map, box, static_cast<int>(j), static_cast<int>(i), static_cast<int>(tile.batch));
                bulk_store_commit();
            }
        }
    largest.publish(params);
}

// Before a consumer ends: its boxes must not go away while the copy engine reads them.
template <class Config>
__device__ void finish_stores() {
    if constexpr (Config::kBulkStore)
        if (threadIdx.x % kWarpgroupThreads == 0) bulk_store_wait_read<0>();
}

// In the way that Config says. boxes: shared memory of this warpgroup, of kStoreBoxes boxes.
template <class Config, int kBlocks>
__device__ void store_fragments(const BulkGemmParams& params, const Scalars& scalars,
                                const float (&accumulators)[kBlocks][Config::kBN / 2], const Tile& tile, int row,
                                char* boxes, int barrier) {
    if constexpr (Config::kBulkStore)
        store_bulk<Config>(params, scalars, accumulators, tile, row, shared_address(boxes), barrier);
    else if constexpr (wants_staging<Config>())
        store_staged<Config>(params, scalars, accumulators, tile, row, boxes);
    else
        store_direct<Config>(params, scalars, accumulators, tile, row);
}

}  // namespace carat_kernel
