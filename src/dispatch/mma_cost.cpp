// SPDX-License-Identifier: Apache-2.0
#include "dispatch/mma_cost.hpp"

namespace carat {
namespace {

// Tensor cores, in FLOP a clock of an SM. On Hopper the warp-wide instructions reach 0.64 of the rate that wgmma has (ncu:
// a pipe that is 74 % busy does 0.47), and rung 5 uses 0.9 of that in its loop. Before Hopper they are the tensor cores'
// own rate.
struct TensorRate {
    double full, warp_wide;
};
TensorRate tensor_rate(const Target& target) {
    return target.cc_major >= 9 ? TensorRate{4096, 0.58 * 4096} : TensorRate{2048, 2048};
}

bool has_whole_chunks(const carat_matrix& x, Extents extents) {
    const int64_t contiguous = x.order == CARAT_ROW_MAJOR ? extents.cols : extents.rows;
    return contiguous % 8 == 0 && x.ld % 8 == 0 && x.batch_stride % 8 == 0;
}

}  // namespace

// Every warp reads its rows of A and columns of B from shared memory once for 64 of K, and every byte of a tile is
// written there once.
TileCost warp_mma_cost(const Config& config, const Target& target, int cols_b, const WarpShape& warp) {
    constexpr double kPortBytes = 128, kFirstLoadClk = 1500, kStartClk = 4000, kStoreBytesPerClk = 32;
    const double lines = config.bm + cols_b;
    const TensorRate rate = tensor_rate(target);
    TileCost cost;
    cost.math = "tensor cores";
    cost.flops_per_clk = rate.full;
    cost.math_clk = 2.0 * config.bm * cols_b * config.bk / rate.warp_wide;
    cost.global_bytes = lines * kMmaLineBytes;
    cost.shared_clk = (warp.warps * (warp.rows + warp.cols) + lines) * kMmaLineBytes / kPortBytes;
    cost.start_clk = kStartClk;
    cost.around_clk = kFirstLoadClk + double(config.bm) * config.bn * info(config.d).bits / 8 / kStoreBytesPerClk;
    return cost;
}

bool has_whole_chunks(const Problem& p) {
    // A gate of split halves copies each half of B's columns on its own.
    const int64_t cols = p.epilogue.gate == CARAT_GATE_SPLIT ? p.n / 2 : p.n;
    return has_whole_chunks(p.a, {p.m, p.k}) && has_whole_chunks(p.b, {p.k, cols});
}

}  // namespace carat
