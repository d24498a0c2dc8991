// SPDX-License-Identifier: Apache-2.0
// freivalds.cpp: the product test. For a random vector x of +-1, D x must equal alpha A (B x) + beta C x + bias x:
// three matrix-vector products instead of the matrix product, and every entry of D takes part.
//
// The bound: x is independent of the errors e_ij of row i, so sum_j x_j e_ij has Hoeffding's tail: it exceeds
// 8 sqrt(sum_j e_ij^2) with probability 2 exp(-32) < 3e-14. The e_ij are bounded by the error model with Cauchy-Schwarz
// for m (sum_k |a||b| <= |a_i||b_j|), so that the sum over j needs only |a_i| and the Frobenius norm of B. The partial
// sums are taken to be as large as the final ones, for lack of anything better without the product itself.
#include <cmath>
#include <vector>

#include "check/error_model.hpp"
#include "core/convert.hpp"

namespace carat::check {
namespace {

using cpu::kTileCols;
using cpu::kTileDepth;
using cpu::kTileRows;

constexpr double kDeviations = 8;

struct Side {
    const cpu::Part& part;
    std::vector<double> x;        // +-1, one a column
    std::vector<double> y;        // B x
    std::vector<double> squares;  // sum of b^2, one an element of K
    double b_norm = 0;            // Frobenius norm of B
};

void multiply_b(Side& side, int64_t begin, int64_t depth, cpu::Scratch& scratch) {
    const cpu::Part& part = side.part;
    for (int64_t col = 0; col < part.n; col += kTileCols) {
        const int64_t cols = std::min(kTileCols, part.n - col);
        scratch.panels.load_b(part, {col, 1, cols}, part.k_begin + begin, depth);
        for (int64_t k = 0; k < depth; ++k)
            for (int64_t j = 0; j < cols; ++j) {
                if (part.sparse_b.data && !scratch.panels.b_kept[k * kTileCols + j]) continue;
                const double b = scratch.panels.b[k * kTileCols + j];
                side.y[size_t(begin + k)] += b * side.x[size_t(col + j)];
                side.squares[size_t(begin + k)] += b * b;
            }
    }
}

struct RowSum {
    double value = 0, a_norm = 0;
};

void multiply_a(const Side& side, int64_t row, int64_t rows, cpu::Scratch& scratch, RowSum* sums) {
    const cpu::Part& part = side.part;
    for (int64_t begin = 0; begin < part.depth(); begin += kTileDepth) {
        const int64_t depth = std::min(kTileDepth, part.depth() - begin);
        scratch.panels.load_a(part, row, rows, part.k_begin + begin, depth);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t k = 0; k < depth; ++k) {
                if (part.sparse_a.data && !scratch.panels.a_kept[i * kTileDepth + k]) continue;
                const double a = scratch.panels.a[i * kTileDepth + k];
                sums[i].value += a * side.y[size_t(begin + k)];
                sums[i].a_norm += a * a;
            }
    }
    for (int64_t i = 0; i < rows; ++i) sums[i].a_norm = std::sqrt(sums[i].a_norm);
}

// Ratio of one row; -1 where it cannot say anything.
double judge_row(const Problem& p, const Side& side, cpu::Scalars scalars, const ErrorModel& model, int64_t row,
                 const RowSum& sum) {
    const cpu::Part& part = side.part;
    const DtypeInfo& d_type = info(p.d.dtype);
    const double alpha = std::fabs(scalars.alpha);
    // The output's own rounding: relative for floats, half a unit for integers unless nothing is rounded.
    const double half_unit = model.exact ? 0 : d_type.smallest / 2;
    double left = 0, right = scalars.alpha == 0 ? 0 : scalars.alpha * sum.value, squares = 0, reach = 0;
    bool is_nan = false, is_edge = false;
    for (int64_t j = 0; j < part.n; ++j) {
        const double d = load_f64(part.d.base, part.d.dtype, part.d.index(row, j));
        double rest = 0, rest_size = 0;
        if (scalars.beta != 0) {
            rest = scalars.beta * load_f64(part.c.base, part.c.dtype, part.c.index(row, j));
            rest_size = std::fabs(rest);
        }
        if (part.bias.base) {
            const double bias = load_f64(part.bias.base, part.bias.dtype, part.bias.index(row, j));
            rest += bias;
            rest_size += std::fabs(bias);
        }
        is_nan |= std::isnan(d);
        is_edge |= std::fabs(d) >= d_type.largest;
        left += side.x[size_t(j)] * d;
        right += side.x[size_t(j)] * rest;
        const double grown = model.growth * double(part.depth()) * (std::fabs(d) + rest_size);
        const double error = d_type.unit_roundoff * std::fabs(d) + half_unit + model.epilogue * rest_size + grown;
        squares += error * error;
        reach = std::max(reach, rest_size);
    }
    const double m = alpha * sum.a_norm * side.b_norm;  // >= |alpha| m of every entry of the row
    if (!std::isfinite(right) || !std::isfinite(m)) return -1;
    if (is_nan && m + reach < info(CARAT_F32).largest) return INFINITY;
    if (is_nan || (is_edge && m + reach >= d_type.largest)) return -1;  // an entry may have overflowed or saturated
    if (!std::isfinite(left)) return INFINITY;
    const double of_sum = (model.operands + model.summation + model.epilogue) * m + model.absolute * double(part.n);
    // Both sides are f64 sums themselves: (n + k) roundings of sums of at most sqrt(n) m in size.
    const double own = double(part.n + part.depth()) * 0x1p-53 * std::sqrt(double(part.n)) * (m + reach);
    const double bound = kDeviations * std::sqrt(2 * (squares + of_sum * of_sum)) + own;
    const double off = std::fabs(left - right);
    return off == 0 ? 0 : off / bound;
}

}  // namespace

bool freivalds_applies(const Problem& p) {
    const carat_epilogue& e = p.epilogue;
    const bool linear =
        e.activation == CARAT_ACT_NONE && e.gate == CARAT_GATE_NONE && !e.clamp && e.out_scale == CARAT_OUT_SCALE_NONE;
    return linear && (bits(p.d.dtype) > 8);  // 8-bit outputs saturate
}

FreivaldsResult freivalds(const Problem& p, const cpu::Part& part, cpu::Scalars scalars, const ErrorModel& model,
                          uint64_t seed, cpu::ScratchPool& scratches, cpu::ThreadPool& threads) {
    const int64_t depth = scalars.alpha == 0 ? 0 : part.depth();
    Side side{part, std::vector<double>(size_t(part.n)), std::vector<double>(size_t(part.depth())),
              std::vector<double>(size_t(part.depth()))};
    for (int64_t j = 0; j < part.n; ++j) side.x[size_t(j)] = mix(seed, uint64_t(j)) & 1 ? 1 : -1;
    threads.parallel_for(ceil_div(depth, kTileDepth), [&](int64_t block) {
        cpu::Scratch* scratch = scratches.take();
        multiply_b(side, block * kTileDepth, std::min(kTileDepth, depth - block * kTileDepth), *scratch);
        scratches.give(scratch);
    });
    for (const double square : side.squares) side.b_norm += square;
    side.b_norm = std::sqrt(side.b_norm);
    std::vector<double> ratios(size_t(part.rows()));
    threads.parallel_for(ceil_div(part.rows(), kTileRows), [&](int64_t block) {
        const int64_t row = part.row_begin + block * kTileRows, rows = std::min(kTileRows, part.row_end - row);
        RowSum sums[kTileRows];
        cpu::Scratch* scratch = scratches.take();
        if (depth > 0) multiply_a(side, row, rows, *scratch, sums);
        scratches.give(scratch);
        for (int64_t i = 0; i < rows; ++i)
            ratios[size_t(row + i - part.row_begin)] = judge_row(p, side, scalars, model, row + i, sums[i]);
    });
    FreivaldsResult worst;
    for (size_t i = 0; i < ratios.size(); ++i)
        if (ratios[i] > worst.ratio) worst = {ratios[i], part.row_begin + int64_t(i)};
    return worst;
}

}  // namespace carat::check
