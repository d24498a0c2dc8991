// SPDX-License-Identifier: Apache-2.0
// check_test.cpp: the check must pass what a correct f32 kernel computes, in any order of summation, and fail what a
// wrong one does: mutations of D that real defects cause.
#include "check/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "cpu/reference.hpp"
#include "cpu/reference_fixture.hpp"

namespace carat::testing {
namespace {

enum class Data { normal, positive, constant, alternating, heavy_tail, small_integer };
enum class Sum { sequential, lanes, split, truncating };

constexpr Data kData[] = {Data::normal, Data::positive, Data::constant, Data::alternating, Data::heavy_tail};
constexpr Sum kSums[] = {Sum::sequential, Sum::lanes, Sum::split, Sum::truncating};

struct Gemm {
    Problem p{};
    carat_operands o{};
    Operand a, b, c, d;
    std::vector<float> bias;
};

double draw(Random& random, Data data, int64_t at) {
    switch (data) {
        case Data::normal:
            return random.normal();
        case Data::positive:
            return std::fabs(random.normal());
        case Data::constant:
            return 0.1;
        case Data::alternating:
            return at % 2 ? 1.0 / 3 : -1.0 / 3;
        case Data::heavy_tail:
            return random.normal() * std::exp(2 * random.normal());
        case Data::small_integer:
            return double(random.between(-3, 3));
    }
    return 0;
}

void make(Gemm& t, Random& random, int64_t m, int64_t n, int64_t k, carat_dtype ab, carat_dtype d, Data data) {
    t.p.m = m, t.p.n = n, t.p.k = k, t.p.batch = 1;
    t.a.lay(ab, CARAT_ROW_MAJOR, 1, m, k, 1, 0);
    t.b.lay(ab, CARAT_COL_MAJOR, 1, k, n, 1, 0);
    t.d.lay(d, CARAT_ROW_MAJOR, 1, m, n, 1, 0);
    int64_t at = 0;
    t.a.fill([&] { return draw(random, data, at++ % k); });
    t.b.fill([&] { return data == Data::alternating ? 0.7 : draw(random, data, 0); });
    t.p.a = t.a.desc, t.p.b = t.b.desc, t.p.d = t.d.desc;
    t.o.a = t.a.data(), t.o.b = t.b.data(), t.o.d = t.d.data();
    t.o.alpha = 1;
}

float chop(double value) {  // towards zero, as a tensor core's adder does
    const float nearest = float(value);
    return std::fabs(double(nearest)) > std::fabs(value) ? std::nextafterf(nearest, 0) : nearest;
}

float sum_f32(const Gemm& t, int64_t i, int64_t j, Sum style, int64_t k_end) {
    const double* a = &t.a.values[size_t(i * t.p.k)];
    const auto product = [&](int64_t k) { return float(a[k]) * float(t.b.at(0, k, j)); };
    if (style == Sum::truncating) {  // exact sums of 16 products, cut off when added
        float sum = 0;
        for (int64_t k = 0; k < k_end; k += 16) {
            double step = 0;
            for (int64_t l = k; l < std::min(k + 16, k_end); ++l) step += a[l] * t.b.at(0, l, j);
            sum = chop(double(sum) + step);
        }
        return sum;
    }
    const int64_t lanes = style == Sum::lanes ? 8 : style == Sum::split ? 4 : 1;
    float partial[8] = {};
    for (int64_t k = 0; k < k_end; ++k) {
        const int64_t lane = style == Sum::split ? std::min<int64_t>(k * 4 / t.p.k, 3) : k % lanes;
        partial[lane] += product(k);
    }
    float sum = 0;
    for (int64_t lane = 0; lane < lanes; ++lane) sum += partial[lane];
    return sum;
}

float activation_f32(carat_activation activation, float v) {
    switch (activation) {
        case CARAT_ACT_RELU:
            return std::max(v, 0.0f);
        case CARAT_ACT_GELU_ERF:
            return 0.5f * v * (1 + std::erf(v * 0.70710678f));
        case CARAT_ACT_GELU_TANH:
            return 0.5f * v * (1 + std::tanh(0.79788456f * (v + 0.044715f * v * v * v)));
        case CARAT_ACT_SILU:
            return v / (1 + std::exp(-v));
        case CARAT_ACT_SIGMOID:
            return 1 / (1 + std::exp(-v));
        default:
            return v;
    }
}

// D as a plain f32 kernel would compute it.
void simulate(Gemm& t, Sum style) {
    const bool gated = t.p.epilogue.gate == CARAT_GATE_SPLIT;
    for (int64_t i = 0; i < t.p.m; ++i)
        for (int64_t j = 0; j < t.p.d_cols(); ++j) {
            const auto linear = [&](int64_t col) {
                float v = float(t.o.alpha) * sum_f32(t, i, col, style, t.p.k);
                if (t.o.beta != 0) v += float(t.o.beta) * float(t.c.at(0, i, col));
                if (!t.bias.empty()) v += t.bias[size_t(col)];
                return v;
            };
            float v = activation_f32(t.p.epilogue.activation, linear(j));
            if (gated) v *= linear(t.p.n / 2 + j);
            t.d.set(0, i, j, v);
        }
}

carat_check_options options(int64_t full_limit = int64_t{1} << 27) {
    return {sizeof(carat_check_options), full_limit, 512, 5};
}

class Check : public ::testing::Test {
  protected:
    carat_check_result check(const Gemm& t, int64_t full_limit = int64_t{1} << 27) {
        const auto result = check_result(t.p, t.o, nullptr, options(full_limit), threads_);
        EXPECT_TRUE(result.ok()) << result.status().sentence();
        return *result;
    }
    cpu::ThreadPool threads_{2};
};

std::string text(const carat_check_result& r) {
    return fmt::format("({}, {}): got {}, want {}, error {:.3g} of {:.3g}, freivalds {:.3g}", r.bad_row, r.bad_col,
                       r.got, r.want, r.error, r.bound, r.freivalds);
}

TEST_F(Check, PassesCorrectF32SumsOfAnyOrderAndIsNotAbsurdlyLoose) {
    Random random(3);
    double tightest = 0, by_k[2] = {0, 0};
    for (const int64_t k : {1, 2, 16, 100, 999, 4096, 20000})
        for (const Data data : kData)
            for (const Sum style : kSums)
                for (const carat_dtype type : {CARAT_F32, CARAT_BF16, CARAT_F16}) {
                    Gemm t;
                    make(t, random, 6, 9, k, type, CARAT_F32, data);
                    simulate(t, style);
                    const carat_check_result r = check(t);
                    ASSERT_TRUE(r.ok) << "k " << k << " data " << int(data) << " sum " << int(style) << " " << text(r);
                    ASSERT_LE(r.error, r.bound);
                    tightest = std::max(tightest, r.error / r.bound);
                    by_k[k > 1000] = std::max(by_k[k > 1000], r.error / r.bound);
                }
    RecordProperty("largest_error_over_bound", std::to_string(tightest));
    std::printf("largest error / bound: %.3f for K <= 1000, %.3f above\n", by_k[0], by_k[1]);
    EXPECT_LT(tightest, 0.9);
    EXPECT_GT(by_k[0], 0.02);
    EXPECT_GT(by_k[1], 0.02);
}

TEST_F(Check, PassesEveryEpilogueInF32) {
    Random random(4);
    for (int i = 0; i < 300; ++i) {
        Gemm t;
        const carat_dtype d =
            random.pick({CARAT_F32, CARAT_BF16, CARAT_F16, CARAT_E4M3, CARAT_E5M2, CARAT_S8, CARAT_S32});
        const Data data = kData[random.below(5)];
        make(t, random, random.between(1, 20), 2 * random.between(1, 20), random.between(1, 300), CARAT_BF16, d, data);
        t.p.epilogue.activation = carat_activation(random.between(0, 5));
        if (random.chance(30)) {
            t.p.epilogue.gate = CARAT_GATE_SPLIT;
            t.p.epilogue.activation = random.pick({CARAT_ACT_SILU, CARAT_ACT_GELU_ERF, CARAT_ACT_GELU_TANH});
        }
        t.o.alpha = random.normal(), t.o.beta = random.pick({0.0, 0.7});
        t.c.lay(CARAT_F32, CARAT_ROW_MAJOR, 1, t.p.m, t.p.n, 0, 0);
        t.c.fill([&] { return random.normal(); });
        t.p.c = t.c.desc, t.o.c = t.c.data();
        for (int64_t j = 0; j < t.p.n; ++j) t.bias.push_back(float(random.normal()));
        t.p.epilogue.bias = CARAT_BIAS_N, t.p.epilogue.bias_dtype = CARAT_F32, t.o.bias = t.bias.data();
        simulate(t, kSums[random.below(4)]);
        const carat_check_result r = check(t);
        ASSERT_TRUE(r.ok) << i << " " << describe(t.p) << " " << text(r);
    }
}

struct Mutation {
    const char* name;
    std::function<void(Gemm&)> apply;
};

// All leave a plausible D behind.
const std::vector<Mutation>& mutations() {
    static const std::vector<Mutation> list = {
        {"the largest entry of a row off by 1 %",
         [](Gemm& t) {
             int64_t at = 0;
             for (int64_t j = 0; j < t.p.n; ++j)
                 if (std::fabs(t.d.at(0, 3, j)) > std::fabs(t.d.at(0, 3, at))) at = j;
             t.d.set(0, 3, at, t.d.at(0, 3, at) * 1.01);
         }},
        {"two rows swapped",
         [](Gemm& t) {
             for (int64_t j = 0; j < t.p.n; ++j) {
                 const double x = t.d.at(0, 4, j);
                 t.d.set(0, 4, j, t.d.at(0, 5, j));
                 t.d.set(0, 5, j, x);
             }
         }},
        {"an entry not written (NaN fill)", [](Gemm& t) { t.d.set(0, 7, 9, NAN); }},
        {"an entry not written (zero fill)", [](Gemm& t) { t.d.set(0, 7, 9, 0); }},
        {"the last element of K left out",
         [](Gemm& t) {
             for (int64_t i = 0; i < t.p.m; ++i)
                 for (int64_t j = 0; j < t.p.n; ++j) t.d.set(0, i, j, sum_f32(t, i, j, Sum::sequential, t.p.k - 1));
         }},
        {"a column next to its place",
         [](Gemm& t) {
             for (int64_t i = 0; i < t.p.m; ++i) t.d.set(0, i, 2, t.d.at(0, i, 3));
         }},
        {"16-bit partial sums",
         [](Gemm& t) {
             for (int64_t i = 0; i < t.p.m; ++i)
                 for (int64_t j = 0; j < t.p.n; ++j) {
                     const double half = round_to(CARAT_BF16, sum_f32(t, i, j, Sum::sequential, t.p.k / 2));
                     const double all = sum_f32(t, i, j, Sum::sequential, t.p.k);
                     t.d.set(0, i, j, half + round_to(CARAT_BF16, all - half));
                 }
         }},
    };
    return list;
}

TEST_F(Check, FailsWrongResults) {
    for (const carat_dtype d : {CARAT_F32, CARAT_BF16, CARAT_F16})
        for (const int64_t k : {64, 1000, 4096})
            for (const Mutation& mutation : mutations()) {
                Random random(uint64_t(k) + 17);
                Gemm t;
                make(t, random, 24, 33, k, CARAT_BF16, d, Data::normal);
                simulate(t, Sum::sequential);
                ASSERT_TRUE(check(t).ok);
                mutation.apply(t);
                const carat_check_result r = check(t);
                EXPECT_FALSE(r.ok) << mutation.name << " in " << name(d) << " at K = " << k << ": " << text(r);
                EXPECT_TRUE(r.error > r.bound || std::isnan(r.error)) << mutation.name << " " << text(r);
            }
}

TEST_F(Check, NamesTheWrongEntry) {
    Random random(5);
    Gemm t;
    make(t, random, 40, 300, 50, CARAT_F16, CARAT_BF16, Data::normal);
    simulate(t, Sum::lanes);
    t.d.set(0, 37, 299, t.d.at(0, 37, 299) + 3);
    const carat_check_result r = check(t);
    EXPECT_FALSE(r.ok);
    EXPECT_EQ(r.bad_row, 37);
    EXPECT_EQ(r.bad_col, 299);
    EXPECT_EQ(r.got, t.d.at(0, 37, 299));
    EXPECT_NEAR(r.want, r.got - 3, 0.1);
    EXPECT_EQ(r.entries, 40 * 300);
    EXPECT_EQ(r.full, 1);
}

TEST_F(Check, SamplesAndFreivaldsPassCorrectResults) {
    Random random(6);
    double largest = 0;
    for (const Data data : kData)
        for (const carat_dtype d : {CARAT_F32, CARAT_BF16})
            for (const Sum style : kSums) {
                Gemm t;
                make(t, random, 65, 200, 700, CARAT_BF16, d, data);
                simulate(t, style);
                const carat_check_result r = check(t, 1000000);
                ASSERT_TRUE(r.ok) << int(data) << " " << int(style) << " " << text(r);
                EXPECT_EQ(r.full, 0);
                EXPECT_GE(r.entries, 512);
                if (data == Data::normal) {
                    EXPECT_GT(r.freivalds, 1e-5) << "the product test ran";
                }
                largest = std::max(largest, r.freivalds);
            }
    std::printf("largest Freivalds ratio: %.3f\n", largest);
    EXPECT_LT(largest, 0.8);
}

// Defects that 512 samples of 40000 entries can miss.
TEST_F(Check, FreivaldsFindsWhatSamplesMiss) {
    const std::vector<Mutation> few = {
        {"two rows swapped", mutations()[1].apply},
        {"one entry NaN", mutations()[2].apply},
        {"a tile of a row not written",
         [](Gemm& t) {
             for (int64_t j = 64; j < 128; ++j) t.d.set(0, 50, j, 0);
         }},
        {"a tile of a row written with its neighbour's",
         [](Gemm& t) {
             for (int64_t j = 64; j < 128; ++j) t.d.set(0, 50, j, t.d.at(0, 51, j));
         }},
    };
    for (const carat_dtype d : {CARAT_F32, CARAT_BF16, CARAT_F16})
        for (const Mutation& mutation : few) {
            Random random(7);
            Gemm t;
            make(t, random, 200, 200, 100, CARAT_BF16, d, Data::normal);
            simulate(t, Sum::sequential);
            carat_check_options o = options(1);
            o.full_limit = 1000000, o.samples = 1;
            const auto good = check_result(t.p, t.o, nullptr, o, threads_);
            ASSERT_TRUE(good.ok() && good->ok) << text(*good);
            mutation.apply(t);
            const auto bad = check_result(t.p, t.o, nullptr, o, threads_);
            ASSERT_TRUE(bad.ok());
            EXPECT_FALSE(bad->ok) << mutation.name << " in " << name(d) << ": " << text(*bad);
            EXPECT_GE(bad->freivalds, 1) << mutation.name;
        }
}

TEST_F(Check, IntegersIntoS32AreExact) {
    Random random(8);
    Gemm t;
    make(t, random, 20, 30, 5000, CARAT_S8, CARAT_S32, Data::small_integer);
    t.a.fill([&] { return double(random.between(-128, 127)); });
    t.b.fill([&] { return double(random.between(-128, 127)); });
    ASSERT_TRUE(cpu::reference_execute(t.p, t.o, threads_).ok());
    EXPECT_EQ(error_bound(t.p), 0);
    const carat_check_result good = check(t);
    EXPECT_TRUE(good.ok) << text(good);
    EXPECT_EQ(good.error, 0);
    EXPECT_TRUE(check(t, 1).ok);
    t.d.set(0, 11, 12, t.d.got(0, 11, 12) + 1);
    EXPECT_FALSE(check(t).ok);
    const carat_check_result sampled = check(t, 1);
    EXPECT_FALSE(sampled.ok) << "one unit in one entry shows in the product test: " << text(sampled);
}

TEST_F(Check, QuantisedOutputsMayFlipATieButNotMove) {
    Random random(9);
    Gemm t;
    make(t, random, 8, 300, 64, CARAT_BF16, CARAT_E4M3, Data::normal);
    std::vector<float> scales(8 * 3);
    t.p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
    t.o.d_scales = scales.data();
    ASSERT_TRUE(cpu::reference_execute(t.p, t.o, threads_).ok());
    EXPECT_TRUE(check(t).ok);
    EXPECT_TRUE(check(t, 1).ok);
    scales[4] = std::nextafterf(scales[4], 10);  // one ulp is within the error of the entries
    EXPECT_TRUE(check(t).ok);
    scales[4] *= 1.01f;
    EXPECT_FALSE(check(t).ok) << "a scale off by 1 %";
    scales[4] /= 1.01f;
    uint8_t& code = t.d.bytes[size_t(t.d.index(0, 5, 290))];
    code = uint8_t(code + 1);
    const carat_check_result r = check(t);
    EXPECT_FALSE(r.ok) << "one code off";
    EXPECT_EQ(r.bad_row, 5);
    EXPECT_EQ(r.bad_col, 290);
}

TEST_F(Check, NonFiniteValuesMustMatchInClass) {
    Random random(10);
    Gemm t;
    make(t, random, 4, 4, 8, CARAT_F32, CARAT_F32, Data::normal);
    t.a.set(0, 0, 3, INFINITY);
    t.a.set(0, 1, 3, NAN);
    ASSERT_TRUE(cpu::reference_execute(t.p, t.o, threads_).ok());
    EXPECT_TRUE(check(t).ok);
    const double infinite = t.d.got(0, 0, 0);
    ASSERT_TRUE(std::isinf(infinite));
    t.d.set(0, 0, 0, -infinite);
    EXPECT_FALSE(check(t).ok);
    t.d.set(0, 0, 0, infinite);
    t.d.set(0, 1, 2, 1);
    EXPECT_FALSE(check(t).ok);
}

TEST_F(Check, SaturationAndOverflowAreJudgedAfterRounding) {
    Random random(11);
    Gemm t;
    make(t, random, 4, 4, 64, CARAT_F32, CARAT_E4M3, Data::positive);
    t.o.alpha = 1000;
    ASSERT_TRUE(cpu::reference_execute(t.p, t.o, threads_).ok());
    EXPECT_EQ(t.d.got(0, 1, 1), 448);
    EXPECT_TRUE(check(t).ok);
    t.d.set(0, 1, 1, 416);
    EXPECT_FALSE(check(t).ok);
}

TEST_F(Check, AmaxIsChecked) {
    Random random(12);
    Gemm t;
    make(t, random, 40, 40, 64, CARAT_BF16, CARAT_BF16, Data::normal);
    float amax = 0;
    t.p.epilogue.amax = 1;
    t.o.amax = &amax;
    ASSERT_TRUE(cpu::reference_execute(t.p, t.o, threads_).ok());
    EXPECT_TRUE(check(t).ok);
    amax *= 1.001f;
    EXPECT_FALSE(check(t).ok);
}

TEST_F(Check, InPlaceNeedsTheContentBefore) {
    Random random(13);
    Gemm t;
    make(t, random, 10, 10, 10, CARAT_F32, CARAT_F32, Data::normal);
    t.d.fill([&] { return random.normal(); });
    const std::vector<uint8_t> before = t.d.bytes;
    t.p.c = t.p.d, t.o.c = t.o.d, t.o.beta = 1;
    ASSERT_TRUE(cpu::reference_execute(t.p, t.o, threads_).ok());
    const size_t offset = size_t(static_cast<uint8_t*>(t.o.d) - t.d.bytes.data());
    const auto right = check_result(t.p, t.o, before.data() + offset, options(), threads_);
    EXPECT_TRUE(right.ok() && right->ok);
    EXPECT_FALSE(check(t).ok) << "C has changed since";
}

TEST_F(Check, EmptyProblemsPassWithNothingCompared) {
    Gemm t;
    t.p.m = 0, t.p.n = 5, t.p.k = 5, t.p.batch = 1;
    t.p.a.dtype = t.p.b.dtype = t.p.d.dtype = CARAT_F32;
    const carat_check_result r = check(t);
    EXPECT_TRUE(r.ok);
    EXPECT_EQ(r.entries, 0);
}

TEST_F(Check, ComputeModesOrderTheBound) {
    Random random(14);
    Gemm t;
    make(t, random, 1, 1, 4096, CARAT_F32, CARAT_F32, Data::normal);
    const auto bound = [&](carat_compute compute) {
        t.p.compute = compute;
        return error_bound(t.p);
    };
    const double exact = bound(CARAT_COMPUTE_F32);
    EXPECT_EQ(bound(CARAT_COMPUTE_DEFAULT), exact);
    EXPECT_NEAR(exact, (9 + 4 * 64) * 0x1p-24, 1e-12);
    EXPECT_GT(bound(CARAT_COMPUTE_BF16X9), exact);
    EXPECT_GT(bound(CARAT_COMPUTE_3XTF32), bound(CARAT_COMPUTE_BF16X9));
    EXPECT_GT(bound(CARAT_COMPUTE_TF32), 10 * bound(CARAT_COMPUTE_3XTF32));
    t.p.a.dtype = t.p.b.dtype = CARAT_E4M3;
    EXPECT_GT(bound(CARAT_COMPUTE_FAST), bound(CARAT_COMPUTE_PROMOTED));
    EXPECT_GT(bound(CARAT_COMPUTE_PROMOTED), exact);
    t.p.a.dtype = t.p.b.dtype = CARAT_F64;
    EXPECT_LT(bound(CARAT_COMPUTE_DEFAULT), 1e-6);
}

// tf32: operands rounded to 11 bits must pass in that mode and fail in exact f32.
TEST_F(Check, RoundedOperandsPassOnlyInTheirMode) {
    Random random(15);
    for (const Data data : {Data::normal, Data::positive, Data::constant}) {
        Gemm t;
        make(t, random, 8, 8, 500, CARAT_F32, CARAT_F32, data);
        Gemm rounded = t;
        const auto tf32 = [](double v) {
            int exponent = 0;
            const double fraction = std::frexp(v, &exponent);
            return std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11);
        };
        for (double& v : rounded.a.values) v = tf32(v);
        for (double& v : rounded.b.values) v = tf32(v);
        simulate(rounded, Sum::truncating);
        for (int64_t i = 0; i < 8; ++i)
            for (int64_t j = 0; j < 8; ++j) t.d.set(0, i, j, rounded.d.at(0, i, j));
        t.p.compute = CARAT_COMPUTE_TF32;
        const carat_check_result r = check(t);
        EXPECT_TRUE(r.ok) << int(data) << " " << text(r);
        t.p.compute = CARAT_COMPUTE_F32;
        EXPECT_FALSE(check(t).ok) << int(data);
    }
}

}  // namespace
}  // namespace carat::testing
