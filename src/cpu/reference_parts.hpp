// SPDX-License-Identifier: Apache-2.0
// reference_parts.hpp: what the reference and the result check share. Every mode of the contract is cut into plain
// products ("parts"); a tile of one part is accumulated in f64 from dequantised panels.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "core/problem.hpp"

namespace carat::cpu {

// Element (i, j) lies at index offset + i * row + j * col.
struct Matrix {
    const void* base = nullptr;
    carat_dtype dtype = CARAT_NONE;
    int64_t offset = 0, row = 0, col = 0;
    int64_t index(int64_t i, int64_t j) const { return offset + i * row + j * col; }
};

// Scales of one operand: that of (own row i, depth k) is data[(i / row_div) * row + (k / k_div) * col].
struct ScaleGrid {
    const float* data = nullptr;   // nullptr: no scales
    const float* zeros = nullptr;  // zero points on the same grid
    int64_t row = 0, col = 0;
    int64_t row_div = std::numeric_limits<int64_t>::max(), k_div = std::numeric_limits<int64_t>::max();
    int64_t row_offset(int64_t i) const { return i / row_div * row; }
};

// 2:4 metadata of one operand: `row_bytes` bytes for each of its own rows.
struct Metadata {
    const uint8_t* data = nullptr;  // nullptr: dense
    int64_t row_bytes = 0;
    // Which of the two stored elements of k's group of four is element k: 0, 1, or -1 if it was not kept.
    int slot(int64_t own_row, int64_t k) const {
        const int group = data[own_row * row_bytes + k / 8] >> (k / 4 % 2 * 4);
        const int place = int(k % 4);
        return (group & 3) == place ? 0 : (group >> 2 & 3) == place ? 1 : -1;
    }
};

// One plain product. Rows and K count as in the operands' memory: a group of a packed form is the range of rows (or of
// K) that belongs to it, so grids and metadata need no shift.
struct Part {
    int64_t index = 0;  // batch entry or group
    int64_t row_begin = 0, row_end = 0, n = 0, k_begin = 0, k_end = 0;
    Matrix a, b, c, d;
    ScaleGrid scale_a, scale_b;
    Metadata sparse_a, sparse_b;
    Matrix bias;            // (row, column) -> element, whichever way it runs; base nullptr: none
    int64_t first_row = 0;  // out_scale and d_scales: row i of D is their row first_row + i
    int64_t rows() const { return row_end - row_begin; }
    int64_t depth() const { return k_end - k_begin; }
};

// All non-empty parts. `operands` need not be valid where the contract says that it is not read.
std::vector<Part> reference_parts(const Problem& problem, const carat_operands& operands);
// Part of batch entry or group `index`, over all its rows (of the packed forms: all rows of A).
Part reference_part(const Problem& problem, const carat_operands& operands, int64_t index);

// alpha and beta of the call, from the host or from memory.
struct Scalars {
    double alpha = 1, beta = 0;
};
Scalars reference_scalars(const Problem& problem, const carat_operands& operands);

double activate(carat_activation activation, double value);

// Columns of the accumulator that column j of D comes from: plane 0 (the gate, or the only one) and plane 1 (up).
inline int64_t accumulator_column(carat_gate gate, int64_t d_cols, int plane, int64_t j) {
    if (gate == CARAT_GATE_INTERLEAVED) return 2 * j + plane;
    return gate == CARAT_GATE_SPLIT ? plane * d_cols + j : j;
}

inline constexpr int64_t kTileRows = 32, kTileCols = 128, kTileDepth = 256;

// Columns of an accumulator tile: column t is first + t * step.
struct Columns {
    int64_t first = 0, step = 1, count = 0;
};

// Dequantised f64 panels of A [kTileRows][kTileDepth] and B [kTileDepth][kTileCols], with masks of kept elements where
// an operand is 2:4 sparse: what was not kept is not multiplied, so an infinity or NaN opposite it does not show.
struct Panels {
    std::unique_ptr<double[]> a{new double[kTileRows * kTileDepth]}, b{new double[kTileDepth * kTileCols]};
    std::unique_ptr<uint8_t[]> a_kept{new uint8_t[kTileRows * kTileDepth]}, b_kept{new uint8_t[kTileDepth * kTileCols]};
    void load_a(const Part& part, int64_t row, int64_t rows, int64_t k, int64_t depth);
    void load_b(const Part& part, Columns columns, int64_t k, int64_t depth);
};

// Sums of one tile, [kTileRows][kTileCols]. With bounds: the sum of |a||b| and the sum over k of |partial sum|, which
// is what rounding errors of a sum are proportional to.
struct TileSums {
    std::unique_ptr<double[]> value{new double[kTileRows * kTileCols]};
    std::unique_ptr<double[]> magnitude, growth;
    explicit TileSums(bool with_bounds) {
        if (!with_bounds) return;
        magnitude.reset(new double[kTileRows * kTileCols]);
        growth.reset(new double[kTileRows * kTileCols]);
    }
};

// What one thread needs for a tile: two planes of sums, since a gate multiplies two accumulators.
struct Scratch {
    Panels panels;
    TileSums sums[2];
    explicit Scratch(bool with_bounds = false) : sums{TileSums(with_bounds), TileSums(with_bounds)} {}
};

// Scratches for as many tiles as run at once, made up front so that no worker has to allocate.
class ScratchPool {
  public:
    ScratchPool(int threads, bool with_bounds) {
        for (int i = 0; i < threads + 1; ++i) all_.emplace_back(with_bounds);  // the caller works too
        for (Scratch& scratch : all_) free_.push_back(&scratch);
    }
    Scratch* take() {
        std::lock_guard lock(mutex_);
        Scratch* scratch = free_.back();
        free_.pop_back();
        return scratch;
    }
    void give(Scratch* scratch) {
        std::lock_guard lock(mutex_);
        free_.push_back(scratch);
    }

  private:
    std::deque<Scratch> all_;
    std::vector<Scratch*> free_;
    std::mutex mutex_;
};

// Sums in order of k. `multiply` false (alpha = 0): the sums are 0 and A and B are not read.
void accumulate_tile(const Part& part, int64_t row, int64_t rows, Columns columns, bool multiply, Panels& panels,
                     TileSums& sums);

// A tile of D; tiles() covers all parts with them, in order. Blocks of 128 columns of D lie in one tile.
struct ReferenceTile {
    int64_t part, row, rows, col, cols;
};
std::vector<ReferenceTile> reference_tiles(const Problem& problem, const std::vector<Part>& parts);

// Columns of D that a part has.
inline int64_t part_d_cols(const Problem& problem, const Part& part) {
    return problem.epilogue.gate == CARAT_GATE_NONE ? part.n : part.n / 2;
}

}  // namespace carat::cpu
