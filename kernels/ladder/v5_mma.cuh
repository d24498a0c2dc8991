// SPDX-License-Identifier: Apache-2.0
// v5_mma.cuh: rung 5 of the ladder: the tensor cores by their own instruction, mma.sync m16n8k16, fed by a pipeline.
// What changed from rung 4, and why it should gain:
// - mma.sync has a documented fragment layout: a plain epilogue goes from registers straight to D, and fragments come by
//   ldmatrix, four 8x8 matrices an instruction, from swizzled lines that no two rows of a matrix share a bank in.
// - cp.async takes tiles from global to shared memory past the registers, kStages - 1 steps ahead. The registers that
//   this frees hold a second set of fragments, so step k of the multiplication never waits for its own loads.
// - A warp owns 64 x 64 of D (128 x 256 by 8 warps). For 16 of K it reads 4 KB of fragments and does 131072 FLOP, where
//   the 64 x 32 of rung 4 read 3 KB for half as many. At 128 x 256 fragments and copies then keep shared memory busy for
//   about 0.85 of the clocks that the multiplication takes, which leaves no room for a smaller part.
// - One barrier for 64 of K, and what a step issues besides is little: addresses are an XOR and an immediate away.
// Expected: everything but mma.sync overlaps, and that is the bound: on Hopper about 0.62 of the rate that wgmma (rung 6)
// reaches.
// Operands whose rows are not whole chunks of 16 aligned bytes go through registers in the same pipeline, an element at a
// time where they must: eight loads for a chunk in place of one, and the thread waits for them.
// Measured: see docs/ladder.md
#pragma once

#include <epilogue/fragment.cuh>
#include <epilogue/staged.cuh>
#include <mainloop/fragment_rows.cuh>
#include <mainloop/tile_copy.cuh>
#include <ptx/mma.cuh>
#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

// Config: kBM x kBN a block, kBK = 64, kStages, kThreads; kTypeA, kRowMajorA, kRowMajorB, kRowMajorD; the epilogue's
// constants. Warps are laid out over the tile, each with 64 rows.
template <class Config>
struct V5 {
    static_assert(Config::kBK == 64, "a line of shared memory holds 64 elements");
    using CopyA = TileCopy<Config::kRowMajorA, Config::kBM, Config::kThreads>;
    using CopyB = TileCopy<!Config::kRowMajorB, Config::kBN, Config::kThreads>;
    static constexpr int kStageBytes = CopyA::kBytes + CopyB::kBytes;
    static constexpr int kSteps = Config::kBK / 16;  // of an mma along K, in a stage
    static constexpr int kWarpsDown = Config::kBM / 64, kWarpsAcross = Config::kThreads / 32 / kWarpsDown;
    static constexpr int kBlocksDown = 4, kBlocksAcross = Config::kBN / kWarpsAcross / 8;  // mma blocks of a warp

    struct Fragments {
        unsigned a[kBlocksDown][4], b[kBlocksAcross / 2][4];
    };

    // A strip of the warp's accumulators, where the epilogue is too much to be written out for each of them.
    static constexpr bool kStaged = wants_staging<Config>();
    using Part = StagedPart<Config, 16, 8 * kBlocksAcross, Config::kRowMajorD ? 8 : 4>;
    static_assert(Part::kBytes * (Config::kThreads / 32) <= Config::kStages * kStageBytes, "they take a stage's place");

    // Where the warp stands in the tile.
    static __device__ int warp_row() { return static_cast<int>(threadIdx.x) / 32 / kWarpsAcross * 64; }
    static __device__ int warp_col() { return static_cast<int>(threadIdx.x) / 32 % kWarpsAcross * (kBlocksAcross * 8); }

    static constexpr int first_pass(int step) {
        const int passes = CopyA::kPasses + CopyB::kPasses;
        return step < kSteps ? passes * step / (kSteps - 1) : passes;
    }
    // The part of a stage's copies that goes along with one of its kSteps steps; none with the last.
    template <bool kAligned>
    static __device__ void copy(const CopyA& a, const CopyB& b, unsigned stage, int step) {
#pragma unroll
        for (int pass = first_pass(step); pass < first_pass(step + 1); ++pass) {
            if (pass < CopyA::kPasses)
                copy_pass<kAligned>(a, stage, pass);
            else
                copy_pass<kAligned>(b, stage + CopyA::kBytes, pass - CopyA::kPasses);
        }
    }
    template <bool kAligned, class Copy>
    static __device__ void copy_pass(const Copy& from, unsigned tile, int pass) {
        if constexpr (kAligned)
            from.copy_async(pass, tile);
        else
            from.store(pass, tile, from.load(pass));
    }

    static __device__ void multiply(float (&d)[kBlocksDown][4 * kBlocksAcross], const Fragments& fragments) {
#pragma unroll
        for (int i = 0; i < kBlocksDown; ++i)
#pragma unroll
            for (int j = 0; j < kBlocksAcross; ++j)
                mma_m16n8k16<Config::kTypeA>(d[i] + 4 * j, fragments.a[i], fragments.b[j / 2][j % 2 * 2],
                                             fragments.b[j / 2][j % 2 * 2 + 1]);
    }

    // The pipeline over K. Stage s of shared memory holds step s, s + kStages, ... start() asks for the first kStages - 1.
    template <bool kAligned>
    static __device__ void start(CopyA& a, CopyB& b) {
        const unsigned first = shared_address(dynamic_shared());
#pragma unroll 1
        for (int stage = 0; stage < Config::kStages - 1; ++stage) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) copy<kAligned>(a, b, first + stage * kStageBytes, step);
            cp_async_commit_group();
            a.advance();
            b.advance();
        }
    }

    // While step k is multiplied, the copies of step k + kStages - 1 go into the stage that step k - 1 was read from, and the
    // fragments run one k16 step ahead.
    template <bool kAligned>
    static __device__ void accumulate(CopyA& a, CopyB& b, i64 depth, float (&d)[kBlocksDown][4 * kBlocksAcross]) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const FragmentRows<Config::kRowMajorA, true> rows_a(warp_row(), lane);
        const FragmentRows<!Config::kRowMajorB, false> rows_b(warp_col(), lane);
        const unsigned first = shared_address(dynamic_shared()), end = first + Config::kStages * kStageBytes;
        Fragments fragments[2];
        const auto load = [&](Fragments& to, unsigned stage, int step) {
#pragma unroll
            for (int i = 0; i < kBlocksDown; ++i) rows_a.load(to.a[i], stage, i, step);
#pragma unroll
            for (int j = 0; j < kBlocksAcross / 2; ++j) rows_b.load(to.b[j], stage + CopyA::kBytes, j, step);
        };
        const auto next = [&](unsigned stage) { return stage + kStageBytes == end ? first : stage + kStageBytes; };

        cp_async_wait_group<Config::kStages - 2>();
        __syncthreads();
        unsigned read = first, write = end - kStageBytes;
        load(fragments[0], read, 0);
        for (i64 k = 0; k < depth; k += Config::kBK) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                if (step == kSteps - 1) {  // from here on the next stage is read, and this one is free
                    cp_async_commit_group();
                    cp_async_wait_group<Config::kStages - 2>();
                    __syncthreads();
                    read = next(read);
                    write = next(write);
                    a.advance();
                    b.advance();
                }
                load(fragments[(step + 1) % 2], read, (step + 1) % kSteps);
                copy<kAligned>(a, b, write, step);
                multiply(d, fragments[step % 2]);
            }
        }
        cp_async_wait_group<0>();  // copies past the end of K, of zeros
        __syncthreads();           // before the next tile's
    }

    static __device__ void finish(const GemmParams& params, const Scalars& scalars, const Tile& tile,
                                  const float (&d)[kBlocksDown][4 * kBlocksAcross]) {
        Largest<Config> largest;
#pragma unroll
        for (int i = 0; i < kBlocksDown; ++i) {
            const i64 row = tile.row + warp_row() + 16 * i, col = tile.col + warp_col();
            if constexpr (kStaged)
                finish_staged(params, scalars, d[i], tile.batch, row, col, largest);
            else
                finish_strip<Config, kBlocksAcross>(params, scalars, d[i], tile.batch, row, col, largest);
        }
        largest.publish(params);
        if (kStaged) __syncthreads();  // before the next tile's copies
    }

    static __device__ void finish_staged(const GemmParams& params, const Scalars& scalars,
                                         const float (&d)[4 * kBlocksAcross], i64 batch, i64 i, i64 j,
                                         Largest<Config>& largest) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        float* const part = reinterpret_cast<float*>(dynamic_shared() + warp * Part::kBytes);
        __syncwarp();  // the strip before is read
#pragma unroll
        for (int e = 0; e < 4 * kBlocksAcross; ++e)
            part[Part::at(lane / 4 + e % 4 / 2 * 8, e / 4 * 8 + lane % 4 * 2 + e % 2)] = d[e];
        __syncwarp();
        Part::finish(params, scalars, part, batch, i, j, largest);
    }
};

// Blocks take tile after tile. The first copies of the next tile are asked for before this one is stored, unless the
// store goes through shared memory.
template <class Config, bool kAligned>
__device__ void v5_tiles(const GemmParams& params, const Scalars& scalars, i64 depth) {
    using Kernel = V5<Config>;
    const LinearTiles<Config::kBM, Config::kBN> walk(params.m, params.n, params.batch);
    const Strided &as = params.a_strides, &bs = params.b_strides;
    const int thread = static_cast<int>(threadIdx.x);
    const auto copy_a = [&](const Tile& tile) {
        return typename Kernel::CopyA(static_cast<const unsigned short*>(params.a) + tile.batch * as.batch, as.row,
                                      as.col, params.m, depth, tile.row, 0, thread);
    };
    const auto copy_b = [&](const Tile& tile) {
        return typename Kernel::CopyB(static_cast<const unsigned short*>(params.b) + tile.batch * bs.batch, bs.col,
                                      bs.row, params.n, depth, tile.col, 0, thread);
    };
    Tile tile = walk.at(blockIdx.x);
    typename Kernel::CopyA a = copy_a(tile);
    typename Kernel::CopyB b = copy_b(tile);
    if (depth > 0) Kernel::template start<kAligned>(a, b);
    for (i64 index = blockIdx.x; index < walk.count; index += gridDim.x) {
        float d[Kernel::kBlocksDown][4 * Kernel::kBlocksAcross] = {};
        if (depth > 0) Kernel::template accumulate<kAligned>(a, b, depth, d);
        const Tile done = tile;
        if (index + gridDim.x < walk.count) tile = walk.at(index + gridDim.x);
        if (Kernel::kStaged) Kernel::finish(params, scalars, done, d);
        if (depth > 0 && index + gridDim.x < walk.count) {
            a = copy_a(tile);
            b = copy_b(tile);
            Kernel::template start<kAligned>(a, b);
        }
        if (!Kernel::kStaged) Kernel::finish(params, scalars, done, d);
    }
}

template <class Config>
__device__ void v5_mma(const GemmParams& params) {
    using Kernel = V5<Config>;
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 depth = scalars.alpha == 0.0f ? 0 : params.k;  // alpha = 0: A and B are not read
    const Strided &as = params.a_strides, &bs = params.b_strides;
    if (Kernel::CopyA::aligned(params.a, as.row, as.col, as.batch, params.m, params.k) &&
        Kernel::CopyB::aligned(params.b, bs.col, bs.row, bs.batch, params.n, params.k))
        v5_tiles<Config, true>(params, scalars, depth);
    else
        v5_tiles<Config, false>(params, scalars, depth);
}

}  // namespace carat_kernel
