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
// - The first copies of a block's next tile are asked for before this one is stored.
// Expected: everything but mma.sync overlaps, and that is the bound: on Hopper about 0.63 of the rate that wgmma (rung 6)
// reaches.
// Operands whose rows are not whole chunks of 16 aligned bytes go through registers in the same pipeline, an element at a
// time where they must: eight loads for a chunk in place of one, and the thread waits for them.
// Measured on an H200: 4096^3 418 TFLOP/s, 55 % of cuBLASLt; 8192^3 422 TFLOP/s, 55 % of cuBLASLt. See docs/ladder.md.
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

    static constexpr bool kStaged = wants_staging<Config>();
    using Strip = StagedStrip<Config, 8 * kBlocksAcross>;
    static_assert(Strip::kBytes * (Config::kThreads / 32) <= Config::kStages * kStageBytes,
                  "they take a stage's place");

    // Where the warp stands in the tile.
    static __device__ int warp_row() { return static_cast<int>(threadIdx.x) / 32 / kWarpsAcross * 64; }
    static __device__ int warp_col() { return static_cast<int>(threadIdx.x) / 32 % kWarpsAcross * (kBlocksAcross * 8); }

    // A tile's operands on their way to the stages, 64 of K at a time.
    struct Copies {
        CopyA a;
        CopyB b;

        __device__ Copies(const GemmParams& params, i64 depth, const Tile& tile)
            : a(static_cast<const unsigned short*>(params.a) + tile.batch * params.a_strides.batch,
                params.a_strides.row, params.a_strides.col, params.m, depth, tile.row, 0,
                static_cast<int>(threadIdx.x)),
              b(static_cast<const unsigned short*>(params.b) + tile.batch * params.b_strides.batch,
                params.b_strides.col, params.b_strides.row, params.n, depth, tile.col, 0,
                static_cast<int>(threadIdx.x)) {}

        // The part of a stage that goes along with one of its kSteps steps; none with the last.
        template <bool kAligned>
        __device__ void copy(unsigned stage, int step) const {
            constexpr int kPasses = CopyA::kPasses + CopyB::kPasses;
            const int first = kPasses * step / (kSteps - 1), end = kPasses * (step + 1) / (kSteps - 1);
#pragma unroll
            for (int pass = first; pass < (step == kSteps - 1 ? first : end); ++pass) {
                if (pass < CopyA::kPasses)
                    a.template copy_pass<kAligned>(pass, stage);
                else
                    b.template copy_pass<kAligned>(pass - CopyA::kPasses, stage + CopyA::kBytes);
            }
        }
        __device__ void commit() {
            cp_async_commit_group();
            a.advance();
            b.advance();
        }
    };

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
    static __device__ void start(Copies& copies) {
        const unsigned first = shared_address(dynamic_shared());
#pragma unroll 1
        for (int stage = 0; stage < Config::kStages - 1; ++stage) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) copies.template copy<kAligned>(first + stage * kStageBytes, step);
            copies.commit();
        }
    }

    // While step k is multiplied, the copies of step k + kStages - 1 go into the stage that step k - 1 was read from, and the
    // fragments run one k16 step ahead.
    template <bool kAligned>
    static __device__ void accumulate(Copies& copies, i64 depth, float (&d)[kBlocksDown][4 * kBlocksAcross]) {
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
                    copies.commit();
                    cp_async_wait_group<Config::kStages - 2>();
                    __syncthreads();
                    read = next(read);
                    write = next(write);
                }
                load(fragments[(step + 1) % 2], read, (step + 1) % kSteps);
                copies.template copy<kAligned>(write, step);
                multiply(d, fragments[step % 2]);
            }
        }
        cp_async_wait_group<0>();  // copies past the end of K, of zeros
        __syncthreads();           // before the next tile's
    }

    static __device__ void finish(const GemmParams& params, const Scalars& scalars, const Tile& tile,
                                  const float (&d)[kBlocksDown][4 * kBlocksAcross]) {
        float* const part = reinterpret_cast<float*>(dynamic_shared() + threadIdx.x / 32 * Strip::kBytes);
        Largest<Config> largest;
#pragma unroll
        for (int i = 0; i < kBlocksDown; ++i) {
            const i64 row = tile.row + warp_row() + 16 * i, col = tile.col + warp_col();
            if constexpr (kStaged)
                Strip::finish(params, scalars, d[i], part, tile.batch, row, col, largest);
            else
                finish_strip<Config, kBlocksAcross>(params, scalars, d[i], tile.batch, row, col, largest);
        }
        largest.publish(params);
        if (kStaged) __syncthreads();  // before the next tile's copies
    }
};

// Blocks take tile after tile. The first copies of the next tile are asked for before this one is stored, unless the
// store goes through shared memory.
template <class Config, bool kAligned>
__device__ void v5_tiles(const GemmParams& params, const Scalars& scalars, i64 depth) {
    using Kernel = V5<Config>;
    const LinearTiles<Config::kBM, Config::kBN> walk(params.m, params.n, params.batch);
    Tile tile = walk.at(blockIdx.x);
    typename Kernel::Copies copies(params, depth, tile);
    if (depth > 0) Kernel::template start<kAligned>(copies);
    for (i64 index = blockIdx.x; index < walk.count; index += gridDim.x) {
        float d[Kernel::kBlocksDown][4 * Kernel::kBlocksAcross] = {};
        if (depth > 0) Kernel::template accumulate<kAligned>(copies, depth, d);
        const Tile done = tile;
        if (Kernel::kStaged) Kernel::finish(params, scalars, done, d);
        if (index + gridDim.x < walk.count) {
            tile = walk.at(index + gridDim.x);
            copies = typename Kernel::Copies(params, depth, tile);
            if (depth > 0) Kernel::template start<kAligned>(copies);
        }
        if (!Kernel::kStaged) Kernel::finish(params, scalars, done, d);
    }
}

template <class Config>
__device__ void v5_mma(const GemmParams& params) {
    using Kernel = V5<Config>;
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 depth = depth_of(params, scalars);
    const Strided &as = params.a_strides, &bs = params.b_strides;
    const bool aligned = Kernel::CopyA::aligned(params.a, as.row, as.col, as.batch, params.m, params.k) &&
                         Kernel::CopyB::aligned(params.b, bs.col, bs.row, bs.batch, params.n, params.k);
    aligned ? v5_tiles<Config, true>(params, scalars, depth) : v5_tiles<Config, false>(params, scalars, depth);
}

}  // namespace carat_kernel
