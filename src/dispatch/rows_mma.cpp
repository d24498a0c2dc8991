// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_mma.hpp"

#include <algorithm>

#include "dispatch/cuda_kernel.hpp"
#include "dispatch/mma_cost.hpp"
#include "dispatch/runtime.hpp"

namespace carat {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kPaddedLine = kMmaLineBytes + 16, kBuffersV4 = 2;
constexpr int kMaxStages = 4, kMinStages = 3;

void require(const Problem& p, const Target& target, Requirements& r) {
    require_16bit_rung(p, target, 80, r);
}

// ---------------------------------------------------------------- candidates

int64_t lines(const Config& config) {
    return config.bm + config.bn;
}

int64_t shared_bytes(const Config& config) {
    const bool v4 = config.stages == 0;
    return lines(config) * (v4 ? kBuffersV4 * kPaddedLine : config.stages * kMmaLineBytes);
}

std::vector<Config> v4_candidates(const Problem& p, const Target& target) {
    const Config config = rung_config("v4_wmma", p, 128, 128, 64);
    if (shared_bytes(config) > target.shared_bytes_per_block) return {};
    return {config};
}

// Each tile with as many stages as the block's shared memory holds, up to four.
std::vector<Config> v5_candidates(const Problem& p, const Target& target) {
    constexpr int kTiles[][2] = {{128, 256}, {128, 128}};
    std::vector<Config> configs;
    for (const auto& [bm, bn] : kTiles) {
        Config config = rung_config("v5_mma", p, bm, bn, 64);
        const int64_t fit = target.shared_bytes_per_block / (lines(config) * kMmaLineBytes);
        if (fit < kMinStages) continue;
        config.stages = int(std::min<int64_t>(fit, kMaxStages));
        configs.push_back(config);
    }
    return configs;
}

// ---------------------------------------------------------------- cost

TileCost rung_cost(const Config& config, const Target& target) {
    constexpr int kWarpRows = 64;
    const int warps_across = kWarps / (config.bm / kWarpRows);
    return warp_mma_cost(config, target, config.bn, {kWarpRows, config.bn / warps_across, kWarps});
}

Prediction v4_predict(const Problem& p, const Config& config, const Target& target) {
    TileCost cost = rung_cost(config, target);
    // Assumed: the fragments of a step are loaded, then multiplied, with nothing between to overlap: the pipes add up.
    cost.math_clk += cost.shared_clk;
    return predict_pipes(p, config, target, cost);
}

Prediction v5_predict(const Problem& p, const Config& config, const Target& target) {
    TileCost cost = rung_cost(config, target);
    if (!has_whole_chunks(p)) cost.copy_clk = double(lines(config)) * kElementCopyClk;
    return predict_pipes(p, config, target, cost);
}

// ---------------------------------------------------------------- prepare

Result<std::unique_ptr<Executable>> prepare_rung(const Problem& p, const Config& config, Runtime& runtime,
                                                 const char* include, const char* function, int64_t most_blocks) {
    CudaKernel kernel;
    kernel.include = include;
    kernel.function = function;
    kernel.shape.threads = kThreads;
    // More tiles than blocks are dealt in a grid-stride loop.
    kernel.shape.grid_x = unsigned(std::clamp<int64_t>(tile_count(p, config), 1, most_blocks));
    kernel.shape.dynamic_shared_bytes = unsigned(shared_bytes(config));
    kernel.constants = epilogue_constants(p);
    kernel.constants.emplace_back("kThreads", std::to_string(kThreads));
    return prepare_cuda(p, config, {&kernel, 1}, runtime);
}

Result<std::unique_ptr<Executable>> v4_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_rung(p, config, runtime, "ladder/v4_wmma.cuh", "carat_kernel::v4_wmma", kMaxGridX);
}

Result<std::unique_ptr<Executable>> v5_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_rung(p, config, runtime, "ladder/v5_mma.cuh", "carat_kernel::v5_mma",
                        std::max(runtime.target.units, 1));
}

}  // namespace

const Row kRowV4Wmma = {"v4_wmma",
                        "Rung 4: tensor cores through WMMA's 16x16x16 fragments (f16, bf16).",
                        "kernels/ladder/v4_wmma.cuh",
                        CARAT_BACKEND_CUDA,
                        require,
                        v4_candidates,
                        v4_predict,
                        v4_prepare,
                        nullptr,
                        true};

const Row kRowV5Mma = {"v5_mma",
                       "Rung 5: mma.sync fed by a cp.async ring and ldmatrix (f16, bf16).",
                       "kernels/ladder/v5_mma.cuh",
                       CARAT_BACKEND_CUDA,
                       require,
                       v5_candidates,
                       v5_predict,
                       v5_prepare,
                       nullptr,
                       true};

}  // namespace carat
