// SPDX-License-Identifier: Apache-2.0
// basics_test.cpp: the small parts of src/core: element types, problem text, environment, log, shared libraries.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/env.hpp"
#include "core/library.hpp"
#include "core/log.hpp"
#include "core/problem.hpp"

namespace carat {
namespace {

TEST(Dtype, NamesParseBackAndBadOnesListTheKnown) {
    int last = 0;
    for (const DtypeInfo& row : dtypes()) {
        EXPECT_EQ(int(row.dtype), ++last) << "the table is in the enum's order";
        EXPECT_EQ(&info(row.dtype), &row);
        const Result<carat_dtype> parsed = parse_dtype(row.name);
        ASSERT_TRUE(parsed.ok()) << row.name;
        EXPECT_EQ(*parsed, row.dtype);
    }
    for (const char* bad : {"", "none", "BF16", "bf16 ", "float"}) {
        const Result<carat_dtype> parsed = parse_dtype(bad);
        ASSERT_FALSE(parsed.ok()) << bad;
        EXPECT_EQ(parsed.status().code(), CARAT_INVALID_VALUE);
        for (const DtypeInfo& row : dtypes())
            EXPECT_NE(parsed.status().sentence().find(row.name), std::string::npos) << parsed.status().sentence();
    }
}

TEST(Dtype, InvalidEnumeratorsAreNoneAndNibblesRoundUp) {
    EXPECT_FALSE(is_valid(carat_dtype(-1)));
    EXPECT_FALSE(is_valid(carat_dtype(11)));
    EXPECT_TRUE(is_valid(CARAT_NONE));
    EXPECT_EQ(bits(carat_dtype(99)), 0);
    EXPECT_STREQ(name(CARAT_NONE), "none");
    EXPECT_EQ(bytes_of(CARAT_S4, 0), 0);
    EXPECT_EQ(bytes_of(CARAT_S4, 1), 1);
    EXPECT_EQ(bytes_of(CARAT_U4, 4), 2);
    EXPECT_EQ(bytes_of(CARAT_F64, int64_t{1} << 40), int64_t{8} << 40);
}

Problem plain() {
    Problem p{};
    p.struct_size = sizeof(carat_problem);
    p.m = 16, p.n = 32, p.k = 64, p.batch = 1;
    p.a = {CARAT_BF16, CARAT_ROW_MAJOR, 64, 0};
    p.b = {CARAT_BF16, CARAT_COL_MAJOR, 64, 0};
    p.d = {CARAT_BF16, CARAT_ROW_MAJOR, 32, 0};
    return p;
}

TEST(Describe, IsStableAndReadable) {
    Problem p = plain();
    EXPECT_EQ(describe(p), "bf16_bf16_bf16_nt m16 n32 k64");
    EXPECT_EQ(describe_epilogue(p), "none");
    EXPECT_EQ(describe_recipe(p), "none");
    p.epilogue.bias = CARAT_BIAS_N;
    p.epilogue.bias_dtype = CARAT_F32;
    p.epilogue.activation = CARAT_ACT_SILU;
    p.epilogue.gate = CARAT_GATE_SPLIT;
    EXPECT_EQ(describe_epilogue(p), "bias_n_f32+silu+gate_split");
    EXPECT_EQ(describe(p), describe(Problem(p)));
}

using Change = void (*)(Problem&);
const Change kChanges[] = {
    [](Problem&) {},
    [](Problem& p) { p.m = 17; },
    [](Problem& p) { p.n = 34; },
    [](Problem& p) { p.k = 65; },
    [](Problem& p) { p.a.dtype = CARAT_F16; },
    [](Problem& p) { p.b.dtype = CARAT_E5M2; },
    [](Problem& p) { p.d.dtype = CARAT_F32; },
    [](Problem& p) { p.a.order = CARAT_COL_MAJOR; },
    [](Problem& p) { p.b.order = CARAT_ROW_MAJOR; },
    [](Problem& p) { p.d.order = CARAT_COL_MAJOR; },
    [](Problem& p) { p.a.ld = 72; },
    [](Problem& p) { p.b.ld = 72; },
    [](Problem& p) { p.d.ld = 72; },
    [](Problem& p) {
        p.c = {CARAT_F32, CARAT_ROW_MAJOR, 32, 0};
    },
    [](Problem& p) {
        p.c = {CARAT_BF16, CARAT_ROW_MAJOR, 32, 0};
    },
    [](Problem& p) {
        p.c = {CARAT_BF16, CARAT_ROW_MAJOR, 40, 0};
    },
    [](Problem& p) { p.mode = CARAT_BATCHED, p.batch = 3; },
    [](Problem& p) { p.mode = CARAT_BATCHED, p.batch = 4; },
    [](Problem& p) { p.mode = CARAT_BATCHED, p.batch = 4, p.a.batch_stride = 1024; },
    [](Problem& p) { p.mode = CARAT_BATCHED, p.batch = 4, p.b.batch_stride = 1024; },
    [](Problem& p) { p.mode = CARAT_BATCHED, p.batch = 4, p.d.batch_stride = 1024; },
    [](Problem& p) { p.mode = CARAT_BATCHED_POINTERS, p.batch = 3; },
    [](Problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_M_OFFSETS, p.batch = 3; },
    [](Problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_M_INDICES, p.batch = 3; },
    [](Problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_M_MASKED, p.batch = 3; },
    [](Problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_K_OFFSETS, p.batch = 3; },
    [](Problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_ARRAY, p.batch = 3; },
    [](Problem& p) { p.compute = CARAT_COMPUTE_TF32; },
    [](Problem& p) { p.compute = CARAT_COMPUTE_3XTF32; },
    [](Problem& p) { p.compute = CARAT_COMPUTE_FAST; },
    [](Problem& p) { p.scale_a = {CARAT_SCALE_TENSOR_WISE, 0, 0, CARAT_ROW_MAJOR, 1, 0}; },
    [](Problem& p) { p.scale_b = {CARAT_SCALE_ROW_WISE, 0, 0, CARAT_ROW_MAJOR, 1, 0}; },
    [](Problem& p) { p.scale_b = {CARAT_SCALE_GROUP_WISE, 32, 0, CARAT_ROW_MAJOR, 2, 0}; },
    [](Problem& p) { p.scale_b = {CARAT_SCALE_GROUP_WISE, 64, 0, CARAT_ROW_MAJOR, 2, 0}; },
    [](Problem& p) { p.scale_b = {CARAT_SCALE_GROUP_WISE, 64, 1, CARAT_ROW_MAJOR, 2, 0}; },
    [](Problem& p) { p.scale_b = {CARAT_SCALE_GROUP_WISE, 64, 1, CARAT_COL_MAJOR, 2, 0}; },
    [](Problem& p) { p.scale_b = {CARAT_SCALE_GROUP_WISE, 64, 1, CARAT_ROW_MAJOR, 4, 0}; },
    [](Problem& p) { p.scale_b = {CARAT_SCALE_GROUP_WISE, 64, 1, CARAT_ROW_MAJOR, 4, 8}; },
    [](Problem& p) { p.sparsity = CARAT_SPARSE_A_24; },
    [](Problem& p) { p.sparsity = CARAT_SPARSE_B_24; },
    [](Problem& p) { p.epilogue.scalars_on_device = 1; },
    [](Problem& p) { p.epilogue.bias = CARAT_BIAS_N, p.epilogue.bias_dtype = CARAT_F32; },
    [](Problem& p) { p.epilogue.bias = CARAT_BIAS_M, p.epilogue.bias_dtype = CARAT_F32; },
    [](Problem& p) { p.epilogue.bias = CARAT_BIAS_M, p.epilogue.bias_dtype = CARAT_BF16; },
    [](Problem& p) {
        p.epilogue.bias = CARAT_BIAS_M, p.epilogue.bias_dtype = CARAT_BF16, p.epilogue.bias_batch_stride = 16;
    },
    [](Problem& p) { p.epilogue.activation = CARAT_ACT_RELU; },
    [](Problem& p) { p.epilogue.activation = CARAT_ACT_GELU_TANH; },
    [](Problem& p) { p.epilogue.activation = CARAT_ACT_SILU, p.epilogue.gate = CARAT_GATE_SPLIT; },
    [](Problem& p) { p.epilogue.activation = CARAT_ACT_SILU, p.epilogue.gate = CARAT_GATE_INTERLEAVED; },
    [](Problem& p) { p.epilogue.clamp = 1, p.epilogue.clamp_hi = 6; },
    [](Problem& p) { p.epilogue.clamp = 1, p.epilogue.clamp_hi = 7; },
    [](Problem& p) { p.epilogue.clamp = 1, p.epilogue.clamp_hi = 7, p.epilogue.clamp_lo = -7; },
    [](Problem& p) { p.epilogue.out_scale = CARAT_OUT_SCALE_TENSOR; },
    [](Problem& p) { p.epilogue.out_scale = CARAT_OUT_SCALE_ROW; },
    [](Problem& p) { p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128; },
    [](Problem& p) { p.epilogue.amax = 1; },
};

// Whatever changes what is computed or where must change the text, since it serves as a key.
TEST(Describe, DiffersWhenProblemsDiffer) {
    std::set<std::string> seen;
    for (size_t i = 0; i < std::size(kChanges); ++i) {
        Problem p = plain();
        kChanges[i](p);
        EXPECT_TRUE(seen.insert(describe(p)).second) << "change " << i << " repeats " << describe(p);
    }
}

TEST(ProblemArithmetic, ColumnsStridesAndMultiplicity) {
    Problem p = plain();
    p.k = 9;
    p.sparsity = CARAT_SPARSE_A_24;
    EXPECT_EQ(p.a_cols(), 6);
    EXPECT_EQ(p.b_rows(), 9);
    p.sparsity = CARAT_SPARSE_B_24;
    EXPECT_EQ(p.b_rows(), 6);
    p.epilogue.gate = CARAT_GATE_SPLIT;
    EXPECT_EQ(p.d_cols(), 16);
    const Strides row = Problem::strides({CARAT_F32, CARAT_ROW_MAJOR, 7, 70});
    EXPECT_EQ(row.row, 7);
    EXPECT_EQ(row.col, 1);
    EXPECT_EQ(row.batch, 70);
    const Strides col = Problem::strides({CARAT_F32, CARAT_COL_MAJOR, 7, 70});
    EXPECT_EQ(col.row, 1);
    EXPECT_EQ(col.col, 7);
    p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_M_OFFSETS, p.batch = 4;
    EXPECT_EQ(p.multiplicity(), 1);
    p.group_form = CARAT_GROUP_M_MASKED;
    EXPECT_EQ(p.multiplicity(), 4);
    EXPECT_FALSE(p.empty());
    p.n = 1;
    EXPECT_TRUE(p.empty()) << "a gated problem with one column has no column of D";
}

TEST(Env, TableIsSortedEnoughToReadAndEmptyIsUnset) {
    std::set<std::string> names;
    for (const env::Variable& v : env::variables()) {
        EXPECT_TRUE(std::string(v.name).starts_with("CARAT_")) << v.name;
        EXPECT_TRUE(names.insert(v.name).second) << v.name << " stands twice";
        EXPECT_STRNE(v.values, "");
        EXPECT_STRNE(v.fallback, "");
        EXPECT_STRNE(v.meaning, "");
    }
    setenv("CARAT_THREADS", "", 1);
    EXPECT_FALSE(env::get("CARAT_THREADS").has_value());
    setenv("CARAT_THREADS", "3", 1);
    EXPECT_EQ(env::get("CARAT_THREADS"), "3");
    unsetenv("CARAT_THREADS");
    EXPECT_FALSE(env::get("CARAT_THREADS").has_value());
}

TEST(Env, UnknownNamesAreReportedAndKnownOnesAreNot) {
    setenv("CARAT_THREDS", "3", 1);
    setenv("CARAT_THREADS", "3", 1);
    const std::vector<std::string> unknown = env::unknown();
    EXPECT_EQ(std::count(unknown.begin(), unknown.end(), "CARAT_THREDS"), 1);
    EXPECT_EQ(std::count(unknown.begin(), unknown.end(), "CARAT_THREADS"), 0);
    unsetenv("CARAT_THREDS");
    unsetenv("CARAT_THREADS");
}

struct Heard {
    std::vector<std::pair<carat_log_level, std::string>> lines;
    static void callback(carat_log_level level, const char* message, void* user) {
        static_cast<Heard*>(user)->lines.emplace_back(level, message);
    }
};

TEST(Log, IsSilentWithoutACallbackAndHonoursItsLevel) {
    Heard heard;
    log::set_callback(nullptr, nullptr, CARAT_LOG_DEBUG);
    EXPECT_FALSE(log::enabled(CARAT_LOG_ERROR));
    log::warn("nobody listens");
    log::set_callback(Heard::callback, &heard, CARAT_LOG_WARN);
    EXPECT_TRUE(log::enabled(CARAT_LOG_WARN));
    EXPECT_FALSE(log::enabled(CARAT_LOG_INFO));
    log::info("too quiet");
    log::warn("{} of {}", 1, 2);
    log::set_callback(nullptr, nullptr, CARAT_LOG_OFF);
    log::warn("nobody listens any more");
    ASSERT_EQ(heard.lines.size(), 1u);
    EXPECT_EQ(heard.lines[0].first, CARAT_LOG_WARN);
    EXPECT_EQ(heard.lines[0].second, "1 of 2");
}

TEST(Log, WarnOnceSaysEachKeyOnce) {
    Heard heard;
    log::set_callback(Heard::callback, &heard, CARAT_LOG_WARN);
    for (int i = 0; i < 3; ++i) log::warn_once("basics_test key", "said once");
    log::warn_once("basics_test other key", "said too");
    log::set_callback(nullptr, nullptr, CARAT_LOG_OFF);
    ASSERT_EQ(heard.lines.size(), 2u);
    EXPECT_EQ(heard.lines[0].second, "said once");
}

TEST(SharedLibrary, FailureListsWhatWasTried) {
    const auto none = SharedLibrary::open_first({"libcarat_is_not_here.so.1", "/nowhere/libalso_not.so"});
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.status().code(), CARAT_IO_ERROR);
    EXPECT_NE(none.status().sentence().find("libcarat_is_not_here.so.1"), std::string::npos)
        << none.status().sentence();
    EXPECT_NE(none.status().sentence().find("/nowhere/libalso_not.so"), std::string::npos) << none.status().sentence();
}

TEST(SharedLibrary, FailureNamesLoadedCandidatesToo) {
    const auto none = SharedLibrary::open_first({"loaded:libcarat_is_not_loaded.so.1"});
    ASSERT_FALSE(none.ok());
    EXPECT_NE(none.status().sentence().find("libcarat_is_not_loaded.so.1"), std::string::npos)
        << none.status().sentence();
}

TEST(SharedLibrary, TakesTheFirstThatOpensAndFindsSymbols) {
    auto m = SharedLibrary::open_first({"libcarat_is_not_here.so.1", "libm.so.6"});
    ASSERT_TRUE(m.ok()) << m.status().sentence();
    EXPECT_NE(m->symbol("cos"), nullptr);
    EXPECT_EQ(m->symbol("carat_has_no_such_symbol"), nullptr);
    EXPECT_NE(m->path().find("libm"), std::string::npos) << m->path();
    SharedLibrary moved = std::move(*m);
    EXPECT_TRUE(bool(moved));
    EXPECT_NE(moved.symbol("cos"), nullptr);
    EXPECT_FALSE(bool(SharedLibrary{}));
    EXPECT_EQ(SharedLibrary{}.symbol("cos"), nullptr);
}

}  // namespace
}  // namespace carat
