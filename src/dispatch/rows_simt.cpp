// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_simt.hpp"

#include <algorithm>
#include <array>

#include "dispatch/cuda_kernel.hpp"
#include "dispatch/ladder.hpp"

namespace carat {
namespace {

// Threads that an SM is to hold, as the compiler's bound on registers. v1 waits at barriers, so all it can (3.95
// TFLOP/s with 1024 at 2048^3, 4.78 with 2048); v0 has none, and its widest epilogue spills below 42 registers.
constexpr unsigned kResidentV0 = 1536, kResidentV1 = 2048;

// A warp along D's contiguous dimension, eight of them a block.
std::vector<Config> v0_candidates(const Problem& p, const Target&) {
    const bool row_major = p.d.order == CARAT_ROW_MAJOR;
    return {rung_config("v0_naive", p, row_major ? 8 : 32, row_major ? 32 : 8, 1)};
}

std::vector<Config> v1_candidates(const Problem& p, const Target&) {
    return {rung_config("v1_shared", p, 32, 32, 32), rung_config("v1_shared", p, 16, 16, 16)};
}

Config register_config(const char* family, const Problem& p, std::array<int, 3> tile, std::array<int, 2> of_thread) {
    Config config = rung_config(family, p, tile[0], tile[1], tile[2]);
    config.tm = of_thread[0];
    config.tn = of_thread[1];
    return config;
}

// The large tile first; the small ones are for problems that have too few tiles to fill a GPU.
std::vector<Config> v2_candidates(const Problem& p, const Target&) {
    return {register_config("v2_registers", p, {128, 128, 16}, {8, 8}),
            register_config("v2_registers", p, {64, 64, 16}, {8, 4})};
}

std::vector<Config> v3_candidates(const Problem& p, const Target&) {
    // Measured at 4096^3: 128 x 128 in steps of 8 is 1 to 2 % slower than 128 x 256, in steps of 16, a loop of 32 KB of
    // code, 4 to 7 %.
    std::vector<Config> configs = {register_config("v3_double_buffer", p, {128, 256, 8}, {8, 16}),
                                   register_config("v3_double_buffer", p, {64, 128, 8}, {8, 8}),
                                   register_config("v3_double_buffer", p, {64, 64, 16}, {8, 4}),
                                   register_config("v3_double_buffer", p, {32, 32, 32}, {4, 4})};
    for (Config& config : configs) config.stages = 2;
    return configs;
}

void require_register_rung(const Problem& p, const Target& target, Requirements& r) {
    require_f32_rung(p, target, r);
    r.require(p.epilogue.gate == CARAT_GATE_NONE,
              "a thread of it has one accumulator for each of its elements, and a gated epilogue needs two");
}

unsigned threads_of(const Config& config) {
    return unsigned(config.bm * config.bn / (std::max(config.tm, 1) * std::max(config.tn, 1)));
}

// Threads that an SM is to hold where each has tm x tn accumulators: 65536 registers give them 128, 168 or 255 each,
// the least steps at which nothing spills.
unsigned resident_threads(const Config& config) {
    if (config.tm * config.tn > 64) return 256;
    return config.tm * config.tn == 64 && config.stages > 1 ? 384 : 512;
}

// ---------------------------------------------------------------- cost of rungs 0 and 1
// Both are bound by the load/store pipe of an SM: it serves one wavefront (at most 128 bytes, no bank or line
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

// ---------------------------------------------------------------- cost of rungs 2 and 3
// An SM issues four instructions a clock and every multiply-add takes one of the slots; shared memory serves half a warp's
// loads of 16 bytes in a clock. Counted in the machine code for sm_90a: the instructions around the multiply-adds and
// their loads. Measured on an H200 at 4096^3: the share of the slots that is used. Rung 2 waits for its copies whenever
// both blocks of an SM do.

constexpr double kIssueSlots = 4;  // of an SM, a clock
constexpr double kShareV2 = 0.75, kShareV3 = 0.92;
constexpr double kStepInstructions = 100;  // of a warp, a step: addresses, copies, barrier
constexpr double kStoreInstructions = 17;  // of a warp, an element a lane: epilogue and store
constexpr double kGlobalClk = 900;         // from asking global memory to having the values

double step_instructions(const Config& c) {
    return c.bk * (c.tm * c.tn + (c.tm + c.tn) / 4.0) + kStepInstructions;
}

TileCost register_tile_cost(const Config& c, double share) {
    const double warps = threads_of(c) / 32.0;
    TileCost cost;
    cost.math = "f32 units";
    cost.flops_per_clk = 256;
    cost.math_clk = warps * step_instructions(c) / (kIssueSlots * share);
    cost.shared_clk = c.bk * (warps * (c.tm + c.tn) / 2 + (c.bm + c.bn) / 32.0);
    cost.global_bytes = 4.0 * (c.bm + c.bn) * c.bk;
    cost.around_clk = kGlobalClk + warps * c.tm * c.tn * kStoreInstructions / kIssueSlots;
    cost.blocks = int(resident_threads(c) / threads_of(c));
    return cost;
}

// Where SMs have few blocks, a step takes as long as its data and its warps' instructions: one after the other in rung
// 2, at once in rung 3.
Prediction predict_register_tiles(const Problem& p, const Config& c, const Target& target, bool overlapped) {
    const TileCost cost = register_tile_cost(c, overlapped ? kShareV3 : kShareV2);
    const int units = std::max(target.units, 1);
    const double warps_a_scheduler = double(ceil_div(threads_of(c), 128));
    const double multiply_clk = warps_a_scheduler * step_instructions(c);
    const double step_clk = overlapped ? std::max(kGlobalClk, multiply_clk) : kGlobalClk + multiply_clk;
    const double waves = double(ceil_div(tile_count(p, c), int64_t(units) * cost.blocks));
    const double clk_per_us = target.f32_tflops * 1e6 / (cost.flops_per_clk * units);
    const double clk = waves * (double(ceil_div(p.k, c.bk)) * step_clk + cost.around_clk);
    const Prediction busy = predict_pipes(p, c, target, cost), lone = {clk / clk_per_us, "latency"};
    return busy.us < lone.us ? lone : busy;
}

Prediction v2_predict(const Problem& p, const Config& config, const Target& target) {
    return predict_register_tiles(p, config, target, false);
}

Prediction v3_predict(const Problem& p, const Config& config, const Target& target) {
    return predict_register_tiles(p, config, target, true);
}

// ---------------------------------------------------------------- prepare

Result<std::unique_ptr<Executable>> prepare_rung(const Problem& p, const Config& config, Runtime& runtime,
                                                 const char* include, const char* function, unsigned resident) {
    CudaKernel kernel;
    kernel.include = include;
    kernel.function = function;
    kernel.shape.threads = threads_of(config);
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

Result<std::unique_ptr<Executable>> v2_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_rung(p, config, runtime, "ladder/v2_registers.cuh", "carat_kernel::v2_registers",
                        resident_threads(config));
}

Result<std::unique_ptr<Executable>> v3_prepare(const Problem& p, const Config& config, Runtime& runtime) {
    return prepare_rung(p, config, runtime, "ladder/v3_double_buffer.cuh", "carat_kernel::v3_double_buffer",
                        resident_threads(config));
}

// Every rung and tile adds the products of an element of D one after another, in the order of K.
bool batch_invariant(const Problem&, const Config&) {
    return true;
}

}  // namespace

const Row kRowV0Naive = {"v0_naive",
                         "Rung 0: one thread an element of D, operands straight from global memory (f32).",
                         "kernels/ladder/v0_naive.cuh",
                         CARAT_BACKEND_CUDA,
                         require_f32_rung,
                         v0_candidates,
                         v0_predict,
                         v0_prepare,
                         nullptr,
                         false,
                         nullptr,
                         batch_invariant};

const Row kRowV1Shared = {"v1_shared",
                          "Rung 1: tiles of A and B in shared memory, one thread an element of D (f32).",
                          "kernels/ladder/v1_shared.cuh",
                          CARAT_BACKEND_CUDA,
                          require_f32_rung,
                          v1_candidates,
                          v1_predict,
                          v1_prepare,
                          nullptr,
                          false,
                          nullptr,
                          batch_invariant};

const Row kRowV2Registers = {"v2_registers",
                             "Rung 2: a tile of 8 x 8 sums in the registers of a thread (f32).",
                             "kernels/ladder/v2_registers.cuh",
                             CARAT_BACKEND_CUDA,
                             require_register_rung,
                             v2_candidates,
                             v2_predict,
                             v2_prepare,
                             nullptr,
                             false,
                             nullptr,
                             batch_invariant};

const Row kRowV3DoubleBuffer = {"v3_double_buffer",
                                "Rung 3: 16-byte loads of the next tile under the products of this one (f32).",
                                "kernels/ladder/v3_double_buffer.cuh",
                                CARAT_BACKEND_CUDA,
                                require_register_rung,
                                v3_candidates,
                                v3_predict,
                                v3_prepare,
                                nullptr,
                                false,
                                nullptr,
                                batch_invariant};

}  // namespace carat
