// SPDX-License-Identifier: Apache-2.0
// tile_walk.h: the order in which clusters take the tiles of D, worked out by the host and read by kernels from their
// parameters, where it takes no registers. Clusters walk strips of so many tiles, every second strip backwards: the 66
// clusters of 256 x 256 that run together on an H200 cover, in strips of 8, about 2048 x 2112 elements and share as many
// lines of A as of B. Row by row they would cover 256 x 16896: a whole B for a line of tiles, again and again from memory.
#pragma once

#include <shared/gemm_params.h>

namespace carat_shared {

// Of a cluster's tile: its line and its step along the strips, from which along_n says which is the row.
struct TilePlace {
    int row, col, batch;  // in tiles of a cluster
};

constexpr TileWalk make_tile_walk(i64 m, i64 d_cols, i64 batch, int cluster_rows, int cluster_cols, int strip) {
    const int down = static_cast<int>((m + cluster_rows - 1) / cluster_rows);
    const int across = static_cast<int>((d_cols + cluster_cols - 1) / cluster_cols);
    const bool along_n = strip > 0;
    const int lines = along_n ? down : across, width = along_n ? strip : -strip;
    return {lines, along_n ? across : down, down * across * static_cast<int>(batch), width < lines ? width : lines,
            along_n};
}

// Unsigned: a division is half as long.
constexpr TilePlace tile_place(const TileWalk& walk, unsigned index) {
    const unsigned lines = walk.lines, steps = walk.steps, matrix = lines * steps;
    const unsigned batch = index / matrix, in_matrix = index - batch * matrix;
    const unsigned whole = walk.strip * steps, strip = in_matrix / whole, in_strip = in_matrix - strip * whole;
    const unsigned top = strip * walk.strip, left = lines - top,
                   height = left < unsigned(walk.strip) ? left : walk.strip;
    const unsigned forward = in_strip / height, line = top + in_strip - forward * height;
    const unsigned along = strip % 2 == 0 ? forward : steps - 1 - forward;
    return {int(walk.along_n ? line : along), int(walk.along_n ? along : line), int(batch)};
}

}  // namespace carat_shared
