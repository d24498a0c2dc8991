// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_ws.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch/bulk_map.hpp"
#include "dispatch/ladder.hpp"
#include "dispatch/swapped.hpp"
#include "dispatch/wgmma_kernel.hpp"

namespace carat {
namespace {

constexpr const char* kFamily = "sm90_ws";
constexpr int kStripRows = 64;  // of D: one wgmma
// One stage is multiplied while another one is filled.
constexpr int kMinStages = 2, kMaxStages = 12;
constexpr size_t kCandidates = 16;

// ---------------------------------------------------------------- what it takes

void require(const Problem& p, const Target& target, Requirements& r) {
    require_16bit_gemm(p, target, 90, r);
    r.require(target.cc_major == 9 && target.cc_minor == 0,
              "its instructions (wgmma) exist in compute capability 9.0 alone, but {} has {}.{}", target.name,
              target.cc_major, target.cc_minor);
}

// ---------------------------------------------------------------- configurations

// Rows of a tile, how consumers share it, and the columns to choose from.
struct TileRows {
    int rows;
    bool pingpong;
    std::vector<int> cols;
};
const std::vector<TileRows>& tiles() {
    static const std::vector<TileRows> all = {
        {128, false, {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256}},
        {256, false, {64, 96, 128, 144, 160, 176, 192, 208}},
        {192, false, {128, 160, 192}},
        {64, true, {16, 32, 48, 64, 96, 128, 160, 192, 224, 256}},
        {128, true, {64, 96, 128, 144, 160, 176, 192, 208}},
    };
    return all;
}
constexpr int kClusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};

WgmmaBlock block_of(const Config& config) {
    WgmmaBlock block;
    block.pingpong = config.pingpong;
    block.consumers = !config.pingpong && config.bm == 192 ? 3 : 2;
    block.strips = config.bm / kStripRows / (config.pingpong ? 1 : block.consumers);
    return block;
}

// As many as fit, or none.
int stages_of(const Problem& p, Config config, const Target& target) {
    const WgmmaBlock block = block_of(config);
    config.stages = 0;
    const int64_t rest =
        wgmma_shared_bytes(p, config, block, store_bytes(p, config, block, residual_map(p).has_value()));
    config.stages = 1;
    const int64_t fit = (target.shared_bytes_per_block - rest) / wgmma_shared_bytes(p, config, block, 0);
    return int(std::min<int64_t>(fit, kMaxStages));
}

// The operand's own tile, or the part of it that a block of a cluster loads, must be whole boxes.
bool divides(const Problem& p, const Config& c) {
    const int pieces = p.epilogue.gate == CARAT_GATE_SPLIT ? 2 : 1;
    const int box_a = p.a.order == CARAT_ROW_MAJOR ? 8 : 64, box_b = p.b.order == CARAT_COL_MAJOR ? 8 : 64;
    if (c.bm % (box_a * c.cluster_n) != 0) return false;
    return pieces * c.cluster_m == 1 || c.bn % (box_b * c.cluster_m * pieces) == 0;
}

// Accumulators of a thread at most: C on its way, a maximum and the other half of a gate take registers, too, and what has
// more of them spills (a maximum with 208: 72 bytes, C and a bias with 208: 8, C and D of f32 with 192: 132). A bias from
// shared memory takes none that count, C from there few, if no GELU keeps the epilogue from being unrolled.
int most_accumulators(const Problem& p, const WgmmaBlock& block) {
    const carat_epilogue& e = p.epilogue;
    const bool gated = e.gate != CARAT_GATE_NONE;
    if (p.has_c() && gated) return block.consumers == 3 ? 0 : 112;
    const bool shared_c = residual_map(p) && e.activation != CARAT_ACT_GELU_ERF && bits(p.d.dtype) == 16;
    const bool more = (p.has_c() && !shared_c) || bits(p.d.dtype) == 8 || (gated && e.activation == CARAT_ACT_GELU_ERF);
    if (more) return 176;
    return p.has_c() || e.amax ? 192 : 208;
}

bool suits(const Problem& p, const Config& c) {
    const bool gated = p.epilogue.gate != CARAT_GATE_NONE;
    const WgmmaBlock block = block_of(c);
    if (block.strips * c.bn / 2 > most_accumulators(p, block)) return false;
    if (gated && c.bn % 32 != 0) return false;
    // A computed scale is of 128 columns of D, which one box must hold.
    if (p.epilogue.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128 && tile_cols(p, c) % 128 != 0) return false;
    // MN-major tiles are brought in boxes of 64: any other width is mostly wasted.
    if (p.b.order == CARAT_ROW_MAJOR && c.bn > 64 && c.bn % 64 != 0) return false;
    return divides(p, c);
}

int64_t clusters_of(const Problem& p, const Config& c) {
    const int64_t batch = p.mode == CARAT_SINGLE ? 1 : p.batch;
    return ceil_div(p.m, c.bm * c.cluster_m) * ceil_div(p.d_cols(), tile_cols(p, c) * c.cluster_n) * batch;
}

// The strip that lets the clusters that run together share most: least lines of A and of B in all. Strips lie along the
// dimension where fewer of them end within a wave.
int best_strip(const Problem& p, const Config& c, const Target& target) {
    const int64_t rows = c.bm * c.cluster_m, cols = c.bn * c.cluster_n;
    const int64_t down = std::max<int64_t>(ceil_div(p.m, rows), 1);
    const int64_t across = std::max<int64_t>(ceil_div(p.d_cols(), tile_cols(p, c) * c.cluster_n), 1);
    const int64_t together = std::clamp<int64_t>(target.units / (c.cluster_m * c.cluster_n), 1, down * across);
    int best = 1;
    double least = INFINITY;
    const auto consider = [&](int64_t width, int64_t lines, int64_t length, int64_t line, int64_t step, int sign) {
        // Strips of equal width: 15 of 16 would leave one of a single line.
        if (width > lines || width != ceil_div(lines, ceil_div(lines, width))) return;
        // What the clusters of a wave touch, and how often the whole of the other operand is walked.
        const int64_t strips = ceil_div(together, width * length);
        const double wave =
            double(std::min(strips * width, lines) * line + std::min(ceil_div(together, width), length) * step);
        const double walks = double(ceil_div(lines, width) * length * step + lines * line);
        const double cost = wave + walks * 1e-3;
        if (cost < least * (1 - 1e-9)) least = cost, best = sign * int(width);
    };
    for (int64_t width = 1; width <= 32; ++width) {
        consider(width, down, across, rows, cols, 1);
        consider(width, across, down, cols, rows, -1);
    }
    return best;
}

Config make_config(const Problem& p, const TileRows& rows, int cols, const int (&cluster)[2], const Target& target) {
    Config c = rung_config(kFamily, p, rows.rows, cols, kStageDepth);
    c.pingpong = rows.pingpong;
    c.cluster_m = cluster[0], c.cluster_n = cluster[1];
    c.stages = stages_of(p, c, target);
    return c;
}

// Every tile, form and cluster for a problem, in no order of tiles yet.
std::vector<Config> tilings(const Problem& p, const Target& target) {
    std::vector<Config> configs;
    const Config single = rung_config(kFamily, p, 64, 64, kStageDepth);
    const BulkMaps maps = bulk_maps(p, single, false);
    const bool bulk = maps.a && maps.b;
    for (const TileRows& rows : tiles())
        for (const int cols : rows.cols)
            for (const auto& cluster : kClusters) {
                Config c = make_config(p, rows, cols, cluster, target);
                const bool alone = c.cluster_m * c.cluster_n == 1;
                // Copies by threads need registers, and reach no other block.
                if (!bulk && (!alone || !threads_can_copy(p, c, block_of(c)))) continue;
                if (c.stages < kMinStages || !suits(p, c)) continue;
                // Blocks without a tile of their own are for nothing.
                if (!alone && (p.m <= c.bm * (c.cluster_m - 1) || p.d_cols() <= tile_cols(p, c) * (c.cluster_n - 1)))
                    continue;
                // Tiles have 32-bit numbers.
                if (clusters_of(p, c) * c.cluster_m * c.cluster_n > INT32_MAX) continue;
                configs.push_back(std::move(c));
            }
    return configs;
}

// ---------------------------------------------------------------- cost

// What a step of K of one block costs each pipe. Clocks and rates are fitted to two sweeps of 40 and 43 configurations over
// 55 problems on an H200 (docs/performance-notes.md); other GPUs are taken to scale with their sustained rate.
struct Step {
    double math_clk, shared_clk, copy_clk;
    double read_lines, requested_lines;  // of 128 bytes: from shared memory, from L2
};

Step step_of(const Problem& p, const Config& c) {
    constexpr double kWgmmasOfStep = 4;
    const double strips = double(c.bm) / kStripRows;
    const BulkMaps maps = bulk_maps(p, c, false);
    Step step;
    // m64nN takes max(N / 2, 16 + N / 4) clocks (measured), and reads all of B again for every 64 rows.
    step.math_clk = strips * kWgmmasOfStep * std::max(c.bn / 2.0, 16 + c.bn / 4.0);
    step.read_lines = c.bm + strips * c.bn;
    // Reads and the copies' writes share a port; that a write costs a third of a read is fitted.
    step.shared_clk = step.read_lines + 0.3 * (c.bm + c.bn);
    step.requested_lines = double(c.bm) / c.cluster_n + double(c.bn) / c.cluster_m;
    step.copy_clk = ((maps.a ? 0 : c.bm) + (maps.b ? 0 : c.bn)) * kElementCopyClk;
    return step;
}

// Clocks that the finished elements of a tile take of an SM, on their way from the accumulators to D.
double store_clk(const Problem& p, const Config& c) {
    constexpr double kBarriersClk = 1440, kDrainClk = 470;
    double of_element = 0.062;
    const carat_activation act = p.epilogue.activation;
    if (act == CARAT_ACT_GELU_ERF) of_element += 1 / 4.0;
    // Two special functions, of which an SM has 16 a clock.
    if (act == CARAT_ACT_GELU_TANH || act == CARAT_ACT_SILU || act == CARAT_ACT_SIGMOID) of_element += 1 / 8.0;
    // In bulk it is read from shared memory (not measured yet); else each pair of elements is a load of its own.
    if (p.has_c()) of_element += residual_map(p) ? 0.03 : 1 / 8.0;
    // Where a tile ends within a box of 128 bytes of D, threads write that one.
    const bool drains = tile_cols(p, c) * bits(c.d) / 8 % 128 != 0;
    return double(c.bm) * c.bn * of_element + kBarriersClk + (drains ? kDrainClk : 0);
}

// Two limits at once: the clock at which the SMs may run at most, and the power, which they reach with all tensor cores
// busy and then run slower. Of two that come close, both cost.
constexpr double kBoost = 1.04;  // the clock of a short run over that of the sustained rate
double together(double clocked, double powered) {
    return std::pow(std::pow(clocked, 5) + std::pow(powered, 5), 0.2);
}

// Clusters that run at once: those of four do not fill the GPCs.
int64_t running_clusters(const Target& target, int blocks) {
    return std::max(target.units / blocks - (blocks > 2 ? target.units / 100 : 0), 1);
}

Prediction predict_plain(const Problem& p, const Config& c, const Target& target) {
    constexpr double kStartUs = 0.2, kClusterUs = 1.07, kStepClk = 24, kL2BytesPerUs = 18.5e6;
    const Floor floor = floor_of(p, target, p.has_c());
    const int blocks = c.cluster_m * c.cluster_n;
    const int64_t clusters = clusters_of(p, c), running = running_clusters(target, blocks);
    const double sustained = target.rate_tflops(p.a.dtype, p.b.dtype, p.compute) * 1e6 / (4096.0 * target.units);
    const double clk_per_us = sustained * kBoost, tiles = double(ceil_div(clusters, running));
    const double steps = double(ceil_div(p.k, c.bk));
    const Step step = step_of(p, c);

    const double l2_us = step.requested_lines * 128 * target.units / kL2BytesPerUs;
    const double math_us = std::max({step.math_clk, step.shared_clk, step.copy_clk}) / clk_per_us;
    // A store hides behind the other consumer's products where they take turns, and in part where they work together.
    const double store_us = store_clk(p, c) / clk_per_us, shown_us = (c.pingpong ? 0.27 : 0.83) * store_us;
    // A lone consumer waits for each stage, with no other to fill the tensor cores meanwhile.
    const double wait_us = kStepClk * (c.pingpong && tiles < 2 ? 2 : 1) / clk_per_us;
    const double around_us = store_us + kStartUs + (blocks > 1 ? kClusterUs : 0);
    const double clocked = tiles * (steps * (std::max(math_us, l2_us) + wait_us) + shown_us) + around_us;
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

Prediction predict(const Problem& p, const Config& c, const Target& target) {
    if (!c.swapped) return predict_plain(p, c, target);
    const Problem other = swap_operands(p);
    return predict_plain(other, unswapped(c, other), target);
}

// ---------------------------------------------------------------- prepare

std::vector<Config> candidates(const Problem& p, const Target& target) {
    struct Ranked {
        double us;
        Config config;  // of the problem that the kernel runs
        bool swapped;
    };
    std::vector<Ranked> ranked;
    const bool both = can_swap(p);
    const Problem other = both ? swap_operands(p) : p;
    for (Config& config : tilings(p, target)) {
        const double us = predict_plain(p, config, target).us;
        ranked.push_back({us, std::move(config), false});
    }
    if (both)
        for (Config& config : tilings(other, target)) {
            const double us = predict_plain(other, config, target).us;
            ranked.push_back({us, std::move(config), true});
        }
    std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& x, const Ranked& y) { return x.us < y.us; });
    if (ranked.size() > kCandidates) ranked.resize(kCandidates);
    std::vector<Config> configs;
    for (auto& [us, config, is_swapped] : ranked) {
        config.strip = best_strip(is_swapped ? other : p, config, target);
        configs.push_back(is_swapped ? swapped(std::move(config), p) : std::move(config));
    }
    return configs;
}

// Any order of tiles, and any stages that fit.
bool has(const Problem& p, const Config& config, const Target& target) {
    if (config.swapped) {
        const Problem other = swap_operands(p);
        return can_swap(p) && has(other, unswapped(config, other), target);
    }
    const WgmmaBlock block = block_of(config);
    const int64_t stores = store_bytes(p, config, block, residual_map(p).has_value());
    const bool fits = wgmma_shared_bytes(p, config, block, stores) <= target.shared_bytes_per_block;
    if (config.strip == 0 || config.stages < kMinStages || !fits) return false;
    for (Config known : ws_configs(p, target)) {
        known.strip = config.strip, known.stages = config.stages;
        if (known == config) return true;
    }
    return false;
}

Result<std::unique_ptr<Executable>> prepare(const Problem& p, const Config& config, Runtime& runtime) {
    if (config.swapped) {
        const Problem other = swap_operands(p);
        CARAT_ASSIGN(auto executable, prepare(other, unswapped(config, other), runtime));
        return swap_operands(std::move(executable));
    }
    return prepare_wgmma(p, config, runtime, {"gemm_ws.cuh", "carat_kernel::gemm_ws", true, true}, block_of(config));
}

}  // namespace

std::vector<Config> ws_configs(const Problem& p, const Target& target) {
    std::vector<Config> configs = tilings(p, target);
    for (Config& config : configs) config.strip = best_strip(p, config, target);
    return configs;
}

const Row kRowWs = {kFamily,
                    "Hopper's tensor cores (wgmma) by a warp-specialised, persistent kernel with slots (f16, bf16).",
                    "kernels/gemm_ws.cuh",
                    CARAT_BACKEND_CUDA,
                    require,
                    candidates,
                    predict,
                    prepare,
                    has};

}  // namespace carat
