// SPDX-License-Identifier: Apache-2.0
// ladder.hpp: what the rows of the ladder share: the problems they take, their configurations and their cost model.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

inline constexpr int64_t kMaxGridX = 2147483647;

// Single and strided batched problems in f32 (A, B, C, D and bias), any epilogue but computed output scales.
void require_f32_rung(const Problem& problem, const Target& target, Requirements& requirements);
// Single and strided batched problems with A and B both f16 or both bf16, dense, unscaled, accumulated in f32; nothing is
// asked of C, D and the epilogue. cc: the least compute capability (80).
void require_16bit(const Problem& problem, const Target& target, int cc, Requirements& requirements);
// The same with C, D and bias of f32 or the operands' type, no gate and no computed output scales.
void require_16bit_rung(const Problem& problem, const Target& target, int cc, Requirements& requirements);

// The production kernels of 16-bit operands: the same with any epilogue; D of f32, f16, bf16, e4m3, e5m2 or s8, C and
// bias of f32, f16 or bf16.
void require_16bit_gemm(const Problem& problem, const Target& target, int cc, Requirements& requirements);

// The configuration of a family for this problem's types and layout, with a tile.
Config rung_config(const char* family, const Problem& problem, int bm, int bn, int bk);

// Columns of B in a tile. Under a gate two of them make a column of D, and a configuration counts D's, but for sm90_ws's, which
// counts those of the instruction.
int tile_cols_of_b(const Problem& problem, const Config& config);
// Columns of D in a tile of sm90_ws and its like: under a gate two columns of B make one.
int64_t tile_cols(const Problem& problem, const Config& config);
// Tiles of D, over the batch.
int64_t tile_count(const Problem& problem, const Config& config);

// What a block asks of its SM for one step of K (kBK elements), in clocks of each pipe at its full rate, and what a tile
// costs around its steps.
struct TileCost {
    double math_clk = 0;           // f32 units or tensor cores
    double shared_clk = 0;         // the 128-byte port of shared memory, reads and writes
    double copy_clk = 0;           // the load/store pipe, where threads copy element by element
    double global_bytes = 0;       // from L2 or beyond
    double around_clk = 0;         // first load, epilogue: what no other block of the SM hides
    double start_clk = 0;          // once a kernel: launch, barriers, the very first copies
    int blocks = 1;                // resident on an SM
    const char* math = "compute";  // the name of the pipe for the verdict: "f32 units", "tensor cores"
    double flops_per_clk = 0;      // of an SM at that pipe's full rate: gives the clock from the sustained rate
};

// Clocks of the load/store pipe for a line of 64 16-bit elements that threads copy one by one, since its address or pitch
// is no multiple of 16 bytes: two loads a lane of a warp, whose lanes touch four lines at once. Assumed, not measured.
inline constexpr double kElementCopyClk = 8;

// The busiest SM's tiles through its slowest pipe, against the floor of the problem.
Prediction predict_pipes(const Problem& problem, const Config& config, const Target& target, const TileCost& cost);

}  // namespace carat
