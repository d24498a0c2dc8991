// SPDX-License-Identifier: Apache-2.0
// What an execution on a GPU does not do: allocate, lock, read the environment, wait, compile or load. Counted from the first
// execution on, for every way in which the library launches.
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "fake_gpu/counters.hpp"
#include "fake_gpu/fake_gpu.hpp"

namespace carat::test {
namespace {

using HotPath = FakeGpuTest;

TEST(Counters, CountWhatAnExecutionMustNotDo) {
    const Counts before = counts();
    void* volatile made = ::operator new(8);  // volatile: an optimiser may leave out what is not used
    ::operator delete(made);
    made = std::malloc(8);
    std::free(made);
    std::mutex mutex;
    { const std::lock_guard lock(mutex); }
    std::shared_mutex shared;
    { const std::shared_lock lock(shared); }
    const char* home = std::getenv("HOME");
    const Counts after = counts();
    EXPECT_EQ(after.allocations - before.allocations, 2);
    EXPECT_EQ(after.locks - before.locks, 2) << home;
    EXPECT_EQ(after.environment - before.environment, 1);
}

struct Way {
    const char* name;
    carat_problem problem;
    Operands operands;
    int launches = 1;
};

std::vector<Way> ways(const Operands& usual) {
    static float amax;
    std::vector<Way> ways;
    const auto add = [&](const char* name, carat_problem p) -> Way& { return ways.emplace_back(Way{name, p, usual}); };
    const carat_problem plain = gemm_problem(256, 256, 128, CARAT_BF16, "nt");
    add("in bulk", plain);
    add("by threads", plain).operands.b = static_cast<const char*>(usual.b) + 2;
    add("few rows", gemm_problem(1, 4096, 128, CARAT_BF16, "nt"));
    carat_problem p = plain;
    p.epilogue.amax = 1;
    add("amax", p).operands.amax = &amax;
    p = plain;
    p.c = p.d, p.epilogue.bias = CARAT_BIAS_N, p.epilogue.bias_dtype = CARAT_BF16,
    p.epilogue.activation = CARAT_ACT_SILU;
    add("everything", p).operands.beta = 0.5;
    Way& odd = add("copies first", gemm_problem(4096, 4096, 4097, CARAT_BF16, "nt"));
    odd.operands.workspace = reinterpret_cast<void*>(uintptr_t(1) << 32), odd.operands.workspace_bytes = size_t(1)
                                                                                                         << 30;
    odd.launches = 2;
    add("f32", gemm_problem(256, 256, 128, CARAT_F32, "nn"));
    add("nothing", gemm_problem(0, 256, 128, CARAT_BF16, "nt")).launches = 0;
    return ways;
}

TEST_F(HotPath, ExecutionsOnlyLaunch) {
    for (const Way& way : ways(operands())) {
        const Plan plan = context_->plan(way.problem);
        const carat_operands raw = way.operands.c_struct();
        fake() = {};
        const Counts before = counts();
        carat_status status = CARAT_SUCCESS;
        for (int i = 0; i < 5 && status == CARAT_SUCCESS; ++i) status = carat_plan_execute(plan.get(), &raw, nullptr);
        const Counts after = counts();
        ASSERT_EQ(status, CARAT_SUCCESS) << way.name << ": " << carat_last_error();
        EXPECT_EQ(after.allocations, before.allocations) << way.name;
        EXPECT_EQ(after.locks, before.locks) << way.name;
        EXPECT_EQ(after.environment, before.environment) << way.name;
        const FakeRecord& r = fake();
        EXPECT_EQ(r.launches, 5 * way.launches) << way.name << " by " << plan.kernel();
        EXPECT_EQ(r.waits + r.allocations + r.loaded + r.maps_encoded, 0) << way.name;
    }
}

// With a context of this device current, as in any program that uses CUDA, nothing is pushed.
TEST_F(HotPath, ACurrentContextIsLeftAlone) {
    const Plan plan = context_->plan(problem(256));
    driver().context_push(foreign_context(driver(), 0));
    fake() = {};
    plan.execute(operands());
    EXPECT_EQ(fake().pushed, 0);
    cuda::CuContext popped = nullptr;
    driver().context_pop(&popped);
    plan.execute(operands());
    EXPECT_EQ(fake().pushed, 1);
    EXPECT_EQ(fake().launches, 2);
}

}  // namespace
}  // namespace carat::test
