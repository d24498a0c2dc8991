// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_ws.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch/ladder.hpp"
#include "dispatch/wgmma_kernel.hpp"

namespace carat {
namespace {

constexpr const char* kFamily = "sm90_ws";
constexpr int kStripRows = 64;  // of D: one wgmma
constexpr int kMaxStages = 12;
constexpr size_t kCandidates = 16;

// ---------------------------------------------------------------- what it takes

void require(const Problem& p, const Target& target, Requirements& r) {
    require_16bit_gemm(p, target, 90, r);
    r.require(target.cc_major == 9 && target.cc_minor == 0,
              "its instructions (wgmma) exist in compute capability 9.0 alone, but {} has {}.{}", target.name,
              target.cc_major, target.cc_minor);
}

// ---------------------------------------------------------------- configurations

// Rows of a tile, how consumers share it, and the columns to choose from. The accumulators of a consumer, rows x columns /
// 128 of a thread, end at 208: more spill.
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
        {128, true, {64, 96, 128, 160, 192}},
    };
    return all;
}
constexpr int kClusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}};

WgmmaBlock block_of(const Config& config) {
    WgmmaBlock block;
    block.pingpong = config.pingpong;
    block.consumers = !config.pingpong && config.bm == 192 ? 3 : 2;
    block.strips = config.bm / kStripRows / (config.pingpong ? 1 : block.consumers);
    return block;
}

// As many as fit, or none.
int stages_of(const Problem& p, Config config, const Target& target) {
    config.stages = 1;
    const int64_t stores = block_of(config).consumers * kStoreBytes;
    const int64_t one = wgmma_shared_bytes(p, config, block_of(config), 0);
    const int64_t fit = (target.shared_bytes_per_block - stores - 16) / one;
    return int(std::min<int64_t>(fit, kMaxStages));
}

// The operand's own tile, or the part of it that a block of a cluster loads, must be whole boxes.
bool divides(const Problem& p, const Config& c) {
    const int pieces = p.epilogue.gate == CARAT_GATE_SPLIT ? 2 : 1;
    const int box_a = p.a.order == CARAT_ROW_MAJOR ? 8 : 64, box_b = p.b.order == CARAT_COL_MAJOR ? 8 : 64;
    if (c.bm % (box_a * c.cluster_n) != 0) return false;
    return pieces * c.cluster_m == 1 || c.bn % (box_b * c.cluster_m * pieces) == 0;
}

bool suits(const Problem& p, const Config& c) {
    const bool gated = p.epilogue.gate != CARAT_GATE_NONE;
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
    const int64_t down = ceil_div(p.m, rows), across = ceil_div(p.d_cols(), tile_cols(p, c) * c.cluster_n);
    const int64_t together = std::clamp<int64_t>(target.units / (c.cluster_m * c.cluster_n), 1, down * across);
    int best = 1;
    double least = INFINITY;
    const auto consider = [&](int64_t width, int64_t lines, int64_t length, int64_t line, int64_t step, int sign) {
        width = std::min(width, lines);
        // What the clusters of a wave touch, and how often the whole of the other operand is walked.
        const int64_t strips = ceil_div(together, width * length);
        const double wave = double(std::min(strips * width, lines) * line +
                                   std::min(ceil_div(together, width), length) * step);
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

// ---------------------------------------------------------------- cost

struct Times {
    double math = 0, shared = 0, l2 = 0, copies = 0;  // us of a step
    double most() const { return std::max({math, shared, l2, copies}); }
    const char* bound() const {
        if (most() == math) return "tensor cores";
        if (most() == copies) return "copies by threads, for want of 16-byte pitches";
        return most() == l2 ? "L2" : "shared memory";
    }
};

// A step of K of one block, in us, where the SM's clock is that of the sustained rate.
Times step_times(const Problem& p, const Config& c, const Target& target, double clk_per_us) {
    constexpr double kPortBytes = 128, kStepsOfWgmma = 4;
    const double strips = double(c.bm) / kStripRows;
    const double l2_bytes_per_us =
        target.l2_tb_per_s > 0 ? target.l2_tb_per_s * 1e6 / target.units : kH200L2BytesPerClk * clk_per_us;
    const BulkMaps maps = bulk_maps(p, c, false);
    Times times;
    // m64nN takes max(N / 2, 16 + N / 4) clocks (measured).
    times.math = strips * kStepsOfWgmma * std::max(c.bn / 2.0, 16 + c.bn / 4.0) / clk_per_us;
    times.shared = (c.bm + strips * c.bn) * 128.0 / kPortBytes / clk_per_us;
    times.l2 = (double(c.bm) / c.cluster_n + double(c.bn) / c.cluster_m) * 128 / l2_bytes_per_us;
    const double copied = (maps.a ? 0 : c.bm) + (maps.b ? 0 : c.bn);
    times.copies = copied * kElementCopyClk / clk_per_us;
    return times;
}

Prediction predict(const Problem& p, const Config& c, const Target& target) {
    constexpr double kStartUs = 1.6, kFillClk = 1500, kClusterClk = 500, kBarrierClk = 60;
    const Floor floor = floor_of(p, target, p.has_c());
    const int units = std::max(target.units, 1), blocks = c.cluster_m * c.cluster_n;
    const double clk_per_us = target.rate_tflops(p.a.dtype, p.b.dtype, p.compute) * 1e6 / (4096.0 * units);
    const double tiles = double(ceil_div(clusters_of(p, c), std::max(units / blocks, 1)));
    const double steps = double(ceil_div(p.k, c.bk));
    const Times times = step_times(p, c, target, clk_per_us);
    const double step_us = times.most() + kBarrierClk / clk_per_us;
    // A store hides behind the other consumer's products: all of it in turn, about half where they work together.
    const double store_us = (c.bm * c.bn / 64.0 + 500) / clk_per_us;
    const double hidden = c.pingpong ? 0.9 : 0.5;
    const double around_us = store_us + (tiles - 1) * store_us * (1 - hidden) +
                             (kFillClk + (blocks > 1 ? kClusterClk : 0)) / clk_per_us + kStartUs;
    const double compute = tiles * steps * step_us + around_us, memory = floor.memory_us + around_us;
    return memory > compute ? Prediction{memory, "memory"} : Prediction{compute, times.bound()};
}

// ---------------------------------------------------------------- prepare

std::vector<Config> candidates(const Problem& p, const Target& target) {
    std::vector<std::pair<double, Config>> ranked;
    for (Config& config : ws_configs(p, target)) {
        const double us = predict(p, config, target).us;
        ranked.emplace_back(us, std::move(config));
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    if (ranked.size() > kCandidates) ranked.resize(kCandidates);
    std::vector<Config> configs;
    for (auto& [us, config] : ranked) configs.push_back(std::move(config));
    return configs;
}

Result<std::unique_ptr<Executable>> prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_wgmma(p, config, runtime, {"gemm_ws.cuh", "carat_kernel::gemm_ws", true, true}, block_of(config));
}

}  // namespace

std::vector<Config> ws_configs(const Problem& p, const Target& target) {
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
                if (!bulk && (!alone || block_of(c).consumers != 2 || c.bm * c.bn > 128 * 256)) continue;
                if (c.stages < 2 || !suits(p, c)) continue;
                // Blocks without a tile of their own are for nothing.
                if (!alone && (p.m <= c.bm * (c.cluster_m - 1) || p.d_cols() <= tile_cols(p, c) * (c.cluster_n - 1)))
                    continue;
                // Tiles have 32-bit numbers.
                if (clusters_of(p, c) * c.cluster_m * c.cluster_n > INT32_MAX) continue;
                c.strip = best_strip(p, c, target);
                configs.push_back(std::move(c));
            }
    return configs;
}

const Row kRowWs = {kFamily,
                    "Hopper's tensor cores (wgmma) by a warp-specialised, persistent kernel with slots (f16, bf16).",
                    "kernels/gemm_ws.cuh",
                    CARAT_BACKEND_CUDA,
                    require,
                    candidates,
                    predict,
                    prepare};

}  // namespace carat
