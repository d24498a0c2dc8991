// SPDX-License-Identifier: Apache-2.0
// reference_test.cpp: tiny cases worked out by hand, the rules on NaN, infinity and what is never read, and public bug
// reports of other libraries tried on the reference.
#include "cpu/reference.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "cpu/reference_fixture.hpp"

namespace carat::testing {
namespace {

// A single problem over row-major A and the given orders, operands filled by the caller.
struct Gemm {
    Problem p{};
    carat_operands o{};
    Operand a, b, c, d;
    cpu::ThreadPool threads{2};

    Gemm(int64_t m, int64_t n, int64_t k, carat_dtype ab, carat_dtype cd, carat_order b_order = CARAT_COL_MAJOR,
         int64_t batch = 1, int64_t pad = 1) {
        p.m = m, p.n = n, p.k = k, p.batch = batch;
        p.mode = batch == 1 ? CARAT_SINGLE : CARAT_BATCHED;
        a.lay(ab, CARAT_ROW_MAJOR, batch, m, k, pad, pad);
        b.lay(ab, b_order, batch, k, n, pad, pad);
        c.lay(cd, CARAT_ROW_MAJOR, batch, m, n, pad, pad);
        d.lay(cd, CARAT_ROW_MAJOR, batch, m, n, pad, pad);
        o.alpha = 1;
        bind();
    }
    void bind() {
        p.a = a.desc, p.b = b.desc, p.d = d.desc;
        o.a = a.data(), o.b = b.data(), o.d = d.data();
    }
    void with_c(double beta) { p.c = c.desc, o.c = c.data(), o.beta = beta; }
    void set(Operand& x, std::initializer_list<double> values) {
        auto next = values.begin();
        x.fill([&] { return *next++; });
    }
    void run() {
        const Status status = cpu::reference_execute(p, o, threads);
        ASSERT_TRUE(status.ok()) << status.sentence();
    }
    double got(int64_t i, int64_t j, int64_t z = 0) const { return d.got(z, i, j); }
};

TEST(ReferenceByHand, IdentityTimesMatrix) {  // C17, first half
    Gemm g(2, 2, 2, CARAT_F32, CARAT_F32, CARAT_ROW_MAJOR);
    g.set(g.a, {1, 0, 0, 1});
    g.set(g.b, {1, 2, 3, 4});
    g.run();
    EXPECT_EQ(g.got(0, 0), 1);
    EXPECT_EQ(g.got(0, 1), 2);
    EXPECT_EQ(g.got(1, 0), 3);
    EXPECT_EQ(g.got(1, 1), 4);
}

TEST(ReferenceByHand, BatchOfOneFourByFour) {  // C17, second half
    Gemm g(4, 4, 3, CARAT_F32, CARAT_F32, CARAT_ROW_MAJOR);
    g.p.mode = CARAT_BATCHED;
    g.set(g.a, {143.2371, 0, 0, -143.2371, 0, 0, 0, 1, 86.5423, 0, -1, -86.5423});
    g.set(g.b, {0.5, 0.5, 0.5, 0.5, 0.5, 0.498, 0.4961, 0.4941, 1, 1, 1, 1});
    g.run();
    const double third[] = {87.0423, 87.0403, 87.0384, 87.0364};
    for (int64_t j = 0; j < 4; ++j) {
        EXPECT_NEAR(g.got(0, j), 71.61855, 1e-5);
        EXPECT_EQ(g.got(1, j), -g.got(0, j));
        EXPECT_NEAR(g.got(2, j), third[j], 1e-5);
        EXPECT_EQ(g.got(3, j), -g.got(2, j));
    }
}

TEST(ReferenceByHand, AlphaBetaBiasInThatOrderThenActivationThenClamp) {
    Gemm g(1, 3, 2, CARAT_F32, CARAT_F32);
    g.set(g.a, {1, 2});
    g.b.set(0, 0, 0, 1), g.b.set(0, 1, 0, 1);    // acc 3
    g.b.set(0, 0, 1, -1), g.b.set(0, 1, 1, -1);  // acc -3
    g.b.set(0, 0, 2, 0), g.b.set(0, 1, 2, 5);    // acc 10
    g.set(g.c, {4, 4, 4});
    g.with_c(0.5);
    const float bias[] = {1, 1, 1};
    g.p.epilogue.bias = CARAT_BIAS_N, g.p.epilogue.bias_dtype = CARAT_F32, g.o.bias = bias;
    g.o.alpha = 2;
    g.run();  // 2 acc + 2 + 1
    EXPECT_EQ(g.got(0, 0), 9);
    EXPECT_EQ(g.got(0, 1), -3);
    EXPECT_EQ(g.got(0, 2), 23);
    g.p.epilogue.activation = CARAT_ACT_RELU;
    g.p.epilogue.clamp = 1, g.p.epilogue.clamp_lo = -1, g.p.epilogue.clamp_hi = 20;
    const float scale = 0.5f;
    g.p.epilogue.out_scale = CARAT_OUT_SCALE_TENSOR, g.o.out_scale = &scale;
    float amax = -1;
    g.p.epilogue.amax = 1, g.o.amax = &amax;
    g.run();
    EXPECT_EQ(g.got(0, 0), 4.5);
    EXPECT_EQ(g.got(0, 1), 0);
    EXPECT_EQ(g.got(0, 2), 10);
    EXPECT_EQ(amax, 20) << "after the clamp, before out_scale";
}

TEST(ReferenceByHand, ActivationsAtKnownPoints) {
    const struct {
        carat_activation activation;
        double at, value;
    } kPoints[] = {{CARAT_ACT_RELU, -2, 0},
                   {CARAT_ACT_RELU, 3, 3},
                   {CARAT_ACT_GELU_ERF, 1, 0.8413447460685429},
                   {CARAT_ACT_GELU_ERF, -1, -0.15865525393145707},
                   {CARAT_ACT_GELU_TANH, 1, 0.8411919906082768},
                   {CARAT_ACT_SILU, 1, 0.7310585786300049},
                   {CARAT_ACT_SIGMOID, 0, 0.5},
                   {CARAT_ACT_SIGMOID, -1, 0.2689414213699951}};
    for (const auto& point : kPoints) {
        Gemm g(1, 1, 1, CARAT_F64, CARAT_F64);
        g.set(g.a, {point.at});
        g.set(g.b, {1});
        g.p.epilogue.activation = point.activation;
        g.run();
        EXPECT_NEAR(g.got(0, 0), point.value, 1e-15) << int(point.activation) << " at " << point.at;
    }
}

TEST(ReferenceByHand, GatesPairTheRightColumns) {
    for (const carat_gate gate : {CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT}) {
        Gemm g(1, 4, 1, CARAT_F64, CARAT_F64);
        g.set(g.a, {1});
        g.set(g.b, {1, 2, 3, 4});
        g.p.epilogue.gate = gate, g.p.epilogue.activation = CARAT_ACT_SILU;
        g.d.lay(CARAT_F64, CARAT_ROW_MAJOR, 1, 1, 2, 0, 0);
        g.bind();
        g.run();
        const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
        const bool split = gate == CARAT_GATE_SPLIT;
        EXPECT_DOUBLE_EQ(g.got(0, 0), split ? silu(1) * 3 : silu(1) * 2);
        EXPECT_DOUBLE_EQ(g.got(0, 1), split ? silu(2) * 4 : silu(3) * 4);
    }
}

TEST(ReferenceByHand, ComputedScaleFillsTheRange) {
    Gemm g(1, 130, 1, CARAT_F32, CARAT_E4M3);
    g.set(g.a, {1});
    g.b.fill([] { return 0.0; });
    g.b.set(0, 0, 5, -7), g.b.set(0, 0, 6, 3.5);
    float scales[2] = {-1, -1};
    g.p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128, g.o.d_scales = scales;
    g.run();
    EXPECT_EQ(scales[0], 7.0f / 448);
    EXPECT_EQ(scales[1], 1) << "an all-zero block";
    EXPECT_EQ(g.got(0, 5), -448);
    EXPECT_EQ(g.got(0, 6), 224);
    EXPECT_EQ(g.got(0, 129), 0);
}

TEST(ReferenceByHand, SparseElementsLieWhereTheMetadataSays) {
    Gemm g(1, 1, 8, CARAT_F32, CARAT_F32);
    g.p.sparsity = CARAT_SPARSE_A_24;
    g.a.lay(CARAT_F32, CARAT_ROW_MAJOR, 1, 1, 4, 0, 0);
    g.set(g.a, {1, 2, 3, 4});
    g.set(g.b, {1, 10, 100, NAN, INFINITY, 1e4, 1e5, 1e6});
    const uint8_t metadata = (0 | 2 << 2) | (1 | 3 << 2) << 4;  // elements 0, 2 and 5, 7
    g.o.metadata = &metadata;
    g.bind();
    g.run();
    EXPECT_EQ(g.got(0, 0), 1 + 200 + 3e4 + 4e6) << "NaN and infinity opposite dropped elements do not show";
}

TEST(ReferenceByHand, GroupWiseZeroPoints) {
    Gemm g(1, 1, 3, CARAT_F16, CARAT_F32);
    g.set(g.a, {1, 1, 1});
    g.b.lay(CARAT_U4, CARAT_COL_MAJOR, 1, 3, 1, 0, 0);
    g.set(g.b, {15, 3, 0});
    const float scales[] = {0.5f, 2}, zeros[] = {8, 1};
    g.p.scale_b = {CARAT_SCALE_GROUP_WISE, 2, 1, CARAT_ROW_MAJOR, 2, 0};
    g.o.scale_b = scales, g.o.zero_b = zeros;
    g.bind();
    g.run();
    EXPECT_EQ(g.got(0, 0), (15 - 8) * 0.5 + (3 - 8) * 0.5 + (0 - 1) * 2.0);
}

TEST(ReferenceByHand, OneRoundingAndSaturation) {
    Gemm g(1, 1, 1, CARAT_F64, CARAT_BF16);
    g.set(g.a, {1 + 0x1p-8 + 0x1p-40});  // rounding through f32 would give the tie, and that goes down
    g.set(g.b, {1});
    g.run();
    EXPECT_EQ(g.got(0, 0), 1 + 0x1p-7);
    const struct {
        carat_dtype dtype;
        double high, low, nan;
    } kTypes[] = {{CARAT_E4M3, 448, -448, NAN},
                  {CARAT_E5M2, 57344, -57344, NAN},
                  {CARAT_S8, 127, -128, 0},
                  {CARAT_S32, 2147483647, -2147483648.0, 0},
                  {CARAT_F16, INFINITY, -INFINITY, NAN}};
    for (const auto& type : kTypes) {
        Gemm s(1, 5, 1, CARAT_F64, type.dtype);
        s.set(s.a, {1});
        s.set(s.b, {1e30, -1e30, INFINITY, -INFINITY, NAN});
        s.run();
        for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(s.got(0, j), j % 2 ? type.low : type.high) << name(type.dtype) << j;
        EXPECT_TRUE(std::isnan(type.nan) ? std::isnan(s.got(0, 4)) : s.got(0, 4) == 0) << name(type.dtype);
    }
}

TEST(ReferenceRules, NanGoesThroughReluClampAndAmax) {
    Gemm g(1, 2, 1, CARAT_F32, CARAT_F32);
    g.set(g.a, {1});
    g.set(g.b, {NAN, -9});
    g.p.epilogue.activation = CARAT_ACT_RELU;
    g.p.epilogue.clamp = 1, g.p.epilogue.clamp_lo = 0, g.p.epilogue.clamp_hi = 6;
    float amax = 0;
    g.p.epilogue.amax = 1, g.o.amax = &amax;
    g.run();
    EXPECT_TRUE(std::isnan(g.got(0, 0)));
    EXPECT_EQ(g.got(0, 1), 0);
    EXPECT_TRUE(std::isnan(amax));
}

TEST(ReferenceRules, ZeroExtentsTouchNothingAndTakeNullPointers) {
    for (const int which : {0, 1, 2}) {
        Problem p{};
        p.m = which == 0 ? 0 : 3, p.n = which == 1 ? 0 : 3, p.k = 3, p.batch = which == 2 ? 0 : 1;
        p.mode = which == 2 ? CARAT_BATCHED : CARAT_SINGLE;
        p.a = p.b = p.d = {CARAT_F32, CARAT_ROW_MAJOR, 3, 9};
        cpu::ThreadPool threads(1);
        EXPECT_TRUE(cpu::reference_execute(p, carat_operands{}, threads).ok()) << which;
    }
}

TEST(ReferenceRules, BetaZeroNeverReadsC) {  // C09
    Gemm g(64, 64, 64, CARAT_F16, CARAT_F16);
    Random random(1);
    g.a.fill([&] { return double(random.between(-2, 2)); });
    g.b.fill([&] { return double(random.between(-2, 2)); });
    g.c.fill([&] { return double(NAN); });
    g.with_c(0);
    g.o.alpha = 1.5;
    g.run();
    for (int64_t i = 0; i < 64; ++i)
        for (int64_t j = 0; j < 64; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < 64; ++k) sum += g.a.at(0, i, k) * g.b.at(0, k, j);
            ASSERT_EQ(g.got(i, j), 1.5 * sum);
        }
    g.c.fill([] { return 2.0; });
    g.o.beta = 0.5;
    const double before = g.got(5, 7);
    g.run();
    EXPECT_EQ(g.got(5, 7), before + 1);
    g.o.c = nullptr, g.o.beta = 0;  // not even a pointer is needed
    g.run();
    EXPECT_EQ(g.got(5, 7), before);
}

TEST(ReferenceRules, AlphaZeroAndNoDepthNeverReadAandB) {
    Gemm g(2, 2, 3, CARAT_BF16, CARAT_BF16);
    g.set(g.c, {1, 2, 3, 4});
    g.with_c(2);
    g.o.alpha = 0, g.o.a = g.o.b = nullptr;
    g.run();
    EXPECT_EQ(g.got(1, 1), 8);
    g.o.alpha = 1, g.p.k = 0;
    g.run();
    EXPECT_EQ(g.got(0, 1), 4);
}

// C16: s8 with extents and leading dimensions that are no multiple of anything.
TEST(ReferenceReports, SmallIntegersAreExactAtOddExtents) {
    Random random(2);
    for (const int64_t m : {1, 16, 17})
        for (const int64_t n : {16, 17})
            for (const int64_t k : {16, 17}) {
                Gemm g(m, n, k, CARAT_S8, CARAT_S32, CARAT_COL_MAJOR, 1, 17 - std::max(n, k));
                g.d.lay(CARAT_S32, CARAT_ROW_MAJOR, 1, m, n, 17 - n, 0);
                g.a.fill([&] { return double(random.between(-128, 127)); });
                g.b.fill([&] { return double(random.between(-128, 127)); });
                g.bind();
                g.run();
                for (int64_t i = 0; i < m; ++i)
                    for (int64_t j = 0; j < n; ++j) {
                        int32_t sum = 0;
                        for (int64_t l = 0; l < k; ++l) sum += int32_t(g.a.at(0, i, l)) * int32_t(g.b.at(0, l, j));
                        ASSERT_EQ(int32_t(g.got(i, j)), sum);
                    }
            }
}

TEST(ReferenceReports, LongS8SumsDoNotOverflow) {
    Gemm g(1, 1, 200000, CARAT_S8, CARAT_S32);
    g.a.fill([] { return -128.0; });
    g.b.fill([] { return -128.0; });
    g.run();
    EXPECT_EQ(g.got(0, 0), 2147483647) << "200000 * 16384 saturates instead of wrapping";
}

// C07: K-grouped with empty groups first, in the middle and last.
TEST(ReferenceReports, EmptyKGroupsAreZero) {
    Gemm g(16, 16, 32, CARAT_BF16, CARAT_F32);
    g.p.mode = CARAT_GROUPED, g.p.group_form = CARAT_GROUP_K_OFFSETS, g.p.batch = 5;
    const int32_t offsets[] = {0, 8, 16, 16, 32};
    g.o.group_sizes = offsets;
    g.a.fill([] { return 1.0; });
    g.b.fill([] { return 2.0; });
    g.d.lay(CARAT_F32, CARAT_ROW_MAJOR, 5, 16, 16, 0, 0);
    g.bind();
    g.run();
    const double want[] = {0, 16, 16, 0, 32};
    for (int64_t z = 0; z < 5; ++z)
        for (int64_t i = 0; i < 16; ++i)
            for (int64_t j = 0; j < 16; ++j) ASSERT_EQ(g.got(i, j, z), want[z]) << z;
}

// C06 in small: K-grouped FP8 with 128 x 128 scales over the packed K, several empty groups, with and without C.
TEST(ReferenceReports, EmptyKGroupsWithBlockScalesKeepBetaC) {
    Gemm g(4, 130, 384, CARAT_E4M3, CARAT_F32);
    g.p.mode = CARAT_GROUPED, g.p.group_form = CARAT_GROUP_K_OFFSETS, g.p.batch = 4;
    const int32_t offsets[] = {0, 128, 128, 384};
    g.o.group_sizes = offsets;
    g.a.fill([] { return 1.0; });
    g.b.fill([] { return 1.0; });
    const float scale_a[] = {1, 2, 4}, scale_b[] = {1, 2, 4, 8, 16, 32};  // B: two row blocks of three
    g.p.scale_a = {CARAT_SCALE_BLOCK_WISE_128X128, 0, 0, CARAT_ROW_MAJOR, 3, 3};
    g.p.scale_b = {CARAT_SCALE_BLOCK_WISE_128X128, 0, 0, CARAT_ROW_MAJOR, 3, 6};
    g.o.scale_a = scale_a, g.o.scale_b = scale_b;
    g.d.lay(CARAT_F32, CARAT_ROW_MAJOR, 4, 4, 130, 0, 0);
    g.c.lay(CARAT_F32, CARAT_ROW_MAJOR, 4, 4, 130, 0, 0);
    g.c.fill([] { return 3.0; });
    g.bind();
    const double want[] = {0, 128 * 1, 0, 128 * (2 * 2 + 4 * 4)};
    const double want_last[] = {0, 128 * 8, 0, 128 * (2 * 16 + 4 * 32)};
    for (const double beta : {0.0, 2.0}) {
        g.with_c(beta);
        g.run();
        for (int64_t z = 0; z < 4; ++z) {
            EXPECT_EQ(g.got(3, 127, z), want[z] + 3 * beta) << z;
            EXPECT_EQ(g.got(3, 129, z), want_last[z] + 3 * beta) << z;
        }
    }
}

// C15: grouped with K = 0 and all offsets 0. Rows past the last offset stay as they are.
TEST(ReferenceReports, GroupsWithoutDepthOrRows) {
    Gemm g(224, 256, 0, CARAT_BF16, CARAT_BF16);
    g.p.mode = CARAT_GROUPED, g.p.group_form = CARAT_GROUP_M_OFFSETS, g.p.batch = 4;
    const int32_t none[] = {0, 0, 0, 0}, all[] = {100, 100, 150, 224};
    g.o.a = g.o.b = nullptr;
    g.o.group_sizes = none;
    const std::vector<uint8_t> before = g.d.bytes;
    g.run();
    EXPECT_TRUE(g.d.bytes == before);
    g.o.group_sizes = all;
    g.run();
    for (int64_t i = 0; i < 224; ++i)
        for (int64_t j = 0; j < 256; ++j) ASSERT_EQ(g.got(i, j), 0);
}

// Sizes come from memory that nobody could check: they are clamped, never followed out of the operands.
TEST(ReferenceRules, WildGroupSizesStayInside) {
    Gemm g(6, 4, 2, CARAT_F32, CARAT_F32);
    g.p.mode = CARAT_GROUPED, g.p.batch = 3;
    g.a.fill([] { return 1.0; });
    g.b.lay(CARAT_F32, CARAT_COL_MAJOR, 3, 2, 4, 0, 0);
    g.b.fill([] { return 1.0; });
    g.bind();
    const int32_t offsets[] = {-5, 1000000, 2}, indices[] = {7, -1, 2, -2147483647, 1, 3};
    g.p.group_form = CARAT_GROUP_M_OFFSETS, g.o.group_sizes = offsets;
    g.run();
    EXPECT_EQ(g.got(5, 3), 2);
    g.d.lay(CARAT_F32, CARAT_ROW_MAJOR, 1, 6, 4, 1, 0);
    g.bind();
    g.p.group_form = CARAT_GROUP_M_INDICES, g.o.group_sizes = indices;
    g.run();
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(g.got(i, 0)), i != 2 && i != 4) << i;  // NaN: as filled
}

TEST(ReferenceRules, SameBitsForAnyNumberOfThreads) {
    Gemm g(70, 300, 1000, CARAT_F32, CARAT_F32);
    Random random(3);
    g.a.fill([&] { return random.normal(); });
    g.b.fill([&] { return random.normal(); });
    g.run();
    const std::vector<uint8_t> two = g.d.bytes;
    cpu::ThreadPool one(1), five(5);
    for (cpu::ThreadPool* pool : {&one, &five}) {
        ASSERT_TRUE(cpu::reference_execute(g.p, g.o, *pool).ok());
        EXPECT_TRUE(g.d.bytes == two);
    }
}

TEST(ReferenceRules, AccumulateAgreesWithExecuteAndGivesTheMagnitude) {
    Gemm g(3, 4, 50, CARAT_BF16, CARAT_F64, CARAT_ROW_MAJOR, 2);
    Random random(4);
    g.a.fill([&] { return random.normal(); });
    g.b.fill([&] { return random.normal(); });
    g.run();
    for (int64_t z = 0; z < 2; ++z)
        for (int64_t i = 0; i < 3; ++i)
            for (int64_t j = 0; j < 4; ++j) {
                const cpu::Accumulated one = cpu::reference_accumulate(g.p, g.o, z, i, j);
                double magnitude = 0;
                for (int64_t k = 0; k < 50; ++k) magnitude += std::fabs(g.a.at(z, i, k) * g.b.at(z, k, j));
                EXPECT_EQ(one.value, g.got(i, j, z));
                EXPECT_DOUBLE_EQ(one.magnitude, magnitude);
            }
}

// Not a promise, only a guard against a thousandfold slip; the figure is printed.
TEST(ReferenceSpeed, Bf16IsFastEnoughToCheckWith) {
    Gemm g(256, 256, 1024, CARAT_BF16, CARAT_BF16);
    Random random(5);
    g.a.fill([&] { return random.normal(); });
    g.b.fill([&] { return random.normal(); });
    cpu::ThreadPool one(1);
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        ASSERT_TRUE(cpu::reference_execute(g.p, g.o, one).ok());
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    const double rate = 256.0 * 256 * 1024 / best * 1e-9;
    std::printf("reference, bf16, one core: %.2f G multiply-adds a second\n", rate);
    EXPECT_GT(rate, 0.002);
}

}  // namespace
}  // namespace carat::testing
