// SPDX-License-Identifier: Apache-2.0
// gemm_case.hpp: one f32 problem with its operands in host memory: every float that is not an element is NaN (inputs)
// or a canary (D), so that a read or write past an extent shows. The expectation is an f64 product written down
// directly, on purpose not the library's reference. Serves the emulated and the real GPU alike.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/problem.hpp"

namespace carat::test {

inline constexpr uint32_t kCanary = 0x7fc0beef;  // a NaN that nothing computes
inline constexpr int64_t kGuard = 37;  // floats around each operand; odd, so that pointers are 4-byte aligned only

enum class Data { integers, normal };

// A single problem in a layout ("nt") with everything packed, ready to be changed.
inline Problem f32_problem(int64_t m, int64_t n, int64_t k, const std::string& layout = "nn", bool d_row_major = true) {
    Problem p{};
    p.m = m, p.n = n, p.k = k, p.batch = 1;
    const auto matrix = [](bool row_major, int64_t rows, int64_t cols) {
        return carat_matrix{CARAT_F32, row_major ? CARAT_ROW_MAJOR : CARAT_COL_MAJOR,
                            std::max<int64_t>(1, row_major ? cols : rows), 0};
    };
    p.a = matrix(layout[0] == 'n', m, k);
    p.b = matrix(layout[1] == 'n', k, n);
    p.d = matrix(d_row_major, m, n);
    p.c = p.d;
    p.c.dtype = CARAT_NONE;
    return p;
}

inline void add_c(Problem& p) {
    p.c = {CARAT_F32, p.d.order, std::max<int64_t>(1, p.d.order == CARAT_ROW_MAJOR ? p.n : p.m), p.d.batch_stride};
}

// The batch laid out one after the other with `gap` elements between.
inline void set_batch(Problem& p, int64_t batch, int64_t gap = 0) {
    p.mode = CARAT_BATCHED;
    p.batch = batch;
    p.a.batch_stride = p.m * p.k + gap, p.b.batch_stride = p.k * p.n + gap;
    p.c.batch_stride = p.m * p.n + gap, p.d.batch_stride = p.m * p.n + gap;
}

inline void pad(Problem& p, int64_t by) {
    p.a.ld += by, p.b.ld += by + 1, p.d.ld += by + 2;
    if (p.has_c()) p.c.ld += by + 3;
}

// The floats one operand takes, with guards.
struct Buffer {
    std::vector<float> floats;
    float* data() { return floats.data() + kGuard; }
    const float* data() const { return floats.data() + kGuard; }
    size_t bytes() const { return floats.size() * sizeof(float); }
};

struct GemmCase {
    Problem problem;
    double alpha = 1, beta = 0;
    Buffer a, b, c, d, bias, out_scale;
    float scalars[2] = {1, 0};

    GemmCase(const Problem& p, Data data, unsigned seed = 1, double alpha_ = 1, double beta_ = 0)
        : problem(p), alpha(alpha_), beta(beta_), random_(seed), data_(data) {
        scalars[0] = float(alpha), scalars[1] = float(beta);
        a = matrix(p.a, p.m, p.k);
        b = matrix(p.b, p.k, p.n);
        if (p.has_c()) c = matrix(p.c, p.m, p.n);
        const int64_t bias_length = p.epilogue.bias == CARAT_BIAS_M ? p.m : p.n;
        if (p.epilogue.bias != CARAT_BIAS_NONE)
            bias = vector(bias_length + (p.batch - 1) * p.epilogue.bias_batch_stride);
        if (p.epilogue.out_scale == CARAT_OUT_SCALE_TENSOR) out_scale = vector(1);
        if (p.epilogue.out_scale == CARAT_OUT_SCALE_ROW) out_scale = vector(p.m * p.batch);
        d.floats.assign(size_t(extent(p.d, p.m, p.d_cols()) + 2 * kGuard), std::bit_cast<float>(kCanary));
    }

    // Host pointers; a GPU run replaces them.
    carat_operands operands() {
        carat_operands o{};
        o.struct_size = sizeof o;
        o.a = a.data(), o.b = b.data(), o.c = problem.has_c() ? c.data() : nullptr, o.d = d.data();
        o.alpha = alpha, o.beta = beta;
        o.bias = bias.floats.empty() ? nullptr : bias.data();
        o.out_scale = out_scale.floats.empty() ? nullptr : out_scale.data();
        o.alpha_device = &scalars[0], o.beta_device = &scalars[1];
        return o;
    }

    // "" if D is right, everything around it untouched, and amax (if any) the maximum; else what is wrong first.
    std::string verify(float amax = 0) const {
        std::vector<char> element(d.floats.size(), 0);
        double largest = 0;
        for (int64_t z = 0; z < problem.batch; ++z)
            for (int64_t i = 0; i < problem.m; ++i)
                for (int64_t j = 0; j < problem.d_cols(); ++j) {
                    const Strides s = Problem::strides(problem.d);
                    const size_t at = size_t(kGuard + i * s.row + j * s.col + z * s.batch);
                    element[at] = 1;
                    const Expected want = expected(z, i, j);
                    largest = std::max(largest, std::fabs(want.before_scale));
                    const double got = d.floats[at];
                    if (std::fabs(got - want.value) <= want.tolerance) continue;
                    return fmt::format("D[{}, {}] of batch {} is {}, wanted {} within {} ({})", i, j, z, got,
                                       want.value, want.tolerance, describe(problem));
                }
        for (size_t at = 0; at < element.size(); ++at)
            if (!element[at] && std::bit_cast<uint32_t>(d.floats[at]) != kCanary)
                return fmt::format("float {} around D was written ({})", int64_t(at) - kGuard, describe(problem));
        if (problem.epilogue.amax && std::fabs(amax - largest) > 1e-5 * largest)
            return fmt::format("amax is {}, wanted {} ({})", amax, largest, describe(problem));
        return {};
    }

  private:
    struct Expected {
        double value, tolerance, before_scale;
    };

    static int64_t extent(const carat_matrix& x, int64_t rows, int64_t cols, int64_t batch) {
        if (rows == 0 || cols == 0 || batch == 0) return 0;
        const Strides s = Problem::strides(x);
        return (rows - 1) * s.row + (cols - 1) * s.col + (batch - 1) * s.batch + 1;
    }
    int64_t extent(const carat_matrix& x, int64_t rows, int64_t cols) const {
        return extent(x, rows, cols, problem.batch);
    }

    float draw() {
        if (data_ == Data::integers) return float(int(random_() % 9) - 4);
        return std::normal_distribution<float>()(random_);
    }

    Buffer matrix(const carat_matrix& x, int64_t rows, int64_t cols) {
        Buffer buffer;
        buffer.floats.assign(size_t(extent(x, rows, cols) + 2 * kGuard), std::numeric_limits<float>::quiet_NaN());
        const Strides s = Problem::strides(x);
        for (int64_t z = 0; z < problem.batch; ++z)
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < cols; ++j) buffer.data()[i * s.row + j * s.col + z * s.batch] = draw();
        return buffer;
    }

    Buffer vector(int64_t length) {
        Buffer buffer;
        buffer.floats.assign(size_t(length + 2 * kGuard), std::numeric_limits<float>::quiet_NaN());
        for (int64_t i = 0; i < length; ++i) buffer.data()[i] = draw();
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

    // alpha acc + beta C + bias at B's column, and how far f32 may be off: K + 4 roundings of the sum of magnitudes.
    Linear linear(int64_t z, int64_t i, int64_t column) const {
        const Problem& p = problem;
        const Strides as = Problem::strides(p.a), bs = Problem::strides(p.b), cs = Problem::strides(p.c);
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; alpha != 0 && k < p.k; ++k) {
            const double product = double(a.data()[i * as.row + k * as.col + z * as.batch]) *
                                   double(b.data()[k * bs.row + column * bs.col + z * bs.batch]);
            sum += product;
            magnitude += std::fabs(product);
        }
        double v = alpha * sum, total = std::fabs(alpha) * magnitude;
        const auto add = [&](double term) { v += term, total += std::fabs(term); };
        if (beta != 0) add(beta * c.data()[i * cs.row + column * cs.col + z * cs.batch]);
        if (p.epilogue.bias != CARAT_BIAS_NONE)
            add(bias.data()[(p.epilogue.bias == CARAT_BIAS_M ? i : column) + z * p.epilogue.bias_batch_stride]);
        return {v, data_ == Data::integers ? 0 : double(p.k + 4) * 0x1p-24 * total};
    }

    Expected expected(int64_t z, int64_t i, int64_t j) const {
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
        double scale = 1;
        if (e.out_scale == CARAT_OUT_SCALE_TENSOR) scale = out_scale.data()[0];
        if (e.out_scale == CARAT_OUT_SCALE_ROW) scale = out_scale.data()[i + z * p.m];
        const double rounding = data_ == Data::integers && e.activation <= CARAT_ACT_RELU ? 0 : 0x1p-23 * std::fabs(v);
        return {v * scale, (error + rounding) * std::fabs(scale), v};
    }

    std::mt19937 random_;
    Data data_;
};

}  // namespace carat::test
