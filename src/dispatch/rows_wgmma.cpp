// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_wgmma.hpp"

#include <algorithm>

#include "dispatch/ladder.hpp"
#include "dispatch/wgmma_kernel.hpp"

namespace carat {
namespace {

constexpr int kElementBytes = 2;   // f16, bf16
constexpr int kConsumers = 2;      // warpgroups that multiply
constexpr int kConsumerRows = 64;  // of D, times config.tm: one wgmma

// ---------------------------------------------------------------- rows

void require_hopper(const Problem& p, const Target& target, Requirements& r) {
    require_16bit_rung(p, target, 90, r);
    r.require(target.cc_major == 9 && target.cc_minor == 0,
              "its instructions (wgmma) exist in compute capability 9.0 alone, but {} has {}.{}", target.name,
              target.cc_major, target.cc_minor);
}

Config tile_config(const char* family, const Problem& p, int bm, int bn, int stages, int cluster_m = 0,
                   int cluster_n = 0) {
    Config config = rung_config(family, p, bm, bn, kStageDepth);
    config.stages = stages;
    config.cluster_m = cluster_m;
    config.cluster_n = cluster_n;
    if (cluster_m) config.tm = bm / (kConsumers * kConsumerRows), config.tn = 1;
    return config;
}

std::vector<Config> v6_candidates(const Problem& p, const Target&) {
    return {tile_config("v6_wgmma", p, 128, 256, 4), tile_config("v6_wgmma", p, 128, 128, 6),
            tile_config("v6_wgmma", p, 128, 64, 8)};
}

std::vector<Config> v7_candidates(const Problem& p, const Target&) {
    return {tile_config("v7_warp_specialized", p, 128, 256, 4), tile_config("v7_warp_specialized", p, 128, 128, 6),
            tile_config("v7_warp_specialized", p, 128, 64, 8)};
}

std::vector<Config> v8_candidates(const Problem& p, const Target&) {
    std::vector<Config> configs = {tile_config("v8_cluster", p, 128, 256, 4, 2, 1),
                                   tile_config("v8_cluster", p, 256, 128, 4, 1, 2),
                                   tile_config("v8_cluster", p, 128, 128, 6, 2, 1)};
    // A block loads half of its cluster's tile of B, and the halves of an MN-major one are whole boxes of 64.
    if (p.b.order == CARAT_COL_MAJOR) {
        // Its accumulators leave no registers to a longer epilogue.
        const carat_epilogue& e = p.epilogue;
        if (!p.has_c() && !e.amax && e.bias == CARAT_BIAS_NONE && e.activation <= CARAT_ACT_RELU)
            configs.push_back(tile_config("v8_cluster", p, 256, 192, 3, 2, 1));
        configs.push_back(tile_config("v8_cluster", p, 128, 192, 4, 2, 1));
    }
    // Its tiles have 32-bit numbers.
    std::erase_if(configs, [&](const Config& config) { return 2 * tile_count(p, config) > INT32_MAX; });
    return configs;
}

// wgmma at full rate; a block asks L2 for its tiles, less what others of its cluster bring. Measured on an H200 at
// 4096^3: v6 loses 100 clocks a step to its barrier. The specialised rungs hide half of an epilogue behind the other
// consumer's products; v6 hides nothing of it, nor of a tile's first copies. Measured at 512^3: what a kernel takes to
// get going, and what a cluster adds.
Prediction predict(const Problem& p, const Config& config, const Target& target, bool specialized) {
    constexpr double kFlopsPerClk = 4096, kSharedBytesPerClk = 128, kBarrierClk = 100, kFirstCopyClk = 2500;
    constexpr double kStartClk = 2500, kClusterClk = 3000;
    const double parts_a = std::max(config.cluster_n, 1), parts_b = std::max(config.cluster_m, 1);
    TileCost cost;
    cost.math = "tensor cores";
    cost.flops_per_clk = kFlopsPerClk;
    cost.math_clk = 2.0 * config.bm * config.bn * kStageDepth / kFlopsPerClk + (specialized ? 0 : kBarrierClk);
    // Every wgmma of 64 rows reads all of B.
    cost.shared_clk =
        (config.bm + config.bm / kConsumerRows * config.bn) * double(kStageDepth) * kElementBytes / kSharedBytesPerClk;
    cost.global_bytes = (config.bm / parts_a + config.bn / parts_b) * kStageDepth * kElementBytes;
    const BulkMaps maps = bulk_maps(p, config, false);
    if (!maps.a || !maps.b) cost.copy_clk = (config.bm + config.bn) * kElementCopyClk;
    const double store_clk = config.bm * config.bn / 64.0;
    cost.around_clk = specialized ? store_clk / 2 + 500 : store_clk * 2 + kFirstCopyClk;
    cost.start_clk = kStartClk + (parts_a * parts_b > 1 ? kClusterClk : 0);
    return predict_pipes(p, config, target, cost);
}

Prediction v6_predict(const Problem& p, const Config& config, const Target& target) {
    return predict(p, config, target, false);
}
Prediction specialized_predict(const Problem& p, const Config& config, const Target& target) {
    return predict(p, config, target, true);
}

Result<std::unique_ptr<Executable>> v6_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_wgmma(p, config, runtime, {"ladder/v6_wgmma.cuh", "carat_kernel::v6_wgmma", false, false}, {});
}
Result<std::unique_ptr<Executable>> v7_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_wgmma(p, config, runtime,
                         {"ladder/v7_warp_specialized.cuh", "carat_kernel::v7_warp_specialized", true, false}, {});
}
Result<std::unique_ptr<Executable>> v8_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    WgmmaBlock block;
    block.strips = config.tm;
    return prepare_wgmma(p, config, runtime, {"ladder/v8_cluster.cuh", "carat_kernel::v8_cluster", true, false}, block);
}

}  // namespace

const Row kRowV6Wgmma = {"v6_wgmma",
                         "Rung 6: Hopper's tensor cores (wgmma) fed by the copy engine (f16, bf16).",
                         "kernels/ladder/v6_wgmma.cuh",
                         CARAT_BACKEND_CUDA,
                         require_hopper,
                         v6_candidates,
                         v6_predict,
                         v6_prepare,
                         nullptr,
                         true};

const Row kRowV7WarpSpecialized = {
    "v7_warp_specialized",
    "Rung 7: a producer and two consumer warpgroups, persistent blocks, bulk stores (f16, bf16).",
    "kernels/ladder/v7_warp_specialized.cuh",
    CARAT_BACKEND_CUDA,
    require_hopper,
    v7_candidates,
    specialized_predict,
    v7_prepare,
    nullptr,
    true};

const Row kRowV8Cluster = {
    "v8_cluster",
    "Rung 8: clusters that multicast operands, bigger tiles, an order that suits L2 (f16, bf16).",
    "kernels/ladder/v8_cluster.cuh",
    CARAT_BACKEND_CUDA,
    require_hopper,
    v8_candidates,
    specialized_predict,
    v8_prepare,
    nullptr,
    true};

}  // namespace carat
