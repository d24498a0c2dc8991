// SPDX-License-Identifier: Apache-2.0
// tile_bias.cuh: the bias of a warpgroup's part of a tile on its way to shared memory, where it is f32 and has no edges. Asked
// for before the tile's products and laid down beside the first of them, it costs the epilogue a load of a pair with no
// address to work out. Read from global memory, each element by the two lanes in eight that need it, it was six instructions
// an element and a wait for L1 in each box: 5 % of a 4096^3 product.
#pragma once

#include <epilogue/ops.cuh>
#include <ptx/block.cuh>

namespace carat_kernel {

template <class Config>
class TileBias {
    static constexpr bool kAlongN = Config::kBias == kBiasN;
    static constexpr int kCount = Config::kBias == kBiasNone ? 0 : kAlongN ? Config::kBN : 64 * Config::kTM;
    static constexpr int kEach = (kCount + kWarpgroupThreads - 1) / kWarpgroupThreads;  // of a thread

    float values[kEach ? kEach : 1];

  public:
    static constexpr int kBytes = kCount * 4;  // of shared memory

    // Along N, element i is that of column i of the tile's B; under a split gate its second half is of the right piece.
    // Beyond the extents it is 0. row: of D, the warpgroup's first; col: of D, the tile's first.
    __device__ TileBias(const GemmParams& params, int row, int col, int batch) {
        const i64 place = batch * params.epilogue.bias_batch;
#pragma unroll
        for (int turn = 0; turn < kEach; ++turn) {
            const int i = index(turn);
            constexpr int kPiece = Config::kGate == kGateSplit ? Config::kBN / 2 : Config::kBN;
            const i64 at =
                kAlongN ? source_column<Config>(params, col, 0) + i % kPiece + i / kPiece * (params.n / 2) : row + i;
            const bool inside = i < kCount && at < (kAlongN ? params.n : params.m);
            values[turn] = inside ? load_element<Config::kTypeBias>(params.epilogue.bias, place + at) : 0.0f;
        }
    }

    // All of the warpgroup, under a named barrier of its own. It must have read what lay there before.
    __device__ void lay_down(float* to, int barrier) const {
        if constexpr (kCount > 0) {
#pragma unroll
            for (int turn = 0; turn < kEach; ++turn)
                if (index(turn) < kCount) to[index(turn)] = values[turn];
            named_barrier<kWarpgroupThreads>(barrier);
        }
    }

  private:
    __device__ static int index(int turn) {
        return static_cast<int>(threadIdx.x % kWarpgroupThreads) + turn * kWarpgroupThreads;
    }
};

}  // namespace carat_kernel
