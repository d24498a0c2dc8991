// SPDX-License-Identifier: Apache-2.0
// Problems as JSON and back, the tuning database through the C ABI, and the recorder of traces.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "api/validate.hpp"
#include "carat/carat.hpp"
#include "core/problem_json.hpp"

namespace {

using Json = nlohmann::ordered_json;

std::string read_file(const std::filesystem::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

std::vector<carat_problem> problems() {
    std::vector<carat_problem> all;
    const auto add = [&](carat_problem p) { all.push_back(p); };
    add(carat::gemm_problem(64, 96, 128, CARAT_BF16, "nt"));
    add(carat::gemm_problem(0, 0, 0, CARAT_F32, "tt"));
    carat_problem p = carat::gemm_problem(5, 7, 9, CARAT_F16, "tn");
    p.a.ld = 11, p.b.ld = 10, p.d.ld = 8, p.d.order = CARAT_COL_MAJOR;
    p.c.dtype = CARAT_F32, p.c.ld = 12;
    p.epilogue = {.bias = CARAT_BIAS_M, .bias_dtype = CARAT_F32, .activation = CARAT_ACT_GELU_TANH, .clamp = 1};
    p.epilogue.clamp_lo = -INFINITY, p.epilogue.clamp_hi = 0.1f, p.epilogue.amax = 1;
    add(p);
    p = carat::gemm_problem(6, 8, 9, CARAT_BF16, "nn");
    p.mode = CARAT_BATCHED, p.batch = 3;
    p.a.batch_stride = 0, p.b.batch_stride = 100;
    p.epilogue.gate = CARAT_GATE_SPLIT, p.epilogue.activation = CARAT_ACT_SILU;
    add(p);
    p = carat::grouped_linear(64, 4, 32, 256, CARAT_E4M3);
    p.scale_a.recipe = CARAT_SCALE_BLOCK_WISE_1X128, p.scale_b.recipe = CARAT_SCALE_BLOCK_WISE_128X128;
    p.scale_a.order = CARAT_COL_MAJOR, p.compute = CARAT_COMPUTE_FAST;
    add(p);
    p = carat::gemm_problem(16, 33, 65, CARAT_F16, "nn");
    p.b.dtype = CARAT_U4;
    p.scale_b.recipe = CARAT_SCALE_GROUP_WISE, p.scale_b.group = 32, p.scale_b.zero_points = 1, p.scale_b.ld = 9;
    add(p);
    p = carat::gemm_problem(16, 32, 64, CARAT_S8, "nt");
    p.sparsity = CARAT_SPARSE_B_24, p.epilogue.scalars_on_device = 1;
    p.d.dtype = CARAT_S8, p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
    add(p);
    return all;
}

TEST(ProblemJson, RoundTrips) {
    for (const carat_problem& problem : problems()) {
        const auto before = carat::api::validate_problem(&problem);
        ASSERT_TRUE(before.ok()) << before.status().sentence();
        const std::string text = carat::problem_json(problem);
        const carat_problem parsed = carat::parse_problem(text);
        const auto after = carat::api::validate_problem(&parsed);
        ASSERT_TRUE(after.ok()) << after.status().sentence();
        EXPECT_EQ(carat::describe(*before), carat::describe(*after)) << text;
        EXPECT_EQ(carat::problem_json(parsed), text);
    }
}

TEST(ProblemJson, SaysPackedWhateverWayItWasGiven) {
    carat_problem given = carat::gemm_problem(64, 96, 128, CARAT_BF16, "nt");
    const std::string packed = carat::problem_json(given);
    given.a.ld = 128;
    EXPECT_EQ(carat::problem_json(given), packed);
    EXPECT_EQ(packed,
              R"({"m":64,"n":96,"k":128,"a":{"dtype":"bf16","order":"row","ld":"packed"},)"
              R"("b":{"dtype":"bf16","order":"col","ld":"packed"},"d":{"dtype":"bf16","order":"row","ld":"packed"}})");
}

TEST(ProblemJson, RefusesWhatItDoesNotKnow) {
    const std::string plain = carat::problem_json(carat::gemm_problem(4, 5, 6, CARAT_F32));
    const auto refusal = [&](const std::string& pointer, const Json& value) -> std::string {
        Json json = Json::parse(plain);
        json[Json::json_pointer(pointer)] = value;
        carat_problem problem;
        if (carat_problem_parse(json.dump().c_str(), &problem) == CARAT_SUCCESS) return "";
        return carat_last_error();
    };
    for (const auto& [pointer, value, word] : std::vector<std::tuple<std::string, Json, std::string>>{
             {"/m", "4", "\"m\" that is no whole number"},
             {"/m", 4.5, "\"m\" that is no whole number"},
             {"/m", -1, "m is -1"},
             {"/m", uint64_t(1) << 63, "\"m\" that is no whole number"},
             {"/a", 3, "the problem.a is no object"},
             {"/a/dtype", "f33", "f33"},
             {"/a/ld", "tight", "\"ld\" that is no whole number"},
             {"/a/order", "diagonal", "use row or col"},
             {"/mode", "triple", "use one of single, batched"},
             {"/colour", "red", "\"colour\", which this version"},
             {"/epilogue", Json{{"bias", 1}}, "\"bias\" that is no string"},
             {"/epilogue", Json{{"clamp", {1}}}, "no pair of numbers"},
             {"/epilogue", Json{{"amax", 1}}, "neither true nor false"}})
        EXPECT_NE(refusal(pointer, value).find(word), std::string::npos) << pointer << ": " << refusal(pointer, value);
    carat_problem problem;
    EXPECT_EQ(carat_problem_parse("{\"m\": 1", &problem), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_problem_parse("{}", &problem), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_problem_parse("[]", &problem), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_problem_parse(nullptr, &problem), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_problem_json(nullptr, nullptr), CARAT_INVALID_VALUE);
}

// ---------------------------------------------------------------- with files

class WithFiles : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "carat-tuning-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override {
        unsetenv("CARAT_TRACE");
        unsetenv("CARAT_TUNING");
        std::filesystem::remove_all(folder_);
    }
    static carat::Context cpu(const char* tuning = "off") {
        carat_context_options options = carat::Context::default_options();
        options.backend = CARAT_BACKEND_CPU;
        options.tuning = tuning;
        return carat::Context(options);
    }
    std::filesystem::path folder_;
};

std::string row_of(const carat::Context& context, const carat_problem& problem, const std::string& kernel) {
    const Json info = Json::parse(context.tuning());
    const Json row = {{"problem", Json::parse(carat::problem_json(problem))},
                      {"device", info["device"]},
                      {"kernel", kernel},
                      {"us", 12.5},
                      {"spread", 0.01},
                      {"samples", 15},
                      {"kernels", info["kernels"]},
                      {"checked", true}};
    return "{\"schema\": \"carat.tuning/1\", \"rows\": [\n" + row.dump() + "\n]}\n";
}

class Tuning : public WithFiles {};

// Whatever JSON names a file.
TEST_F(Tuning, NamesOfFilesNeedNotBeUtf8) {
    const carat_problem problem = carat::gemm_problem(33, 40, 48, CARAT_F32);
    const std::string slow = "cpu_reference_f32_f32_f32_nn_1x1x1", path = (folder_ / "tuning-\xff.json").string();
    std::ofstream(path) << row_of(cpu(), problem, slow);
    const carat::Context context = cpu(path.c_str());
    const carat::Plan plan = context.plan(problem);
    EXPECT_EQ(plan.kernel(), slow);
    const std::string shown = (folder_ / "tuning-\xef\xbf\xbd.json").string();  // the replacement character
    EXPECT_EQ(Json::parse(plan.report())["tuned"], shown);
    EXPECT_EQ(Json::parse(context.explain(problem))["tuned"]["file"], shown);
    EXPECT_EQ(Json::parse(context.tuning())["files"].back()["file"], shown);
}

TEST_F(Tuning, AMeasuredChoiceGoesBeforeThePredictedOne) {
    const carat_problem problem = carat::gemm_problem(33, 40, 48, CARAT_F32);
    const std::string slow = "cpu_reference_f32_f32_f32_nn_1x1x1", path = (folder_ / "tuning.json").string();
    std::string predicted;
    {
        const carat::Context context = cpu();
        predicted = context.plan(problem).kernel();
        ASSERT_NE(predicted, slow);
        std::ofstream(path) << row_of(context, problem, slow);
    }
    const carat::Context context = cpu(path.c_str());
    const carat::Plan plan = context.plan(problem);
    EXPECT_EQ(plan.kernel(), slow);
    EXPECT_EQ(Json::parse(plan.report())["tuned"], path);
    EXPECT_EQ(context.plan(problem, predicted).kernel(), predicted) << "a name that was asked for stands above it";
    EXPECT_NE(context.plan(carat::gemm_problem(34, 40, 48, CARAT_F32)).kernel(), slow);
    const Json explained = Json::parse(context.explain(problem));
    EXPECT_EQ(explained["chosen"]["kernel"], slow);
    EXPECT_EQ(explained["tuned"]["file"], path);
    EXPECT_EQ(explained["tuned"]["row"], 1);
    EXPECT_EQ(explained["tuned"]["us"], 12.5);
    EXPECT_EQ(explained["tuned"]["model_kernel"], predicted);
    const Json info = Json::parse(context.tuning());
    EXPECT_EQ(info["rows"], 1);
    EXPECT_EQ(info["user_file"], path);
    EXPECT_TRUE(Json::parse(cpu().explain(problem))["tuned"].is_null());
    setenv("CARAT_TUNING", path.c_str(), 1);
    EXPECT_EQ(cpu(nullptr).plan(problem).kernel(), slow);
    setenv("CARAT_TUNING", "off", 1);
    EXPECT_EQ(cpu(nullptr).plan(problem).kernel(), predicted);
}

TEST_F(Tuning, AFileThatIsMissingOrBrokenFailsNothing) {
    const carat_problem problem = carat::gemm_problem(5, 6, 7, CARAT_F32);
    std::ofstream(folder_ / "broken.json") << "{\"schema\": \"carat.tuning/1\", \"rows\": [\n{\"probl";
    for (const std::string name : {"broken.json", "absent.json", ""}) {
        const std::string path = (folder_ / name).string();
        const carat::Context context = cpu(path.c_str());
        EXPECT_NE(context.plan(problem).kernel(), "");
        const Json files = Json::parse(context.tuning())["files"];
        EXPECT_EQ(files.back()["file"], path);
        EXPECT_EQ(files.back()["skipped"].size(), 1u) << files.dump();
    }
    Json rows = Json::parse(carat::tuning_read((folder_ / "broken.json").string()));
    EXPECT_TRUE(rows["rows"].empty());
    EXPECT_EQ(rows["skipped"][0], "all of it: it is not JSON, perhaps cut short");
    EXPECT_THROW(carat::tuning_read((folder_ / "absent.json").string()), carat::Error);
}

TEST_F(Tuning, CandidatesAreRankedAndHoldTheChoice) {
    const carat::Context context = cpu();
    const carat_problem problem = carat::gemm_problem(33, 40, 48, CARAT_BF16);
    const Json report = Json::parse(context.tuning_candidates(problem));
    EXPECT_EQ(report["chosen"], context.plan(problem).kernel());
    ASSERT_GE(report["candidates"].size(), 2u);
    EXPECT_EQ(report["candidates"][0]["kernel"], report["chosen"]);
    for (size_t i = 1; i < report["candidates"].size(); ++i)
        EXPECT_LE(report["candidates"][i - 1]["predicted_us"], report["candidates"][i]["predicted_us"]);
}

// ---------------------------------------------------------------- traces

class Traces : public WithFiles {
  protected:
    void SetUp() override {
        WithFiles::SetUp();
        path_ = folder_ / "trace.jsonl";
        setenv("CARAT_TRACE", path_.c_str(), 1);
    }
    // Executions by the problem's text; every line must be a whole record.
    std::map<std::string, uint64_t> counts() const {
        std::map<std::string, uint64_t> sums;
        std::istringstream lines(read_file(path_));
        for (std::string line; std::getline(lines, line);) {
            const Json record = Json::parse(line);
            EXPECT_EQ(record["schema"], "carat.trace/1");
            EXPECT_TRUE(record["device"].is_string() && record["kernel"].is_string());
            sums[record["problem"].dump()] += record["count"].get<uint64_t>();
        }
        return sums;
    }
    static void run(const carat::Plan& plan, int times) {
        std::vector<float> memory(3 * 64, 1.0f);
        std::vector<float> result(64);
        for (int i = 0; i < times; ++i) plan.execute({.a = memory.data(), .b = memory.data() + 64, .d = result.data()});
    }
    std::filesystem::path path_;
};

TEST_F(Traces, CountsExecutionsOfDistinctProblems) {
    const carat_problem square = carat::gemm_problem(8, 8, 8, CARAT_F32),
                        flat = carat::gemm_problem(1, 8, 8, CARAT_F32);
    const carat_problem never = carat::gemm_problem(2, 8, 8, CARAT_F32);
    {
        const carat::Context context = cpu();
        run(context.plan(square), 3);
        run(context.plan(square), 4);
        const carat::Plan unused = context.plan(never);
        std::vector<float> a(64, 1.0f), b(64, 1.0f), d(8);
        for (int i = 0; i < 5; ++i) carat::gemm(context, flat, {.a = a.data(), .b = b.data(), .d = d.data()});
        EXPECT_EQ(counts().size(), 0u) << "it is written when the context goes away";
    }
    const std::map<std::string, uint64_t> expected = {
        {carat::problem_json(square), 7}, {carat::problem_json(flat), 5}, {carat::problem_json(never), 0}};
    EXPECT_EQ(counts(), expected);
}

TEST_F(Traces, ThreadsAndContextsShareAFile) {
    constexpr int kThreads = 8, kPlans = 20;
    {
        const carat::Context context = cpu();
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t)
            threads.emplace_back([&] {
                const carat::Context mine = cpu();
                for (int i = 0; i < kPlans; ++i) {
                    const carat_problem problem = carat::gemm_problem(1 + i % 5, 8, 8, CARAT_F32);
                    run(context.plan(problem), 2);
                    run(mine.plan(problem), 1);
                }
            });
        for (std::thread& thread : threads) thread.join();
    }
    const auto sums = counts();
    EXPECT_EQ(sums.size(), 5u);
    for (const auto& [problem, count] : sums) EXPECT_EQ(count, uint64_t(3 * kThreads * kPlans / 5)) << problem;
}

TEST_F(Traces, AFailureToWriteFailsNothing) {
    setenv("CARAT_TRACE", (folder_ / "no" / "such" / "folder").c_str(), 1);
    run(cpu().plan(carat::gemm_problem(8, 8, 8, CARAT_F32)), 1);
    setenv("CARAT_TRACE", "/dev/full", 1);
    {
        const carat::Context context = cpu();
        run(context.plan(carat::gemm_problem(8, 8, 8, CARAT_F32)), 1);
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
}

// A context that is never destroyed is written when its process ends, and not again by a forked child.
TEST_F(Traces, AProcessThatEndsWritesWhatIsLeft) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto* context = new carat::Context(cpu());
        run(context->plan(carat::gemm_problem(8, 8, 8, CARAT_F32)), 6);
        if (fork() == 0) std::exit(0);
        wait(nullptr);
        std::exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    EXPECT_EQ(counts(),
              (std::map<std::string, uint64_t>{{carat::problem_json(carat::gemm_problem(8, 8, 8, CARAT_F32)), 6}}));
}

}  // namespace
