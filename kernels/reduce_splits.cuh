// SPDX-License-Identifier: Apache-2.0
// reduce_splits.cuh: adds up the parts of K that gemm_ws.cuh left in the workspace (kSeparateParts, mainloop/split_in_l2.cuh), in
// their order, and takes the sums through the epilogue to D. A block has 64 rows of a tile and kBN of its columns of D: many
// small blocks, so that few tiles still keep all SMs reading. It starts while the last tiles are multiplied and waits for them.
#pragma once

#include <shared/split_sums.h>
#include <shared/tile_walk.h>
#include <epilogue/staged_tile.cuh>
#include <ptx/block.cuh>
#include <ptx/dependent_launch.cuh>
#include <ptx/shared.cuh>
#include <ptx/through_l2.cuh>

namespace carat_kernel {

// Config: kBM = 64 rows and kBN columns of D of a block, kThreads = 128; kTileM, kTileN: rows of D and columns of B of the tiles, kStrips of
// 64 rows each; kSeparateParts; the epilogue's constants.
template <class Config>
class ReduceSplits {
    using Staged = StagedTile<Config>;
    static constexpr int kParts = Config::kSeparateParts, kEights = Staged::kCols / 8;  // of columns of B
    static constexpr int kTileCols = Config::kTileN / Staged::kParts;                   // of D
    static constexpr int kAcross = kTileCols / Config::kBN;                             // blocks
    // On their way together: 256 bytes a thread, of several parts, or of a part of one.
    static constexpr int kEightsAtOnce = kEights < 16 ? kEights : 16, kPartsAtOnce = 16 / kEightsAtOnce;
    static_assert(kEights % kEightsAtOnce == 0);
    static_assert(kTileCols % Config::kBN == 0 && Config::kBM == 64 && Config::kThreads == carat_shared::kStripThreads);

    // Which 8 columns of the tile's B the block's `eight`th are: a split gate's second half lies in the tile's.
    static __device__ int eight_of_tile(int across, int eight) {
        constexpr int kPiece = Config::kBN / 8;
        if (Config::kGate == kGateSplit)
            return eight / kPiece * (Config::kTileN / 16) + across * kPiece + eight % kPiece;
        return across * kEights + eight;
    }

  public:
    static constexpr int kBlocksOfTile = Config::kStrips * kAcross;

    // The block's part of a tile.
    static __device__ void add_up(const BulkGemmParams& params, int tile, int strip, int across,
                                  float (&sums)[4 * kEights]) {
        constexpr i64 kSlot = carat_shared::slot_quads(Config::kStrips, Config::kTileN);
        const float4* const from = reinterpret_cast<const float4*>(params.split.sums) + i64(tile) * kParts * kSlot +
                                   carat_shared::quad_at(strip, Config::kTileN, 0, static_cast<int>(threadIdx.x));
#pragma unroll
        for (int i = 0; i < 4 * kEights; ++i) sums[i] = 0.0f;
#pragma unroll 1
        for (int part = 0; part < kParts; part += kPartsAtOnce)
#pragma unroll
            for (int eight = 0; eight < kEights; eight += kEightsAtOnce) {
                __syncwarp();  // the compiler would have more on their way than it has registers for
                add_eights(from, part, across, eight, sums);
            }
    }

    static __device__ void add_eights(const float4* from, int first_part, int across, int first_eight,
                                      float (&sums)[4 * kEights]) {
        constexpr i64 kSlot = carat_shared::slot_quads(Config::kStrips, Config::kTileN);
        float4 coming[kPartsAtOnce][kEightsAtOnce];
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i)
#pragma unroll
            for (int j = 0; j < kEightsAtOnce; ++j)
                if (first_part + i < kParts)
                    coming[i][j] = load_from_l2(from + (first_part + i) * kSlot +
                                                eight_of_tile(across, first_eight + j) * carat_shared::kStripThreads);
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i)
#pragma unroll
            for (int j = 0; j < kEightsAtOnce; ++j) {
                if (first_part + i >= kParts) continue;
                const float4 four = coming[i][j];
                float* const to = sums + 4 * (first_eight + j);
                to[0] += four.x, to[1] += four.y, to[2] += four.z, to[3] += four.w;
            }
    }

    static __device__ void run(const BulkGemmParams& params) {
        const unsigned of_tile = blockIdx.x % kBlocksOfTile;
        const int index = static_cast<int>(blockIdx.x / kBlocksOfTile), strip = static_cast<int>(of_tile / kAcross),
                  across = static_cast<int>(of_tile % kAcross);
        const TilePlace place = tile_place(params.walk, static_cast<unsigned>(index));
        const i64 first_row = i64(place.row) * Config::kTileM, end_of_tile = first_row + Config::kTileM;
        const i64 cols = params.n / Staged::kParts;
        const Tile where = {first_row + strip * 64, i64(place.col) * kTileCols + across * Config::kBN, place.batch};
        const TileEnd end = {end_of_tile < params.m ? end_of_tile : params.m, cols};
        if (where.row >= end.row || where.col >= end.col) return;

        float sums[4 * kEights];
        add_up(params, index, strip, across, sums);
        float* const staged = reinterpret_cast<float*>(dynamic_shared());
        Staged::template put_strip<kEights>(staged, sums, static_cast<int>(threadIdx.x) / kWarpThreads * 16, 0);
        __syncthreads();
        Largest<Config> largest;
        Staged::finish(params, load_scalars<Config>(params.epilogue), staged, where, largest, end);
        largest.publish(params);
    }
};

// A block for each kBM x kBN of each tile.
template <class Config>
__device__ void reduce_splits(const BulkGemmParams& params) {
    let_next_kernel_start();
    wait_for_kernels_before();  // all blocks: the next kernel counts on it that the one before this has ended
    ReduceSplits<Config>::run(params);
}

}  // namespace carat_kernel
