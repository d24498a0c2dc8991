// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_ladder.hpp"

#include <algorithm>

#include "dispatch/cuda_kernel.hpp"
#include "dispatch/ladder.hpp"

namespace carat {
namespace {

// Threads that an SM is to hold, as the compiler's bound on registers. v1 waits at barriers, so all it can (3.95 TFLOP/s
// with 1024 at 2048^3, 4.78 with 2048); v0 has none, and its widest epilogue spills below 42 registers.
constexpr unsigned kResidentV0 = 1536, kResidentV1 = 2048;

// A warp along D's contiguous dimension, eight of them a block.
std::vector<Config> v0_candidates(const Problem& p, const Target&) {
    const bool row_major = p.d.order == CARAT_ROW_MAJOR;
    return {rung_config("v0_naive", p, row_major ? 8 : 32, row_major ? 32 : 8, 1)};
}

std::vector<Config> v1_candidates(const Problem& p, const Target&) {
    return {rung_config("v1_shared", p, 32, 32, 32), rung_config("v1_shared", p, 16, 16, 16)};
}

// ---------------------------------------------------------------- cost
// Both rungs are bound by the load/store pipe of an SM: it serves one wavefront (at most 128 bytes, no bank or line
// twice) a clock, while the f32 units take four warp-wide multiply-adds. With two wavefronts a multiply-add that allows
// an eighth of the f32 rate, with 33 (strided loads) a 132nd. Where an SM has a single tile, the latency of a step of K
// decides instead. The shares and latencies are those measured on an H200 with (2048, 4096, 4096) and (16, 4096, 4096).

struct Pace {
    double share;    // of the f32 rate, all SMs busy
    double step_us;  // of one step of K (kBK elements) of a lone tile
};
constexpr Pace kV0Coalesced = {0.081, 0.090}, kV0Strided = {0.0081, 0.075};
constexpr Pace kV1Tile32 = {0.108, 1.81}, kV1Tile16 = {0.097, 0.79};

// The busiest SM's tiles at its pace, against the floor of the problem.
Prediction predict_tiles(const Problem& p, const Config& config, const Target& target, const Pace& pace) {
    const Floor floor = floor_of(p, target, p.has_c());
    const double parts = p.epilogue.gate == CARAT_GATE_NONE ? 1 : 2;
    const double tile_flops = 2.0 * config.bm * config.bn * double(p.k) * parts;
    const double tiles = double(ceil_div(tile_count(p, config), std::max(target.units, 1)));
    const double unit_flops_per_us = target.f32_tflops * 1e6 / std::max(target.units, 1);
    const double compute_us = tiles * tile_flops / (pace.share * unit_flops_per_us);
    const double latency_us = double(ceil_div(p.k, config.bk)) * pace.step_us;
    const Prediction candidates[] = {
        {compute_us, "compute"}, {latency_us, "latency"}, {floor.memory_us, "memory"}, {target.launch_us, "launch"}};
    return *std::max_element(std::begin(candidates), std::end(candidates),
                             [](const Prediction& x, const Prediction& y) { return x.us < y.us; });
}

Prediction v0_predict(const Problem& p, const Config& config, const Target& target) {
    // Row-major D: a warp shares a row of A and reads 32 columns of B, which are a line if B is row-major, too.
    const bool row_major = p.d.order == CARAT_ROW_MAJOR;
    const bool coalesced = row_major ? p.b.order == CARAT_ROW_MAJOR : p.a.order == CARAT_COL_MAJOR;
    return predict_tiles(p, config, target, coalesced ? kV0Coalesced : kV0Strided);
}

Prediction v1_predict(const Problem& p, const Config& config, const Target& target) {
    return predict_tiles(p, config, target, config.bk == 32 ? kV1Tile32 : kV1Tile16);
}

// ---------------------------------------------------------------- prepare

Result<std::unique_ptr<Executable>> prepare_rung(const Problem& p, const Config& config, Runtime& runtime,
                                                 const char* include, const char* function, unsigned resident) {
    CudaKernel kernel;
    kernel.include = include;
    kernel.function = function;
    kernel.shape.threads = unsigned(config.bm * config.bn);
    // More tiles than blocks are dealt in a grid-stride loop.
    kernel.shape.grid_x = unsigned(std::clamp<int64_t>(tile_count(p, config), 1, kMaxGridX));
    kernel.constants = epilogue_constants(p);
    kernel.constants.emplace_back("kThreads", std::to_string(kernel.shape.threads));
    kernel.constants.emplace_back("kMinBlocks", std::to_string(std::max(1u, resident / kernel.shape.threads)));
    return prepare_cuda(p, config, {&kernel, 1}, runtime);
}

Result<std::unique_ptr<Executable>> v0_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_rung(p, config, runtime, "ladder/v0_naive.cuh", "carat_kernel::v0_naive", kResidentV0);
}

Result<std::unique_ptr<Executable>> v1_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_rung(p, config, runtime, "ladder/v1_shared.cuh", "carat_kernel::v1_shared", kResidentV1);
}

}  // namespace

const Row kRowV0Naive = {"v0_naive",
                         "Rung 0: one thread an element of D, operands straight from global memory (f32).",
                         "kernels/ladder/v0_naive.cuh",
                         CARAT_BACKEND_CUDA,
                         require_f32_rung,
                         v0_candidates,
                         v0_predict,
                         v0_prepare};

const Row kRowV1Shared = {"v1_shared",
                          "Rung 1: tiles of A and B in shared memory, one thread an element of D (f32).",
                          "kernels/ladder/v1_shared.cuh",
                          CARAT_BACKEND_CUDA,
                          require_f32_rung,
                          v1_candidates,
                          v1_predict,
                          v1_prepare};

}  // namespace carat
