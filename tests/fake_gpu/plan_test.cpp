// SPDX-License-Identifier: Apache-2.0
// Plans of the C ABI on the fake driver: what is planned again costs no work, kernels are loaded once, streams that are being
// captured, many threads.
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "fake_gpu/counters.hpp"
#include "fake_gpu/fake_gpu.hpp"

namespace carat::test {
namespace {

using FakeGpuPlan = FakeGpuTest;

TEST_F(FakeGpuPlan, AgainCostsALookUp) {
    const Plan first = context_->plan(problem(256));
    const FakeRecord before = fake();
    EXPECT_GE(before.loaded, 1);
    const Counts counted = counts();
    const Plan second = context_->plan(problem(256));
    EXPECT_LE(counts().allocations - counted.allocations, 4);
    EXPECT_EQ(fake().loaded, before.loaded);
    EXPECT_EQ(fake().maps_encoded, before.maps_encoded);
    EXPECT_EQ(second.kernel(), first.kernel());
    EXPECT_EQ(nlohmann::json::parse(first.report())["compiled_from"], "compiled");
    EXPECT_EQ(nlohmann::json::parse(second.report())["compiled_from"], "memory");
    EXPECT_EQ(nlohmann::json::parse(second.report())["compile_ms"], 0);
    // The handles are of their own.
    { const Plan gone = context_->plan(problem(256)); }
    first.execute(operands());
    EXPECT_EQ(fake().launches, 1);
}

TEST_F(FakeGpuPlan, OptionsAndProblemsTellPlansApart) {
    const std::string tile = "sm90_ws_bf16_bf16_bf16_nt_128x64x64_s4_c1x1_rm1";
    EXPECT_EQ(context_->plan(problem(256), tile).kernel(), tile);
    EXPECT_NE(context_->plan(problem(256)).kernel(), tile);
    carat_problem odd = gemm_problem(4096, 4096, 4097, CARAT_BF16, "nt");
    carat_plan_options options = Context::plan_options();
    EXPECT_GT(context_->plan(odd, options).workspace_bytes(), 0u);
    options.workspace_limit = 0;
    EXPECT_EQ(context_->plan(odd, options).workspace_bytes(), 0u);
}

// Another M, the same kernel: loaded already.
TEST_F(FakeGpuPlan, KernelsAreSharedBetweenProblems) {
    const std::string tile = "sm90_ws_bf16_bf16_bf16_nt_128x64x64_s4_c1x1_rm1";
    const Plan first = context_->plan(problem(256), tile);
    const int loaded = fake().loaded;
    const Plan second = context_->plan(problem(512), tile);
    EXPECT_EQ(fake().loaded, loaded);
    second.execute(operands());
    EXPECT_EQ(fake().unloaded, 0);
}

TEST_F(FakeGpuPlan, ForceCompilesAlwaysAndAOneCallGemmOnce) {
    carat_context_options forced = options();
    forced.jit = CARAT_JIT_FORCE;
    const Context context(forced);
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(nlohmann::json::parse(context.plan(problem(256), "v4_wmma").report())["compiled_from"], "compiled");
    gemm(context, problem(256), operands());
    const int loaded = fake().loaded;
    gemm(context, problem(256), operands());
    EXPECT_EQ(fake().loaded, loaded);
}

TEST_F(FakeGpuPlan, AnOlderOptionsStructIsTaken) {
    carat_plan_options options = Context::plan_options("v4_wmma");
    options.struct_size = offsetof(carat_plan_options, numerics);
    options.numerics = carat_numerics(77), options.stream = at(1);  // not there in the older one
    EXPECT_EQ(context_->plan(problem(256), options).kernel().substr(0, 7), "v4_wmma");
    for (const size_t size : {size_t(0), size_t(8), sizeof options - 1, sizeof options + 8}) {
        options.struct_size = size;
        carat_plan_t plan = nullptr;
        const carat_problem p = problem(256);
        EXPECT_EQ(carat_plan_create(context_->get(), &p, &options, &plan), CARAT_INVALID_VALUE);
        EXPECT_TRUE(contains(carat_last_error(), "carat_plan_options.struct_size"));
    }
}

// ---------------------------------------------------------------- capture

class FakeGpuCapture : public FakeGpuTest, public testing::WithParamInterface<int> {
  protected:
    void SetUp() override {
        FakeGpuTest::SetUp();
        if (!context_) return;
        stream_.emplace(*context_);
        driver().context_push(foreign_context(driver(), 0));
    }
    void TearDown() override {
        cuda::CuContext popped = nullptr;
        if (context_) driver().context_pop(&popped);
    }
    void begin() { ASSERT_EQ(driver().capture_begin(stream_->get(), GetParam()), 0); }
    int end() {
        cuda::CuGraph graph = nullptr;
        return driver().capture_end(stream_->get(), &graph);
    }
    carat_status one_call(int64_t m) {
        const carat_problem p = problem(m);
        const carat_operands o = operands().c_struct();
        return carat_gemm(context_->get(), &p, &o, stream_->get());
    }
    std::optional<Stream> stream_;
};

TEST_P(FakeGpuCapture, AOneCallGemmIsNotPreparedOrWorks) {
    begin();
    EXPECT_EQ(one_call(256), CARAT_NOT_PREPARED);
    EXPECT_TRUE(contains(carat_last_error(), "plan the problem before the capture begins"));
    EXPECT_EQ(end(), 0);
    EXPECT_EQ(one_call(256), CARAT_SUCCESS) << carat_last_error();
    begin();
    EXPECT_EQ(one_call(256), CARAT_SUCCESS) << carat_last_error();
    EXPECT_EQ(end(), 0);
    EXPECT_EQ(fake().launches, 2);
    EXPECT_EQ(fake().captures_lost, 0);
}

TEST_P(FakeGpuCapture, APlanKnowsItsStream) {
    carat_plan_options options = Context::plan_options("v4_wmma");
    options.stream = stream_->get();
    const carat_problem p = problem(256), other = problem(512);
    carat_plan_t none = nullptr;
    begin();
    EXPECT_EQ(carat_plan_create(context_->get(), &p, &options, &none), CARAT_NOT_PREPARED);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(end(), 0);
    const Plan before = context_->plan(p, options);
    begin();
    const Plan again = context_->plan(p, options);
    const Plan same_kernel = context_->plan(other, before.kernel());  // of another problem: it is loaded
    again.execute(operands(), stream_->get());
    EXPECT_EQ(end(), 0);
    EXPECT_EQ(fake().captures_lost, 0);
}
INSTANTIATE_TEST_SUITE_P(Modes, FakeGpuCapture, testing::Values(0, 1, 2));

// ---------------------------------------------------------------- threads

TEST_F(FakeGpuPlan, SixteenThreadsPlanAndLaunch) {
    std::atomic<int> failed{0};
    std::mutex mutex;
    std::string error;  // of one of them
    const auto note = [&](bool right) {
        if (right) return;
        const std::lock_guard lock(mutex);
        error = carat_last_error();
        ++failed;
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 16; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; ++i) {
                const carat_problem p = problem(64 * (1 + (t + i) % 8));
                const carat_operands o = operands().c_struct();
                if (i % 2 == 0) {
                    note(carat_gemm(context_->get(), &p, &o, nullptr) == CARAT_SUCCESS);
                    continue;
                }
                const carat_plan_options options = Context::plan_options("v4_wmma");
                carat_plan_t plan = nullptr;
                note(carat_plan_create(context_->get(), &p, &options, &plan) == CARAT_SUCCESS &&
                     carat_plan_execute(plan, &o, nullptr) == CARAT_SUCCESS);
                carat_plan_destroy(plan);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failed, 0) << error;
    EXPECT_EQ(fake().launches, 800);
    EXPECT_EQ(fake().unloaded, 0);
}

}  // namespace
}  // namespace carat::test
