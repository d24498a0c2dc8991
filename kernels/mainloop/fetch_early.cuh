// SPDX-License-Identifier: Apache-2.0
// fetch_early.cuh: the begin of what a block alone reads (weights, in decode) on its way to L2 before the
// kernels before this one have ended: memory then has something to do while they end and this one starts. It is safe whatever
// they write, for L2 is where their stores go, too. Of K-major operands, whose rows are contiguous: 20 to 30 clocks for each
// 128 bytes of a box of the copy engine would be too slow.
#pragma once

#include <mainloop/stages.cuh>
#include <ptx/prefetch.cuh>
#include <scheduler/work_items.cuh>

namespace carat_kernel {

// kFillThreads threads; of `rows` rows from `first` on, below `end`, the elements of `steps`.
template <class Config>
__device__ void fetch_rows_early(const void* operand, i64 row_stride, i64 place, int first, int rows, int end,
                                 i64 depth, StepRange steps, int bytes_of_row) {
    const i64 k = i64(steps.first) * Config::kBK;
    const i64 of_steps = i64(steps.count) * Config::kBK, left = of_steps < depth - k ? of_steps : depth - k;
    const int bytes = static_cast<int>(2 * left < bytes_of_row ? 2 * left : bytes_of_row) / 16 * 16;
    if (bytes <= 0) return;
    const char* const begin = static_cast<const char*>(operand) + 2 * (place + k);
    for (int row = first + static_cast<int>(threadIdx.x); row < first + rows && row < end; row += Config::kFillThreads)
        prefetch_run_to_l2(begin + 2 * row * row_stride, static_cast<unsigned>(bytes));
}

// The block's first item, so many bytes of each row (params.early_bytes).
template <class Config, class Items>
__device__ void fetch_early(const BulkGemmParams& params, const Items& items) {
    if (params.early_bytes == 0 || items.first() >= items.count()) return;
    const WorkItem item = items.at(items.first());
    const RasterTile& tile = item.tile;
    if (item.steps.count <= 0) return;
    if (Config::kRowMajorA && params.once_a)
        fetch_rows_early<Config>(params.a, params.a_strides.row, tile.batch * params.a_strides.batch, tile.row,
                                 Config::kBM, static_cast<int>(params.m), params.k, item.steps, params.early_bytes);
    if (!Config::kRowMajorB && params.once_b)
        fetch_rows_early<Config>(params.b, params.b_strides.col, tile.batch * params.b_strides.batch,
                                 static_cast<int>(source_column<Config>(params, tile.col, 0)), Config::kBN,
                                 static_cast<int>(params.n), params.k, item.steps, params.early_bytes);
}

}  // namespace carat_kernel
