// SPDX-License-Identifier: Apache-2.0
#include "dispatch/decode_cost.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch/ladder.hpp"
#include "dispatch/ws_tiles.hpp"

namespace carat {
namespace {

// Fitted to 3662 timings of 88 problems (16 to 256 columns, eleven layers of models) on two H200s, of which the median error is
// 3 % for the configuration it would choose, and that is within 5 % of the best measured for 88 %.
constexpr double kFloorStartUs = 1.1;  // of a floor's time before its stream runs
constexpr double kStartUs = 1.54, kClusterUs = 1.12, kSharedBUs = 0.1;
constexpr double kTileUs = 1.17;     // of a block's each further tile
constexpr double kStepClk = 239;     // of a stage, however small
constexpr double kMathScale = 1.4;   // of wgmma's clocks, beside a stream from memory
constexpr double kBytesPerClk = 89;  // into an SM
constexpr double kUneven = 0.21;     // how much of an uneven share of the weights shows: others use what a block leaves
constexpr double kAgain = 0.2;       // of the time of the weights' bytes, for each further time that they are read
constexpr double kExchangeUs = 2.4;  // of the partial sums of 64 x 64 of a consumer, all but the block's own
constexpr double kDrainUs = 0.18;    // of 64 columns of a box that is not whole and leaves by threads
constexpr double kBesideUs = 0.8;    // less, where the next kernel's blocks find room beside
constexpr double kClock = 1.28;      // of a stream from memory over that of the sustained rate
constexpr int64_t kMostTokens = 256;
constexpr int kWgmmaDepth = 16;  // of K

double power(double x, int n) {
    return n == 1 ? x : x * power(x, n - 1);
}

// Clocks of a stage: the longest of three, and some of the others.
double step_clk(const Config& c) {
    const double strips = double(ceil_div(c.bm, kStripRows));
    const double math = kMathScale * strips * (c.bk / kWgmmaDepth) * std::max(c.bn / 2.0, 16 + c.bn / 4.0);
    const double bytes = 2.0 * c.bk * (c.bm + c.bn) / kBytesPerClk;
    return std::pow(power(math, 5) + power(bytes, 5) + power(kStepClk, 5), 0.2);
}

}  // namespace

Weights weights_of(const Problem& p) {
    if (p.epilogue.gate != CARAT_GATE_NONE) return Weights::none;
    if (p.n <= kMostTokens && p.m >= 4 * p.n) return Weights::a;
    if (p.m <= kMostTokens && p.n >= 4 * p.m) return Weights::b;
    return Weights::none;
}

Prediction decode_predict(const Problem& p, const Config& c, const Target& target) {
    const bool rows = weights_of(p) == Weights::a;  // are weights
    const int blocks = ws_cluster_blocks(c), parts = parts_in_cluster(c);
    const double tiles = double(ceil_div(ws_clusters(p, c), running_clusters(target, blocks)));
    const double across = double(rows ? ceil_div(p.n, c.bn * c.cluster_n) : ceil_div(p.m, c.bm * c.cluster_m));
    const double steps = double(ceil_div(ceil_div(p.k, c.bk), parts));
    const double sustained = target.rate_tflops(p.a.dtype, p.b.dtype, p.compute) * 1e6 / (4096.0 * target.units);

    const double even = double(rows ? p.m : p.n) * double(p.entries()) * across / target.units;
    const double uneven = std::max(tiles * (rows ? c.bm : c.bn) / parts / std::max(even, 1.0), 1.0);
    const double stream_us = std::max(floor_of(p, target, p.has_c()).memory_us - kFloorStartUs, 0.0) *
                             std::pow(uneven, kUneven) * (1 + kAgain * (across - 1));
    const double steps_us = tiles * steps * step_clk(c) / (sustained * kClock);
    const double both_us = std::cbrt(power(stream_us, 3) + power(steps_us, 3));

    const double squares = std::min(ceil_div(c.bm, kStripRows), int64_t(2)) * c.bn / 64.0;
    const double exchange_us = parts > 1 ? kExchangeUs * (parts - 1) / parts * squares : 0;
    const double drain_us = c.bm % kStripRows != 0 ? kDrainUs * c.bn / 64 : 0;
    const double around_us = kStartUs + kTileUs * (tiles - 1) + (blocks > 1 ? kClusterUs : 0) +
                             ((rows ? c.cluster_m : c.cluster_n) > 1 ? kSharedBUs : 0) + exchange_us + drain_us;
    const double beside_us = blocks_of_sm(p, c, ws_block(c), target) == 2 ? kBesideUs : 0;
    return {both_us + around_us - beside_us, stream_us >= steps_us ? "memory" : "the steps of its mainloop"};
}

}  // namespace carat
