// SPDX-License-Identifier: Apache-2.0
// gemm_stream.cuh: GEMM of 16-bit operands with at most 16 rows of A (tokens): the time is that of reading B (weights)
// once, and the kernel is a read of B at the memory's speed that multiplies on the way.
//   mainloop   mainloop/streamed_operands.cuh   each lane's operands through a ring of its own to mma.sync
//   scheduler  scheduler/column_runs.cuh        a run of columns of D a block, all of a length
//   epilogue   epilogue/staged_tile.cuh         from sums in shared memory to D
// - Steps are asked for kStages ahead, also over the end of a tile, so that what is on its way never drains: an H200
//   reaches its memory's speed with 64 KB an SM, and 70 % of it with 16 KB.
// - No barrier in the loop over K: warps meet once a tile.
// - Warps share a tile along its columns and along K. Along K each takes 64 bytes of a row in turn, so that a block reads
//   a kilobyte of a row at once, which suits the pages of the memory; a slice of K for each warp would not.
// - A cluster of kClusterK blocks may share a tile along K, for few columns and long K: each then needs only its part of A,
//   which is as much as B where a block has 16 columns for 16 tokens.
// - Sums are added in the order of the warps and blocks, so the bits are the same each time.
// It begins while the kernel before it in its stream may still run (programmatic dependent launch) and reads nothing that
// one may write before it has ended. But the first of B comes to L2 meanwhile: that is also where that one's writes go, so
// whatever is read later is what was written last.
#pragma once

#include <epilogue/staged_tile.cuh>
#include <mainloop/streamed_operands.cuh>
#include <ptx/block.cuh>
#include <ptx/dependent_launch.cuh>
#include <ptx/mma.cuh>

namespace carat_kernel {

// Config: kBM = 8 or 16 rows of A at most, kBN columns of D a tile, kBK = 32 for each warp along K, kTN rows of B a warp,
// kStages, kClusterK, kGrain (of column_runs.cuh), kWholeChunks, kFetchFirst, kThreads; kRowMajorA, kRowMajorB,
// kTypeA = kTypeB; the epilogue's constants.
template <class Config, bool kCut>
struct GemmStream {
    using Operands = StreamedOperands<Config, kCut>;
    using Staged = StagedTile<Config>;
    using Runs = ColumnRuns<Config::kBN, Config::kGrain>;
    static constexpr int kWarpsK = Config::kBK / kStreamStep, kWarpsN = Staged::kCols / Config::kTN;
    static_assert(Config::kThreads == 32 * kWarpsK * kWarpsN && Staged::kCols % Config::kTN == 0);
    static_assert(Config::kOutScale != kOutScaleComputed || (Config::kBN == 128 && Config::kGrain == 128),
                  "a tile has the columns of one scale");
    static constexpr int kCluster = Config::kClusterK, kBlockK = Config::kBK * kCluster;
    static constexpr int kDepth = Operands::kDepth, kBlocks = Operands::kBlocks;
    static constexpr int kStepBytes = Operands::kSlots * Operands::kSlotBytes;
    using Sums = float[kBlocks][4];  // as ptx/mma.cuh says

    const GemmParams& params;
    i64 depth;  // of K
    int steps;  // of a tile
    int lane, warp_k, warp_n;
    int rank;  // of the block, along K

    __device__ GemmStream(const GemmParams& given, i64 k)
        : params(given),
          depth(k),
          steps(k == 0 ? 1 : static_cast<int>((k + kBlockK - 1) / kBlockK)),
          lane(static_cast<int>(threadIdx.x) % 32),
          warp_k(static_cast<int>(threadIdx.x) / 32 % kWarpsK),
          warp_n(static_cast<int>(threadIdx.x) / 32 / kWarpsK),
          rank(kCluster > 1 ? cluster_rank() : 0) {}

    // The ring comes first in shared memory, then a tile of sums for each warp along K.
    static __device__ int ring(int slot) { return slot * kStepBytes + static_cast<int>(threadIdx.x) * 16; }
    static __device__ float* tile_of(int warp) {
        return reinterpret_cast<float*>(dynamic_shared() + Operands::kRingBytes + warp * Staged::kBytes);
    }

    __device__ StreamPlace first(const RunTile& tile) const {
        return Operands::first(params, tile, depth, warp_n, rank * Config::kBK + warp_k * kStreamStep, lane);
    }
    // Asks for the step at a place and moves on, to the next tile after the last one.
    __device__ void ask(StreamPlace& at, Runs& runs, int slot) const {
        Operands::ask(params, at, shared_address(dynamic_shared()) + ring(slot), lane);
        cp_async_commit_group();
        if (at.step + 1 < steps) return Operands::advance(params, at, kBlockK);
        const RunTile next = runs.next();
        // All is asked for. Not sooner: the next kernel's blocks would take from memory what this one waits for.
        if (next.cols == 0) let_next_kernel_start();
        at = first(next);
    }

    static __device__ void multiply(Sums& sums, const typename Operands::Step& step) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            unsigned a[4], b[2];
            step.fragment_a(a, part);
#pragma unroll
            for (int block = 0; block < kBlocks; ++block) {
                step.fragment_b(b, block, part);
                mma_m16n8k16<Config::kTypeA>(sums[block], a, b[0], b[1]);
            }
        }
    }

    __device__ void put(const Sums& sums) const {
        float* const tile = tile_of(warp_k);
#pragma unroll
        for (int block = 0; block < kBlocks; ++block)
#pragma unroll
            for (int e = 0; e < Config::kBM / 4; ++e) {
                const int row = lane / 4 + e / 2 * 8, col = lane % 4 * 2 + e % 2;
                tile[Staged::at(row, Operands::column(block, col, warp_n, Config::kBN))] = sums[block][e];
            }
    }
    // To the first tile.
    static __device__ void add_up() {
        constexpr int kFloats = Staged::kBytes / 4;
        float* const tile = tile_of(0);
        for (int i = static_cast<int>(threadIdx.x); i < kFloats; i += Config::kThreads) {
            float sum = tile[i];
#pragma unroll
            for (int warp = 1; warp < kWarpsK; ++warp) sum += tile[i + warp * kFloats];
            tile[i] = sum;
        }
        __syncthreads();
    }

    // To the first block.
    __device__ void add_up_cluster() const {
        constexpr int kFloats = Staged::kBytes / 4;
        float* const tile = tile_of(0);
        cluster_barrier();
        for (int i = static_cast<int>(threadIdx.x); rank == 0 && i < kFloats; i += Config::kThreads) {
            float sum = tile[i];
#pragma unroll
            for (int block = 1; block < kCluster; ++block) sum += load_of_block(tile + i, block);
            tile[i] = sum;
        }
        cluster_barrier();
    }

    // Of the first tile as much as the ring will hold; whole chunks only. k: how deep the product is.
    static __device__ void fetch_first(const GemmParams& params, i64 k, Runs runs) {
        constexpr int kFetched = (kDepth - 1) * kBlockK;
        const GemmStream stream(params, k);
        if (stream.rank != 0) return;
        Operands::template fetch_rows<kWarpsK>(params, runs.next(), static_cast<int>(k < kFetched ? k : kFetched),
                                               stream.warp_n, stream.warp_k, stream.lane);
    }

    static __device__ void run(const GemmParams& params, const Scalars& scalars, Runs runs) {
        const GemmStream stream(params, depth_of(params, scalars));
        Runs coming = runs;
        StreamPlace ahead = stream.first(coming.next());
#pragma unroll 1
        for (int slot = 0; slot < kDepth - 1; ++slot) stream.ask(ahead, coming, slot);

        Largest<Config> largest;
        int slot = 0, free = kDepth - 1;
        for (RunTile tile = runs.next(); tile.cols > 0; tile = runs.next()) {
            const StreamPlace begin = stream.first(tile);
            Sums sums = {};
#pragma unroll 1
            for (int step = 0; step < stream.steps; ++step) {
                stream.ask(ahead, coming, free);
                cp_async_wait_group<kDepth - 1>();
                multiply(sums, typename Operands::Step(params, begin, dynamic_shared() + ring(slot)));
                free = slot;
                slot = slot + 1 == kDepth ? 0 : slot + 1;
            }
            stream.put(sums);
            __syncthreads();
            if constexpr (kWarpsK > 1) add_up();
            if constexpr (kCluster > 1) stream.add_up_cluster();
            if (stream.rank == 0)
                Staged::finish(params, scalars, tile_of(0), {0, tile.col, tile.batch}, largest,
                               {params.m, tile.col + tile.cols});
            __syncthreads();  // before the next tile's sums
        }
        cp_async_wait_group<0>();
        largest.publish(params);
    }
};

// Whether every chunk is whole and at a multiple of 16 bytes. A column-major A has no chunks.
template <class Config>
__device__ bool has_whole_chunks(const GemmParams& params) {
    const u64 a = Config::kRowMajorA ? reinterpret_cast<u64>(params.a) : 0;
    return Config::kWholeChunks && (reinterpret_cast<u64>(params.b) | a) % 16 == 0;
}

template <class Config>
__device__ void gemm_stream(const GemmParams& params) {
    using Whole = GemmStream<Config, false>;
    const bool whole = has_whole_chunks<Config>(params);
    const typename Whole::Runs runs(params.n / Whole::Staged::kParts, params.batch, blockIdx.x / Whole::kCluster,
                                    gridDim.x / Whole::kCluster);
    // Not where alpha is yet to be read: B may be no operand then.
    if constexpr (Config::kFetchFirst && Config::kWholeChunks && !Config::kDeviceScalars)
        if (whole) Whole::fetch_first(params, depth_of(params, load_scalars<Config>(params.epilogue)), runs);
    wait_for_kernels_before();
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    if constexpr (Config::kWholeChunks)
        if (whole) return Whole::run(params, scalars, runs);
    GemmStream<Config, true>::run(params, scalars, runs);
}

}  // namespace carat_kernel
