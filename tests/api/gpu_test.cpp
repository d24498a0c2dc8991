// SPDX-License-Identifier: Apache-2.0
// The C ABI and its C++ layer on a GPU: memory, one-call gemm, the shim, the check of device operands, graphs. Skipped
// where there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <random>

#include "carat/carat.hpp"

namespace {

std::vector<float> normal(int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> distribution;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = distribution(random);
    return values;
}

class GpuApi : public ::testing::Test {
  protected:
    void SetUp() override {
        carat_context_options options = carat::Context::default_options();
        options.backend = CARAT_BACKEND_CUDA;
        try {
            context_.emplace(options);
        } catch (const carat::Error& error) {
            if (error.status() != CARAT_NOT_INITIALIZED) throw;
            GTEST_SKIP() << "no GPU: " << error.what();
        }
    }

    carat::Buffer upload(const std::vector<float>& values) {
        carat::Buffer buffer(*context_, values.size() * sizeof(float));
        buffer.upload(values.data(), values.size() * sizeof(float));
        return buffer;
    }
    const float* floats(const carat::Buffer& buffer) { return static_cast<const float*>(buffer.data()); }

    // Every operand that the problem may want, in device memory; D starts as NaN.
    struct Case {
        carat_problem problem;
        carat::Buffer a, b, c, d, bias, out_scale, amax, scalars;
        carat::Operands operands;
    };
    Case make(const carat_problem& problem) {
        const int64_t batch = std::max<int64_t>(problem.batch, 1), wide = std::max(problem.m, problem.n) * batch;
        Case t{problem,
               upload(normal(problem.m * problem.k * batch, 1)),
               upload(normal(problem.k * problem.n * batch, 2)),
               upload(normal(problem.m * problem.n * batch, 3)),
               carat::Buffer(*context_, size_t(problem.m * problem.n * batch) * 4),
               upload(normal(wide, 4)),
               upload(normal(wide, 5)),
               carat::Buffer(*context_, 4),
               upload({0.75f, -0.5f}),
               {}};
        t.d.fill(0xff);
        t.operands.a = t.a.data(), t.operands.b = t.b.data(), t.operands.d = t.d.data();
        if (problem.c.dtype != CARAT_NONE) t.operands.c = t.c.data(), t.operands.beta = -0.5;
        t.operands.alpha = 0.75;
        t.operands.alpha_device = t.scalars.data(), t.operands.beta_device = floats(t.scalars) + 1;
        t.operands.bias = t.bias.data(), t.operands.out_scale = floats(t.out_scale);
        t.operands.amax = static_cast<float*>(t.amax.data());
        return t;
    }

    std::optional<carat::Context> context_;
};

using Change = void (*)(carat_problem&);
const Change kChanges[] = {
    [](carat_problem&) {},
    [](carat_problem& p) { p.c = p.d; },
    [](carat_problem& p) { p.c = p.d, p.epilogue.scalars_on_device = 1; },
    [](carat_problem& p) { p.epilogue.scalars_on_device = 1; },  // with no C there is no beta to read
    [](carat_problem& p) { p.epilogue.bias = CARAT_BIAS_M, p.epilogue.bias_dtype = CARAT_F32; },
    [](carat_problem& p) { p.epilogue.activation = CARAT_ACT_GELU_ERF, p.epilogue.amax = 1; },
    [](carat_problem& p) {
        p.c = p.d;
        p.epilogue.activation = CARAT_ACT_SILU, p.epilogue.gate = CARAT_GATE_SPLIT;
    },
    [](carat_problem& p) {
        p.epilogue.activation = CARAT_ACT_GELU_TANH, p.epilogue.gate = CARAT_GATE_INTERLEAVED;
        p.epilogue.bias = CARAT_BIAS_N, p.epilogue.bias_dtype = CARAT_F32;
    },
    [](carat_problem& p) {
        p.mode = CARAT_BATCHED, p.batch = 3;
        p.epilogue.out_scale = CARAT_OUT_SCALE_ROW, p.epilogue.amax = 1;
    },
    [](carat_problem& p) { p.d.order = CARAT_COL_MAJOR, p.epilogue.clamp = 1, p.epilogue.clamp_hi = 3; },
};

TEST_F(GpuApi, EveryRowIsRightByTheCheckOfDeviceOperands) {
    int turn = 0;
    for (const Change change : kChanges)
        for (const char* kernel : {"v0_naive", "v1_shared"}) {
            static constexpr const char* kLayouts[] = {"nn", "nt", "tn", "tt"};
            carat_problem problem = carat::gemm_problem(67, 50, 129, CARAT_F32, kLayouts[turn++ % 4]);
            change(problem);
            Case t = make(problem);
            context_->plan(problem, kernel).execute(t.operands);
            const carat_check_result result = context_->verify(problem, t.operands);
            EXPECT_TRUE(result.ok) << kernel << " change " << turn << " at " << result.bad_row << ", " << result.bad_col
                                   << ": " << result.got << ", wanted " << result.want;
            EXPECT_TRUE(result.full);
        }
}

TEST_F(GpuApi, TheCheckFindsAWrongEntry) {
    const carat_problem problem = carat::gemm_problem(33, 20, 40, CARAT_F32);
    Case t = make(problem);
    carat::gemm(*context_, problem, t.operands);
    const float wrong = 1000;
    carat::check(
        carat_memory_copy(context_->get(), static_cast<float*>(t.d.data()) + 7 * 20 + 3, &wrong, sizeof wrong));
    const carat_check_result result = context_->verify(problem, t.operands);
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.bad_row, 7);
    EXPECT_EQ(result.bad_col, 3);
}

TEST_F(GpuApi, SgemmIsBlasOnTheDevice) {
    const int64_t n = 40;
    carat::Buffer a = upload(normal(n * n, 1)), b = upload(normal(n * n, 2)), c = upload(normal(n * n, 3));
    carat::check(carat_sgemm(context_->get(), CARAT_COL_MAJOR, CARAT_TRANS, CARAT_NO_TRANS, n, n, n, 1, floats(a), n,
                             floats(b), n, 0, static_cast<float*>(c.data()), n, nullptr));
    std::vector<float> got(n * n);
    c.download(got.data(), got.size() * 4);
    const auto x = normal(n * n, 1), y = normal(n * n, 2);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < n; ++k) sum += double(x[k + i * n]) * y[k + j * n];
            ASSERT_NEAR(got[i + j * n], sum, 1e-4) << i << ", " << j;
        }
}

TEST_F(GpuApi, APlanRunsInAGraph) {
    const carat_problem problem = carat::gemm_problem(64, 64, 64, CARAT_F32);
    Case t = make(problem);
    const carat::Plan plan = context_->plan(problem);
    carat::Stream stream(*context_);
    const carat::Graph graph =
        carat::Graph::capture(*context_, stream, [&] { plan.execute(t.operands, stream.get()); });
    EXPECT_FALSE(context_->verify(problem, t.operands).ok) << "nothing has run yet";
    EXPECT_GT(graph.launch(stream), 0);
    EXPECT_TRUE(context_->verify(problem, t.operands).ok);
}

TEST_F(GpuApi, APackRunsWhereNothingMayBeCompiled) {
    const carat_problem problem = carat::gemm_problem(67, 50, 129, CARAT_F32, "nt");
    Case t = make(problem);
    (void)context_->plan(problem);
    const std::string path = ::testing::TempDir() + "carat-gpu-test.pack";
    const carat_context_t handle = context_->get();
    carat::check(carat_pack_write(&handle, 1, path.c_str()));
    carat_context_options options = carat::Context::default_options();
    options.backend = CARAT_BACKEND_CUDA;
    options.jit = CARAT_JIT_NEVER;
    options.cache_dir = "";
    options.pack = path.c_str();
    const carat::Context packed(options);
    const carat::Plan plan = packed.plan(problem);
    EXPECT_NE(plan.report().find("\"compiled_from\": \"pack\""), std::string::npos) << plan.report();
    plan.execute(t.operands);
    EXPECT_TRUE(packed.verify(problem, t.operands).ok);
    std::filesystem::remove(path);
}

TEST_F(GpuApi, WhatNoKernelTakesIsRefusedAndNotMovedToTheCpu) {
    try {
        context_->plan(carat::gemm_problem(16, 16, 16, CARAT_F64));
        FAIL() << "no CUDA row takes f64 yet";
    } catch (const carat::Error& error) {
        EXPECT_EQ(error.status(), CARAT_NOT_SUPPORTED);
    }
}

}  // namespace
