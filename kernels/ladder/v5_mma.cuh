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
#include <mainloop/mma_pipeline.cuh>

namespace carat_kernel {

// Config: that of the pipeline, and the epilogue's constants.
template <class Config>
struct V5 : MmaPipeline<Config, 64> {
    using Pipeline = MmaPipeline<Config, 64>;
    static constexpr bool kStaged = wants_staging<Config>();
    using Strip = StagedStrip<Config, 8 * Pipeline::kBlocksAcross>;
    static_assert(Strip::kBytes * (Config::kThreads / 32) <= Config::kStages * Pipeline::kStageBytes,
                  "they take a stage's place");

    static __device__ void finish(const GemmParams& params, const Scalars& scalars, const Tile& tile,
                                  const typename Pipeline::Accumulators& d) {
        float* const part = reinterpret_cast<float*>(dynamic_shared() + threadIdx.x / 32 * Strip::kBytes);
        Largest<Config> largest;
#pragma unroll
        for (int i = 0; i < Pipeline::kBlocksDown; ++i) {
            const i64 row = tile.row + Pipeline::warp_row() + 16 * i, col = tile.col + Pipeline::warp_col();
            if constexpr (kStaged)
                Strip::finish(params, scalars, d[i], part, tile.batch, row, col, largest);
            else
                finish_strip<Config, Pipeline::kBlocksAcross>(params, scalars, d[i], tile.batch, row, col, largest);
        }
        largest.publish(params);
        if (kStaged) __syncthreads();  // before the next tile's copies
    }
};

template <class Config>
__device__ void v5_mma(const GemmParams& params) {
    mma_gemm<V5<Config>, Config>(params, LinearTiles<Config::kBM, Config::kBN>(params.m, params.n, params.batch));
}

}  // namespace carat_kernel
