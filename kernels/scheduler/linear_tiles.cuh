// SPDX-License-Identifier: Apache-2.0
// linear_tiles.cuh: output tiles numbered in one sequence over columns, rows and batch, dealt to the blocks in a
// grid-stride loop. One 64-bit number and grid.x alone (up to 2^31-1 blocks) know no limit on the batch or the extents,
// while grid.y and grid.z end at 65535.
#pragma once

#include <shared/gemm_params.h>

namespace carat_kernel {

using carat_shared::i64;

struct Tile {
    i64 row, col;  // of its first element
    i64 batch;
};

template <int kRows, int kCols>
struct LinearTiles {
    i64 down, across, count;

    __device__ LinearTiles(i64 rows, i64 cols, i64 batch)
        : down((rows + kRows - 1) / kRows), across((cols + kCols - 1) / kCols), count(down * across * batch) {}

    __device__ Tile at(i64 index) const {
        const i64 line = index / across;
        return {line % down * kRows, index % across * kCols, line / down};
    }
};

}  // namespace carat_kernel
