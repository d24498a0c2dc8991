// SPDX-License-Identifier: Apache-2.0
// check.cpp: judges D entry by entry. The f64 value v before the last rounding comes with a bound e of what a correct
// kernel may be off by; D passes if it lies in [round(v - e), round(v + e)]. Since rounding is monotonous, this one
// rule covers ties that flip, subnormals, quantised outputs and saturation, and needs no allowance of its own for any
// of them.
#include "check/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "check/error_model.hpp"
#include "core/convert.hpp"

namespace carat {
namespace {

using check::ErrorModel;
using cpu::kTileCols;
using cpu::Part;
using cpu::ReferenceTile;

// A value, the error allowed in it, and the magnitude |alpha| m + |beta C| + |bias| that errors are reported against.
struct Allowed {
    double value = 0, error = 0, magnitude = 0;
};

struct Worst {
    double ratio = -1;  // |D - R| / tolerance; above 1 or not a number: wrong
    bool ok = true;
    int64_t entries = 0, row = 0, col = 0, batch = 0;
    double got = 0, want = 0, error = 0, bound = 0, largest = 0, largest_error = 0;
    bool any_nan = false;

    void take(const Worst& other) {
        const int64_t total = entries + other.entries;
        const double most = std::max(largest, other.largest), most_error = std::max(largest_error, other.largest_error);
        const bool nan = any_nan || other.any_nan;
        if ((ok && !other.ok) || (ok == other.ok && other.ratio > ratio)) *this = other;
        entries = total, largest = most, largest_error = most_error, any_nan = nan;
    }
};

// Largest slope of an activation: gelu' peaks at 1.1290 (x = sqrt 2), its tanh form at 1.1290 too, silu' at 1.0998.
double slope(carat_activation activation) {
    switch (activation) {
        case CARAT_ACT_GELU_ERF:
        case CARAT_ACT_GELU_TANH:
            return 1.13;
        case CARAT_ACT_SILU:
            return 1.1;
        case CARAT_ACT_SIGMOID:
            return 0.25;
        default:
            return 1;
    }
}

class Checker {
  public:
    Checker(const Problem& problem, const carat_operands& operands)
        : p_(problem), e_(problem.epilogue), o_(operands), scalars_(cpu::reference_scalars(problem, operands)) {
        model_ = check::error_model(problem, scalars_.alpha == 1 && scalars_.beta == 0);
    }
    const ErrorModel& model() const { return model_; }
    cpu::Scalars scalars() const { return scalars_; }

    Worst judge(const Part& part, const ReferenceTile& tile, cpu::Scratch& scratch) const {
        const int planes = e_.gate == CARAT_GATE_NONE ? 1 : 2;
        const int64_t step = e_.gate == CARAT_GATE_INTERLEAVED ? 2 : 1;
        for (int plane = 0; plane < planes; ++plane)
            cpu::accumulate_tile(part, tile.row, tile.rows, {column(part, plane, tile.col), step, tile.cols},
                                 scalars_.alpha != 0, scratch.panels, scratch.sums[plane]);
        Worst worst;
        for (int64_t i = 0; i < tile.rows; ++i) {
            Allowed row[kTileCols];
            for (int64_t j = 0; j < tile.cols; ++j) {
                row[j] = entry(part, tile.row + i, tile.col + j, i * kTileCols + j, scratch);
                worst.any_nan |= std::isnan(row[j].value);
                worst.largest = std::fmax(worst.largest, std::fabs(row[j].value));
                worst.largest_error = std::fmax(worst.largest_error, row[j].error);
            }
            judge_row(part, tile, tile.row + i, row, worst);
        }
        return worst;
    }

    // The amax that the execution wrote, against the largest |v| of all tiles.
    void judge_amax(Worst& worst) const {
        const double got = *o_.amax, want = worst.any_nan ? NAN : worst.largest;
        const double tolerance = worst.largest_error + 0x1p-24 * worst.largest + 0x1p-149;
        const bool fine = std::isnan(want) ? std::isnan(got) : got == want || std::fabs(got - want) <= tolerance;
        if (fine || !worst.ok) return;
        worst.ok = false;
        worst.row = worst.col = worst.batch = -1;
        worst.got = got, worst.want = want;
    }

  private:
    int64_t column(const Part& part, int plane, int64_t j) const {
        return cpu::accumulator_column(e_.gate, cpu::part_d_cols(p_, part), plane, j);
    }

    Allowed linear(const Part& part, int64_t row, int64_t col, const cpu::TileSums& sums, int64_t at) const {
        const double m = sums.magnitude[at];
        Allowed r;
        if (scalars_.alpha != 0) r = {scalars_.alpha * sums.value[at], 0, std::fabs(scalars_.alpha) * m};
        const auto add = [&r](double term) {
            r.value += term;
            r.magnitude += std::fabs(term);
        };
        if (scalars_.beta != 0) add(scalars_.beta * load_f64(part.c.base, part.c.dtype, part.c.index(row, col)));
        if (part.bias.base) add(load_f64(part.bias.base, part.bias.dtype, part.bias.index(row, col)));
        r.error = model_.bound(scalars_.alpha, m, sums.growth[at], r.magnitude);
        return r;
    }

    // Activation functions are evaluated with an absolute error of a few u |x| (1 + erf and 1 + tanh cancel for
    // negative x), the sigmoid with a few u; 8 covers the exponential, the division and the product.
    Allowed activated(Allowed x) const {
        if (e_.activation == CARAT_ACT_NONE) return x;
        double evaluation = 0;
        if (e_.activation == CARAT_ACT_SIGMOID) evaluation = 8 * model_.unit;
        if (e_.activation > CARAT_ACT_RELU && e_.activation != CARAT_ACT_SIGMOID)
            evaluation = 8 * model_.unit * std::fabs(x.value);
        x.error = slope(e_.activation) * x.error + evaluation;
        x.value = cpu::activate(e_.activation, x.value);
        return x;
    }

    Allowed entry(const Part& part, int64_t row, int64_t j, int64_t at, const cpu::Scratch& scratch) const {
        Allowed v = activated(linear(part, row, column(part, 0, j), scratch.sums[0], at));
        if (e_.gate != CARAT_GATE_NONE) {
            const Allowed up = linear(part, row, column(part, 1, j), scratch.sums[1], at);
            v.error = std::fabs(v.value) * up.error + std::fabs(up.value) * v.error + v.error * up.error;
            v.value *= up.value;
            v.error += model_.unit * std::fabs(v.value);
            v.magnitude *= up.magnitude;
        }
        if (e_.clamp) {
            const double lo = e_.clamp_lo, hi = e_.clamp_hi;
            v.value = v.value < lo ? lo : v.value > hi ? hi : v.value;
        }
        return v;
    }

    void judge_row(const Part& part, const ReferenceTile& tile, int64_t row, Allowed* v, Worst& worst) const {
        double factor = 1;
        if (e_.out_scale == CARAT_OUT_SCALE_TENSOR) factor = o_.out_scale[0];
        if (e_.out_scale == CARAT_OUT_SCALE_ROW) factor = o_.out_scale[part.first_row + row];
        if (e_.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128) factor = 1 / judge_scale(part, tile, row, v, worst);
        for (int64_t j = 0; j < tile.cols; ++j) {
            Allowed scaled = {v[j].value * factor, v[j].error * std::fabs(factor), v[j].magnitude * std::fabs(factor)};
            // One more rounding, of the product; the computed scale adds that of the division.
            if (factor != 1) scaled.error += 2 * model_.unit * std::fabs(scaled.value);
            worst.take(judge_entry(part, row, tile.col + j, scaled));
        }
    }

    // The computed scale must be that of the block within the error of its entries. The entries are then judged with
    // the scale that was written, since that is what they were divided by. Returns it.
    double judge_scale(const Part& part, const ReferenceTile& tile, int64_t row, const Allowed* v, Worst& worst) const {
        double largest = 0, error = 0;
        for (int64_t j = 0; j < tile.cols; ++j) {
            largest = std::fmax(largest, std::fabs(v[j].value));
            error = std::fmax(error, v[j].error);
        }
        const int64_t blocks = ceil_div(p_.d_cols(), kTileCols);
        const double got = o_.d_scales[(part.first_row + row) * blocks + tile.col / kTileCols];
        const double top = info(p_.d.dtype).largest, want = largest / top;
        const double tolerance = error / top + 2 * 0x1p-24 * want + 0x1p-149;
        const bool may_be_zero = want - tolerance <= 0;  // an all-zero block has scale 1
        const bool fine = got == want || std::fabs(got - want) <= tolerance || (may_be_zero && got == 1);
        if (fine && got != 0) return got;
        Worst bad;
        bad.ok = false;
        bad.ratio = std::numeric_limits<double>::infinity();
        bad.row = row, bad.col = tile.col, bad.batch = part.index;
        bad.got = got, bad.want = want, bad.error = std::fabs(got - want), bad.bound = tolerance;
        worst.take(bad);
        return want == 0 ? 1 : want;
    }

    Worst judge_entry(const Part& part, int64_t row, int64_t j, const Allowed& v) const {
        const double got = load_f64(part.d.base, part.d.dtype, part.d.index(row, j));
        const DtypeInfo& type = info(p_.d.dtype);
        Worst w;
        w.entries = 1, w.row = row, w.col = j, w.batch = part.index;
        w.got = got, w.want = round_to(p_.d.dtype, v.value);
        if (!std::isfinite(v.value)) {  // the class must be right: NaN, infinity of that sign, or what it saturates to
            w.ok = std::isnan(w.want) ? std::isnan(got) : got == w.want;
            w.ratio = w.ok ? 0 : std::numeric_limits<double>::infinity();
            w.error = w.ok ? 0 : w.ratio;
            return w;
        }
        // Where sums beyond the range of f32 are possible, so are infinities, their differences, and what they turn
        // into.
        const bool overflows = p_.a.dtype != CARAT_F64 && v.magnitude >= info(CARAT_F32).largest;
        if (overflows && (!std::isfinite(got) || !type.is_float || std::fabs(got) >= type.largest)) {
            w.ratio = 0;
            return w;
        }
        const double low = round_to(p_.d.dtype, v.value - v.error), high = round_to(p_.d.dtype, v.value + v.error);
        w.ok = got >= low && got <= high;  // false for NaN
        const bool saturates = bits(p_.d.dtype) <= 8 || !type.is_float;
        const double least = round_to(p_.d.dtype, -std::numeric_limits<double>::infinity());
        const double exact = saturates ? std::clamp(v.value, least, type.largest) : v.value;
        const double tolerance = std::max(std::fabs(high - exact), std::fabs(low - exact));
        const double off = std::fabs(got - exact), per = v.magnitude > 0 ? v.magnitude : 1;
        w.ratio = off == 0 || std::isinf(tolerance) ? 0 : off / tolerance;
        if (std::isnan(w.ratio)) w.ratio = std::numeric_limits<double>::infinity();
        w.error = std::isnan(off) ? std::numeric_limits<double>::infinity() : off / per;
        w.bound = tolerance / per;
        return w;
    }

    const Problem& p_;
    const carat_epilogue& e_;
    const carat_operands& o_;
    cpu::Scalars scalars_;
    ErrorModel model_;
};

double multiply_adds(const std::vector<Part>& parts) {
    double total = 0;
    for (const Part& part : parts) total += double(part.rows()) * double(part.n) * double(part.depth());
    return total;
}

// Random entries (whole 1 x 128 blocks where the output's scale is computed from them), and the last entry of each of
// up to 64 parts, since tails are where kernels go wrong.
std::vector<ReferenceTile> sampled_tiles(const Problem& p, const std::vector<Part>& parts,
                                         const carat_check_options& options) {
    std::vector<double> ends;
    double total = 0;
    for (const Part& part : parts) ends.push_back(total += double(part.rows()) * double(cpu::part_d_cols(p, part)));
    const bool blocks = p.epilogue.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128;
    const int64_t count = blocks ? ceil_div(options.samples, 16) : options.samples;
    std::vector<ReferenceTile> tiles;
    const auto add = [&](size_t at, int64_t row, int64_t col) {
        const int64_t cols = cpu::part_d_cols(p, parts[at]);
        if (blocks) col = col / kTileCols * kTileCols;
        tiles.push_back({int64_t(at), row, 1, col, blocks ? std::min(kTileCols, cols - col) : 1});
    };
    for (int64_t i = 0; i < count; ++i) {
        const double where = double(check::mix(options.seed, uint64_t(2 * i)) >> 11) * 0x1p-53 * total;
        const size_t at = std::min<size_t>(size_t(std::upper_bound(ends.begin(), ends.end(), where) - ends.begin()),
                                           parts.size() - 1);
        const uint64_t pick = check::mix(options.seed, uint64_t(2 * i + 1));
        add(at, parts[at].row_begin + int64_t((pick >> 32) % uint64_t(parts[at].rows())),
            int64_t(check::mix(pick, 0) % uint64_t(cpu::part_d_cols(p, parts[at]))));
    }
    for (size_t at = 0; at < parts.size(); at += std::max<size_t>(1, parts.size() / 64))
        add(at, parts[at].row_end - 1, cpu::part_d_cols(p, parts[at]) - 1);
    return tiles;
}

// Parts are tested in order as long as the elements read stay below 2^33, which takes a core half a minute.
double test_products(const Problem& p, const std::vector<Part>& parts, const Checker& checker,
                     const carat_check_options& options, cpu::ScratchPool& scratches, cpu::ThreadPool& threads,
                     Worst& worst) {
    double budget = 0x1p33, largest = 0;
    for (const Part& part : parts) {
        const double rows = double(part.rows()), n = double(part.n), k = double(part.depth());
        if ((budget -= rows * n + rows * k + n * k) < 0) break;
        const auto result = check::freivalds(p, part, checker.scalars(), checker.model(),
                                             check::mix(options.seed, uint64_t(part.index)), scratches, threads);
        largest = std::max(largest, result.ratio);
        if (result.ratio < 1 || !worst.ok) continue;
        worst.ok = false;
        worst.row = result.row, worst.col = -1, worst.batch = part.index;
        worst.got = worst.want = NAN;
    }
    return largest;
}

carat_check_result to_result(const Worst& worst, bool full, double freivalds) {
    carat_check_result result{};
    result.struct_size = sizeof(result);
    result.ok = worst.ok;
    result.full = full;
    result.entries = worst.entries;
    result.error = worst.error;
    result.bound = worst.bound;
    result.freivalds = freivalds;
    result.bad_row = worst.row, result.bad_col = worst.col, result.bad_batch = worst.batch;
    result.got = worst.got, result.want = worst.want;
    return result;
}

carat_check_result run(const Problem& problem, const carat_operands& operands, const carat_check_options& options,
                       cpu::ThreadPool& threads) {
    const std::vector<Part> parts = cpu::reference_parts(problem, operands);
    const Checker checker(problem, operands);
    const bool full = multiply_adds(parts) <= double(options.full_limit);
    const std::vector<ReferenceTile> tiles = parts.empty() ? std::vector<ReferenceTile>{}
                                             : full        ? cpu::reference_tiles(problem, parts)
                                                           : sampled_tiles(problem, parts, options);
    cpu::ScratchPool scratches(threads.size(), true);
    std::vector<Worst> found(tiles.size());
    threads.parallel_for(int64_t(tiles.size()), [&](int64_t at) {
        cpu::Scratch* scratch = scratches.take();
        found[size_t(at)] = checker.judge(parts[size_t(tiles[size_t(at)].part)], tiles[size_t(at)], *scratch);
        scratches.give(scratch);
    });
    Worst worst;
    for (const Worst& one : found) worst.take(one);
    if (full && problem.epilogue.amax && operands.amax && !problem.empty()) checker.judge_amax(worst);
    double ratio = 0;
    if (!full && check::freivalds_applies(problem))
        ratio = test_products(problem, parts, checker, options, scratches, threads, worst);
    return to_result(worst, full, ratio);
}

}  // namespace

Result<carat_check_result> check_result(const Problem& problem, const carat_operands& operands, const void* c_before,
                                        const carat_check_options& options, cpu::ThreadPool& threads) {
    carat_operands read = operands;
    if (c_before) read.c = c_before;
    try {
        return run(problem, read, options, threads);
    } catch (const std::bad_alloc&) {
        return fail(CARAT_ALLOC_FAILED,
                    "checking {} needs more host memory than there is: free some, or lower full_limit (now {}) so that "
                    "samples are taken instead",
                    describe(problem), options.full_limit);
    }
}

}  // namespace carat
