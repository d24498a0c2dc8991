// SPDX-License-Identifier: Apache-2.0
// strip_tiles.cuh: the tiles of D for blocks that work alone, in the order of shared/tile_walk.h: strips of about 2048
// rows, so that the tiles that run together share as many lines of A as of B. 32-bit numbers: the host sees to it.
#pragma once

#include <shared/tile_walk.h>
#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

template <int kRows, int kCols>
struct StripTiles {
    static constexpr int kStripRows = 2048;
    carat_shared::TileWalk walk;
    int count;

    __device__ StripTiles(i64 rows, i64 cols, i64 batch)
        : walk(carat_shared::make_tile_walk(rows, cols, batch, kRows, kCols, kStripRows / kRows)), count(walk.count) {}

    __device__ Tile at(int index) const {
        const carat_shared::TilePlace place = carat_shared::tile_place(walk, index);
        return {i64(place.row) * kRows, i64(place.col) * kCols, place.batch};
    }
};

}  // namespace carat_kernel
