// SPDX-License-Identifier: Apache-2.0
// column_runs.cuh: the columns of D (over the batch) dealt to the blocks in one run each, all as long as can be: with a
// grain of one column they differ by one. A run is walked in tiles of nearly equal size, at most kTileCols columns of one
// batch entry. Where each column costs the same bytes of memory and no block waits for another, the longest run is the
// time: 4096 columns on 132 SMs are runs of 31 and 32, where tiles of 64 would leave half of the SMs without work.
#pragma once

#include <shared/gemm_params.h>

namespace carat_kernel {

using carat_shared::i64;

struct RunTile {
    int batch, col;  // of D, its first
    int cols;        // 0: there are no more
};

// kGrain: runs and tiles begin at multiples of it. Columns, over the batch, have 31 bits (the host sees to it): a division
// of 64 bits takes longer than it takes the first bytes to come.
template <int kTileCols, int kGrain>
class ColumnRuns {
    static constexpr int kTileGrains = kTileCols / kGrain;
    static_assert(kTileCols % kGrain == 0);

  public:
    // Of block `index` of `count`.
    __device__ ColumnRuns(i64 cols, i64 batch, unsigned index, unsigned count)
        : cols_(static_cast<int>(cols)), grains_((static_cast<unsigned>(cols) + kGrain - 1) / kGrain) {
        const unsigned all = grains_ * static_cast<unsigned>(batch), each = all / count, longer = all % count;
        const unsigned first = each * index + (index < longer ? index : longer);
        left_ = each + (index < longer ? 1 : 0);
        batch_ = batch == 1 ? 0 : first / grains_;
        grain_ = first - batch_ * grains_;
    }

    __device__ RunTile next() {
        const unsigned of_entry = grains_ - grain_, here = left_ < of_entry ? left_ : of_entry;
        if (here == 0) return {0, 0, 0};
        const unsigned tiles = (here - 1) / kTileGrains + 1, take = tiles == 1 ? here : (here - 1) / tiles + 1;
        const int col = static_cast<int>(grain_ * kGrain), cols = static_cast<int>(take * kGrain);
        const RunTile tile = {static_cast<int>(batch_), col, cols < cols_ - col ? cols : cols_ - col};
        left_ -= take;
        grain_ += take;
        if (grain_ == grains_) grain_ = 0, ++batch_;
        return tile;
    }

  private:
    int cols_;
    unsigned grains_;  // of a batch entry
    unsigned left_;
    unsigned batch_, grain_;
};

}  // namespace carat_kernel
