// SPDX-License-Identifier: Apache-2.0
#include "dispatch/wgmma_kernel.hpp"

#include <algorithm>

#include "dispatch/bulk_map.hpp"
#include "dispatch/ladder.hpp"
#include "dispatch/runtime.hpp"
#include "dispatch/split_k.hpp"
#include "shared/cluster_split.h"
#include "shared/tile_walk.h"

namespace carat {
namespace {

constexpr int64_t kLineBytes = 128;     // kStageDepth elements of 16 bits
constexpr int64_t kBoxesBytes = 16384;  // kStoreBytes of kernels/store/box_layout.cuh
constexpr int kRegistersOfAll = 512;  // of the threads of the same number in the four warpgroups that a block may have

const char* text(bool value) {
    return value ? "true" : "false";
}

// In how many boxes a block's tile of A comes, each for one block of a row of the cluster; and its tile of B.
int parts_of_a(const Config& config) {
    return std::max(config.cluster_n, 1);
}
int parts_of_b(const Problem& p, const Config& config) {
    return std::max(config.cluster_m, 1) * (p.epilogue.gate == CARAT_GATE_SPLIT ? 2 : 1);
}

// Whether one box is all of an operand in a stage (load() of kernels/mainloop/operand_tile.cuh).
bool in_one_box(const Problem& p, const Config& config, bool k_major, int parts) {
    return config.bk > kStageDepth && k_major && parts == 1 && p.k % kStageDepth == 0;
}
bool stage_box_of_a(const Problem& p, const Config& config) {
    return in_one_box(p, config, p.a.order == CARAT_ROW_MAJOR, parts_of_a(config));
}
bool stage_box_of_b(const Problem& p, const Config& config) {
    return in_one_box(p, config, p.b.order == CARAT_COL_MAJOR, parts_of_b(p, config));
}

// setmaxnreg: what the producer keeps and each consumer gets. Copying by threads takes more than asking for copies, and so does
// dealing out steps, for clusters (24: 16 bytes spill).
std::pair<int, int> register_shares(const Config& config, const WgmmaBlock& block, bool by_threads, int blocks_of_sm) {
    if (block.consumers == 1) return {0, 0};  // not shared: 256 threads have as many as a thread can name
    const bool deals = is_stream_k(config) && config.cluster_m * config.cluster_n > 1;
    if (block.consumers == 3) return {deals ? 32 : 24, 160};
    if (blocks_of_sm == 2) return {24, 104};  // launched with 80 a thread
    const int producer = by_threads ? 136 : deals ? 32 : 24;
    // Launched with 168 a thread, which is what there is to share.
    return {producer, (kRegistersOfAll - 8 - producer) / block.consumers / 8 * 8};
}

// wants_staging() of kernels/epilogue/staged.cuh.
bool is_staged(const Problem& p) {
    return p.d.order == CARAT_COL_MAJOR || p.has_c() || p.epilogue.activation > CARAT_ACT_RELU;
}

// Whether one tile alone reads its rows of A, or its columns of B, which then need not stay in L2.
bool reads_once(const Problem& p, const Config& config, bool of_a) {
    if (of_a) return p.d_cols() <= tile_cols(p, config);
    return p.m <= config.bm && p.epilogue.gate != CARAT_GATE_SPLIT;
}

// Of each row of a block's first tile, that comes to L2 before the kernels before have ended. With room for two blocks an SM,
// 64 KB of a block save a tenth of a short kernel (16 x 7168 x 2048: 8.65 us for 10.3; 128 KB: 9.3). Else the block comes late, and
// it pays for long kernels only: 128 KB for few tokens (16 x 10240 x 8192: 40.2 us for 42.5; 16 x 2112 x 7168: 11.4 for 10.7), 64 KB for
// more (64 x 28672 x 4096: 57.5 us for 59.3; 96 x 7168 x 16384: 61.3 for 63.1; 64 x 4096 x 7168: 21.2 for 20.3).
int early_bytes(const Problem& p, const Config& config, bool of_a, int blocks_of_sm) {
    constexpr int64_t kBeside = 64 << 10;
    struct Alone {
        int64_t tokens, of_block, early;  // at most, at least, and then
    };
    constexpr Alone kAlone[] = {{32, 320 << 10, 128 << 10}, {96, 1 << 20, 64 << 10}};
    const int rows = of_a ? config.bm : config.bn, tokens = of_a ? config.bn : config.bm;
    const int64_t of_block = rows * p.k * 2 / (parts_in_cluster(config) * parts_in_l2(config));
    int64_t bytes = blocks_of_sm == 2 ? kBeside : 0;
    for (const Alone& alone : kAlone)
        if (bytes == 0 && tokens <= alone.tokens && of_block >= alone.of_block) bytes = alone.early;
    return int(bytes / rows / kLineBytes * kLineBytes);
}

// What one tile alone reads, and how much of it comes early.
void set_once_read(CudaKernel& kernel, const Problem& p, const Config& config, int blocks_of_sm) {
    kernel.once_a = reads_once(p, config, true);
    kernel.once_b = !kernel.once_a && reads_once(p, config, false);
    if (kernel.once_a || kernel.once_b) kernel.early_bytes = early_bytes(p, config, kernel.once_a, blocks_of_sm);
}

// Persistent blocks, but for parts that wait for each other: a block of these has one item, so that it waits for blocks with
// lower numbers alone, which start first. A persistent one could wait for a block that has no place yet, as other kernels may
// have the SMs, and two such kernels could wait for each other for ever.
// Stream-K's clusters share the steps of the last tiles, however few these are; one more than run at once would have its share
// alone, after all others.
int64_t clusters_of_grid(const Config& config, const WgmmaFamily& family, const Target& target, int64_t clusters,
                         int blocks) {
    if (is_stream_k(config) && clusters > 0) return stream_k_clusters(config, target);
    const bool persistent = family.specialized && serial_parts(config) == 1;
    const int64_t most = persistent ? std::max(target.units / blocks, 1) : kMaxGridX;
    return std::clamp<int64_t>(clusters * parts_in_l2(config), 1, most);
}

CudaKernel make_kernel(const Problem& p, const Config& config, const WgmmaFamily& family, const WgmmaBlock& block,
                       const Target& target, const BulkMaps& maps) {
    const int cluster_m = std::max(config.cluster_m, 1), cluster_n = std::max(config.cluster_n, 1);
    const int parts = parts_in_cluster(config), blocks = cluster_m * cluster_n * parts;
    const int64_t batch = p.entries();
    const int64_t clusters =
        ceil_div(p.m, config.bm * cluster_m) * ceil_div(p.d_cols(), tile_cols(p, config) * cluster_n) * batch;
    const int64_t stores = family.specialized ? store_bytes(p, config, block, maps.c.has_value())
                           : is_staged(p)     ? kBoxesBytes
                                              : 0;

    CudaKernel kernel;
    kernel.include = family.include;
    kernel.function = family.function;
    kernel.parameters = "BulkGemmParams";
    kernel.constants = epilogue_constants(p);
    kernel.shape.threads = unsigned(128 * (block.consumers + (family.specialized ? 1 : 0)));
    kernel.shape.grid_x = unsigned(clusters_of_grid(config, family, target, clusters, blocks) * blocks);
    kernel.shape.cluster_x = unsigned(blocks);
    kernel.shape.dynamic_shared_bytes = unsigned(wgmma_shared_bytes(p, config, block, stores));
    kernel.shape.programmatic = family.production;
    // Rung 8 names no strip: 2048 rows.
    const int strip = config.strip ? config.strip : std::max(2048 / (config.bm * cluster_m), 1);
    if (clusters <= INT32_MAX)
        kernel.walk = carat_shared::make_tile_walk(p.m, p.d_cols(), batch, config.bm * cluster_m,
                                                   int(tile_cols(p, config)) * cluster_n, strip);
    const auto constant = [&](const char* name, const std::string& value) {
        kernel.constants.emplace_back(name, value);
    };
    const auto number = [&](const char* name, int value) { constant(name, std::to_string(value)); };
    const int blocks_an_sm = maps.a && maps.b && family.production ? blocks_of_sm(p, config, block, target) : 1;
    number("kThreads", int(kernel.shape.threads));
    number("kMinBlocks", blocks_an_sm);
    number("kConsumers", block.consumers);
    number("kFillThreads", family.specialized ? 128 : 256);
    if (!config.cluster_m) number("kClusterM", 1), number("kClusterN", 1);
    number("kClusterK", parts);
    number("kSerialParts", serial_parts(config));
    number("kSeparateParts", separate_parts(config));
    constant("kStreamK", text(is_stream_k(config)));
    if (family.production) set_once_read(kernel, p, config, blocks_an_sm);
    if (!config.tm) number("kTM", block.strips);
    constant("kPingPong", text(block.pingpong));
    constant("kBulkA", text(maps.a.has_value()));
    constant("kBulkB", text(maps.b.has_value()));
    constant("kStageBoxA", text(maps.a && stage_box_of_a(p, config)));
    constant("kStageBoxB", text(maps.b && stage_box_of_b(p, config)));
    constant("kBulkC", text(maps.c.has_value()));
    constant("kBulkStore", text(maps.d.has_value()));
    if (family.specialized) {
        const auto [producer, consumer] = register_shares(config, block, !maps.a || !maps.b, blocks_an_sm);
        number("kProducerRegisters", producer);
        number("kConsumerRegisters", consumer);
    }
    kernel.must_not_spill = family.production;
    kernel.workspace = split_workspace(p, config, block);
    if (maps.a || maps.b || maps.d) kernel.bulk = maps;
    return kernel;
}

}  // namespace

int parts_in_cluster(const Config& config) {
    return config.split_form == SplitForm::cluster ? config.split_k : 1;
}

int64_t half_of_shared(const Target& target) {
    constexpr int64_t kReserved = 1024;  // of each block; an SM has as much more than a block can have
    return (target.shared_bytes_per_block + kReserved) / 2 - kReserved;
}

int blocks_of_sm(const Problem& p, const Config& config, const WgmmaBlock& block, const Target& target) {
    constexpr int kMostCols = 32, kMostAccumulators = 32;  // of a thread, that leave registers for two blocks
    const bool small =
        config.bn <= kMostCols && block.consumers <= 2 && block.strips * config.bn / 2 <= kMostAccumulators;
    if (!small || config.pingpong) return 1;
    const int64_t stores = store_bytes(
        p, config, block, config.bm % kStripRows == 0 && parts_in_cluster(config) == 1 && residual_map(p).has_value());
    return wgmma_shared_bytes(p, config, block, stores) <= half_of_shared(target) ? 2 : 1;
}

double boxes_of_stage(const Problem& p, const Config& config) {
    const auto boxes = [&](bool in_one, int64_t extent, int rows) {
        if (in_one && extent >= rows) return 1.0;
        const double cut = double(std::min<int64_t>(extent, rows)) / rows;
        return config.bk / kStageDepth * (1 + cut) / 2;  // half for the box, half for its rows
    };
    return boxes(stage_box_of_a(p, config), p.m, config.bm) + boxes(stage_box_of_b(p, config), p.n, config.bn);
}

BulkMaps bulk_maps(const Problem& p, const Config& config, bool stores) {
    const int64_t batch = p.entries();
    const int panels = config.bk / kStageDepth;
    const auto map_a = [&](int rows) {
        return operand_map(p.a, {p.m, p.k}, batch, p.a.order == CARAT_ROW_MAJOR, rows);
    };
    const auto map_b = [&](int rows) {
        return operand_map(p.b, {p.k, p.n}, batch, p.b.order == CARAT_COL_MAJOR, rows);
    };
    const int rows_a = config.bm / parts_of_a(config), rows_b = config.bn / parts_of_b(p, config);
    BulkMaps maps;
    if (takes_bulk(map_a(rows_a)))
        maps.a = stage_box_of_a(p, config) ? panels_map(p.a, {p.m, p.k}, batch, rows_a, panels) : map_a(rows_a);
    if (takes_bulk(map_b(rows_b)))
        maps.b = stage_box_of_b(p, config) ? panels_map(p.b, {p.k, p.n}, batch, rows_b, panels) : map_b(rows_b);
    // As kEnds of kernels/mainloop/operand_tile.cuh.
    if (maps.a && p.a.order == CARAT_ROW_MAJOR && parts_of_a(config) == 1 && p.m % rows_a != 0)
        maps.a_last = map_a(int(p.m % rows_a));
    if (maps.b && p.b.order == CARAT_COL_MAJOR && parts_of_b(p, config) == 1 && p.n % rows_b != 0)
        maps.b_last = map_b(int(p.n % rows_b));
    if (stores) maps.d = store_map(p);
    return maps;
}

int64_t wgmma_shared_bytes(const Problem& p, const Config& config, const WgmmaBlock& block, int64_t store_bytes) {
    // An MN-major tile is whole boxes of 64.
    const int64_t lines_b = p.b.order == CARAT_COL_MAJOR ? config.bn : ceil_div(config.bn, 64) * 64;
    const int64_t stage = (config.bm + lines_b) * kLineBytes * (config.bk / kStageDepth);
    // kBeyondBytes: the products of a tile's last rows.
    const int rows = block.strips * kStripRows;
    const int64_t beyond = std::max<int64_t>(ceil_div(config.bm, rows) * rows - config.bm - lines_b, 0) * kLineBytes;
    return config.stages * (stage + 16) + beyond + block.consumers * (store_bytes + (block.pingpong ? 8 : 0));
}

// SplitBoxes of kernels/mainloop/cluster_split.cuh: what a consumer receives, and its two barriers.
int64_t exchange_bytes(const Problem& p, const Config& config, const WgmmaBlock& block) {
    const int parts = parts_in_cluster(config);
    if (parts == 1) return 0;
    const int box_cols = 128 * 8 / bits(p.d.dtype), boxes = block.strips * int(ceil_div(config.bn, box_cols));
    return carat_shared::exchange_bytes(boxes, std::min(config.bn, box_cols) / 2, parts) + 16;
}

int64_t store_bytes(const Problem& p, const Config& config, const WgmmaBlock& block, bool bulk_c) {
    const carat_bias along = p.epilogue.bias;
    const int64_t bias = along == CARAT_BIAS_N ? config.bn : along == CARAT_BIAS_M ? kStripRows * block.strips : 0;
    return kBoxesBytes + (bulk_c ? 16 : 0) + bias * 4 + exchange_bytes(p, config, block);
}

bool threads_can_copy(const Problem& p, const Config& config, const WgmmaBlock& block) {
    // Any epilogue but the plainest needs registers, too. But no smaller tile than 128 x 256 has the columns of a computed
    // scale under a gate.
    const carat_epilogue& e = p.epilogue;
    const bool wide = e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128 && e.gate != CARAT_GATE_NONE;
    const bool plain = !is_staged(p) && bits(p.d.dtype) > 8 && e.bias == CARAT_BIAS_NONE && !e.amax;
    const int most_accumulators = plain || wide ? 128 : 64;  // of a thread
    return block.strips * config.bn / 2 <= most_accumulators && block.consumers < 3;
}

// What runs in a configuration's place where threads copy: they need registers, and reach no other block of a cluster. The
// largest tiles leave none to spare.
struct Substitute {
    Config config;
    WgmmaBlock block;
};
Substitute copied_by_threads(const Problem& p, const Config& config, const WgmmaBlock& block) {
    Substitute other = {config, block};
    if (config.cluster_m) other.config.cluster_m = other.config.cluster_n = 1;
    other.config = undivided(other.config);
    other.config.bk = kStageDepth;
    if (threads_can_copy(p, config, block) && config.bm % kStripRows == 0) return other;
    other.block = {};
    other.config.stages = std::min(config.stages, 4);
    other.config.bm = 128, other.config.bn = std::max(std::min(config.bn, 128) / 64 * 64, 64);
    if (other.config.tm) other.config.tm = 1;
    other.config.pingpong = false;
    return other;
}

Result<std::unique_ptr<Executable>> prepare_wgmma(const Problem& p, const Config& config, Runtime& runtime,
                                                  const WgmmaFamily& family, const WgmmaBlock& block) {
    std::vector<CudaKernel> kernels;
    const bool reduced = separate_parts(config) > 1;  // by a second kernel, which has the epilogue
    const Problem products = reduced ? without_epilogue(p) : p;
    BulkMaps maps = bulk_maps(p, config, family.specialized && !reduced);
    const bool bulk = maps.a && maps.b;
    if (bulk && family.production && config.bm % kStripRows == 0 && parts_in_cluster(config) == 1)
        maps.c = residual_map(products);
    if (bulk) {
        kernels.push_back(make_kernel(products, config, family, block, runtime.target, maps));
        if (reduced) kernels.back().then.push_back(reduce_kernel(p, config, block, kernels.back().walk));
    }
    const auto [other, other_block] = copied_by_threads(p, config, block);
    // Also for a C at an odd address: threads read it with registers that large tiles do not leave.
    const BulkMaps some = bulk_maps(p, other, family.specialized);
    if ((!bulk || maps.c) && (some.a || some.b || some.d)) {
        kernels.push_back(make_kernel(p, other, family, other_block, runtime.target, some));
        kernels.back().config = other;
    }
    kernels.push_back(make_kernel(p, other, family, other_block, runtime.target, {}));
    kernels.back().config = other;
    return prepare_cuda(p, config, kernels, runtime);
}

}  // namespace carat
