// SPDX-License-Identifier: Apache-2.0
// split_sums.h: where the sums of parts of K stand in the workspace, for the kernels that write and read them
// (mainloop/split_in_l2.cuh, reduce_splits.cuh), the host that sizes it, and tests. A slot holds a tile's f32 sums in strips of 64
// rows, as wgmma leaves them: 8 columns of B are 128 threads times 4 sums side by side, 2 KB that a warpgroup moves at once.
#pragma once

#include <shared/gemm_params.h>

namespace carat_shared {

constexpr int kStripThreads = 128;

// Quads of sums of a slot; cols: of B in a tile.
constexpr i64 slot_quads(int strips, int cols) {
    return i64(strips) * (cols / 8) * kStripThreads;
}

// The quad of a thread in 8 columns of a strip, from the begin of the slot on.
constexpr i64 quad_at(int strip, int cols, int eight, int thread) {
    return (i64(strip) * (cols / 8) + eight) * kStripThreads + thread;
}

// Words that say whose turn it is, of a tile: one of each warp, for its 16 rows of each strip.
constexpr int turns_of_tile(int consumers) {
    return consumers * 4;
}

}  // namespace carat_shared
