// SPDX-License-Identifier: Apache-2.0
#include "dispatch/split_k.hpp"

#include <algorithm>

#include "dispatch/ladder.hpp"
#include "dispatch/ws_tiles.hpp"
#include "shared/split_sums.h"

namespace carat {
namespace {

// Columns of D of a block of the second kernel: those of a computed scale, else few, for many blocks.
int reduced_cols(const Problem& p, const Config& config) {
    if (p.epilogue.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128) return 128;
    return tile_cols(p, config) % 32 == 0 ? 32 : 16;
}

int strips_of(const WgmmaBlock& block) {
    return block.consumers * block.strips;
}

// Of a thread, where sums are taken from L2 into them: 208 leave no registers for what is on its way (8 bytes spill), nor do 192
// where steps are dealt out and the epilogue takes some (16, of a bias and a C from shared memory), nor 128 where threads read C (80) or
// a pair of blocks has a gate (12, and 20 with a maximum).
int most_accumulators(const Problem& p, bool stream_k, bool pair) {
    const carat_epilogue& e = p.epilogue;
    if (threads_read_c(p) || (stream_k && pair && e.gate != CARAT_GATE_NONE)) return 96;
    const bool plain =
        !p.has_c() && e.gate == CARAT_GATE_NONE && e.bias == CARAT_BIAS_NONE && !e.amax && bits(p.d.dtype) >= 16;
    return stream_k && !plain ? 128 : 192;
}
bool has_registers(const Problem& p, const Config& c, bool stream_k) {
    const WgmmaBlock block = ws_block(c);
    if (block.consumers == 3 && (p.has_c() || p.epilogue.amax)) return false;  // 24 bytes spill with 64 accumulators
    return block.strips * c.bn / 2 <= most_accumulators(p, stream_k, c.cluster_m * c.cluster_n > 1);
}

}  // namespace

int serial_parts(const Config& config) {
    return config.split_form == SplitForm::serial ? config.split_k : 1;
}
int separate_parts(const Config& config) {
    return config.split_form == SplitForm::workspace ? config.split_k : 1;
}
int parts_in_l2(const Config& config) {
    return serial_parts(config) * separate_parts(config);
}

bool is_stream_k(const Config& config) {
    return config.split_form == SplitForm::stream_k;
}
bool adds_up_in_l2(const Config& config) {
    return parts_in_l2(config) > 1 || is_stream_k(config);
}
Config undivided(Config config) {
    config.split_k = 0, config.split_form = SplitForm::none;
    return config;
}

int stream_k_clusters(const Config& config, const Target& target) {
    const int blocks = ws_cluster_blocks(config);
    return std::clamp(running_clusters(target, blocks), 1, std::max(kMostStreamKBlocks / blocks, 1));
}

const char* why_not_split_in_l2(const Problem& p, const Config& c, SplitForm form) {
    constexpr int64_t kLongestDealt = 1 << 27;  // of K: the steps of two waves of tiles have 31 bits
    const bool stream_k = form == SplitForm::stream_k;
    if (c.split_form != SplitForm::none) return "splits K in two ways: name one";
    if (c.pingpong)
        return "splits K through L2 where consumers have tiles of their own (_pp), but sums are kept by rows that stay "
               "with a consumer: leave _pp out";
    const int blocks = c.cluster_m * c.cluster_n;
    if (!stream_k && blocks > 1)
        return "splits K in parts of tiles of clusters, which only stream-K (_sk) does: ask for _c1x1 or _sk";
    if (blocks > 2)
        return "deals out steps to clusters of more than two blocks, whose producer would spill: ask for _c2x1";
    if (form != SplitForm::workspace && !has_registers(p, c, stream_k))
        return "would spill: its tile leaves no registers for the sums on their way; ask for a smaller one, or for "
               "parts that a second kernel adds up (_k2w)";
    if (stream_k && p.k > kLongestDealt) return "deals out K in steps whose numbers have 31 bits, and this K is longer";
    if (ws_clusters(p, c) > INT32_MAX / kMostPartsInL2)
        return "numbers parts of tiles in 31 bits: ask for a larger tile";
    const BulkMaps maps = bulk_maps(p, c, false);
    // Of no K there is nothing to bring, and nothing to split.
    if (p.k != 0 && !(maps.a && maps.b))
        return "splits K through L2 of operands that the copy engine brings, at pitches of 16 bytes: ask for _aligned";
    return nullptr;
}

WorkspaceUse split_workspace(const Problem& p, const Config& config, const WgmmaBlock& block) {
    WorkspaceUse use;
    if (!adds_up_in_l2(config) || p.k == 0) return use;  // first: a rung of the ladder has no clusters to count
    const size_t tiles = size_t(ws_clusters(p, config));
    if (tiles == 0) return use;
    const size_t slots = is_stream_k(config) ? kMostStreamKBlocks : tiles * size_t(separate_parts(config));
    const size_t words = size_t(carat_shared::turns_of_tile(block.consumers));
    use.zeroed_words = separate_parts(config) > 1 ? 0 : slots * words;
    use.sums_bytes = slots * size_t(carat_shared::slot_quads(strips_of(block), config.bn)) * 4 * sizeof(float);
    return use;
}

Problem without_epilogue(const Problem& p) {
    Problem plain = p;
    plain.c = {};
    plain.epilogue = {};
    plain.epilogue.gate = p.epilogue.gate;  // which columns of B a tile has
    plain.epilogue.scalars_on_device = p.epilogue.scalars_on_device;
    return plain;
}

CudaKernel reduce_kernel(const Problem& p, const Config& config, const WgmmaBlock& block,
                         const carat_shared::TileWalk& walk) {
    Config of_block = rung_config("reduce_splits", p, kStripRows, reduced_cols(p, config), 0);
    const int parts_of_d = p.epilogue.gate == CARAT_GATE_NONE ? 1 : 2, cols = parts_of_d * of_block.bn;
    CudaKernel kernel;
    kernel.include = "reduce_splits.cuh";
    kernel.function = "carat_kernel::reduce_splits";
    kernel.parameters = "BulkGemmParams";
    kernel.constants = epilogue_constants(p);
    const auto number = [&](const char* name, int value) {
        kernel.constants.emplace_back(name, std::to_string(value));
    };
    number("kThreads", carat_shared::kStripThreads);
    number("kMinBlocks", 1);
    number("kTileM", config.bm);
    number("kTileN", config.bn);
    number("kStrips", strips_of(block));
    number("kSeparateParts", separate_parts(config));
    kernel.walk = walk;
    kernel.shape.threads = carat_shared::kStripThreads;
    const int64_t blocks = int64_t(walk.count) * strips_of(block) * (tile_cols(p, config) / of_block.bn);
    kernel.shape.grid_x = unsigned(std::max<int64_t>(blocks, 1));
    kernel.shape.programmatic = true;
    // kBytes of StagedTile (kernels/epilogue/staged_tile.cuh).
    const int floats = p.d.order == CARAT_ROW_MAJOR ? (cols + 8) * kStripRows : (kStripRows + 4) * cols;
    kernel.shape.dynamic_shared_bytes = unsigned(floats * 4);
    kernel.config = std::move(of_block);
    kernel.must_not_spill = true;
    return kernel;
}

}  // namespace carat
