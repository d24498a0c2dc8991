// SPDX-License-Identifier: Apache-2.0
// v5_mma.cuh: rung 5 of the ladder: the tensor cores by their own instruction, mma.sync m16n8k16, fed by a pipeline.
// What changed from rung 4, and why it should gain:
// - mma.sync has a documented fragment layout: the epilogue goes from registers straight to D, and fragments come by
//   ldmatrix, four 8x8 matrices an instruction, from swizzled lines that no two rows of a matrix share a bank in.
// - cp.async takes tiles from global to shared memory past the registers, kStages - 1 steps ahead. The registers that
//   this frees hold a second set of fragments, so step k of the multiplication never waits for its own loads.
// - A warp owns 64 x 64 of D (128 x 256 by 8 warps): 64 KB of fragments for every 64 KB fewer that 64 x 32 would read
//   again. At 64 x 64 a k16 step reads 4 KB for 131072 FLOP, which the 128 bytes a clock of shared memory can feed.
// - One barrier for 64 of K, and it is split: a warp arrives when it has read the last fragments of a stage and waits 32
//   mma later, where it needs the next stage. Warps that came first multiply meanwhile (__syncthreads: 70 % of the
//   tensor cores' time in use).
// Bound: mma.sync itself, which on Hopper runs at about 0.62 of the rate that wgmma (rung 6) reaches, and next to it
// shared memory: at 128 x 256 fragments and copies take about 0.85 of the clocks of the multiplication.
// Operands whose rows are not 16-byte aligned go element by element through registers in the same pipeline.
// Measured: see docs/ladder.md
#pragma once

#include <epilogue/fragment.cuh>
#include <mainloop/fragment_rows.cuh>
#include <mainloop/tile_copy.cuh>
#include <ptx/mbarrier.cuh>
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

    // The pipeline over K. Stage s of shared memory holds step s, s + kStages, ... While step k is multiplied, the copies
    // of step k + kStages - 1 go into the stage that step k - 1 was read from, and the fragments run one k16 step ahead.
    template <bool kAligned>
    static __device__ void accumulate(CopyA& a, CopyB& b, i64 depth, float (&d)[kBlocksDown][4 * kBlocksAcross],
                                      int& parity) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const FragmentRows<Config::kRowMajorA, true> rows_a(warp_row(), lane);
        const FragmentRows<!Config::kRowMajorB, false> rows_b(warp_col(), lane);
        const unsigned first = shared_address(dynamic_shared()), end = first + Config::kStages * kStageBytes;
        const unsigned turn = end;  // the barrier: all have read a stage, and their copies of the next have landed
        Fragments fragments[2];
        const auto load = [&](Fragments& to, unsigned stage, int step) {
#pragma unroll
            for (int i = 0; i < kBlocksDown; ++i) rows_a.load(to.a[i], stage, i, step);
#pragma unroll
            for (int j = 0; j < kBlocksAcross / 2; ++j) rows_b.load(to.b[j], stage + CopyA::kBytes, j, step);
        };
        const auto next = [&](unsigned stage) { return stage + kStageBytes == end ? first : stage + kStageBytes; };

        for (unsigned stage = first; stage != end - kStageBytes; stage += kStageBytes) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) copy<kAligned>(a, b, stage, step);
            cp_async_commit_group();
            a.advance();
            b.advance();
        }
        cp_async_wait_group<Config::kStages - 2>();
        __syncthreads();
        unsigned read = first, write = end - kStageBytes;
        load(fragments[0], read, 0);
        for (i64 k = 0; k < depth; k += Config::kBK) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                if (step == kSteps - 1) {  // from here on the next stage is read, and this one is free
                    cp_async_commit_group();
                    barrier_wait(turn, parity);
                    parity ^= 1;
                    read = next(read);
                    write = next(write);
                    a.advance();
                    b.advance();
                }
                load(fragments[(step + 1) % 2], read, (step + 1) % kSteps);
                if (step == kSteps - 2) {
                    cp_async_wait_group<Config::kStages - 3>();
                    barrier_arrive(turn);
                }
                copy<kAligned>(a, b, write, step);
                multiply(d, fragments[step % 2]);
            }
        }
        cp_async_wait_group<0>();  // copies past the end of K, of zeros
        __syncthreads();           // before the next tile's
    }
};

template <class Config>
__device__ void v5_mma(const GemmParams& params) {
    using Kernel = V5<Config>;
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 depth = scalars.alpha == 0.0f ? 0 : params.k;  // alpha = 0: A and B are not read
    const LinearTiles<Config::kBM, Config::kBN> walk(params.m, params.n, params.batch);
    const Strided &as = params.a_strides, &bs = params.b_strides;
    const int thread = static_cast<int>(threadIdx.x);
    const unsigned turn = shared_address(dynamic_shared()) + Config::kStages * Kernel::kStageBytes;
    int parity = 0;
    if (thread == 0) barrier_init(turn, Config::kThreads);
    __syncthreads();

    for (i64 index = blockIdx.x; index < walk.count; index += gridDim.x) {
        const Tile tile = walk.at(index);
        float d[Kernel::kBlocksDown][4 * Kernel::kBlocksAcross] = {};
        if (depth > 0) {
            typename Kernel::CopyA a(static_cast<const unsigned short*>(params.a) + tile.batch * as.batch, as.row,
                                     as.col, params.m, depth, tile.row, 0, thread);
            typename Kernel::CopyB b(static_cast<const unsigned short*>(params.b) + tile.batch * bs.batch, bs.col,
                                     bs.row, params.n, depth, tile.col, 0, thread);
            if (a.aligned() && b.aligned())
                Kernel::template accumulate<true>(a, b, depth, d, parity);
            else
                Kernel::template accumulate<false>(a, b, depth, d, parity);
        }
        Largest<Config> largest;
#pragma unroll
        for (int i = 0; i < Kernel::kBlocksDown; ++i)
            finish_strip<Config, Kernel::kBlocksAcross>(params, scalars, d[i], tile.batch,
                                                        tile.row + Kernel::warp_row() + 16 * i,
                                                        tile.col + Kernel::warp_col(), largest);
        largest.publish(params);
    }
}

}  // namespace carat_kernel
