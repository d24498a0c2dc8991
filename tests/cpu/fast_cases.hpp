// SPDX-License-Identifier: Apache-2.0
// fast_cases.hpp: random problems with operands in poisoned memory, for tests that compare the fast CPU backend with
// the reference. Data are small integers (and scales powers of two), so that every sum is exact and D must agree to the
// bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "core/convert.hpp"
#include "cpu/fast.hpp"
#include "cpu/reference.hpp"

namespace carat::cpu::testing {

struct Rng {
    std::mt19937_64 engine;
    explicit Rng(uint64_t seed) : engine(seed) {}
    int64_t in(int64_t low, int64_t high) { return low + int64_t(engine() % uint64_t(high - low + 1)); }
    bool chance(int percent) { return in(1, 100) <= percent; }
    template <class T>
    T pick(std::initializer_list<T> of) {
        return of.begin()[in(0, int64_t(of.size()) - 1)];
    }
    double normal() { return std::normal_distribution<double>()(engine); }
};

// The matrices of one operand. Every byte that is no element is 0xff: NaN in all floating types.
struct Operand {
    carat_matrix desc{};
    int64_t rows = 0, cols = 0, count = 1;
    std::vector<uint8_t> bytes;

    void lay_out(carat_dtype dtype, carat_order order, int64_t rows_, int64_t cols_, int64_t count_, int64_t pad,
                 bool shared) {
        rows = rows_, cols = cols_, count = count_;
        const bool row_major = order == CARAT_ROW_MAJOR;
        desc.dtype = dtype;
        desc.order = order;
        desc.ld = std::max<int64_t>(1, row_major ? cols : rows) + pad;
        const int64_t span = desc.ld * (row_major ? rows : cols) + pad;
        desc.batch_stride = shared ? 0 : span;
        bytes.assign(size_t(bytes_of(dtype, span * (shared ? 1 : count))), 0xff);
    }
    int64_t index(int64_t z, int64_t i, int64_t j) const {
        const Strides s = Problem::strides(desc);
        return z * s.batch + i * s.row + j * s.col;
    }
    template <class F>
    void fill(F value) {
        for (int64_t z = 0; z < (desc.batch_stride ? count : 1); ++z)
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < cols; ++j) store_f64(bytes.data(), desc.dtype, index(z, i, j), value());
    }
};

struct Case {
    Problem p{};
    carat_operands o{};
    Operand a, b, c, d;
    std::vector<float> scale_a, scale_b, zero_b, out_scale, d_scales;
    std::vector<uint8_t> bias;
    std::vector<int32_t> sizes;
    std::vector<const void*> a_list, b_list, c_list;
    std::vector<void*> d_list;
    float device_alpha = 0, device_beta = 0, amax = -1;
    double device_alpha_f64 = 0, device_beta_f64 = 0;
    bool in_place = false, inexact = false;

    // What an execution writes.
    struct Output {
        std::vector<uint8_t> d;
        std::vector<float> d_scales;
        float amax = -1;
    };

    // Runs `execute` on fresh copies of the outputs.
    template <class F>
    Output run(F execute) {
        const std::vector<uint8_t> d_before = d.bytes;
        const std::vector<float> scales_before = d_scales;
        amax = -1;
        const Status status = execute(p, o);
        Output output{d.bytes, d_scales, amax};
        if (!status.ok()) output.d.clear();
        std::copy(d_before.begin(), d_before.end(), d.bytes.begin());  // pointers into them stay valid
        std::copy(scales_before.begin(), scales_before.end(), d_scales.begin());
        return output;
    }
};

inline int64_t elements(const carat_scale& s, int64_t extent, int64_t k, int64_t& columns) {
    const int64_t blocks = s.recipe == CARAT_SCALE_GROUP_WISE ? ceil_div(k, s.group) : ceil_div(k, 128);
    const bool whole = s.recipe == CARAT_SCALE_TENSOR_WISE;
    columns = std::max<int64_t>(1, whole || s.recipe == CARAT_SCALE_ROW_WISE ? 1 : blocks);
    return std::max<int64_t>(1, whole                                        ? 1
                                : s.recipe == CARAT_SCALE_BLOCK_WISE_128X128 ? ceil_div(extent, 128)
                                                                             : extent);
}

inline std::vector<float> make_scale(Rng& rng, carat_scale& s, int64_t extent, int64_t k, int64_t count) {
    if (s.recipe == CARAT_SCALE_NONE) return {};
    int64_t columns = 1;
    const int64_t rows = elements(s, extent, k, columns);
    s.order = rng.pick({CARAT_ROW_MAJOR, CARAT_COL_MAJOR});
    s.ld = (s.order == CARAT_ROW_MAJOR ? columns : rows) + rng.in(0, 2);
    s.batch_stride = s.ld * (s.order == CARAT_ROW_MAJOR ? rows : columns);
    std::vector<float> values(size_t(s.batch_stride * count));
    for (float& value : values) value = std::ldexp(1.0f, int(rng.in(-1, 1)));
    return values;
}

struct Limits {
    int64_t m = 40, n = 300, k = 40, deep_k = 600;
};

inline void choose_types(Rng& rng, Problem& p) {
    struct Pair {
        carat_dtype a, b;
    };
    const Pair pair = rng.pick<Pair>({{CARAT_F64, CARAT_F64},
                                      {CARAT_F32, CARAT_F32},
                                      {CARAT_F16, CARAT_F16},
                                      {CARAT_BF16, CARAT_BF16},
                                      {CARAT_E4M3, CARAT_E4M3},
                                      {CARAT_E5M2, CARAT_E4M3},
                                      {CARAT_S8, CARAT_S8},
                                      {CARAT_BF16, CARAT_S4},
                                      {CARAT_F16, CARAT_U4},
                                      {CARAT_BF16, CARAT_S8},
                                      {CARAT_F16, CARAT_E4M3},
                                      {CARAT_BF16, CARAT_E5M2}});
    p.a.dtype = pair.a;
    p.b.dtype = pair.b;
    p.d.dtype = rng.pick({CARAT_F64, CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_E5M2, CARAT_S8, CARAT_S32});
    if (rng.chance(50)) return;
    const bool f64 = p.a.dtype == CARAT_F64, weight_only = p.a.dtype != p.b.dtype && bits(p.a.dtype) == 16;
    if (weight_only) {
        p.scale_b.recipe = rng.pick({CARAT_SCALE_GROUP_WISE, CARAT_SCALE_ROW_WISE});
        p.scale_b.group = rng.pick({1, 7, 32, 128});
        p.scale_b.zero_points = p.scale_b.recipe == CARAT_SCALE_GROUP_WISE && rng.chance(60);
    } else {
        p.scale_a.recipe = carat_recipe(rng.in(0, f64 ? 2 : 4));
        p.scale_b.recipe = carat_recipe(rng.in(0, f64 ? 2 : 4));
    }
}

inline void choose_epilogue(Rng& rng, Case& t) {
    carat_epilogue& e = t.p.epilogue;
    t.o.alpha = rng.pick({1.0, 1.0, -0.5, 2.0, 0.0});
    t.o.beta = rng.pick({0.0, 1.0, -0.5});
    e.scalars_on_device = rng.chance(20);
    if (rng.chance(50)) {
        e.bias = rng.pick({CARAT_BIAS_N, CARAT_BIAS_M});
        e.bias_dtype = rng.pick({CARAT_F32, CARAT_F16, CARAT_BF16});
    }
    if (rng.chance(40)) e.activation = carat_activation(rng.in(1, 5));
    if (rng.chance(25)) {
        e.gate = rng.pick({CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT});
        e.activation = rng.pick({CARAT_ACT_SILU, CARAT_ACT_GELU_ERF, CARAT_ACT_GELU_TANH});
        t.p.n = std::max<int64_t>(2, t.p.n & ~int64_t{1});
    }
    if (rng.chance(30)) e.clamp = 1, e.clamp_lo = -9, e.clamp_hi = 40.5f;
    if (rng.chance(40)) e.out_scale = carat_out_scale(rng.in(1, bits(t.p.d.dtype) == 8 ? 3 : 2));
    e.amax = rng.chance(40);
    t.inexact = e.activation > CARAT_ACT_RELU || e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128;
}

inline void make_groups(Rng& rng, Case& t) {
    Problem& p = t.p;
    if (p.group_form == CARAT_GROUP_M_INDICES) {
        for (int64_t i = 0; i < p.m; ++i)
            t.sizes.push_back(i && rng.chance(70) ? t.sizes.back() : int32_t(rng.in(-1, p.batch - 1)));
    } else if (p.group_form == CARAT_GROUP_M_MASKED) {
        for (int64_t g = 0; g < p.batch; ++g) t.sizes.push_back(int32_t(rng.in(0, p.m)));
    } else {
        const int64_t limit = p.group_form == CARAT_GROUP_M_OFFSETS ? p.m : p.k;
        for (int64_t g = 0; g < p.batch; ++g) t.sizes.push_back(int32_t(rng.in(0, limit)));
        std::sort(t.sizes.begin(), t.sizes.end());
        if (rng.chance(10)) t.sizes[size_t(rng.in(0, p.batch - 1))] = int32_t(rng.in(-5, limit + 5));  // clamped
    }
    t.o.group_sizes = t.sizes.data();
}

inline void lay_out(Rng& rng, Case& t) {
    Problem& p = t.p;
    const bool grouped = p.mode == CARAT_GROUPED;
    const bool rows_packed =
        grouped && (p.group_form == CARAT_GROUP_M_OFFSETS || p.group_form == CARAT_GROUP_M_INDICES);
    const bool k_packed = grouped && p.group_form == CARAT_GROUP_K_OFFSETS;
    const auto order = [&] { return rng.pick({CARAT_ROW_MAJOR, CARAT_COL_MAJOR}); };
    const auto pad = [&] { return rng.chance(50) ? 0 : rng.in(1, 9); };
    const int64_t count = p.batch;
    t.a.lay_out(p.a.dtype, order(), p.m, p.k, rows_packed || k_packed ? 1 : count, pad(),
                p.mode == CARAT_BATCHED && rng.chance(20));
    t.b.lay_out(p.b.dtype, order(), p.k, p.n, k_packed ? 1 : count, pad(), p.mode == CARAT_BATCHED && rng.chance(20));
    const carat_order d_order = order();
    t.d.lay_out(p.d.dtype, d_order, p.m, p.d_cols(), rows_packed ? 1 : count, pad(), false);
    const bool with_c = p.epilogue.gate == CARAT_GATE_NONE && rng.chance(60);
    if (with_c) {
        t.in_place = rng.chance(40);
        t.c.lay_out(t.in_place ? p.d.dtype : rng.pick({CARAT_F32, CARAT_BF16, CARAT_F16, CARAT_S8}), d_order, p.m, p.n,
                    rows_packed ? 1 : count, t.in_place ? 0 : pad(), false);
    }
    p.a = t.a.desc, p.b = t.b.desc, p.d = t.d.desc;
    p.c = with_c ? (t.in_place ? t.d.desc : t.c.desc) : carat_matrix{CARAT_NONE, d_order, 1, 0};
}

inline void fill(Rng& rng, Case& t) {
    const auto small = [&] { return double(rng.in(-2, 2)); };
    const auto natural = [&] { return double(rng.in(0, 3)); };
    t.a.fill(small);
    if (t.b.desc.dtype == CARAT_U4)
        t.b.fill(natural);
    else
        t.b.fill(small);
    if (t.in_place)
        t.d.fill(small);
    else if (t.p.has_c())
        t.c.fill(small);
    Problem& p = t.p;
    const bool rows_packed =
        p.mode == CARAT_GROUPED && (p.group_form == CARAT_GROUP_M_OFFSETS || p.group_form == CARAT_GROUP_M_INDICES);
    t.scale_a = make_scale(rng, p.scale_a, p.m, p.k, p.batch);
    if (rows_packed && p.scale_a.recipe != CARAT_SCALE_TENSOR_WISE) p.scale_a.batch_stride = 0;
    t.scale_b = make_scale(rng, p.scale_b, p.n, p.k, p.batch);
    for (size_t i = 0; i < t.scale_b.size(); ++i) t.zero_b.push_back(float(rng.in(-1, 2)));
    const carat_epilogue& e = p.epilogue;
    if (e.bias != CARAT_BIAS_NONE) {
        const int64_t extent = std::max(p.n, p.m) + 3;
        p.epilogue.bias_batch_stride = rng.chance(50) ? extent : 0;
        t.bias.assign(size_t(bytes_of(e.bias_dtype, extent * p.batch)), 0);
        for (int64_t i = 0; i < extent * p.batch; ++i) store_f64(t.bias.data(), e.bias_dtype, i, small());
    }
    const size_t rows = size_t(p.m * p.batch), blocks = size_t(ceil_div(p.d_cols(), 128));
    for (size_t i = 0; i < rows + 1; ++i) t.out_scale.push_back(rng.pick({0.25f, 0.5f, 1.0f, 2.0f}));
    t.d_scales.assign(rows * blocks + 1, -7);
}

inline void point(Case& t) {
    carat_operands& o = t.o;
    const Problem& p = t.p;
    void* d = t.d.bytes.data();
    const void* c = t.in_place ? d : p.has_c() ? t.c.bytes.data() : nullptr;
    t.device_alpha = float(o.alpha), t.device_beta = float(o.beta);
    t.device_alpha_f64 = o.alpha, t.device_beta_f64 = o.beta;
    if (p.epilogue.scalars_on_device) {
        const bool f64 = p.a.dtype == CARAT_F64;
        o.alpha_device = f64 ? static_cast<void*>(&t.device_alpha_f64) : &t.device_alpha;
        o.beta_device = f64 ? static_cast<void*>(&t.device_beta_f64) : &t.device_beta;
        o.alpha = o.beta = NAN;
    }
    o.bias = t.bias.data();
    o.scale_a = t.scale_a.data();
    o.scale_b = t.scale_b.data();
    o.zero_b = t.zero_b.data();
    o.out_scale = t.out_scale.data();
    o.d_scales = t.d_scales.data();
    o.amax = &t.amax;
    if (p.mode != CARAT_BATCHED_POINTERS) {
        o.a = t.a.bytes.data(), o.b = t.b.bytes.data(), o.c = c, o.d = d;
        return;
    }
    const auto at = [](const Operand& x, const void* base, int64_t z) {
        return static_cast<const uint8_t*>(base) + bytes_of(x.desc.dtype, z * x.desc.batch_stride);
    };
    for (int64_t z = 0; z < p.batch; ++z) {
        t.a_list.push_back(at(t.a, t.a.bytes.data(), z));
        t.b_list.push_back(at(t.b, t.b.bytes.data(), z));
        t.c_list.push_back(c ? at(t.in_place ? t.d : t.c, c, z) : nullptr);
        t.d_list.push_back(const_cast<uint8_t*>(at(t.d, d, z)));
    }
    o.a_array = t.a_list.data(), o.b_array = t.b_list.data(), o.c_array = t.c_list.data(), o.d_array = t.d_list.data();
}

// A problem the contract allows; the fast backend may still refuse it.
inline std::unique_ptr<Case> random_case(uint64_t seed, const Limits& limits = {}) {
    Rng rng(seed);
    auto t = std::make_unique<Case>();
    Problem& p = t->p;
    p.mode = rng.pick({CARAT_SINGLE, CARAT_SINGLE, CARAT_BATCHED, CARAT_BATCHED_POINTERS, CARAT_GROUPED});
    p.batch = p.mode == CARAT_SINGLE ? 1 : rng.in(1, 4);
    if (p.mode == CARAT_GROUPED) p.group_form = carat_group_form(rng.in(1, 4));
    p.m = rng.chance(3) ? 0 : rng.in(1, rng.chance(40) ? 9 : limits.m);
    p.n = rng.chance(3) ? 0 : rng.in(1, rng.chance(30) ? limits.n : 40);
    p.k = rng.chance(5) ? 0 : rng.in(1, rng.chance(15) ? limits.deep_k : limits.k);
    choose_types(rng, p);
    // A nibble matrix of a pointer batch must start at a byte.
    if (p.mode == CARAT_BATCHED_POINTERS && bits(p.b.dtype) < 8) p.b.dtype = CARAT_S8;
    choose_epilogue(rng, *t);
    lay_out(rng, *t);
    fill(rng, *t);
    if (p.mode == CARAT_GROUPED) make_groups(rng, *t);
    point(*t);
    return t;
}

}  // namespace carat::cpu::testing
