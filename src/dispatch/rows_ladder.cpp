// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_ladder.hpp"

#include <algorithm>

#include "dispatch/cuda_kernel.hpp"

namespace carat {
namespace {

constexpr int64_t kMaxGridX = 2147483647;
constexpr unsigned kResidentThreads = 1024;

// ---------------------------------------------------------------- what both rungs take

bool is_f32_or_none(carat_dtype dtype) {
    return dtype == CARAT_F32 || dtype == CARAT_NONE;
}

void require_f32(const Problem& p, const Target& target, Requirements& r) {
    const carat_epilogue& e = p.epilogue;
    require_cuda(p, target, r);
    r.require(p.mode == CARAT_SINGLE || p.mode == CARAT_BATCHED,
              "it takes single and strided batched problems, not arrays of pointers and not groups");
    r.require(p.a.dtype == CARAT_F32 && p.b.dtype == CARAT_F32, "A and B must be f32, but are {} and {}",
              name(p.a.dtype), name(p.b.dtype));
    r.require(p.d.dtype == CARAT_F32, "D must be f32, but is {}", name(p.d.dtype));
    r.require(is_f32_or_none(p.c.dtype), "C must be f32, but is {}", name(p.c.dtype));
    r.require(p.compute == CARAT_COMPUTE_DEFAULT || p.compute == CARAT_COMPUTE_F32,
              "it computes in exact f32 only, not in another compute mode");
    r.require(p.scale_a.recipe == CARAT_SCALE_NONE && p.scale_b.recipe == CARAT_SCALE_NONE,
              "it takes no scales of A and B, but the recipe is {}", describe_recipe(p));
    r.require(p.sparsity == CARAT_DENSE, "it takes dense operands, not 2:4 sparse ones");
    r.require(e.bias == CARAT_BIAS_NONE || e.bias_dtype == CARAT_F32, "the bias must be f32, but is {}",
              name(e.bias_dtype));
    r.require(e.out_scale != CARAT_OUT_SCALE_COMPUTED_1X128,
              "it does not compute output scales (out_scale 1x128), which only narrow types of D need");
}

// ---------------------------------------------------------------- configurations

Config base_config(const char* family, const Problem& p, int bm, int bn, int bk) {
    Config config;
    config.family = family;
    config.a = p.a.dtype;
    config.b = p.b.dtype;
    config.d = p.d.dtype;
    config.layout = p.layout();
    config.bm = bm;
    config.bn = bn;
    config.bk = bk;
    return config;
}

// A warp along D's contiguous dimension, eight of them a block.
std::vector<Config> v0_candidates(const Problem& p, const Target&) {
    const bool row_major = p.d.order == CARAT_ROW_MAJOR;
    return {base_config("v0_naive", p, row_major ? 8 : 32, row_major ? 32 : 8, 1)};
}

std::vector<Config> v1_candidates(const Problem& p, const Target&) {
    return {base_config("v1_shared", p, 32, 32, 32), base_config("v1_shared", p, 16, 16, 16)};
}

// ---------------------------------------------------------------- cost
// Both rungs are bound by the load/store pipe of an SM: it serves one wavefront (at most 128 bytes, no bank or line
// twice) a clock, while the f32 units take four warp-wide multiply-adds. So the share of the f32 rate is
// 1 / (4 * wavefronts per multiply-add); the wavefronts follow from the layouts. Not calibrated on a GPU.

constexpr double kWarpFmasPerClock = 4;
constexpr double kBroadcast = 1, kCoalesced = 1, kStrided = 32;

int64_t tile_count(const Problem& p, const Config& config) {
    const int64_t batch = p.mode == CARAT_SINGLE ? 1 : p.batch;
    return ceil_div(p.m, config.bm) * ceil_div(p.d_cols(), config.bn) * batch;
}

// The busiest SM's tiles at `share` of its f32 rate, against the floor of the problem.
Prediction predict_tiles(const Problem& p, const Config& config, const Target& target, double share) {
    const Floor floor = floor_of(p, target, p.has_c());
    const double parts = p.epilogue.gate == CARAT_GATE_NONE ? 1 : 2;
    const double tile_flops = 2.0 * config.bm * config.bn * double(p.k) * parts;
    const double tiles = double(ceil_div(tile_count(p, config), std::max(target.units, 1)));
    const double unit_flops_per_us = target.f32_tflops * 1e6 / std::max(target.units, 1);
    const double compute_us = tiles * tile_flops / (share * unit_flops_per_us);
    if (compute_us >= floor.memory_us && compute_us >= target.launch_us) return {compute_us, "compute"};
    if (floor.memory_us >= target.launch_us) return {floor.memory_us, "memory"};
    return {target.launch_us, "launch"};
}

Prediction v0_predict(const Problem& p, const Config& config, const Target& target) {
    // Row-major D: a warp shares a row of A and reads 32 columns of B, which are a line if B is row-major, too.
    const bool row_major = p.d.order == CARAT_ROW_MAJOR;
    const bool coalesced = row_major ? p.b.order == CARAT_ROW_MAJOR : p.a.order == CARAT_COL_MAJOR;
    const double wavefronts = kBroadcast + (coalesced ? kCoalesced : kStrided);
    return predict_tiles(p, config, target, 1 / (kWarpFmasPerClock * wavefronts));
}

Prediction v1_predict(const Problem& p, const Config& config, const Target& target) {
    return predict_tiles(p, config, target, 1 / (kWarpFmasPerClock * (kBroadcast + kCoalesced)));
}

// ---------------------------------------------------------------- prepare

Result<std::unique_ptr<Executable>> prepare_rung(const Problem& p, const Config& config, Runtime& runtime,
                                                 const char* include, const char* function) {
    CudaKernel kernel;
    kernel.include = include;
    kernel.function = function;
    kernel.shape.threads = unsigned(config.bm * config.bn);
    // More tiles than blocks are dealt in a grid-stride loop.
    kernel.shape.grid_x = unsigned(std::clamp<int64_t>(tile_count(p, config), 1, kMaxGridX));
    kernel.constants = epilogue_constants(p);
    kernel.constants.emplace_back("kThreads", std::to_string(kernel.shape.threads));
    // 1024 threads an SM, which leaves 64 registers to each. Without this bound ptxas aims at 1536 and more and spills.
    kernel.constants.emplace_back("kMinBlocks", std::to_string(std::max(1u, kResidentThreads / kernel.shape.threads)));
    return prepare_cuda(p, config, kernel, runtime);
}

Result<std::unique_ptr<Executable>> v0_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_rung(p, config, runtime, "ladder/v0_naive.cuh", "carat_kernel::v0_naive");
}

Result<std::unique_ptr<Executable>> v1_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_rung(p, config, runtime, "ladder/v1_shared.cuh", "carat_kernel::v1_shared");
}

}  // namespace

const Row kRowV0Naive = {"v0_naive",
                         "Rung 0: one thread an element of D, operands straight from global memory (f32).",
                         "kernels/ladder/v0_naive.cuh",
                         CARAT_BACKEND_CUDA,
                         require_f32,
                         v0_candidates,
                         v0_predict,
                         v0_prepare};

const Row kRowV1Shared = {"v1_shared",
                          "Rung 1: tiles of A and B in shared memory, one thread an element of D (f32).",
                          "kernels/ladder/v1_shared.cuh",
                          CARAT_BACKEND_CUDA,
                          require_f32,
                          v1_candidates,
                          v1_predict,
                          v1_prepare};

}  // namespace carat
