// SPDX-License-Identifier: Apache-2.0
// reference_random_test.cpp: the reference against a second formulation: logical dense matrices in double, a triple
// loop and the epilogue written out. Random problems over all modes, types, layouts, recipes and epilogues; every byte
// that is no element is poisoned on the way in and compared on the way out. The data are small dyadic numbers, so the
// linear part is exact and D must agree to the bit; where a transcendental activation is used, one rounding step is
// allowed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "check/check.hpp"
#include "cpu/reference.hpp"
#include "cpu/reference_fixture.hpp"

namespace carat::testing {
namespace {

constexpr double kUntouched = -12345;

// A scale grid in memory, padding poisoned, and its logical values.
struct Grid {
    carat_scale desc{};
    int64_t rows = 0, cols = 0, count = 0, row_div = 1, k_div = 1;
    std::vector<float> scales, zeros;

    int64_t index(int64_t z, int64_t r, int64_t c) const {
        return (count == 1 ? 0 : z) * desc.batch_stride +
               (desc.order == CARAT_ROW_MAJOR ? r * desc.ld + c : c * desc.ld + r);
    }
    double dequantise(int64_t z, int64_t own, int64_t k, double stored) const {
        if (desc.recipe == CARAT_SCALE_NONE) return stored;
        const int64_t at = index(z, own / row_div, k / k_div);
        return (stored - (desc.zero_points ? zeros[size_t(at)] : 0)) * scales[size_t(at)];
    }
};

Grid make_grid(Random& random, carat_recipe recipe, int64_t extent, int64_t k, int64_t count, bool zero_points) {
    Grid g;
    g.desc.recipe = recipe;
    if (recipe == CARAT_SCALE_NONE) return g;
    const int64_t whole = int64_t{1} << 40;
    if (recipe == CARAT_SCALE_GROUP_WISE) g.desc.group = random.pick({1, 3, 32, 64});
    g.row_div = recipe == CARAT_SCALE_TENSOR_WISE ? whole : recipe == CARAT_SCALE_BLOCK_WISE_128X128 ? 128 : 1;
    const bool blocks = recipe == CARAT_SCALE_BLOCK_WISE_1X128 || recipe == CARAT_SCALE_BLOCK_WISE_128X128;
    g.k_div = blocks ? 128 : recipe == CARAT_SCALE_GROUP_WISE ? g.desc.group : whole;
    g.rows = std::max<int64_t>(1, ceil_div(extent, g.row_div));
    g.cols = std::max<int64_t>(1, ceil_div(k, g.k_div));
    g.count = random.chance(20) ? 1 : count;
    g.desc.zero_points = zero_points;
    g.desc.order = random.pick({CARAT_ROW_MAJOR, CARAT_COL_MAJOR});
    const bool row_major = g.desc.order == CARAT_ROW_MAJOR;
    g.desc.ld = (row_major ? g.cols : g.rows) + random.below(3);
    const int64_t stride = g.desc.ld * (row_major ? g.rows : g.cols) + random.below(3);
    g.desc.batch_stride = g.count == 1 ? 0 : stride;
    g.scales.assign(size_t(stride * g.count), NAN);
    g.zeros.assign(size_t(stride * g.count), NAN);
    for (int64_t z = 0; z < g.count; ++z)
        for (int64_t r = 0; r < g.rows; ++r)
            for (int64_t c = 0; c < g.cols; ++c) {
                g.scales[size_t(g.index(z, r, c))] =
                    float(std::ldexp(random.pick({1.0, 1.25}), int(random.below(5)) - 2));
                g.zeros[size_t(g.index(z, r, c))] = float(random.between(-3, 8));
            }
    return g;
}

// A 2:4 operand: dense(z, own, k) is what the stored elements and the metadata mean.
struct Sparse {
    int64_t own_rows = 0, k = 0, count = 0;
    std::vector<uint8_t> metadata;
    std::vector<int8_t> slots;  // which stored element is (z, own, k); -1: none
    int slot(int64_t z, int64_t own, int64_t at) const {
        return slots[size_t(((count == 1 ? 0 : z) * own_rows + own) * k + at)];
    }
};

Sparse make_sparse(Random& random, int64_t count, int64_t own_rows, int64_t k) {
    Sparse s{own_rows, k, count, {}, {}};
    const int64_t row_bytes = ceil_div(k, 8);
    s.metadata.assign(size_t(count * own_rows * row_bytes), 0);
    s.slots.assign(size_t(count * own_rows * k), -1);
    for (int64_t row = 0; row < count * own_rows; ++row)
        for (int64_t group = 0; group * 4 < k; ++group) {
            const int first = int(random.below(3)), second = int(random.between(first + 1, 3));
            s.metadata[size_t(row * row_bytes + group / 2)] |= uint8_t((first | second << 2) << (group % 2 * 4));
            for (int which = 0; which < 2; ++which) {
                const int64_t at = group * 4 + (which ? second : first);
                if (at < k) s.slots[size_t(row * k + at)] = int8_t(which);
            }
        }
    return s;
}

// One product of the oracle, in the coordinates of its operands.
struct Slice {
    Operand *a, *b, *c, *d;
    int64_t za, zb, zd, row0, row1, n, k0, k1;
    int64_t scale_a, scale_b, bias;  // index of grid and bias
    int64_t out_row;                 // out_scale and d_scales row of row 0
};

struct Case {
    Problem p{};
    carat_operands o{};
    std::vector<std::unique_ptr<Operand>> operands;
    Grid grid_a, grid_b;
    Sparse sparse;
    std::vector<double> biases;  // logical, [count][stride]
    std::vector<uint8_t> bias_bytes;
    std::vector<int32_t> sizes;
    std::vector<carat_group> groups;
    std::vector<const void*> a_pointers, b_pointers, c_pointers;
    std::vector<void*> d_pointers;
    std::vector<float> out_scale, d_scales;
    float alpha_f = 1, beta_f = 0, amax = float(kUntouched);
    std::vector<Slice> slices;
    bool transcendental = false;

    Operand& add() { return *operands.emplace_back(std::make_unique<Operand>()); }
};

struct Types {
    carat_dtype a, b;
};

bool is_form(const Problem& p, carat_group_form form) {
    return p.mode == CARAT_GROUPED && p.group_form == form;
}

void choose_shape(Case& t, Random& random) {
    Problem& p = t.p;
    p.mode = random.pick({CARAT_SINGLE, CARAT_BATCHED, CARAT_BATCHED_POINTERS, CARAT_GROUPED, CARAT_GROUPED});
    p.batch = p.mode == CARAT_SINGLE ? 1 : random.between(1, 5);
    if (p.mode == CARAT_GROUPED) p.group_form = carat_group_form(random.between(1, 5));
    p.m = random.chance(10) ? 0 : random.between(1, random.chance(20) ? 70 : 9);
    p.n = random.chance(5) ? 0 : random.between(1, random.chance(20) ? 300 : 20);
    p.k = random.chance(10) ? 0 : random.between(1, random.chance(25) ? 600 : 24);
    const Types types = random.pick<Types>({{CARAT_F64, CARAT_F64},
                                            {CARAT_F32, CARAT_F32},
                                            {CARAT_F16, CARAT_F16},
                                            {CARAT_BF16, CARAT_BF16},
                                            {CARAT_E4M3, CARAT_E4M3},
                                            {CARAT_E4M3, CARAT_E5M2},
                                            {CARAT_E5M2, CARAT_E4M3},
                                            {CARAT_S8, CARAT_S8},
                                            {CARAT_BF16, CARAT_S4},
                                            {CARAT_F16, CARAT_U4},
                                            {CARAT_BF16, CARAT_S8},
                                            {CARAT_F16, CARAT_E4M3}});
    p.a.dtype = types.a, p.b.dtype = types.b;
    p.d.dtype = random.pick({CARAT_F64, CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_E5M2, CARAT_S8, CARAT_S32});
}

void choose_epilogue(Case& t, Random& random) {
    carat_epilogue& e = t.p.epilogue;
    t.o.alpha = random.pick({1.0, 1.0, -1.5, 0.25, 0.0});
    t.o.beta = random.pick({0.0, 1.0, -0.5});
    e.scalars_on_device = random.chance(30);
    e.bias = random.pick({CARAT_BIAS_NONE, CARAT_BIAS_N, CARAT_BIAS_M});
    e.bias_dtype = random.pick({CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_F64});
    if (random.chance(50)) e.activation = carat_activation(random.between(0, 5));
    if (random.chance(20)) {
        e.gate = random.pick({CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT});
        e.activation = random.pick({CARAT_ACT_SILU, CARAT_ACT_GELU_ERF, CARAT_ACT_GELU_TANH});
        t.p.n &= ~int64_t{1};
    }
    t.transcendental = e.activation > CARAT_ACT_RELU;
    if (random.chance(30)) e.clamp = 1, e.clamp_lo = -3, e.clamp_hi = 5.5f;
    const bool quantised = bits(t.p.d.dtype) == 8;  // computed scales are for 8-bit outputs
    if (random.chance(50)) e.out_scale = carat_out_scale(random.between(0, quantised ? 3 : 2));
    e.amax = random.chance(40);
}

void choose_recipes(Case& t, Random& random) {
    Problem& p = t.p;
    const bool array = is_form(p, CARAT_GROUP_ARRAY);
    const bool weight_only = p.a.dtype != p.b.dtype && bits(p.a.dtype) == 16;
    carat_recipe a = CARAT_SCALE_NONE, b = CARAT_SCALE_NONE;
    if (weight_only) {
        b = random.pick({CARAT_SCALE_NONE, CARAT_SCALE_ROW_WISE, CARAT_SCALE_GROUP_WISE, CARAT_SCALE_GROUP_WISE});
    } else if (bits(p.a.dtype) == 8 && random.chance(70)) {
        a = random.pick({CARAT_SCALE_TENSOR_WISE, CARAT_SCALE_ROW_WISE, CARAT_SCALE_BLOCK_WISE_1X128});
        b = random.pick({CARAT_SCALE_TENSOR_WISE, CARAT_SCALE_ROW_WISE, CARAT_SCALE_BLOCK_WISE_1X128,
                         CARAT_SCALE_BLOCK_WISE_128X128});
    }
    const bool rows_packed = is_form(p, CARAT_GROUP_M_OFFSETS) || is_form(p, CARAT_GROUP_M_INDICES);
    const bool k_packed = is_form(p, CARAT_GROUP_K_OFFSETS);
    const auto along_k = [](carat_recipe r) { return r > CARAT_SCALE_ROW_WISE; };
    const bool one_a = array || (rows_packed && a != CARAT_SCALE_TENSOR_WISE) || (k_packed && along_k(a));
    t.grid_a = make_grid(random, a, p.m, p.k, one_a ? 1 : p.batch, false);
    t.grid_b = make_grid(random, b, p.n, p.k, array || (k_packed && along_k(b)) ? 1 : p.batch,
                         b == CARAT_SCALE_GROUP_WISE && !array && random.chance(50));
    p.scale_a = t.grid_a.desc, p.scale_b = t.grid_b.desc;
    t.o.scale_a = t.grid_a.scales.data(), t.o.scale_b = t.grid_b.scales.data(), t.o.zero_b = t.grid_b.zeros.data();
    if (!array && !weight_only && random.chance(25)) p.sparsity = random.pick({CARAT_SPARSE_A_24, CARAT_SPARSE_B_24});
}

double small(Random& random) {
    return double(random.between(-3, 3));
}

// The arrays of pointers of a batch in that mode.
void give_pointers(Case& t, Operand& a, Operand& b, Operand& source, Operand& d) {
    Problem& p = t.p;
    for (int64_t z = 0; z < p.batch; ++z) {
        t.a_pointers.push_back(a.data(z)), t.b_pointers.push_back(b.data(z));
        t.c_pointers.push_back(p.has_c() ? source.data(z) : nullptr), t.d_pointers.push_back(d.data(z));
    }
    t.o.a = t.o.b = t.o.c = nullptr, t.o.d = nullptr;
    t.o.a_array = t.a_pointers.data(), t.o.b_array = t.b_pointers.data();
    t.o.c_array = t.c_pointers.data(), t.o.d_array = t.d_pointers.data();
}

// The sizes of the groups, and for the oracle the plain products that they mean.
void cut_slices(Case& t, Random& random, Operand& a, Operand& b, Operand& source, Operand& d) {
    Problem& p = t.p;
    int64_t at = 0;
    for (int64_t g = 0; g < p.batch; ++g) {
        Slice s{&a, &b, &source, &d, g, g, g, 0, p.m, p.n, 0, p.k, g, g, g, g * p.m};
        if (is_form(p, CARAT_GROUP_M_OFFSETS)) {
            const int64_t end = std::min(p.m, at + random.below(1 + std::max<int64_t>(1, 2 * p.m / p.batch)));
            t.sizes.push_back(int32_t(end));
            s.row0 = at, s.row1 = at = end, s.out_row = 0;
        } else if (is_form(p, CARAT_GROUP_M_MASKED)) {
            t.sizes.push_back(int32_t(random.between(0, p.m)));
            s.row1 = t.sizes.back();
        } else if (is_form(p, CARAT_GROUP_K_OFFSETS)) {
            const int64_t end = random.chance(30) ? at : random.between(at, p.k);
            t.sizes.push_back(int32_t(end));
            s.k0 = at, s.k1 = at = end;
        }
        if (!is_form(p, CARAT_GROUP_M_INDICES)) t.slices.push_back(s);
    }
    if (!is_form(p, CARAT_GROUP_M_INDICES)) return;
    for (int64_t row = 0; row < p.m; ++row) {
        const int64_t g = random.chance(40) && row ? t.sizes.back() : random.between(-1, p.batch - 1);
        t.sizes.push_back(int32_t(g));
        if (g >= 0) t.slices.push_back({&a, &b, &source, &d, 0, g, 0, row, row + 1, p.n, 0, p.k, g, g, g, 0});
    }
}

// carat_operands of all forms but the array, and the oracle's slices.
void lay_shared(Case& t, Random& random) {
    Problem& p = t.p;
    const bool rows_packed = is_form(p, CARAT_GROUP_M_OFFSETS) || is_form(p, CARAT_GROUP_M_INDICES);
    const bool k_packed = is_form(p, CARAT_GROUP_K_OFFSETS);
    const auto order = [&] { return random.pick({CARAT_ROW_MAJOR, CARAT_COL_MAJOR}); };
    const auto share = [&] { return p.mode == CARAT_BATCHED && random.chance(25); };
    Operand &a = t.add(), &b = t.add(), &c = t.add(), &d = t.add();
    a.lay(p.a.dtype, order(), rows_packed || k_packed ? 1 : p.batch, p.m, p.a_cols(), random.below(4), random.below(4),
          share());
    b.lay(p.b.dtype, order(), k_packed ? 1 : p.batch, p.b_rows(), p.n, random.below(4), random.below(4), share());
    d.lay(p.d.dtype, order(), rows_packed ? 1 : p.batch, p.m, p.d_cols(), random.below(4), random.below(4));
    a.fill([&] { return small(random); });
    b.fill([&] { return small(random); });
    if (p.sparsity != CARAT_DENSE) {
        const bool is_a = p.sparsity == CARAT_SPARSE_A_24;
        t.sparse = make_sparse(random, (is_a ? a : b).count, is_a ? p.m : p.n, p.k);
        t.o.metadata = t.sparse.metadata.data();
    }
    Operand* source = &c;
    if (random.chance(60)) {
        if (p.epilogue.gate == CARAT_GATE_NONE && random.chance(40)) {
            source = &d;  // in place
            d.fill([&] { return small(random); });
        } else {
            c.lay(random.pick({CARAT_F32, CARAT_F16, CARAT_BF16}), d.desc.order, d.count, p.m, p.n, random.below(4), 1);
            if (t.o.beta != 0) c.fill([&] { return small(random); });  // else it stays NaN
        }
        p.c = source->desc;
        t.o.c = source->data();
    }
    p.a = a.desc, p.b = b.desc, p.d = d.desc;
    t.o.a = a.data(), t.o.b = b.data(), t.o.d = d.data();
    if (p.mode == CARAT_BATCHED_POINTERS) give_pointers(t, a, b, *source, d);
    cut_slices(t, random, a, b, *source, d);
}

// Unlike problems: own extents, pointers and leading dimensions, some of them 0 for packed.
void lay_array(Case& t, Random& random) {
    Problem& p = t.p;
    p.a.order = random.pick({CARAT_ROW_MAJOR, CARAT_COL_MAJOR});
    p.b.order = random.pick({CARAT_ROW_MAJOR, CARAT_COL_MAJOR});
    p.d.order = random.pick({CARAT_ROW_MAJOR, CARAT_COL_MAJOR});
    const bool has_c = random.chance(50);
    if (has_c) p.c = {random.pick({CARAT_F32, CARAT_BF16}), p.d.order, 0, 0};
    for (int64_t g = 0; g < p.batch; ++g) {
        carat_group group{};
        group.m = random.between(0, p.m), group.n = random.between(0, p.n), group.k = random.between(0, p.k);
        if (p.epilogue.gate != CARAT_GATE_NONE) group.n &= ~int64_t{1};
        const int64_t d_cols = p.epilogue.gate == CARAT_GATE_NONE ? group.n : group.n / 2;
        Operand &a = t.add(), &b = t.add(), &c = t.add(), &d = t.add();
        const int64_t pad = random.below(3);
        a.lay(p.a.dtype, p.a.order, 1, group.m, group.k, pad, 0);
        b.lay(p.b.dtype, p.b.order, 1, group.k, group.n, pad, 0);
        d.lay(p.d.dtype, p.d.order, 1, group.m, d_cols, pad, 0);
        a.fill([&] { return small(random); });
        b.fill([&] { return small(random); });
        group.a = a.data(), group.b = b.data(), group.d = d.data();
        group.lda = pad ? a.desc.ld : 0, group.ldb = pad ? b.desc.ld : 0, group.ldd = pad ? d.desc.ld : 0;
        if (has_c) {
            c.lay(p.c.dtype, p.d.order, 1, group.m, group.n, pad, 0);
            if (t.o.beta != 0) c.fill([&] { return small(random); });
            group.c = c.data(), group.ldc = pad ? c.desc.ld : 0;
        }
        group.scale_a = t.o.scale_a, group.scale_b = t.o.scale_b;
        t.groups.push_back(group);
        t.slices.push_back({&a, &b, &c, &d, 0, 0, 0, 0, group.m, group.n, 0, group.k, 0, 0, g, g * p.m});
    }
    t.o.scale_a = t.o.scale_b = nullptr;
}

void lay_epilogue(Case& t, Random& random) {
    Problem& p = t.p;
    carat_epilogue& e = p.epilogue;
    const int64_t length = std::max(p.m, p.n) + 2;
    e.bias_batch_stride = length;
    t.bias_bytes.assign(size_t(bytes_of(e.bias_dtype, length * p.batch)), 0xff);
    t.biases.assign(size_t(length * p.batch), NAN);
    const int64_t used = e.bias == CARAT_BIAS_M ? p.m : p.n;
    for (int64_t g = 0; g < p.batch; ++g)
        for (int64_t i = 0; i < used; ++i) {
            t.biases[size_t(g * length + i)] = 0.25 * double(random.between(-8, 8));
            store_f64(t.bias_bytes.data(), e.bias_dtype, g * length + i, t.biases[size_t(g * length + i)]);
        }
    t.o.bias = t.bias_bytes.data();
    for (size_t g = 0; g < t.groups.size(); ++g)
        t.groups[g].bias = t.bias_bytes.data() + bytes_of(e.bias_dtype, int64_t(g) * length);
    if (!t.groups.empty()) t.o.bias = nullptr, t.o.group_array = t.groups.data();
    t.o.group_sizes = t.sizes.data();
    const int64_t rows = std::max<int64_t>(1, p.m * p.batch);
    for (int64_t i = 0; i < rows; ++i) t.out_scale.push_back(float(std::ldexp(1, int(random.below(6)) - 2)));
    t.d_scales.assign(size_t(rows * std::max<int64_t>(1, ceil_div(p.d_cols(), 128))), float(kUntouched));
    t.o.out_scale = t.out_scale.data(), t.o.d_scales = t.d_scales.data(), t.o.amax = &t.amax;
    if (!p.has_c()) t.o.beta = 0;
    t.alpha_f = float(t.o.alpha), t.beta_f = float(t.o.beta);
    if (e.scalars_on_device) {
        static double alpha_d, beta_d;  // an f64 problem reads f64
        alpha_d = t.o.alpha, beta_d = t.o.beta;
        t.o.alpha_device = p.a.dtype == CARAT_F64 ? static_cast<void*>(&alpha_d) : &t.alpha_f;
        t.o.beta_device = p.a.dtype == CARAT_F64 ? static_cast<void*>(&beta_d) : &t.beta_f;
    }
}

// ---------------------------------------------------------------- the oracle

double oracle_sum(const Case& t, const Slice& s, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = s.k0; k < s.k1; ++k) {
        int64_t ka = k, kb = k;
        if (t.p.sparsity != CARAT_DENSE) {
            const bool is_a = t.p.sparsity == CARAT_SPARSE_A_24;
            const int slot = is_a ? t.sparse.slot(s.za, i, k) : t.sparse.slot(s.zb, j, k);
            if (slot < 0) continue;
            (is_a ? ka : kb) = k / 4 * 2 + slot;
        }
        sum += t.grid_a.dequantise(s.scale_a, i, k, s.a->at(s.za, i, ka)) *
               t.grid_b.dequantise(s.scale_b, j, k, s.b->at(s.zb, kb, j));
    }
    return sum;
}

double oracle_linear(const Case& t, const Slice& s, int64_t i, int64_t j) {
    double v = t.o.alpha == 0 ? 0 : t.o.alpha * oracle_sum(t, s, i, j);
    if (t.o.beta != 0) v += t.o.beta * s.c->at(s.zd, i, j);
    const carat_epilogue& e = t.p.epilogue;
    if (e.bias != CARAT_BIAS_NONE)
        v += t.biases[size_t(s.bias * e.bias_batch_stride + (e.bias == CARAT_BIAS_N ? j : i))];
    return v;
}

double oracle_activation(carat_activation activation, double x) {
    if (activation == CARAT_ACT_RELU) return std::max(x, 0.0);
    if (activation == CARAT_ACT_GELU_ERF) {
        const double tail = std::fabs(x) * std::erfc(std::fabs(x) / std::sqrt(2.0)) / 2;
        return x < 0 ? -tail : x - tail;
    }
    const double argument =  // gelu_tanh is a sigmoid of this, since (1 + tanh y) / 2 = sigmoid(2 y)
        activation == CARAT_ACT_GELU_TANH ? std::sqrt(8 / M_PI) * (x + 0.044715 * x * x * x) : x;
    const double sigmoid = argument < 0 ? std::exp(argument) / (1 + std::exp(argument)) : 1 / (1 + std::exp(-argument));
    if (activation == CARAT_ACT_SIGMOID) return sigmoid;
    return activation == CARAT_ACT_SILU || activation == CARAT_ACT_GELU_TANH ? x * sigmoid : x;
}

double oracle_value(const Case& t, const Slice& s, int64_t i, int64_t j) {
    const carat_epilogue& e = t.p.epilogue;
    double v;
    if (e.gate == CARAT_GATE_NONE) {
        v = oracle_activation(e.activation, oracle_linear(t, s, i, j));
    } else {
        const bool split = e.gate == CARAT_GATE_SPLIT;
        v = oracle_activation(e.activation, oracle_linear(t, s, i, split ? j : 2 * j)) *
            oracle_linear(t, s, i, split ? s.n / 2 + j : 2 * j + 1);
    }
    return e.clamp ? std::min(std::max(v, double(e.clamp_lo)), double(e.clamp_hi)) : v;
}

// One rounding step apart at most, and only where exp, erf or tanh is involved.
bool agrees(const Case& t, double want, double got) {
    const carat_dtype dtype = t.p.d.dtype;
    const double rounded = round_to(dtype, want);
    if (rounded == got) return true;
    if (!t.transcendental) return false;
    const double slack = 1e-12 * (1 + std::fabs(want));
    return got >= round_to(dtype, want - slack) && got <= round_to(dtype, want + slack);
}

void expect_result(Case& t, const std::vector<std::vector<uint8_t>>& before, const std::string& what) {
    const carat_epilogue& e = t.p.epilogue;
    std::vector<std::vector<uint8_t>> expected = before;
    std::vector<float> scales(t.d_scales.size(), float(kUntouched));
    const int64_t blocks = ceil_div(t.p.d_cols(), 128);
    double amax = 0;
    for (const Slice& s : t.slices) {
        size_t which = 0;
        while (t.operands[which].get() != s.d) ++which;
        for (int64_t i = s.row0; i < s.row1; ++i)
            for (int64_t j0 = 0; j0 < s.d->cols; j0 += 128) {
                const int64_t end = std::min(j0 + 128, s.d->cols);
                std::vector<double> v;
                for (int64_t j = j0; j < end; ++j) v.push_back(oracle_value(t, s, i, j));
                double largest = 0;
                for (const double x : v) largest = std::max(largest, std::fabs(x));
                amax = std::max(amax, largest);
                double factor = 1;
                if (e.out_scale == CARAT_OUT_SCALE_TENSOR) factor = t.out_scale[0];
                if (e.out_scale == CARAT_OUT_SCALE_ROW) factor = t.out_scale[size_t(s.out_row + i)];
                if (e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128) {
                    const size_t at = size_t((s.out_row + i) * blocks + j0 / 128);
                    const float quotient = float(largest / info(t.p.d.dtype).largest);
                    const float scale = quotient == 0 ? 1 : quotient;
                    EXPECT_NEAR(t.d_scales[at], scale, 1e-6 * scale + 0x1p-149) << what;
                    scales[at] = t.d_scales[at];
                    for (double& x : v) x /= scales[at];
                }
                for (int64_t j = j0; j < end; ++j) {
                    const double want = v[size_t(j - j0)] * factor, got = s.d->got(s.zd, i, j);
                    ASSERT_TRUE(agrees(t, want, got))
                        << what << ": (" << i << "," << j << ") of " << s.zd << " is " << got << ", wanted " << want;
                    store_f64(expected[which].data(), t.p.d.dtype, s.d->index(s.zd, i, j), got);
                }
            }
    }
    for (size_t which = 0; which < expected.size(); ++which)
        ASSERT_TRUE(expected[which] == t.operands[which]->bytes) << what << ": bytes outside of D were written";
    EXPECT_TRUE(scales == t.d_scales || e.out_scale != CARAT_OUT_SCALE_COMPUTED_1X128) << what;
    const bool writes_amax = e.amax && !t.p.empty();
    EXPECT_NEAR(t.amax, writes_amax ? amax : kUntouched, writes_amax ? 1e-6 * amax : 0) << what;
}

// The check accepts what the reference wrote, and names the entry once one is spoiled.
void expect_check(Case& t, std::vector<std::vector<uint8_t>>& before, Random& random, cpu::ThreadPool& threads,
                  const std::string& what) {
    carat_operands o = t.o;
    const void* c_before = nullptr;
    std::vector<const void*> c_pointers;
    if (!t.slices.empty() && t.slices[0].c == t.slices[0].d) {  // in place: D's content before the execution
        size_t which = 0;
        while (t.operands[which].get() != t.slices[0].d) ++which;
        const Operand& d = *t.operands[which];
        c_before =
            before[which].data() + (static_cast<const uint8_t*>(const_cast<Operand&>(d).data()) - d.bytes.data());
        for (const void* pointer : t.c_pointers)
            c_pointers.push_back(before[which].data() + (static_cast<const uint8_t*>(pointer) - d.bytes.data()));
        if (o.c_array) o.c_array = c_pointers.data();
    }
    const carat_check_options options = {sizeof(options), int64_t{1} << 27, 512, 1};
    const auto good = check_result(t.p, o, c_before, options, threads);
    ASSERT_TRUE(good.ok()) << good.status().sentence();
    ASSERT_TRUE(good->ok) << what << ": (" << good->bad_row << "," << good->bad_col << ") of " << good->bad_batch
                          << " is " << good->got << ", wanted " << good->want << ", error " << good->error << " of "
                          << good->bound;
    ASSERT_TRUE(good->full);
    if (t.slices.empty()) return;
    const Slice& s = t.slices[size_t(random.below(int64_t(t.slices.size())))];
    if (s.row0 == s.row1 || s.d->cols == 0) return;
    const int64_t i = random.between(s.row0, s.row1 - 1), j = random.below(s.d->cols);
    const double got = s.d->got(s.zd, i, j);
    const double wrong = info(t.p.d.dtype).is_float ? NAN : got > 0 ? -1e10 : 1e10;  // saturates
    store_f64(s.d->bytes.data(), t.p.d.dtype, s.d->index(s.zd, i, j), wrong);
    const auto bad = check_result(t.p, o, c_before, options, threads);
    ASSERT_TRUE(bad.ok());
    ASSERT_FALSE(bad->ok) << what;
    EXPECT_EQ(bad->bad_row, i) << what;
    EXPECT_EQ(bad->bad_col, j) << what;
    EXPECT_EQ(bad->entries, good->entries) << what;
}

TEST(Reference, AgreesWithADenseOracleOnRandomProblems) {
    cpu::ThreadPool threads(2);
    constexpr int kProblems = 6000;
    for (int seed = 0; seed < kProblems; ++seed) {
        Random random(uint64_t(seed) + 1);
        Case t;
        choose_shape(t, random);
        choose_epilogue(t, random);
        choose_recipes(t, random);
        is_form(t.p, CARAT_GROUP_ARRAY) ? lay_array(t, random) : lay_shared(t, random);
        lay_epilogue(t, random);
        std::vector<std::vector<uint8_t>> before;
        for (const auto& operand : t.operands) before.push_back(operand->bytes);
        if (t.o.alpha == 0 || t.p.k == 0) {
            t.o.a = t.o.b = t.o.metadata = nullptr;
            t.o.scale_a = t.o.scale_b = t.o.zero_b = nullptr;
            t.o.a_array = t.o.b_array = nullptr;
            for (carat_group& group : t.groups) group.a = group.b = nullptr, group.scale_a = group.scale_b = nullptr;
        }
        const std::string what = "seed " + std::to_string(seed) + " " + describe(t.p);
        const Status status = cpu::reference_execute(t.p, t.o, threads);
        ASSERT_TRUE(status.ok()) << status.sentence();
        expect_result(t, before, what);
        if (!HasFatalFailure()) expect_check(t, before, random, threads, what);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
}

}  // namespace
}  // namespace carat::testing
