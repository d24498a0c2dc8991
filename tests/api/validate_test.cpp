// SPDX-License-Identifier: Apache-2.0
// Every refusal of the border: the code, and the words that name the field, what it was and what to do.
#include "api/validate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace carat::api {
namespace {

carat_problem plain(carat_dtype dtype = CARAT_F32, const char* layout = "nt") {
    carat_problem problem;
    EXPECT_EQ(carat_problem_init(&problem, 4, 6, 8, dtype, layout), CARAT_SUCCESS);
    return problem;
}

struct BadProblem {
    const char* name;
    std::function<void(carat_problem&)> spoil;
    std::vector<const char*> words;
};

std::vector<BadProblem> bad_problems() {
    return {
        {"struct_size", [](auto& p) { p.struct_size = 8; }, {"carat_problem.struct_size is 8", "_init"}},
        {"mode", [](auto& p) { p.mode = carat_mode(9); }, {"mode is 9"}},
        {"negative_m", [](auto& p) { p.m = -1; }, {"m is -1", "0 or more"}},
        {"huge_k", [](auto& p) { p.k = (int64_t(1) << 40) + 1; }, {"k is", "2^40"}},
        {"lda", [](auto& p) { p.a.ld = 7; }, {"a.ld is 7", "4 x 8 row-major", "at least 8"}},
        {"ldb", [](auto& p) { p.b.ld = 3; }, {"b.ld is 3", "8 x 6 column-major", "at least 8"}},
        {"negative_ld", [](auto& p) { p.d.ld = -6; }, {"d.ld is -6"}},
        {"overflowing_ld", [](auto& p) { p.a.ld = int64_t(1) << 60; }, {"a.ld is", "would not fit any memory"}},
        {"order", [](auto& p) { p.a.order = carat_order(7); }, {"a.order is 7", "CARAT_ROW_MAJOR"}},
        {"pair", [](auto& p) { p.b.dtype = CARAT_BF16; }, {"a.dtype f32 with b.dtype bf16", "no pair"}},
        {"d_s32", [](auto& p) { p.d.dtype = CARAT_S32; }, {"d.dtype is s32 with f32 operands"}},
        {"c_f64", [](auto& p) { p.c.dtype = CARAT_F64; }, {"c.dtype is f64 with f32 operands"}},
        {"dtype", [](auto& p) { p.a.dtype = carat_dtype(99); }, {"a.dtype is 99"}},
        {"single_batch", [](auto& p) { p.batch = 3; }, {"batch is 3 in a single problem", "CARAT_BATCHED"}},
        {"group_form", [](auto& p) { p.mode = CARAT_GROUPED; }, {"group_form 0"}},
        {"output_overlap",
         [](auto& p) { p.mode = CARAT_BATCHED, p.batch = 2, p.d.batch_stride = 0; },
         {"d.batch_stride is 0", "overlap", "CARAT_PACKED"}},
        {"compute", [](auto& p) { p.compute = CARAT_COMPUTE_FAST; }, {"compute 6 is for FP8", "A is f32"}},
        {"scale", [](auto& p) { p.scale_a.recipe = CARAT_SCALE_ROW_WISE; }, {"scale_a", "A is f32", "use alpha"}},
        {"gate_activation", [](auto& p) { p.epilogue.gate = CARAT_GATE_SPLIT; }, {"epilogue.activation is 0", "SILU"}},
        {"gate_odd",
         [](auto& p) { p.n = 7, p.epilogue.gate = CARAT_GATE_SPLIT, p.epilogue.activation = CARAT_ACT_SILU; },
         {"n is 7", "even"}},
        {"clamp",
         [](auto& p) { p.epilogue.clamp = 1, p.epilogue.clamp_lo = 1, p.epilogue.clamp_hi = 0; },
         {"clamp_lo 1", "clamp_hi 0"}},
        {"clamp_nan", [](auto& p) { p.epilogue.clamp = 1, p.epilogue.clamp_lo = NAN; }, {"neither NaN"}},
        {"bias_dtype", [](auto& p) { p.epilogue.bias = CARAT_BIAS_N; }, {"epilogue.bias_dtype"}},
        {"out_1x128", [](auto& p) { p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128; }, {"D is f32", "e4m3"}},
    };
}

TEST(ValidateProblem, RefusesEachBadFieldWithItsSentence) {
    for (const BadProblem& bad : bad_problems()) {
        SCOPED_TRACE(bad.name);
        carat_problem problem = plain();
        bad.spoil(problem);
        const auto result = validate_problem(&problem);
        ASSERT_FALSE(result.ok());
        EXPECT_EQ(result.status().code(), CARAT_INVALID_VALUE);
        for (const char* word : bad.words)
            EXPECT_NE(result.status().sentence().find(word), std::string::npos) << result.status().sentence();
    }
    EXPECT_EQ(validate_problem(nullptr).status().code(), CARAT_INVALID_VALUE);
}

TEST(ValidateProblem, GroupWiseNeedsAGroupAndAWeightOnlyPair) {
    carat_problem problem = plain(CARAT_BF16);
    problem.b.dtype = CARAT_U4;
    problem.scale_b.recipe = CARAT_SCALE_GROUP_WISE;
    EXPECT_NE(validate_problem(&problem).status().sentence().find("scale_b.group is 0"), std::string::npos);
    problem.scale_b.group = 3;
    const auto valid = validate_problem(&problem);
    ASSERT_TRUE(valid.ok()) << valid.status().sentence();
    EXPECT_EQ(valid->scale_b.ld, 3);  // ceil(8 / 3) groups a row
    problem.b.ld = 9;
    EXPECT_NE(validate_problem(&problem).status().sentence().find("must be even"), std::string::npos);
}

TEST(ValidateProblem, ResolvesPackedStrides) {
    carat_problem problem = plain();
    problem.mode = CARAT_BATCHED, problem.batch = 3;
    const auto valid = validate_problem(&problem);
    ASSERT_TRUE(valid.ok()) << valid.status().sentence();
    EXPECT_EQ(valid->a.ld, 8);
    EXPECT_EQ(valid->b.ld, 8);
    EXPECT_EQ(valid->d.ld, 6);
    EXPECT_EQ(valid->a.batch_stride, 32);
    EXPECT_EQ(valid->d.batch_stride, 24);
}

TEST(ValidateProblem, TakesEveryZeroSize) {
    for (int zero = 0; zero < 3; ++zero) {
        carat_problem problem;
        ASSERT_EQ(
            carat_problem_init(&problem, zero == 0 ? 0 : 4, zero == 1 ? 0 : 6, zero == 2 ? 0 : 8, CARAT_BF16, "tn"),
            CARAT_SUCCESS);
        EXPECT_TRUE(validate_problem(&problem).ok());
    }
}

// Interleaved outputs (columns of several results side by side) do not overlap and are legal.
TEST(ValidateProblem, TakesInterleavedOutputs) {
    carat_problem problem = plain();
    problem.mode = CARAT_BATCHED, problem.batch = 3;
    problem.d.ld = 18, problem.d.batch_stride = 6;
    EXPECT_TRUE(validate_problem(&problem).ok());
    problem.d.ld = 17;
    EXPECT_FALSE(validate_problem(&problem).ok());
}

// ---- operands

struct Fixture {
    Problem problem;
    alignas(16) float a[32] = {}, b[48] = {}, c[24] = {}, d[24] = {};
    carat_operands operands;

    Fixture() : Fixture(plain()) {}
    explicit Fixture(const carat_problem& p) : problem(*validate_problem(&p)) {
        carat_operands_init(&operands);
        operands.a = a, operands.b = b, operands.d = d;
    }
    std::string refusal() const { return validate_operands(problem, &operands, 0).sentence(); }
};

#define EXPECT_SAYS(text, word)                                               \
    do {                                                                      \
        const std::string said = (text);                                      \
        EXPECT_NE(said.find(word), std::string::npos) << "it said: " << said; \
    } while (false)

TEST(ValidateOperands, NamesWhatIsMissing) {
    Fixture f;
    EXPECT_EQ(f.refusal(), "");
    f.operands.a = nullptr;
    EXPECT_SAYS(f.refusal(), "operands.a is NULL");
    f.operands.alpha = 0;  // A and B are not read
    EXPECT_EQ(f.refusal(), "");
    f.operands.d = nullptr;
    EXPECT_SAYS(f.refusal(), "operands.d is NULL");
    EXPECT_FALSE(validate_operands(f.problem, nullptr, 0).ok());
}

TEST(ValidateOperands, BetaNeedsAC) {
    Fixture f;
    f.operands.beta = 0.5;
    EXPECT_SAYS(f.refusal(), "the problem has no C");
    carat_problem with_c = plain();
    with_c.c.dtype = CARAT_F32;
    Fixture g(with_c);
    EXPECT_EQ(g.refusal(), "");
    g.operands.beta = 0.5;
    EXPECT_SAYS(g.refusal(), "operands.c is NULL");
    g.operands.c = g.d;
    EXPECT_EQ(g.refusal(), "");
    with_c.c.ld = 7;
    Fixture h(with_c);
    h.operands.beta = 1, h.operands.c = h.d;
    EXPECT_SAYS(h.refusal(), "in place they must agree");
}

TEST(ValidateOperands, RefusesMisalignmentAliasingAndSmallWorkspace) {
    Fixture f;
    f.operands.a = reinterpret_cast<const char*>(f.a) + 2;
    EXPECT_SAYS(f.refusal(), "multiple of 4");
    f.operands.a = f.d;
    EXPECT_SAYS(f.refusal(), "operands.d equals operands.a");
    f.operands.a = f.a;
    EXPECT_SAYS(validate_operands(f.problem, &f.operands, 64).sentence(), "needs 64");
}

TEST(ValidateOperands, EmptyProblemsNeedNoPointer) {
    carat_problem empty;
    ASSERT_EQ(carat_problem_init(&empty, 0, 5, 5, CARAT_F32, "nn"), CARAT_SUCCESS);
    carat_operands operands;
    carat_operands_init(&operands);
    EXPECT_TRUE(validate_operands(*validate_problem(&empty), &operands, 0).ok());
}

}  // namespace
}  // namespace carat::api
