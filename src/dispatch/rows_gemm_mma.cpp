// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_gemm_mma.hpp"

#include <algorithm>

#include "dispatch/cuda_kernel.hpp"
#include "dispatch/mma_cost.hpp"
#include "dispatch/runtime.hpp"

namespace carat {
namespace {

void require(const Problem& p, const Target& target, Requirements& r) {
    require_16bit_gemm(p, target, 80, r);
}

// ---------------------------------------------------------------- tiles

// Columns are B's: under a gate D has half of them. blocks: as many an SM as registers and shared memory allow to run.
struct Tile {
    int rows, cols_b;
    int warp_rows, warp_cols;
    int blocks;
};

// Large tiles first: at equal predicted time they read less.
constexpr Tile kTiles[] = {{128, 256, 64, 64, 1}, {128, 128, 64, 32, 1}, {64, 256, 32, 64, 1}, {64, 128, 32, 64, 2},
                           {128, 64, 64, 32, 2},  {64, 64, 32, 32, 3},   {32, 128, 32, 32, 3}};
constexpr int kDepth = 64, kMaxStages = 4, kGoodStages = 3, kMinStages = 2;

int gated(const Problem& p) {
    return p.epilogue.gate == CARAT_GATE_NONE ? 1 : 2;
}

// GemmMma::kStaged of kernels/gemm_mma.cuh.
bool is_staged(const Problem& p) {
    return p.d.order == CARAT_COL_MAJOR || p.has_c() || p.epilogue.activation > CARAT_ACT_RELU ||
           p.epilogue.gate != CARAT_GATE_NONE || bits(p.d.dtype) == 8;
}

// StagedTile::kBytes of kernels/epilogue/staged_tile.cuh.
int64_t staged_bytes(const Problem& p, const Tile& tile) {
    if (!is_staged(p)) return 0;
    return 4 *
           (p.d.order == CARAT_ROW_MAJOR ? int64_t(tile.cols_b + 8) * tile.rows : int64_t(tile.rows + 4) * tile.cols_b);
}

int64_t stage_bytes(const Tile& tile) {
    return int64_t(tile.rows + tile.cols_b) * kMmaLineBytes;
}

// Computed scales: a block needs all 128 columns of D that share one. Operands whose lines run along M or N come in boxes
// of 64 of them, of each half where a gate splits B.
bool suits(const Problem& p, const Tile& tile) {
    const int cols_d = tile.cols_b / gated(p), run_b = p.epilogue.gate == CARAT_GATE_SPLIT ? cols_d : tile.cols_b;
    if (p.epilogue.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128 && cols_d % 128 != 0) return false;
    if (p.a.order == CARAT_COL_MAJOR && tile.rows % 64 != 0) return false;
    return p.b.order == CARAT_COL_MAJOR || run_b % 64 == 0;
}

// Blocks of `shared_bytes` that an SM holds; each takes 1 KB more.
int resident(const Target& target, int64_t shared_bytes) {
    constexpr int64_t kReserved = 1024;
    return int((target.shared_bytes_per_block + kReserved) / (shared_bytes + kReserved));
}

// As many stages as let the tile's blocks share an SM, or fewer blocks where that leaves less than a good pipeline; 0: the
// tile does not fit.
int stages_of(const Problem& p, const Tile& tile, const Target& target) {
    for (int blocks = tile.blocks; blocks >= 1; --blocks)
        for (int stages = kMaxStages; stages >= (blocks > 1 ? kGoodStages : kMinStages); --stages) {
            const int64_t bytes = stages * stage_bytes(tile);
            if (bytes >= staged_bytes(p, tile) && resident(target, bytes) >= blocks) return stages;
        }
    return 0;
}

std::vector<Config> candidates(const Problem& p, const Target& target) {
    std::vector<Config> configs;
    for (const Tile& tile : kTiles) {
        Config config = rung_config("mma", p, tile.rows, tile.cols_b / gated(p), kDepth);
        config.tm = tile.warp_rows, config.tn = tile.warp_cols;
        config.stages = stages_of(p, tile, target);
        // The kernel's tiles have 32-bit numbers.
        if (suits(p, tile) && config.stages > 0 && tile_count(p, config) <= INT32_MAX / 2) configs.push_back(config);
    }
    return configs;
}

// ---------------------------------------------------------------- of a configuration

Tile tile_of(const Problem& p, const Config& config) {
    const int cols_b = config.bn * gated(p);
    const auto is_it = [&](const Tile& tile) { return tile.rows == config.bm && tile.cols_b == cols_b; };
    return *std::find_if(std::begin(kTiles), std::end(kTiles), is_it);
}

int warps_of(const Tile& tile) {
    return tile.rows / tile.warp_rows * (tile.cols_b / tile.warp_cols);
}

int blocks_of(const Config& config, const Tile& tile, const Target& target) {
    return std::clamp(resident(target, config.stages * stage_bytes(tile)), 1, tile.blocks);
}

Prediction predict(const Problem& p, const Config& config, const Target& target) {
    const Tile tile = tile_of(p, config);
    TileCost cost = warp_mma_cost(config, target, tile.cols_b, {tile.warp_rows, tile.warp_cols, warps_of(tile)});
    cost.blocks = blocks_of(config, tile, target);
    if (!has_whole_chunks(p)) cost.copy_clk = (tile.rows + tile.cols_b) * kElementCopyClk;
    Prediction prediction = predict_pipes(p, config, target, cost);
    // Its loop over K has barriers, which a stream from memory shows. How much is assumed, not measured.
    constexpr double kStreams = 1.1;
    if (prediction.bound == std::string_view("memory")) prediction.us *= kStreams;
    return prediction;
}

Result<std::unique_ptr<Executable>> prepare(const Problem& p, const Config& config, Runtime& runtime) {
    const Tile tile = tile_of(p, config);
    const int blocks = blocks_of(config, tile, runtime.target);
    CudaKernel kernel;
    kernel.include = "gemm_mma.cuh";
    kernel.function = "carat_kernel::gemm_mma";
    kernel.shape.threads = unsigned(32 * warps_of(tile));
    kernel.shape.grid_x =
        unsigned(std::clamp<int64_t>(tile_count(p, config), 1, int64_t(std::max(runtime.target.units, 1)) * blocks));
    kernel.shape.dynamic_shared_bytes = unsigned(config.stages * stage_bytes(tile));
    kernel.constants = epilogue_constants(p);
    kernel.constants.emplace_back("kThreads", std::to_string(kernel.shape.threads));
    kernel.constants.emplace_back("kMinBlocks", std::to_string(blocks));
    return prepare_cuda(p, config, {&kernel, 1}, runtime);
}

// Every tile adds the products of an element of D in the order of K, 16 at a time.
bool batch_invariant(const Problem&, const Config& config) {
    return config.split_k == 0;
}

}  // namespace

const Row kRowMma = {"mma",
                     "Tensor cores by mma.sync, from sm_80 on: every epilogue, layout and pitch (f16, bf16).",
                     "kernels/gemm_mma.cuh",
                     CARAT_BACKEND_CUDA,
                     require,
                     candidates,
                     predict,
                     prepare,
                     nullptr,
                     false,
                     nullptr,
                     batch_invariant};

}  // namespace carat
