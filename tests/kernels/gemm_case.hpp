// SPDX-License-Identifier: Apache-2.0
// gemm_case.hpp: one problem with its operands in host memory: everything that is not an element is NaN (inputs) or a
// canary (D), so that a read or write past an extent shows. The expectation is an f64 product of the rounded inputs
// written down directly, on purpose not the library's reference. Serves the emulated and the real GPU alike.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "core/convert.hpp"
#include "kernels/problems.hpp"
#include "kernels/workers.hpp"

namespace carat::test {

enum class Data { integers, normal };

// Where operands start: at a multiple of 16 bytes (what bulk copies want) or one element past one.
enum class Place { aligned, one_off };

// The elements of one operand between guards that hold the same filling.
class Buffer {
  public:
    Buffer() = default;
    Buffer(carat_dtype dtype, int64_t elements, Place place, uint32_t filling)
        : dtype_(dtype), guard_(place == Place::aligned ? 64 : 65), filling_(filling) {
        bytes.resize(size_t((elements + 2 * guard_) * size()));
        fill(filling);
    }

    std::vector<std::byte> bytes;

    bool empty() const { return bytes.empty(); }
    int64_t size() const { return bits(dtype_) / 8; }
    int64_t guard() const { return guard_; }
    int64_t offset_bytes() const { return guard_ * size(); }
    void* data() { return bytes.data() + offset_bytes(); }
    double at(int64_t index) const { return load_f64(bytes.data(), dtype_, guard_ + index); }
    void set(int64_t index, double value) { store_f64(bytes.data(), dtype_, guard_ + index, value); }

    // What lies between the guards.
    std::vector<std::byte> elements() const { return {bytes.begin() + offset_bytes(), bytes.end() - offset_bytes()}; }

    // `pattern`: the low bytes of it become each element.
    void fill(uint32_t pattern) {
        for (size_t at = 0; at < bytes.size(); at += size_t(size()))
            std::memcpy(bytes.data() + at, &pattern, size_t(size()));
    }
    void set_filling(int64_t index) {
        std::memcpy(bytes.data() + (guard_ + index) * size(), &filling_, size_t(size()));
    }
    // The first element that does not hold the filling, or `none`.
    int64_t first_written(int64_t none) const {
        for (size_t at = 0; at < bytes.size(); at += size_t(size()))
            if (std::memcmp(bytes.data() + at, &filling_, size_t(size())) != 0) return int64_t(at) / size() - guard_;
        return none;
    }

  private:
    carat_dtype dtype_ = CARAT_F32;
    int64_t guard_ = 0;
    uint32_t filling_ = 0;
};

// Bit patterns: a quiet NaN, and a NaN that nothing computes (of s8, which has none, -127).
inline uint32_t nan_bits(carat_dtype dtype) {
    return dtype == CARAT_F32 ? 0x7fc00000 : dtype == CARAT_BF16 ? 0x7fc0 : 0x7e00;
}
inline uint32_t canary_bits(carat_dtype dtype) {
    if (dtype == CARAT_S8) return 0x81;
    if (dtype == CARAT_E4M3 || dtype == CARAT_E5M2) return 0xff;
    return dtype == CARAT_F32 ? 0x7fc0beef : 0x7fbe;
}

class GemmCase {
  public:
    Problem problem;
    double alpha = 1, beta = 0;
    Place place = Place::one_off;
    Buffer a, b, c, d, bias, out_scale, d_scales;
    float scalars[2] = {1, 0};

    GemmCase(const Problem& p, Data data, unsigned seed = 1, double alpha_ = 1, double beta_ = 0,
             Place place_ = Place::one_off)
        : problem(p), alpha(alpha_), beta(beta_), place(place_), random_(seed), data_(data) {
        const carat_epilogue& e = p.epilogue;
        scalars[0] = float(alpha), scalars[1] = float(beta);
        a = matrix(p.a, p.m, p.k);
        b = matrix(p.b, p.k, p.n);
        if (p.has_c()) c = matrix(p.c, p.m, p.n);
        if (e.bias != CARAT_BIAS_NONE)
            bias = vector(e.bias_dtype, (e.bias == CARAT_BIAS_M ? p.m : p.n) + (p.batch - 1) * e.bias_batch_stride);
        if (e.out_scale == CARAT_OUT_SCALE_TENSOR) out_scale = vector(CARAT_F32, 1);
        if (e.out_scale == CARAT_OUT_SCALE_ROW) out_scale = vector(CARAT_F32, p.m * p.batch);
        if (e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128)
            d_scales = Buffer(CARAT_F32, p.batch * p.m * scale_blocks(), place, canary_bits(CARAT_F32));
        d = Buffer(p.d.dtype, footprint(p.d, {p.m, p.d_cols()}, p.batch), place, canary_bits(p.d.dtype));
    }

    // Host pointers; a GPU run replaces them.
    carat_operands operands() {
        carat_operands o{};
        o.struct_size = sizeof o;
        o.a = a.data(), o.b = b.data(), o.c = problem.has_c() ? c.data() : nullptr, o.d = d.data();
        o.alpha = alpha, o.beta = beta;
        o.bias = bias.empty() ? nullptr : bias.data();
        o.out_scale = out_scale.empty() ? nullptr : static_cast<const float*>(out_scale.data());
        o.d_scales = d_scales.empty() ? nullptr : static_cast<float*>(d_scales.data());
        o.alpha_device = &scalars[0], o.beta_device = &scalars[1];
        return o;
    }

    // And the scales that come with it.
    void clear_d() {
        d.fill(canary_bits(problem.d.dtype));
        d_scales.fill(canary_bits(CARAT_F32));
    }
    // D starts as C, for a call where they are one; `c` keeps the values for the expectation.
    void start_d_as_c() {
        const Strides cs = Problem::strides(problem.c), ds = Problem::strides(problem.d);
        for (int64_t i = 0; i < problem.m; ++i)
            for (int64_t j = 0; j < problem.n; ++j) d.set(i * ds.row + j * ds.col, c.at(i * cs.row + j * cs.col));
    }

    // Works the expectation out ahead; verify() does it otherwise. Needs the inputs as they are to be at the call.
    void expect() {
        const Problem& p = problem;
        const auto pack = [&](const Buffer& from, int64_t lines, Strides s, int64_t line_step, int64_t k_step) {
            std::vector<double> to(size_t(lines * p.k * p.batch));
            size_t at = 0;
            for (int64_t z = 0; z < p.batch; ++z)
                for (int64_t line = 0; line < lines; ++line)
                    for (int64_t k = 0; k < p.k; ++k) to[at++] = from.at(z * s.batch + line * line_step + k * k_step);
            return to;
        };
        const Strides as = Problem::strides(p.a), bs = Problem::strides(p.b);
        a_rows_ = pack(a, p.m, as, as.row, as.col);
        b_cols_ = pack(b, p.n, bs, bs.col, bs.row);
        expected_.resize(size_t(p.m * p.d_cols() * p.batch));
        const auto row = [&](int64_t line) {
            for (int64_t j = 0; j < p.d_cols(); ++j)
                expected_[size_t(line * p.d_cols() + j)] = expected(line / p.m, line % p.m, j);
        };
        for_each_index(p.m * p.batch, p.flops() > 1e8, row);
        amax_ = {};
        for (const Value& v : expected_) {
            if (std::isnan(v.v)) amax_ = {NAN, NAN};  // and it stays
            amax_.least = std::max(amax_.least, std::fabs(v.v) - v.error);
            amax_.most = std::max(amax_.most, std::fabs(v.v) + v.error);
        }
    }

    // "" if D and its computed scales are right, everything around them untouched, and amax (if any) the maximum; else what
    // is wrong first.
    std::string verify(float amax = 0) {
        if (expected_.empty()) expect();
        std::string error = verify_scales();
        if (error.empty()) error = verify_d();
        if (error.empty() && problem.epilogue.amax && !amax_.holds(amax))
            error = fmt::format("amax is {}, wanted {} to {}", amax, amax_.least, amax_.most);
        return error.empty() ? error : fmt::format("{} ({})", error, text());
    }

    std::string text() const {
        return fmt::format("{}, alpha {}, beta {}, ld {} {} {}, {} bytes", describe(problem), alpha, beta, problem.a.ld,
                           problem.b.ld, problem.d.ld, place == Place::aligned ? "aligned to 16" : "not aligned to 16");
    }

  private:
    static constexpr int64_t kScaleCols = 128, kNone = INT64_MIN;

    // What the epilogue makes of an element before the output scale, and how far f32 may be off; 0: exact.
    struct Value {
        double v, error;
    };
    struct Range {
        double least = 0, most = 0;

        bool holds(double x) const { return (least <= x && x <= most) || (std::isnan(least) && std::isnan(x)); }
    };

    int64_t scale_blocks() const { return ceil_div(problem.d_cols(), kScaleCols); }

    // `line`: a row of D, numbered over the batch.
    const Value& expected_at(int64_t line, int64_t j) const { return expected_[size_t(line * problem.d_cols() + j)]; }

    // Each computed scale: that of its 128 columns, of which NaN are no part; 1 where it would be 0.
    std::string verify_scales() const {
        if (d_scales.empty()) return {};
        const double largest = info(problem.d.dtype).largest;
        Buffer rest = d_scales;
        for (int64_t at = 0; at < problem.batch * problem.m * scale_blocks(); ++at) {
            rest.set_filling(at);
            const int64_t line = at / scale_blocks(), first = at % scale_blocks() * kScaleCols;
            Range want;
            for (int64_t j = first; j < std::min(first + kScaleCols, problem.d_cols()); ++j) {
                const Value& v = expected_at(line, j);
                if (std::isnan(v.v)) continue;
                want.least = std::max(want.least, std::fabs(v.v) - v.error);
                want.most = std::max(want.most, std::fabs(v.v) + v.error);
            }
            // One rounding, of the division.
            want = {want.least / largest * (1 - 0x1p-23), want.most / largest * (1 + 0x1p-23)};
            const double got = d_scales.at(at);
            if (got > 0 && (want.holds(got) || (want.least < 0x1p-149 && got == 1))) continue;
            return fmt::format("scale {} of row {} is {}, wanted {} to {}", at % scale_blocks(), line, got, want.least,
                               want.most);
        }
        const int64_t written = rest.first_written(kNone);
        return written == kNone ? "" : fmt::format("element {} around the scales was written", written);
    }

    std::string verify_d() const {
        Buffer rest = d;
        const Strides s = Problem::strides(problem.d);
        for (int64_t z = 0; z < problem.batch; ++z)
            for (int64_t i = 0; i < problem.m; ++i)
                for (int64_t j = 0; j < problem.d_cols(); ++j) {
                    const int64_t at = i * s.row + j * s.col + z * s.batch;
                    rest.set_filling(at);
                    const Range want = allowed(expected_at(z * problem.m + i, j), z, i, j);
                    if (!want.holds(d.at(at)))
                        return fmt::format("D[{}, {}] of batch {} is {}, wanted {} to {}", i, j, z, d.at(at),
                                           want.least, want.most);
                }
        const int64_t written = rest.first_written(kNone);
        return written == kNone ? "" : fmt::format("element {} around D was written", written);
    }

    // What may stand in D: rounding keeps order and saturates, so whatever lies between the errors is between these. With
    // the scale that was written, where it was computed.
    Range allowed(const Value& v, int64_t z, int64_t i, int64_t j) const {
        const carat_out_scale kind = problem.epilogue.out_scale;
        const int64_t line = z * problem.m + i;
        double want = v.v, error = v.error;
        if (kind == CARAT_OUT_SCALE_TENSOR || kind == CARAT_OUT_SCALE_ROW) {
            const double scale = out_scale.at(kind == CARAT_OUT_SCALE_ROW ? line : 0);
            want *= scale, error *= std::fabs(scale);
        }
        if (kind == CARAT_OUT_SCALE_COMPUTED_1X128) {
            const double scale = d_scales.at(line * scale_blocks() + j / kScaleCols);
            want /= scale, error = error / scale + 0x1p-23 * std::fabs(want);
        }
        const carat_dtype type = problem.d.dtype;
        return {round_to(type, want - error), round_to(type, want + error)};
    }

    double draw() {
        if (data_ == Data::integers) return int(random_() % 9) - 4;
        return std::normal_distribution<float>()(random_);
    }

    Buffer matrix(const carat_matrix& x, int64_t rows, int64_t cols) {
        Buffer buffer(x.dtype, footprint(x, {rows, cols}, problem.batch), place, nan_bits(x.dtype));
        const Strides s = Problem::strides(x);
        for (int64_t z = 0; z < problem.batch; ++z)
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < cols; ++j) buffer.set(i * s.row + j * s.col + z * s.batch, draw());
        return buffer;
    }

    Buffer vector(carat_dtype dtype, int64_t length) {
        Buffer buffer(dtype, length, place, nan_bits(dtype));
        for (int64_t i = 0; i < length; ++i) buffer.set(i, draw());
        return buffer;
    }

    static double activate(carat_activation activation, double v) {
        switch (activation) {
            case CARAT_ACT_NONE:
                return v;
            case CARAT_ACT_RELU:
                return v < 0 ? 0 : v;
            case CARAT_ACT_GELU_ERF:
                return v * 0.5 * std::erfc(-v / std::sqrt(2.0));
            case CARAT_ACT_GELU_TANH:
                return 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
            case CARAT_ACT_SILU:
                return v / (1 + std::exp(-v));
            case CARAT_ACT_SIGMOID:
                return 1 / (1 + std::exp(-v));
        }
        return NAN;
    }

    struct Linear {
        double value, error;
    };

    // alpha acc + beta C + bias at B's column, and how far f32 may be off: K + 4 roundings of the sum of magnitudes;
    // tensor cores (16-bit inputs) truncate, which is a unit in the last place instead of half of one.
    Linear linear(int64_t z, int64_t i, int64_t column) const {
        const Problem& p = problem;
        const Strides cs = Problem::strides(p.c);
        const double* row = a_rows_.data() + (z * p.m + i) * p.k;
        const double* col = b_cols_.data() + (z * p.n + column) * p.k;
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; alpha != 0 && k < p.k; ++k) {
            sum += row[k] * col[k];
            magnitude += std::fabs(row[k] * col[k]);
        }
        double v = alpha * sum, total = std::fabs(alpha) * magnitude;
        const auto add = [&](double term) { v += term, total += std::fabs(term); };
        if (beta != 0) add(beta * c.at(i * cs.row + column * cs.col + z * cs.batch));
        if (p.epilogue.bias != CARAT_BIAS_NONE)
            add(bias.at((p.epilogue.bias == CARAT_BIAS_M ? i : column) + z * p.epilogue.bias_batch_stride));
        const double unit = p.a.dtype == CARAT_F32 ? 0x1p-24 : 0x1p-23;
        return {v, data_ == Data::integers ? 0 : double(p.k + 4) * unit * total};
    }

    Value expected(int64_t z, int64_t i, int64_t j) const {
        const Problem& p = problem;
        const carat_epilogue& e = p.epilogue;
        const bool interleaved = e.gate == CARAT_GATE_INTERLEAVED;
        const Linear first = linear(z, i, interleaved ? 2 * j : j);
        double v = activate(e.activation, first.value);
        // No activation is steeper than 1.13; its own f32 evaluation adds a few units in the last place.
        double error = 1.13 * first.error;
        if (e.activation > CARAT_ACT_RELU) error += 16 * 0x1p-24 * std::max(std::fabs(first.value), 1.0);
        if (e.gate != CARAT_GATE_NONE) {
            const Linear up = linear(z, i, interleaved ? 2 * j + 1 : j + p.n / 2);
            error = error * std::fabs(up.value) + std::fabs(v) * up.error + 0x1p-23 * std::fabs(v * up.value);
            v *= up.value;
        }
        if (e.clamp) v = std::min(std::max(v, double(e.clamp_lo)), double(e.clamp_hi));
        if (error == 0 && data_ == Data::integers) return {v, 0};
        return {v, error + 0x1p-22 * std::fabs(v)};  // of the rounded steps after the sum, and of the output scale
    }

    std::mt19937 random_;
    Data data_;
    std::vector<double> a_rows_, b_cols_;  // K contiguous
    std::vector<Value> expected_;          // row-major, batch outermost
    Range amax_;
};

}  // namespace carat::test
