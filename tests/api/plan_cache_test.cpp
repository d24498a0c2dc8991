// SPDX-License-Identifier: Apache-2.0
// The plans that a context keeps: found again, told apart by every field, bounded, from many threads.
#include "api/plan_cache.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "api/handles.hpp"
#include "api/validate.hpp"

namespace carat::api {
namespace {

std::shared_ptr<const Planned> planned(const std::string& kernel) {
    auto plan = std::make_shared<Planned>();
    plan->kernel = kernel;
    return plan;
}

TEST(PlanCache, KeepsTheFirstOfAKey) {
    PlanCache cache;
    EXPECT_EQ(cache.find("a"), nullptr);
    const auto first = cache.keep("a", planned("1"));
    EXPECT_EQ(cache.keep("a", planned("2")), first);
    EXPECT_EQ(cache.find("a"), first);
    EXPECT_EQ(cache.find("b"), nullptr);
    EXPECT_EQ(cache.size(), 1u);
}

TEST(PlanCache, DropsTheHalfThatWasNotUsedLately) {
    PlanCache cache(8);
    for (int i = 0; i < 8; ++i) cache.keep(std::to_string(i), planned("old"));
    const auto held = cache.find("3");
    for (int i = 0; i < 4; ++i) cache.find(std::to_string(i));
    cache.keep("new", planned("new"));
    EXPECT_LE(cache.size(), 8u);
    for (int i = 0; i < 4; ++i) EXPECT_NE(cache.find(std::to_string(i)), nullptr) << i;
    EXPECT_NE(cache.find("new"), nullptr);
    EXPECT_EQ(cache.find("5"), nullptr);
    for (int i = 0; i < 1000; ++i) cache.keep(fmt::format("x{}", i), planned("x"));
    EXPECT_LE(cache.size(), 8u);
    EXPECT_EQ(held->kernel, "old") << "what is in use outlives its place";
}

TEST(PlanCache, KeepsOneAtLeast) {
    PlanCache cache(1);
    for (int i = 0; i < 4; ++i) {
        cache.keep(std::to_string(i), planned("x"));
        EXPECT_NE(cache.find(std::to_string(i)), nullptr);
        EXPECT_EQ(cache.size(), 1u);
    }
}

TEST(PlanCache, ThreadsGetOnePlanOfAKey) {
    PlanCache cache(16);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 500; ++i) {
                const std::string key = std::to_string((i + t) % 40);
                const auto found = cache.find(key);
                EXPECT_EQ((found ? found : cache.keep(key, planned(key)))->kernel, key);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(cache.size(), 16u);
}

using Change = void (*)(Problem&, carat_plan_options&);
const Change kChanges[] = {
    [](Problem&, carat_plan_options&) {},
    [](Problem& p, carat_plan_options&) { p.m = 9; },
    [](Problem& p, carat_plan_options&) { p.a.ld = 99; },
    [](Problem& p, carat_plan_options&) { p.b.order = CARAT_ROW_MAJOR; },
    [](Problem& p, carat_plan_options&) { p.c.dtype = CARAT_F32; },
    [](Problem& p, carat_plan_options&) { p.mode = CARAT_BATCHED; },
    [](Problem& p, carat_plan_options&) { p.compute = CARAT_COMPUTE_TF32; },
    [](Problem& p, carat_plan_options&) { p.scale_b.recipe = CARAT_SCALE_ROW_WISE; },
    [](Problem& p, carat_plan_options&) { p.epilogue.activation = CARAT_ACT_SILU; },
    [](Problem& p, carat_plan_options&) { p.epilogue.clamp_hi = 2; },
    [](Problem& p, carat_plan_options&) { p.epilogue.amax = 1; },
    [](Problem& p, carat_plan_options&) { p.numerics = CARAT_BATCH_INVARIANT; },
    [](Problem& p, carat_plan_options&) { p.numerics = CARAT_FAST; },
    [](Problem&, carat_plan_options& o) { o.workspace_limit = 0; },
    [](Problem&, carat_plan_options& o) { o.kernel = "mma"; },
    [](Problem&, carat_plan_options& o) { o.kernel = "sm90_ws"; },
};

TEST(PlanCache, KeysTellPlansApart) {
    std::set<std::string> keys;
    for (const Change change : kChanges) {
        carat_problem raw;
        ASSERT_EQ(carat_problem_init(&raw, 8, 8, 8, CARAT_F32, "nt"), CARAT_SUCCESS);
        Problem p = *validate_problem(&raw);
        carat_plan_options options;
        ASSERT_EQ(carat_plan_options_init(&options), CARAT_SUCCESS);
        change(p, options);
        const std::string key = plan_key(p, options);
        options.stream = &p;  // says only whether to compile
        EXPECT_EQ(plan_key(p, options), key);
        keys.insert(key);
    }
    EXPECT_EQ(keys.size(), std::size(kChanges));
}

}  // namespace
}  // namespace carat::api
