// SPDX-License-Identifier: Apache-2.0
// mma_cost.hpp: what a tile costs on the tensor cores' warp-wide instructions (wmma, mma.sync), fed from shared memory.
#pragma once

#include "dispatch/ladder.hpp"

namespace carat {

inline constexpr int kMmaLineBytes = 128;  // 64 elements of K or MN (kernels/mainloop/tile_copy.cuh)

// Accumulators of a warp and warps of a block.
struct WarpShape {
    int rows, cols, warps;
};
// cols_b: columns of B in the tile, twice those of D under a gate.
TileCost warp_mma_cost(const Config& config, const Target& target, int cols_b, const WarpShape& warp);

// What cp.async asks of A and B (TileCopy::aligned of kernels/mainloop/tile_copy.cuh); the addresses are not known yet.
bool has_whole_chunks(const Problem& problem);

}  // namespace carat
