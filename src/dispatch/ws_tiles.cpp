// SPDX-License-Identifier: Apache-2.0
#include "dispatch/ws_tiles.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch/bulk_map.hpp"
#include "dispatch/decode_cost.hpp"
#include "dispatch/ladder.hpp"

namespace carat {
namespace {

// One stage is multiplied while another one is filled.
constexpr int kMinStages = 2, kMaxStages = 24;

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
        {64, false, {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256}},
        {64, true, {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256}},
        {128, true, {64, 96, 128, 144, 160, 176, 192, 208}},
    };
    return all;
}
constexpr int kClusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};
constexpr int kMostRows = 256, kMostCols = 256;  // of a tile

}  // namespace

WgmmaBlock ws_block(const Config& config) {
    WgmmaBlock block;
    block.pingpong = config.pingpong;
    const int strips = int(ceil_div(config.bm, kStripRows));
    block.consumers = config.pingpong ? 2 : strips == 1 ? 1 : strips == 3 ? 3 : 2;
    block.strips = strips / (config.pingpong ? 1 : block.consumers);
    return block;
}

bool threads_read_c(const Problem& p) {
    const bool shared = residual_map(p) && p.epilogue.activation != CARAT_ACT_GELU_ERF && bits(p.d.dtype) == 16;
    return p.has_c() && !shared;
}

namespace {

// Whether the copy engine brings C to the boxes of D.
bool brings_c(const Problem& p, const Config& c) {
    return c.bm % kStripRows == 0 && parts_in_cluster(c) == 1 && residual_map(p).has_value();
}

// As many as fit, or none.
int stages_of(const Problem& p, Config config, int64_t shared_bytes) {
    const WgmmaBlock block = ws_block(config);
    const auto bytes_of = [&](int stages) {
        config.stages = stages;
        return wgmma_shared_bytes(p, config, block, store_bytes(p, config, block, brings_c(p, config)));
    };
    const int64_t fit = (shared_bytes - bytes_of(0)) / (bytes_of(1) - bytes_of(0));
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
    const bool more = threads_read_c(p) || bits(p.d.dtype) == 8 || (gated && e.activation == CARAT_ACT_GELU_ERF);
    if (more) return 176;
    return p.has_c() || e.amax ? 192 : 208;
}

// Whether the exchange of partial sums spills nothing. It does (16 bytes) of 80 accumulators where two consumers share the
// registers, of 40 where three do, and of 24 if there is a maximum, or a C for threads to read.
bool can_exchange(const Problem& p, const WgmmaBlock& block, int cols) {
    const int accumulators = block.strips * cols / 2;
    if (block.consumers == 3) return !p.has_c() && !p.epilogue.amax && accumulators <= 32;
    return accumulators <= (block.consumers == 2 ? 64 : 128);
}

bool suits(const Problem& p, const Config& c) {
    const bool gated = p.epilogue.gate != CARAT_GATE_NONE;
    const WgmmaBlock block = ws_block(c);
    constexpr int kMostColsOfThree = 192;  // they share the registers: with 224 they do not compile
    if (block.consumers == 3 && c.bn > kMostColsOfThree) return false;
    if (block.strips * c.bn / 2 > most_accumulators(p, block)) return false;
    if (gated && c.bn % 32 != 0) return false;
    if (c.bm % kStripRows != 0 && (p.a.order != CARAT_ROW_MAJOR || c.pingpong)) return false;
    if (c.split_k && (gated || c.pingpong || !can_exchange(p, block, c.bn))) return false;
    // A computed scale is of 128 columns of D, which one box must hold.
    if (p.epilogue.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128 && tile_cols(p, c) % 128 != 0) return false;
    // MN-major tiles are brought in boxes of 64: any other width is mostly wasted.
    if (p.b.order == CARAT_ROW_MAJOR && c.bn > 64 && c.bn % 64 != 0) return false;
    return divides(p, c);
}

}  // namespace

// Pairs fill an H200; its GPCs have 16 or 18 SMs, and of larger clusters so many fit (cuOccupancyMaxActiveClusters).
int running_clusters(const Target& target, int blocks) {
    constexpr int kOf132[] = {132, 66, 39, 30, 22, 17, 15, 15};
    const int most = blocks <= 8 ? kOf132[blocks - 1] : 0;
    return std::max(most * target.units / 132, 1);
}

int ws_cluster_blocks(const Config& c) {
    return c.cluster_m * c.cluster_n * parts_in_cluster(c);
}

int64_t ws_clusters(const Problem& p, const Config& c) {
    const int64_t batch = p.entries();
    return ceil_div(p.m, c.bm * c.cluster_m) * ceil_div(p.d_cols(), tile_cols(p, c) * c.cluster_n) * batch;
}

int ws_strip(const Problem& p, const Config& c, const Target& target) {
    const int64_t rows = c.bm * c.cluster_m, cols = c.bn * c.cluster_n;
    const int64_t down = std::max<int64_t>(ceil_div(p.m, rows), 1);
    const int64_t across = std::max<int64_t>(ceil_div(p.d_cols(), tile_cols(p, c) * c.cluster_n), 1);
    const int64_t together = std::clamp<int64_t>(target.units / ws_cluster_blocks(c), 1, down * across);
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

namespace {

Config make_config(const Problem& p, const TileRows& rows, int cols, const int (&cluster)[2], const Target& target,
                   int depth = kStageDepth) {
    Config c = rung_config(kWsFamily, p, rows.rows, cols, depth);
    c.pingpong = rows.pingpong;
    c.cluster_m = cluster[0], c.cluster_n = cluster[1];
    c.stages = stages_of(p, c, target.shared_bytes_per_block);
    return c;
}

}  // namespace

// The least part of an extent, in whole `granules`, of which so many clusters have each as many tiles.
int even_share(int64_t extent, int64_t clusters, int64_t tiles_each, int granule) {
    return int(ceil_div(ceil_div(extent, clusters * tiles_each), granule) * granule);
}

// Of K, in the blocks of a cluster: as many as add_even() offers.
constexpr int kParts[] = {1, 2, 3, 4, 5, 6, 8};

void add_if_new(const Problem& p, const Target& target, Config c, int weight_lines, std::vector<Config>& configs) {
    const auto add = [&] {
        if (c.stages >= kMinStages && suits(p, c) && std::find(configs.begin(), configs.end(), c) == configs.end())
            configs.push_back(c);
    };
    // Also in half of an SM's shared memory, where that is enough for what must be on its way, for the next kernel's sake.
    constexpr int64_t kOnItsWay = 60 << 10;
    constexpr int kFewStages = 4;
    c.stages = stages_of(p, c, half_of_shared(target));
    if (c.stages >= kFewStages && c.stages * 2 * weight_lines * c.bk >= kOnItsWay && gains_from_room_beside(p, c) &&
        blocks_of_sm(p, c, ws_block(c), target) == 2)
        add();
    c.stages = stages_of(p, c, target.shared_bytes_per_block);
    add();
}

// Stages as deep as keep them small: the copy engine needs some 130 clocks for a box, in which time an SM gets 2.5 KB from memory.
constexpr int kDepths[] = {kStageDepth, 2 * kStageDepth, 4 * kStageDepth};
bool suits_depth(int rows, int cols, int depth) {
    constexpr int kSmallStage = 96 * 128;  // elements
    return depth == kStageDepth || (rows + cols) * depth <= kSmallStage;
}
// Each part shall have two stages at least.
bool suits_parts(const Problem& p, int parts, int depth) {
    return parts == 1 || 2 * parts <= ceil_div(p.k, depth);
}

// The tile in one part of K or in several.
void add_tile(const Problem& p, const Target& target, const TileRows& rows, int cols, int parts, int weight_lines,
              std::vector<Config>& configs) {
    for (const int depth : kDepths) {
        if (!suits_depth(rows.rows, cols, depth) || !suits_parts(p, parts, depth)) continue;
        Config c = make_config(p, rows, cols, kClusters[0], target, depth);
        if (parts > 1) c.split_k = parts, c.split_form = SplitForm::cluster;
        add_if_new(p, target, std::move(c), weight_lines, configs);
    }
}

// In `across` tiles of `tokens`.
void add_shares(const Problem& p, const Target& target, Weights weights, int tokens, int64_t across,
                std::vector<Config>& configs) {
    const bool rows = weights == Weights::a;
    const int64_t extent = rows ? p.m : p.n;
    const int most = rows ? kMostRows : kMostCols, granule = rows ? 8 : 16;
    for (const int parts : kParts) {
        const int64_t clusters = std::max<int64_t>(running_clusters(target, parts) / across / p.entries(), 1);
        const int64_t fewest = ceil_div(extent, clusters * most);
        for (const int64_t tiles : {fewest, fewest + 1}) {
            const int even = even_share(extent, clusters, tiles, granule);
            add_tile(p, target, {rows ? even : tokens, false, {}}, rows ? tokens : even, parts, even, configs);
        }
    }
}

// Where the weights' bytes are the time, all SMs shall have as many: tiles of as many of their lines as deal them out evenly. For
// all tokens in one tile, or in two, for weights are read for each tile of tokens.
void add_even(const Problem& p, const Target& target, std::vector<Config>& configs) {
    const Weights weights = weights_of(p);
    if (weights == Weights::none) return;
    for (int64_t across = 1; across <= 2; ++across) {
        if (weights == Weights::a) {
            add_shares(p, target, weights, int(ceil_div(ceil_div(p.n, across), 16) * 16), across, configs);
        } else {
            const int64_t rows = ceil_div(p.m, across);
            add_shares(p, target, weights, int(ceil_div(rows, kStripRows) * kStripRows), across, configs);
            if (p.a.order == CARAT_ROW_MAJOR)  // fewer rows of A a stage leave room for more stages
                add_shares(p, target, weights, int(ceil_div(rows, 8) * 8), across, configs);
        }
    }
}

std::vector<Config> ws_tilings(const Problem& p, const Target& target) {
    std::vector<Config> configs;
    const Config single = rung_config(kWsFamily, p, 64, 64, kStageDepth);
    const BulkMaps maps = bulk_maps(p, single, false);
    const bool bulk = maps.a && maps.b;
    for (const TileRows& rows : tiles())
        for (const int cols : rows.cols)
            for (const auto& cluster : kClusters) {
                Config c = make_config(p, rows, cols, cluster, target);
                const bool alone = c.cluster_m * c.cluster_n == 1;
                // Copies by threads need registers, and reach no other block.
                if (!bulk && (!alone || !threads_can_copy(p, c, ws_block(c)))) continue;
                if (c.stages < kMinStages || !suits(p, c)) continue;
                // Blocks without a tile of their own are for nothing.
                if (!alone && (p.m <= c.bm * (c.cluster_m - 1) || p.d_cols() <= tile_cols(p, c) * (c.cluster_n - 1)))
                    continue;
                // Tiles have 32-bit numbers.
                if (ws_clusters(p, c) * c.cluster_m * c.cluster_n > INT32_MAX) continue;
                configs.push_back(std::move(c));
            }
    if (bulk) add_even(p, target, configs);
    return configs;
}

bool ws_lone_tile(const Problem& p, const Config& c) {
    const BulkMaps maps = bulk_maps(p, c, false);
    Config tile = rung_config(kWsFamily, p, c.bm, c.bn, c.bk);
    tile.cluster_m = tile.cluster_n = 1;
    tile.split_k = c.split_k, tile.split_form = c.split_form, tile.stages = c.stages, tile.strip = c.strip;
    if (!(tile == c) || !maps.a || !maps.b) return false;
    const int parts = parts_in_cluster(c);
    const bool in_cluster =
        c.split_form == SplitForm::none || std::find(std::begin(kParts), std::end(kParts), parts) != std::end(kParts);
    const bool known_depth = std::find(std::begin(kDepths), std::end(kDepths), c.bk) != std::end(kDepths);
    return in_cluster && known_depth && c.bm > 0 && c.bm % 8 == 0 && c.bm <= kMostRows && c.bn > 0 && c.bn % 16 == 0 &&
           c.bn <= kMostCols && suits_depth(c.bm, c.bn, c.bk) && suits_parts(p, parts, c.bk) && suits(p, c);
}

std::vector<Config> ws_configs(const Problem& p, const Target& target) {
    std::vector<Config> configs = ws_tilings(p, target);
    for (Config& config : configs) config.strip = ws_strip(p, config, target);
    return configs;
}

bool ws_fits(const Problem& p, const Config& config, const Target& target) {
    const WgmmaBlock block = ws_block(config);
    const int64_t stores = store_bytes(p, config, block, brings_c(p, config));
    return config.stages >= kMinStages && wgmma_shared_bytes(p, config, block, stores) <= target.shared_bytes_per_block;
}

}  // namespace carat
