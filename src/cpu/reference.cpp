// SPDX-License-Identifier: Apache-2.0
// reference.cpp: the definition: accumulate a tile in f64, then the epilogue in the contract's order, one rounding at
// the store. Everything that is specific to a mode, an operand or a recipe is in reference_parts.cpp and
// reference_tile.cpp.
#include "cpu/reference.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <numbers>

#include "core/convert.hpp"
#include "cpu/reference_parts.hpp"

namespace carat::cpu {

double activate(carat_activation activation, double v) {
    switch (activation) {
        case CARAT_ACT_NONE:
            return v;
        case CARAT_ACT_RELU:
            return v <= 0 ? 0 : v;  // NaN fails the comparison and stays
        case CARAT_ACT_GELU_ERF:
            return v * 0.5 * std::erfc(-v / std::numbers::sqrt2);
        case CARAT_ACT_GELU_TANH: {
            // v / 2 * (1 + tanh(y)) without its cancellation: (1 + tanh(y)) / 2 = 1 / (1 + exp(-2 y)).
            const double y = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
            return v / (1 + std::exp(-2 * y));
        }
        case CARAT_ACT_SILU:
            return v / (1 + std::exp(-v));
        case CARAT_ACT_SIGMOID:
            return 1 / (1 + std::exp(-v));
    }
    return v;
}

namespace {

class Execution {
  public:
    Execution(const Problem& problem, const carat_operands& operands)
        : p_(problem), e_(problem.epilogue), o_(operands), scalars_(reference_scalars(problem, operands)) {}

    // Computes and stores one tile of D; returns its amax.
    double run(const Part& part, const ReferenceTile& tile, Scratch& scratch) const {
        accumulate(part, tile, scratch);
        double largest = 0;
        for (int64_t i = 0; i < tile.rows; ++i) {
            double* v = scratch.sums[0].value.get() + i * kTileCols;
            const double* up = scratch.sums[1].value.get() + i * kTileCols;
            for (int64_t j = 0; j < tile.cols; ++j) {
                v[j] = entry(part, tile.row + i, tile.col + j, v[j], up[j]);
                if (std::isnan(largest)) continue;
                largest = std::isnan(v[j]) ? v[j] : std::max(largest, std::fabs(v[j]));
            }
            store_row(part, tile, tile.row + i, v);
        }
        return largest;
    }

  private:
    int64_t column(const Part& part, int plane, int64_t j) const {
        return accumulator_column(e_.gate, part_d_cols(p_, part), plane, j);
    }

    void accumulate(const Part& part, const ReferenceTile& tile, Scratch& scratch) const {
        const int planes = e_.gate == CARAT_GATE_NONE ? 1 : 2;
        const int64_t step = e_.gate == CARAT_GATE_INTERLEAVED ? 2 : 1;
        for (int plane = 0; plane < planes; ++plane)
            accumulate_tile(part, tile.row, tile.rows, {column(part, plane, tile.col), step, tile.cols},
                            scalars_.alpha != 0, scratch.panels, scratch.sums[plane]);
    }

    // alpha * acc + beta * C + bias at (row, column) of the accumulator.
    double linear(const Part& part, int64_t row, int64_t col, double acc) const {
        double v = scalars_.alpha == 0 ? 0 : scalars_.alpha * acc;
        if (scalars_.beta != 0) v += scalars_.beta * load_f64(part.c.base, part.c.dtype, part.c.index(row, col));
        if (part.bias.base) v += load_f64(part.bias.base, part.bias.dtype, part.bias.index(row, col));
        return v;
    }

    double entry(const Part& part, int64_t row, int64_t j, double acc, double acc_up) const {
        double v = activate(e_.activation, linear(part, row, column(part, 0, j), acc));
        if (e_.gate != CARAT_GATE_NONE) v *= linear(part, row, column(part, 1, j), acc_up);
        if (e_.clamp) v = v < e_.clamp_lo ? double(e_.clamp_lo) : v > e_.clamp_hi ? double(e_.clamp_hi) : v;
        return v;
    }

    // Divides by the block's computed scale and records it. NaN entries do not take part in the maximum.
    void divide_by_computed(const Part& part, const ReferenceTile& tile, int64_t row, double* v) const {
        double largest = 0;
        for (int64_t j = 0; j < tile.cols; ++j) largest = std::fmax(largest, std::fabs(v[j]));
        float scale = float(largest / info(p_.d.dtype).largest);
        if (scale == 0) scale = 1;
        const int64_t blocks = ceil_div(p_.d_cols(), kTileCols);
        o_.d_scales[(part.first_row + row) * blocks + tile.col / kTileCols] = scale;
        for (int64_t j = 0; j < tile.cols; ++j) v[j] /= scale;
    }

    void store_row(const Part& part, const ReferenceTile& tile, int64_t row, double* v) const {
        if (e_.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128) divide_by_computed(part, tile, row, v);
        double scale = 1;
        if (e_.out_scale == CARAT_OUT_SCALE_TENSOR) scale = o_.out_scale[0];
        if (e_.out_scale == CARAT_OUT_SCALE_ROW) scale = o_.out_scale[part.first_row + row];
        void* d = const_cast<void*>(part.d.base);
        for (int64_t j = 0; j < tile.cols; ++j)
            store_f64(d, part.d.dtype, part.d.index(row, tile.col + j), v[j] * scale);
    }

    const Problem& p_;
    const carat_epilogue& e_;
    const carat_operands& o_;
    Scalars scalars_;
};

void execute(const Problem& problem, const carat_operands& operands, ThreadPool& threads) {
    const std::vector<Part> parts = reference_parts(problem, operands);
    const std::vector<ReferenceTile> tiles = reference_tiles(problem, parts);
    const Execution execution(problem, operands);
    ScratchPool scratches(threads.size(), false);
    std::vector<double> largest(tiles.size());
    threads.parallel_for(int64_t(tiles.size()), [&](int64_t at) {
        Scratch* scratch = scratches.take();
        const ReferenceTile& tile = tiles[size_t(at)];
        largest[size_t(at)] = execution.run(parts[size_t(tile.part)], tile, *scratch);
        scratches.give(scratch);
    });
    if (!problem.epilogue.amax || !operands.amax) return;
    double all = 0;
    for (const double one : largest) all = std::isnan(all) || std::isnan(one) ? NAN : std::max(all, one);
    *operands.amax = float(all);
}

}  // namespace

Status reference_execute(const Problem& problem, const carat_operands& operands, ThreadPool& threads) {
    if (problem.empty()) return {};
    try {
        execute(problem, operands, threads);
    } catch (const std::bad_alloc&) {
        return fail(CARAT_ALLOC_FAILED,
                    "the reference needs about {} KB of host memory for its panels and the list of tiles of {}: free "
                    "some memory or use fewer threads",
                    (threads.size() + 1) * 512, describe(problem));
    }
    return {};
}

Accumulated reference_accumulate(const Problem& problem, const carat_operands& operands, int64_t batch, int64_t row,
                                 int64_t col) {
    const Part part = reference_part(problem, operands, batch);
    Panels panels;
    TileSums sums(true);
    accumulate_tile(part, row, 1, {col, 1, 1}, true, panels, sums);
    return {sums.value[0], sums.magnitude[0]};
}

}  // namespace carat::cpu
