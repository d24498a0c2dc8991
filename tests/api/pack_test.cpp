// SPDX-License-Identifier: Apache-2.0
// Kernel packs through the C ABI: what a planning context has prepared, written down, and used by a context that may not
// compile. No GPU is needed, but NVRTC is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "carat/carat.hpp"

namespace {

using nlohmann::json;

class PackApi : public ::testing::Test {
  protected:
    void SetUp() override {
        const json report = json::parse(carat::doctor());
        for (const json& check : report["checks"])
            if (check["name"] == "NVRTC" && check["state"] != "ok") GTEST_SKIP() << check["value"];
        std::string name = ::testing::TempDir() + "carat-pack-XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override {
        if (!folder_.empty()) std::filesystem::remove_all(folder_);
    }
    // For an H200, with no cache on disk.
    static carat::Context context(carat_jit jit, const std::string& pack) {
        carat_context_options options = carat::Context::default_options();
        options.backend = CARAT_BACKEND_CUDA;
        options.target = "h200";
        options.jit = jit;
        options.cache_dir = "";
        options.pack = pack.c_str();
        return carat::Context(options);
    }
    static void write(const std::string& path, std::vector<carat_context_t> contexts) {
        carat::check(carat_pack_write(contexts.data(), contexts.size(), path.c_str()));
    }
    std::string path(const char* name = "test.pack") const { return folder_ / name; }
    std::filesystem::path folder_;
};

const carat_problem kProblem = carat::linear(64, 512, 256, CARAT_BF16);

std::vector<std::string> candidates_of(const carat::Context& context, const carat_problem& problem) {
    std::vector<std::pair<double, std::string>> ranked;
    const json report = json::parse(context.explain(problem));
    for (const json& row : report["rows"])
        for (const json& candidate : row["candidates"])
            ranked.emplace_back(candidate["predicted_us"].get<double>(), candidate["kernel"].get<std::string>());
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    std::vector<std::string> names;
    for (const auto& [us, name] : ranked) names.push_back(name);
    return names;
}

carat_status plan_status(const carat::Context& context, const carat_problem& problem) {
    carat_plan_t plan = nullptr;
    const carat_status status = carat_plan_create(context.get(), &problem, nullptr, &plan);
    carat_plan_destroy(plan);
    return status;
}

TEST_F(PackApi, APlanIsMadeFromThePackAlone) {
    const carat::Context maker = context(CARAT_JIT_AUTO, "");
    const std::string kernel = maker.plan(kProblem).kernel();
    const json kernels = json::parse(maker.kernels());
    EXPECT_EQ(kernels["schema"], "carat.kernels/1");
    EXPECT_EQ(kernels["target"], "h200");
    ASSERT_GE(kernels["kernels"].size(), 1u);
    EXPECT_EQ(kernels["kernels"][0]["from"], "compiled");
    EXPECT_GT(kernels["kernels"][0]["registers"], 0);
    write(path(), {maker.get()});

    const carat::Context user = context(CARAT_JIT_NEVER, path());
    const carat::Plan plan = user.plan(kProblem);
    EXPECT_EQ(plan.kernel(), kernel);
    const json report = json::parse(plan.report());
    EXPECT_EQ(report["compiled_from"], "pack");
    EXPECT_EQ(report["compile_ms"], 0);
    EXPECT_TRUE(report["refused"].empty());
    EXPECT_GT(report["registers"], 0);
    const json used = json::parse(user.kernels());
    for (const json& one : used["kernels"]) EXPECT_EQ(one["from"], "pack");
}

TEST_F(PackApi, TheBestPreparedCandidateIsTakenAndThePlanSaysWhatIsBetter) {
    const carat::Context maker = context(CARAT_JIT_AUTO, "");
    const std::vector<std::string> candidates = candidates_of(maker, kProblem);
    ASSERT_GE(candidates.size(), 3u);
    (void)maker.plan(kProblem, candidates[2]);
    write(path(), {maker.get()});
    const carat::Context user = context(CARAT_JIT_NEVER, path());
    const carat::Plan plan = user.plan(kProblem);
    const json refused = json::parse(plan.report())["refused"];
    ASSERT_GE(refused.size(), 1u);
    // Candidates that differ in the order of tiles alone are one kernel.
    EXPECT_NE(plan.kernel(), candidates[0]);
    EXPECT_NE(refused[0].get<std::string>().find(candidates[0]), std::string::npos) << refused;
    EXPECT_NE(refused[0].get<std::string>().find("is not prepared"), std::string::npos) << refused;
}

// A server has any number of tokens, and a pack the tiles of some: one of those runs it, though none is a candidate.
TEST_F(PackApi, AnyNumberOfTokensRunsOnThePacksTiles) {
    const carat::Context maker = context(CARAT_JIT_AUTO, "");
    (void)maker.plan(carat::linear(4096, 6144, 4096, CARAT_BF16));
    write(path(), {maker.get()});
    for (const int64_t tokens : {1, 33, 777, 5000}) {
        const carat::Context user = context(CARAT_JIT_NEVER, path());
        const carat_problem problem = carat::linear(tokens, 6144, 4096, CARAT_BF16);
        const carat::Plan plan = user.plan(problem);
        EXPECT_EQ(json::parse(plan.report())["compiled_from"], "pack") << tokens;
        EXPECT_EQ(plan.workspace_bytes(), 0u);
        carat_plan_options options;
        carat::check(carat_plan_options_init(&options));
        const std::string best = candidates_of(user, problem)[0];
        options.kernel = best.c_str();
        carat_plan_t forced = nullptr;
        const carat_status status = carat_plan_create(user.get(), &problem, &options, &forced);
        EXPECT_TRUE(status == CARAT_NOT_PREPARED || plan.kernel() == best)
            << "what is asked for by name is not replaced";
        carat_plan_destroy(forced);
    }
}

TEST_F(PackApi, WhatIsNotPreparedIsRefusedWithTheRemedy) {
    const carat::Context maker = context(CARAT_JIT_AUTO, "");
    (void)maker.plan(kProblem);
    write(path(), {maker.get()});
    const carat::Context user = context(CARAT_JIT_NEVER, path());
    EXPECT_EQ(plan_status(user, kProblem), CARAT_SUCCESS);
    EXPECT_EQ(plan_status(user, carat::linear(64, 512, 256, CARAT_F16)), CARAT_NOT_PREPARED);
    for (const std::string& part : {std::string("carat prepare"), std::string("carat pack build"), path()})
        EXPECT_NE(std::string(carat_last_error()).find(part), std::string::npos) << carat_last_error();
    EXPECT_EQ(plan_status(context(CARAT_JIT_NEVER, ""), kProblem), CARAT_NOT_PREPARED);
    EXPECT_EQ(plan_status(user, carat::linear(0, 512, 256, CARAT_F16)), CARAT_SUCCESS) << "nothing to run";
}

TEST_F(PackApi, SeveralContextsMakeOnePack) {
    const carat::Context one = context(CARAT_JIT_AUTO, ""), two = context(CARAT_JIT_AUTO, "");
    (void)one.plan(kProblem);
    (void)two.plan(kProblem);
    (void)two.plan(carat::linear(64, 512, 256, CARAT_F16));
    write(path(), {one.get(), two.get()});
    const json pack = json::parse(carat::pack(path(), "verify"));
    EXPECT_EQ(pack["schema"], "carat.pack/1");
    EXPECT_EQ(pack["bad"], 0);
    EXPECT_EQ(pack["archs"], "sm_90a");
    EXPECT_EQ(pack["of_this_library"], true);
    EXPECT_EQ(pack["entries"], json::parse(two.kernels())["kernels"].size()) << "the kernels of `one` are among them";
    EXPECT_EQ(pack["bytes"], std::filesystem::file_size(path()));
}

TEST_F(PackApi, ManyThreadsPlanFromOnePack) {
    const carat::Context maker = context(CARAT_JIT_AUTO, "");
    (void)maker.plan(kProblem);
    write(path(), {maker.get()});
    const carat::Context user = context(CARAT_JIT_NEVER, path());
    std::atomic<int> good = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([&] { good += plan_status(user, kProblem) == CARAT_SUCCESS; });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good, 8);
}

TEST_F(PackApi, WrongArguments) {
    const carat::Context empty = context(CARAT_JIT_AUTO, "");
    const carat_context_t handle = empty.get(), none = nullptr;
    EXPECT_EQ(carat_pack_write(&handle, 1, path().c_str()), CARAT_NOT_PREPARED);
    EXPECT_EQ(carat_pack_write(&handle, 0, path().c_str()), CARAT_NOT_PREPARED);
    EXPECT_EQ(carat_pack_write(nullptr, 1, path().c_str()), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_pack_write(&none, 1, path().c_str()), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_pack_write(&handle, 1, nullptr), CARAT_INVALID_VALUE);
    EXPECT_FALSE(std::filesystem::exists(path()));
    carat::Text text;
    EXPECT_EQ(carat_pack(nullptr, "list", text.out()), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_pack(path().c_str(), "defragment", text.out()), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_pack(path().c_str(), "list", text.out()), CARAT_IO_ERROR);
    EXPECT_NE(std::string(carat_last_error()).find(path()), std::string::npos);
    EXPECT_EQ(carat_kernels(nullptr, text.out()), CARAT_INVALID_VALUE);
}

}  // namespace
