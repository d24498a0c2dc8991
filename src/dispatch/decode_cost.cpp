// SPDX-License-Identifier: Apache-2.0
#include "dispatch/decode_cost.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch/ladder.hpp"
#include "dispatch/wgmma_kernel.hpp"
#include "dispatch/ws_tiles.hpp"

namespace carat {
namespace {

// The parameters decode_... are fitted to 2794 timings of 104 problems (1 to 256 columns, ten layers of models) on two H200s, of which
// the median error is 3.9 %, and the configuration that it would choose is within 5 % of the best measured for 84 % of the problems.
constexpr int64_t kMostTokens = 256;
constexpr int kWgmmaDepth = 16;  // of K

double power(double x, int n) {
    return n == 1 ? x : x * power(x, n - 1);
}

// Clocks of a stage: the longest of four, and some of the others. Copies write shared memory, and the products of each strip of 64
// rows read all of B's columns; the copy engine takes its time for a box, however small; and a ring of few stages waits for memory.
double step_clk(const Problem& p, const Config& c, const CostParameters& cost) {
    const double strips = double(ceil_div(c.bm, kStripRows));
    const double math = cost.decode_math * strips * (c.bk / kWgmmaDepth) * std::max(c.bn / 2.0, 16 + c.bn / 4.0);
    const double lines = c.bm + c.bn + strips * (kStripRows + c.bn);
    const double bytes = 2.0 * c.bk * lines / cost.decode_bytes_per_clk;
    const double boxes = cost.decode_box_clk * boxes_of_stage(p, c);
    const double latency = cost.decode_latency_clk / c.stages;
    return std::pow(power(math, 5) + power(bytes, 5) + power(boxes, 5) + power(latency, 5), 0.2);
}

}  // namespace

Weights weights_of(const Problem& p) {
    if (p.epilogue.gate != CARAT_GATE_NONE) return Weights::none;
    if (p.n <= kMostTokens && p.m >= 4 * p.n) return Weights::a;
    if (p.m <= kMostTokens && p.n >= 4 * p.m) return Weights::b;
    return Weights::none;
}

bool gains_from_room_beside(const Problem& p, const Config& c) {
    constexpr int64_t kShort = 256 << 10;  // of a block
    const Weights weights = weights_of(p);
    const int64_t lines = weights == Weights::a ? c.bm : weights == Weights::b ? c.bn : 0;
    return lines > 0 && ws_cluster_blocks(c) == 1 && 2 * lines * p.k <= kShort;
}

Prediction decode_predict(const Problem& p, const Config& c, const Target& target) {
    const CostParameters& cost = target.cost;
    const bool rows = weights_of(p) == Weights::a;  // are weights
    const int blocks = ws_cluster_blocks(c), parts = parts_in_cluster(c);
    const double tiles = double(ceil_div(ws_clusters(p, c), running_clusters(target, blocks)));
    const double across = double(rows ? ceil_div(p.n, c.bn * c.cluster_n) : ceil_div(p.m, c.bm * c.cluster_m));
    const double steps = double(ceil_div(ceil_div(p.k, c.bk), parts));
    const double sustained = target.rate_tflops(p.a.dtype, p.b.dtype, p.compute) * 1e6 / (4096.0 * target.units);

    const double even = double(rows ? p.m : p.n) * double(p.entries()) * across / target.units;
    const double uneven = std::max(tiles * (rows ? c.bm : c.bn) / parts / std::max(even, 1.0), 1.0);
    const double stream_us = std::max(floor_of(p, target, p.has_c()).memory_us - cost.decode_floor_start_us, 0.0) *
                             std::pow(uneven, cost.decode_uneven) * (1 + cost.decode_again * (across - 1));
    const double steps_us = tiles * steps * step_clk(p, c, cost) / (sustained * cost.decode_clock);
    const double both_us = std::cbrt(power(stream_us, 3) + power(steps_us, 3));

    const double squares = std::min(ceil_div(c.bm, kStripRows), int64_t(2)) * c.bn / 64.0;
    const double exchange_us = parts > 1 ? cost.decode_exchange_us * (parts - 1) / parts * squares : 0;
    const double drain_us = c.bm % kStripRows != 0 ? cost.decode_drain_us * c.bn / 64 : 0;
    const double around_us =
        cost.decode_start_us + cost.decode_tile_us * (tiles - 1) + (blocks > 1 ? cost.decode_cluster_us : 0) +
        ((rows ? c.cluster_m : c.cluster_n) > 1 ? cost.decode_shared_b_us : 0) + exchange_us + drain_us;
    const bool beside = gains_from_room_beside(p, c) && blocks_of_sm(p, c, ws_block(c), target) == 2;
    const double beside_us = beside ? cost.decode_beside_us : 0;
    const double us = std::max(both_us + around_us - beside_us, target.launch_us);
    return {us, stream_us >= steps_us ? "memory" : "the steps of its mainloop"};
}

}  // namespace carat
