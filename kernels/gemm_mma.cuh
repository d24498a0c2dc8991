// SPDX-License-Identifier: Apache-2.0
// gemm_mma.cuh: GEMM of 16-bit operands by the warp-wide instruction of the tensor cores, mma.sync: the kernel for GPUs
// before Hopper (sm_80 to sm_89), and for what Hopper's own kernels do not take.
// The pipeline is that of rung 5 of the ladder, in tiles from 32 x 128 to 128 x 256 that are chosen with the problem.
// Persistent blocks walk in an order that keeps L2 useful. A plain epilogue goes from registers straight to D; any other
// through shared memory, in which the tile takes the place of the stages.
#pragma once

#include <epilogue/fragment.cuh>
#include <epilogue/staged.cuh>
#include <epilogue/staged_tile.cuh>
#include <mainloop/mma_pipeline.cuh>
#include <scheduler/strip_tiles.cuh>

namespace carat_kernel {

// Config: that of the pipeline, kTM: rows of a warp, and the epilogue's constants.
template <class Config>
struct GemmMma : MmaPipeline<Config, Config::kTM> {
    using Pipeline = MmaPipeline<Config, Config::kTM>;
    using Staged = StagedTile<Config>;
    // The host asks the same (dispatch/rows_gemm_mma.cpp), for stages enough.
    static constexpr bool kStaged =
        wants_staging<Config>() || Config::kGate != kGateNone || type_bytes(Config::kTypeD) == 1;
    static_assert(!kStaged || Staged::kBytes <= Config::kStages * Pipeline::kStageBytes, "it takes the stages' place");

    static __device__ void finish(const GemmParams& params, const Scalars&, const Tile& tile,
                                  const typename Pipeline::Accumulators& d) {
        // Again, and not kept: the loop over K has no register to spare.
        const Scalars scalars = load_scalars<Config>(params.epilogue);
        const int row = Pipeline::warp_row(), col = Pipeline::warp_col();
        Largest<Config> largest;
        if constexpr (kStaged) {
            float* const staged = reinterpret_cast<float*>(dynamic_shared());
#pragma unroll
            for (int i = 0; i < Pipeline::kBlocksDown; ++i)
                Staged::template put_strip<Pipeline::kBlocksAcross>(staged, d[i], row + 16 * i, col);
            __syncthreads();
            Staged::finish(params, scalars, staged, tile, largest);
            __syncthreads();  // before the next tile's copies
        } else {
#pragma unroll
            for (int i = 0; i < Pipeline::kBlocksDown; ++i)
                finish_strip<Config, Pipeline::kBlocksAcross>(params, scalars, d[i], tile.batch,
                                                              tile.row + row + 16 * i, tile.col + col, largest);
        }
        largest.publish(params);
    }
};

template <class Config>
__device__ void gemm_mma(const GemmParams& params) {
    const i64 cols = Config::kGate == kGateNone ? params.n : params.n / 2;
    mma_gemm<GemmMma<Config>, Config>(params, StripTiles<Config::kBM, Config::kBN>(params.m, cols, params.batch));
}

}  // namespace carat_kernel
