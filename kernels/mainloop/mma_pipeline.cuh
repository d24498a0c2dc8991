// SPDX-License-Identifier: Apache-2.0
// mma_pipeline.cuh: tiles of a product by mma.sync: cp.async brings 64 of K a stage into a ring in shared memory, ldmatrix
// takes fragments out of it one step ahead of the multiplication, and accumulators stay in registers. Blocks walk over
// tiles; what becomes of the accumulators is the kernel's.
// Config: kBM x kBN of D a block, kBK = 64, kStages, kThreads; kTypeA, kRowMajorA, kRowMajorB, kGate. A gate takes two
// columns of B for one of D: neighbours, or one from each half of B.
#pragma once

#include <epilogue/ops.cuh>
#include <mainloop/fragment_rows.cuh>
#include <mainloop/tile_copy.cuh>
#include <ptx/mma.cuh>
#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

// Warps are laid out over the tile in rows, each with kWarpRows rows.
template <class Config, int kWarpRows>
struct MmaPipeline {
    static_assert(Config::kBK == 64, "a line of shared memory holds 64 elements");
    static constexpr int kGated = Config::kGate == kGateNone ? 1 : 2;   // columns of B for one of D
    static constexpr int kRunsB = Config::kGate == kGateSplit ? 2 : 1;  // of columns that lie side by side
    static constexpr int kColsB = Config::kBN * kGated, kRunCols = kColsB / kRunsB;
    using CopyA = TileCopy<Config::kRowMajorA, Config::kBM, Config::kThreads>;
    using CopyB = TileCopy<!Config::kRowMajorB, kRunCols, Config::kThreads>;
    static constexpr int kStageBytes = CopyA::kBytes + kRunsB * CopyB::kBytes;
    static constexpr int kSteps = Config::kBK / 16;  // of an mma along K, in a stage
    static constexpr int kWarpsDown = Config::kBM / kWarpRows, kWarpsAcross = Config::kThreads / 32 / kWarpsDown;
    static constexpr int kBlocksDown = kWarpRows / 16,
                         kBlocksAcross = kColsB / kWarpsAcross / 8;  // mma blocks of a warp

    using Accumulators = float[kBlocksDown][4 * kBlocksAcross];
    struct Fragments {
        unsigned a[kBlocksDown][4], b[kBlocksAcross / 2][4];
    };

    // Where the warp stands among the tile's rows of A and columns of B.
    static __device__ int warp_row() { return static_cast<int>(threadIdx.x) / 32 / kWarpsAcross * kWarpRows; }
    static __device__ int warp_col() { return static_cast<int>(threadIdx.x) / 32 % kWarpsAcross * (kBlocksAcross * 8); }

    // Whether cp.async can bring both operands.
    static __device__ bool aligned(const GemmParams& params) {
        const Strided &as = params.a_strides, &bs = params.b_strides;
        return CopyA::aligned(params.a, as.row, as.col, as.batch, params.m, params.k) &&
               CopyB::aligned(params.b, bs.col, bs.row, bs.batch, params.n / kRunsB, params.k);
    }

    // A tile's operands on their way to the stages, 64 of K at a time.
    struct Copies {
        CopyA a;
        CopyB b;
        i64 to_second_run;  // of B's columns, if there are two

        __device__ Copies(const GemmParams& params, i64 depth, const Tile& tile)
            : a(static_cast<const unsigned short*>(params.a) + tile.batch * params.a_strides.batch,
                params.a_strides.row, params.a_strides.col, params.m, depth, tile.row, 0,
                static_cast<int>(threadIdx.x)),
              b(static_cast<const unsigned short*>(params.b) + tile.batch * params.b_strides.batch,
                params.b_strides.col, params.b_strides.row, params.n / kRunsB, depth, tile.col * (kGated / kRunsB), 0,
                static_cast<int>(threadIdx.x)),
              to_second_run(params.n / 2 * params.b_strides.col) {}

        // The part of a stage that goes along with one of its kSteps steps; none with the last.
        template <bool kAligned>
        __device__ void copy(unsigned stage, int step) const {
            constexpr int kPasses = CopyA::kPasses + kRunsB * CopyB::kPasses;
            const int first = kPasses * step / (kSteps - 1), end = kPasses * (step + 1) / (kSteps - 1);
#pragma unroll
            for (int pass = first; pass < (step == kSteps - 1 ? first : end); ++pass) {
                constexpr int kSecondRun = CopyA::kPasses + CopyB::kPasses;
                if (pass < CopyA::kPasses)
                    a.template copy_pass<kAligned>(pass, stage);
                else if (kRunsB == 1 || pass < kSecondRun)
                    b.template copy_pass<kAligned>(pass - CopyA::kPasses, stage + CopyA::kBytes);
                else
                    b.template copy_pass<kAligned>(pass - kSecondRun, stage + CopyA::kBytes + CopyB::kBytes,
                                                   to_second_run);
            }
        }
        __device__ void commit() {
            cp_async_commit_group();
            a.advance();
            b.advance();
        }
    };

    static __device__ void multiply(Accumulators& d, const Fragments& fragments) {
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
    static __device__ void accumulate(Copies& copies, i64 depth, Accumulators& d) {
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
};

// Blocks take tile after tile of `walk`. The first copies of the next tile are asked for before this one is stored,
// unless the store goes through shared memory (Kernel::kStaged). Kernel: an MmaPipeline that can finish() a tile.
template <class Kernel, bool kAligned, class Walk>
__device__ void mma_tiles(const GemmParams& params, const Scalars& scalars, i64 depth, const Walk& walk) {
    using Index = decltype(Walk::count);  // as narrow as the walk's
    const Index step = static_cast<Index>(gridDim.x);
    Tile tile = walk.at(static_cast<Index>(blockIdx.x));
    typename Kernel::Copies copies(params, depth, tile);
    if (depth > 0) Kernel::template start<kAligned>(copies);
    for (Index index = static_cast<Index>(blockIdx.x); index < walk.count; index += step) {
        typename Kernel::Accumulators d = {};
        if (depth > 0) Kernel::template accumulate<kAligned>(copies, depth, d);
        const Tile done = tile;
        if (Kernel::kStaged) Kernel::finish(params, scalars, done, d);
        if (index + step < walk.count) {
            tile = walk.at(index + step);
            copies = typename Kernel::Copies(params, depth, tile);
            if (depth > 0) Kernel::template start<kAligned>(copies);
        }
        if (!Kernel::kStaged) Kernel::finish(params, scalars, done, d);
    }
}

template <class Kernel, class Config, class Walk>
__device__ void mma_gemm(const GemmParams& params, const Walk& walk) {
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 depth = depth_of(params, scalars);
    Kernel::aligned(params) ? mma_tiles<Kernel, true>(params, scalars, depth, walk)
                            : mma_tiles<Kernel, false>(params, scalars, depth, walk);
}

}  // namespace carat_kernel
