// SPDX-License-Identifier: Apache-2.0
#include "dispatch/ws_cost.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch/bulk_map.hpp"
#include "dispatch/decode_cost.hpp"
#include "dispatch/ladder.hpp"
#include "dispatch/split_k.hpp"
#include "dispatch/ws_tiles.hpp"

namespace carat {
namespace {

// What a step of K of one block costs each pipe. Clocks and rates, here and in data/devices/h200.json, are fitted to two sweeps
// of 40 and 43 configurations over 55 problems on an H200 (docs/performance-notes.md); other GPUs are taken to scale with their
// sustained rate.
struct Step {
    double math_clk, shared_clk, copy_clk;
    double read_lines, requested_lines;  // of 128 bytes: from shared memory, from L2
};

// Lines of L2 for one of a tile, 128 bytes: where the pitch is no multiple of them, it lies in two, which cost more than two
// whole ones (247 us at K = 4104 beside 176 at 4096, 128 x 256 without a cluster).
double lines_of(const carat_matrix& x) {
    return x.ld % 64 == 0 ? 1 : 2.7;
}

Step step_of(const Problem& p, const Config& c, const CostParameters& cost) {
    constexpr double kWgmmasOfStep = 4;
    const double strips = double(c.bm) / kStripRows;
    const BulkMaps maps = bulk_maps(p, c, false);
    Step step;
    // m64nN takes max(N / 2, 16 + N / 4) clocks (measured), and reads all of B again for every 64 rows.
    step.math_clk = strips * kWgmmasOfStep * std::max(c.bn / 2.0, 16 + c.bn / 4.0);
    step.read_lines = c.bm + strips * c.bn;
    // Reads and the copies' writes share a port; that a write costs a third of a read is fitted.
    step.shared_clk = step.read_lines + 0.3 * (c.bm + c.bn);
    step.requested_lines = lines_of(p.a) * c.bm / c.cluster_n + lines_of(p.b) * c.bn / c.cluster_m;
    // A line that threads copy: 9 clocks of the one operand (nn, N = 4097: 367 us), 13 of both (K = 4097: 772 us), measured.
    step.copy_clk = ((maps.a ? 0 : c.bm) + (maps.b ? 0 : c.bn)) * cost.ws_copy_clk;
    return step;
}

// Clocks that the finished elements of a tile take of an SM, on their way from the accumulators to D.
double store_clk(const Problem& p, const Config& c, const CostParameters& cost) {
    double of_element = 0.062;
    const carat_activation act = p.epilogue.activation;
    if (act == CARAT_ACT_GELU_ERF) of_element += 1 / 4.0;
    // Two special functions, of which an SM has 16 a clock.
    if (act == CARAT_ACT_GELU_TANH || act == CARAT_ACT_SILU || act == CARAT_ACT_SIGMOID) of_element += 1 / 8.0;
    // In bulk it is read from shared memory (not measured yet); else each pair of elements is a load of its own.
    if (p.has_c()) of_element += residual_map(p) ? 0.03 : 1 / 8.0;
    // Where a tile ends within a box of 128 bytes of D, threads write that one.
    const bool drains = tile_cols(p, c) * bits(c.d) / 8 % 128 != 0;
    return double(c.bm) * c.bn * of_element + cost.ws_barriers_clk + (drains ? cost.ws_drain_clk : 0);
}

// Two limits at once: the clock at which the SMs may run at most, and the power, which they reach with all tensor cores
// busy and then run slower. Of two that come close, both cost.
double together(double clocked, double powered) {
    const auto fifth = [](double x) { return x * x * x * x * x; };  // pow() was a tenth of the time of ranking
    return std::pow(fifth(clocked) + fifth(powered), 0.2);
}

}  // namespace

Prediction ws_predict(const Problem& p, const Config& c, const Target& target) {
    const Weights weights = weights_of(p);
    const bool k_major = weights == Weights::a ? p.a.order == CARAT_ROW_MAJOR : p.b.order == CARAT_COL_MAJOR;
    if (weights != Weights::none && k_major && bulk_maps(p, c, false).a && bulk_maps(p, c, false).b)
        return decode_predict(p, c, target);
    const CostParameters& cost = target.cost;
    const Floor floor = floor_of(p, target, p.has_c());
    const int blocks = ws_cluster_blocks(c);
    const int64_t clusters = ws_clusters(p, c), running = running_clusters(target, blocks);
    const double sustained = target.rate_tflops(p.a.dtype, p.b.dtype, p.compute) * 1e6 / (4096.0 * target.units);
    const double clk_per_us = sustained * cost.ws_boost;
    const double tiles = is_stream_k(c) ? double(clusters) / double(running) : double(ceil_div(clusters, running));
    const double steps = double(ceil_div(ceil_div(p.k, kStageDepth), parts_in_cluster(c)));
    const Step step = step_of(p, c, cost);

    const double l2_us = step.requested_lines * 128 * target.units / cost.ws_l2_bytes_per_us;
    const double math_us = std::max({step.math_clk, step.shared_clk, step.copy_clk}) / clk_per_us;
    // A store hides behind the other consumer's products where they take turns, and in part where they work together.
    const double store_us = store_clk(p, c, cost) / clk_per_us, shown_us = (c.pingpong ? 0.27 : 0.83) * store_us;
    // A lone consumer waits for each stage, with no other to fill the tensor cores meanwhile.
    const double wait_us = cost.ws_step_clk * (c.pingpong && tiles < 2 ? 2 : 1) / clk_per_us;
    const double around_us = store_us + cost.ws_start_us + (blocks > 1 ? cost.ws_cluster_us : 0);
    const double step_us = std::max(math_us, l2_us) + wait_us;
    const double clocked = tiles * (steps * step_us + shown_us) + around_us;
    // In clocks of the sustained rate, which is that of 128 x 256 tiles at the power limit. Wider products take more power
    // (5 % for 128 columns, measured and not explained), requests to L2 hardly any that can be seen.
    const double energy = 0.558 * (1 + 0.081 * (c.bn - 192) / 128.0) * step.math_clk + 0.0092 * step.requested_lines +
                          0.605 * step.read_lines;
    const double powered = double(clusters) * blocks * steps * energy / (sustained * target.units);
    // Measured and not explained: clusters of four are slower than the same tiles in twos, tiles of 64 rows than larger ones.
    const double compute = together(clocked, powered) * (blocks > 2 ? 1.1 : 1) * (c.bm == 64 ? 1.076 : 1);
    const double memory = floor.memory_us + around_us;
    if (memory > compute) return {memory, "memory"};
    const bool copies = step.copy_clk > step.math_clk;
    return {compute, copies            ? "copies by threads, for want of 16-byte pitches"
                     : l2_us > math_us ? "L2"
                                       : "tensor cores"};
}

}  // namespace carat
