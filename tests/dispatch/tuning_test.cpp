// SPDX-License-Identifier: Apache-2.0
// The tuning database: what a row must be, which row wins, and that a bad one costs a warning and nothing else.
#include <gtest/gtest.h>

#include <algorithm>

#include "api/validate.hpp"
#include "core/log.hpp"
#include "core/problem_json.hpp"
#include "dispatch/neighbours.hpp"
#include "dispatch/tuning_db.hpp"

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

Problem problem(int64_t m, int64_t n, int64_t k) {
    carat_problem p;
    EXPECT_EQ(carat_problem_init(&p, m, n, k, CARAT_BF16, "nt"), CARAT_SUCCESS);
    return *api::validate_problem(&p);
}

Target h200() {
    return *find_gpu("h200");
}

const std::string kKernel = "sm90_ws_bf16_bf16_bf16_nt_128x128x64_s4_c1x1_rm4";

Json row(const Problem& p, const std::string& kernel = kKernel, double us = 10) {
    return {{"problem", problem_json(p)},
            {"device", TunedDevice::of(h200()).json()},
            {"kernel", kernel},
            {"us", us},
            {"spread", 0.01},
            {"kernels", kTunedKernels},
            {"checked", true}};
}

std::string file(const std::vector<Json>& rows) {
    return Json{{"schema", "carat.tuning/1"}, {"rows", rows}}.dump();
}

TuningDb database(const std::string& text) {
    TuningDb db;
    db.add("test.json", text, h200(), api::validate_problem);
    return db;
}

TEST(TuningDb, ReadsWhatItIsGiven) {
    const Problem one = problem(64, 512, 512), two = problem(65, 512, 512);
    const TuningDb db = database(file({row(one), row(two, kKernel, 12)}));
    ASSERT_NE(db.find(one), nullptr);
    ASSERT_NE(db.find(two), nullptr);
    EXPECT_EQ(db.find(problem(66, 512, 512)), nullptr);
    EXPECT_EQ(db.find(problem(64, 512, 520)), nullptr);
    EXPECT_EQ(db.find(two)->config.name(), kKernel);
    EXPECT_EQ(db.find(two)->us, 12);
    EXPECT_EQ(db.find(two)->row, 2u);
    EXPECT_EQ(db.find(two)->file, "test.json");
    EXPECT_TRUE(db.files()[0].skipped.empty());
}

TEST(TuningDb, FewRowsAreTakenForFewerOnes) {
    const TuningDb db = database(file({row(problem(16, 512, 512)), row(problem(64, 512, 512), kKernel, 12),
                                       row(problem(512, 512, 512), kKernel, 14)}));
    const auto measured = [&](int64_t m) {
        const TunedChoice* choice = db.find(problem(m, 512, 512));
        return choice ? choice->m : 0;
    };
    const std::pair<int64_t, int64_t> kWanted[] = {{8, 0},   {9, 16},  {15, 16}, {16, 16}, {17, 0},  {32, 0},
                                                   {33, 64}, {64, 64}, {65, 0},  {256, 0}, {511, 0}, {512, 512}};
    for (const auto& [m, wanted] : kWanted) EXPECT_EQ(measured(m), wanted) << m;
    Problem other = problem(15, 512, 512);
    other.epilogue.activation = CARAT_ACT_SILU;
    EXPECT_EQ(db.find(other), nullptr);
    carat_problem columns;  // of A: another pitch with another M
    ASSERT_EQ(carat_problem_init(&columns, 15, 512, 512, CARAT_BF16, "tt"), CARAT_SUCCESS);
    EXPECT_EQ(db.find(*api::validate_problem(&columns)), nullptr);
}

TEST(TuningDb, OneTypeOf16BitsServesTheOther) {
    Problem f16 = problem(64, 512, 512);
    f16.a.dtype = f16.b.dtype = f16.d.dtype = CARAT_F16;
    TuningDb db = database(file({row(problem(64, 512, 512))}));
    const TunedChoice* choice = db.find(f16);
    ASSERT_NE(choice, nullptr);
    EXPECT_TRUE(choice->of_other_type);
    EXPECT_EQ(choice->dtype, CARAT_BF16);
    EXPECT_EQ(choice->config.a, CARAT_F16);
    EXPECT_EQ(choice->config.d, CARAT_F16);
    // For fewer rows, too.
    Problem fewer = f16;
    fewer.m = 40;
    ASSERT_NE(db.find(fewer), nullptr);
    EXPECT_EQ(db.find(fewer)->m, 64);
    // Not of mixed types, and a measurement of its own goes first, also before a later one of the other.
    Problem to_f32 = f16;
    to_f32.d.dtype = CARAT_F32;
    EXPECT_EQ(db.find(to_f32), nullptr);
    std::string kernel = kKernel;
    for (size_t at; (at = kernel.find("_bf16")) != std::string::npos;) kernel.replace(at, 5, "_f16");
    db.add("f16.json", file({row(f16, kernel.c_str(), 9)}), h200(), api::validate_problem);
    db.add("bf16.json", file({row(problem(64, 512, 512), kKernel, 8)}), h200(), api::validate_problem);
    EXPECT_EQ(db.find(f16)->us, 9);
    EXPECT_FALSE(db.find(f16)->of_other_type);
    EXPECT_EQ(db.find(problem(64, 512, 512))->us, 8);
}

TEST(TuningDb, TellsProblemsApart) {
    Problem with_bias = problem(64, 512, 512), padded = with_bias;
    with_bias.epilogue.bias = CARAT_BIAS_N, with_bias.epilogue.bias_dtype = CARAT_F32;
    padded.a.ld = 520;
    const TuningDb db = database(file({row(padded)}));
    EXPECT_NE(db.find(padded), nullptr);
    EXPECT_EQ(db.find(with_bias), nullptr);
    EXPECT_EQ(db.find(problem(64, 512, 512)), nullptr);
}

TEST(TuningDb, LaterFilesAndLaterRowsWin) {
    const Problem p = problem(64, 512, 512);
    TuningDb db = database(file({row(p, kKernel, 10), row(p, kKernel, 11)}));
    EXPECT_EQ(db.find(p)->us, 11);
    ASSERT_EQ(db.files()[0].skipped.size(), 1u);
    EXPECT_EQ(db.files()[0].skipped[0], "row 1: row 2 is of the same problem and device, and is used");
    db.add("user.json", file({row(p, kKernel, 9)}), h200(), api::validate_problem);
    EXPECT_EQ(db.find(p)->us, 9);
    EXPECT_EQ(db.find(p)->file, "user.json");
}

TEST(TuningDb, RowsOfOtherDevicesAreForOthers) {
    const Problem p = problem(64, 512, 512);
    for (const auto& [field, value] :
         {std::pair<const char*, Json>{"units", 114}, {"name", "NVIDIA H100"}, {"compute_capability", "9.1"}}) {
        Json other = row(p);
        other["device"][field] = value;
        const TuningDb db = database(file({other}));
        EXPECT_EQ(db.find(p), nullptr) << field;
        EXPECT_TRUE(db.files()[0].skipped.empty());
    }
}

TEST(TuningDb, BadRowsAreLeftOutWithASentence) {
    const Problem good = problem(64, 512, 512), bad = problem(65, 512, 512);
    const auto skipped = [&](const std::string& pointer, const Json& value) {
        Json broken = row(bad);
        if (value.is_discarded())
            broken.erase(pointer.substr(1));
        else
            broken[Json::json_pointer(pointer)] = value;
        const TuningDb db = database(file({broken, row(good)}));
        EXPECT_EQ(db.find(bad), nullptr) << pointer;
        EXPECT_NE(db.find(good), nullptr) << pointer;
        return db.files()[0].skipped.empty() ? std::string() : db.files()[0].skipped[0];
    };
    const Json absent(Json::value_t::discarded);
    for (const auto& [pointer, value, sentence] : std::vector<std::tuple<std::string, Json, std::string>>{
             {"/us", "fast", "row 1: its \"us\" is of another type: it must be a number"},
             {"/us", -1, "row 1: its \"us\" is -1: it must be 0.001 or more"},
             {"/us", nullptr, "its \"us\" is of another type"},  // what NaN becomes
             {"/us", absent, "its \"us\" is missing"},
             {"/spread", -0.5, "\"spread\""},
             {"/kernel", "fastest", "'fastest' is no configuration name"},
             {"/kernel", 5, "\"kernel\" is of another type"},
             {"/kernels", kTunedKernels + 1, "it was measured with kernels of version"},
             {"/kernels", 0.5, "it must be a whole number"},
             {"/checked", false, "never verified"},
             {"/checked", absent, "never verified"},
             {"/device", "H200", "\"device\" is of another type"},
             {"/device/units", "many", "\"units\""},
             {"/problem", absent, "\"problem\" is missing"},
             {"/problem/m", -4, "m is -4"},
             {"/problem/a/dtype", "s8", "no pair that is multiplied"},
             {"/problem/future", 1, "does not know"}})
        EXPECT_NE(skipped(pointer, value).find(sentence), std::string::npos)
            << pointer << " " << value << ": " << skipped(pointer, value);
}

TEST(TuningDb, BadFilesAreLeftOutWhole) {
    const std::string whole = file({row(problem(64, 512, 512))});
    for (const std::string& text :
         {whole.substr(0, whole.size() / 2), std::string(), std::string("null"), std::string("[1, 2]"),
          std::string(R"({"schema": "carat.bench/1", "rows": []})"), std::string(R"({"schema": "carat.tuning/1"})"),
          std::string(R"({"schema": "carat.tuning/1", "rows": [{"us": NaN}]})"), std::string(100000, '[')}) {
        const TuningDb db = database(text);
        EXPECT_EQ(db.size(), 0u);
        ASSERT_EQ(db.files()[0].skipped.size(), 1u) << text.substr(0, 50);
        EXPECT_EQ(db.files()[0].skipped[0].rfind("all of it: ", 0), 0u);
    }
    const TuningDb odd = database(R"({"schema": "carat.tuning/1", "rows": [1, null, "x"]})");
    EXPECT_EQ(odd.files()[0].skipped.size(), 3u);
}

TEST(TuningDb, TheShippedOnesAreWhole) {
    ASSERT_FALSE(shipped_tuning().empty());
    for (const TuningText& shipped : shipped_tuning()) {
        const TuningRows rows = read_tuning(shipped.text, api::validate_problem);
        EXPECT_TRUE(rows.skipped.empty()) << shipped.name << ": " << rows.skipped.front();
        for (const TuningRow& one : rows.rows)
            EXPECT_EQ(one.kernels, kTunedKernels) << shipped.name << " " << one.number;
    }
}

TEST(Select, ATunedConfigurationComesFirst) {
    const Problem p = problem(512, 512, 512);
    const std::string predicted = select(p, h200())->config.name();
    for (const std::string& kernel : {std::string("sm90_ws_bf16_bf16_bf16_nt_128x96x64_s4_c1x1_rm4"),  // no candidate
                                      rank(p, h200())->back().config.name()}) {
        const TuningDb db = database(file({row(p, kernel)}));
        const auto ranked = rank(p, h200(), "", SIZE_MAX, &db);
        ASSERT_TRUE(ranked.ok());
        EXPECT_EQ(ranked->front().config.name(), kernel);
        ASSERT_NE(ranked->front().tuned, nullptr);
        EXPECT_EQ(ranked->front().tuned->us, 10);
        EXPECT_EQ((*ranked)[1].config.name(), predicted);
        EXPECT_EQ(std::count_if(ranked->begin(), ranked->end(), [&](auto& c) { return c.config.name() == kernel; }), 1);
        const Selection selection = consider(p, h200(), "", SIZE_MAX, &db);
        EXPECT_EQ(selection.chosen()->config.name(), kernel);
        EXPECT_EQ(selection.winner->config.name(), predicted);
        EXPECT_EQ(rank(p, h200(), "v8_cluster", SIZE_MAX, &db)->front().tuned, nullptr);
    }
}

// The best of the candidates for M rows must be there for any M above half of it, or a measured choice is lost between.
TEST(Select, ATunedConfigurationServesFewerRows) {
    for (const int64_t m : {4, 8, 16, 32, 64, 96, 128, 192, 256}) {
        const Problem measured = problem(m, 6144, 4096);
        const auto candidates = rank(measured, h200());
        for (const Candidate& candidate : *candidates) {
            const Config& config = candidate.config;
            const std::string kernel = config.name();
            // Of as many rows or fewer a block of the cluster has no tile.
            const int64_t of_others =
                config.swapped ? config.bn * (config.cluster_n - 1) : config.bm * (config.cluster_m - 1);
            const TuningDb db = database(file({row(measured, kernel)}));
            for (const int64_t fewer : {m / 2 + 1, m / 2 + m / 4, m - 1}) {
                if (fewer <= of_others) continue;
                const auto ranked = rank(problem(fewer, 6144, 4096), h200(), "", SIZE_MAX, &db);
                EXPECT_EQ(ranked->front().config.name(), kernel) << m << " " << fewer;
            }
        }
    }
}

TEST(Select, AStaleChoiceIsWarnedOfOnceAndIgnored) {
    const Problem p = problem(520, 512, 512);
    std::string logged;
    log::set_callback([](carat_log_level, const char* text, void* to) { *static_cast<std::string*>(to) += text; },
                      &logged, CARAT_LOG_WARN);
    for (const std::string kernel : {"sm90_ws_bf16_bf16_bf16_nt_128x250x64_s4_c1x1_rm4", "gone_bf16_bf16_bf16_nt_1x1x1",
                                     "v8_cluster_bf16_bf16_bf16_nt_128x128x64"}) {
        TuningDb db;
        db.add("of " + kernel, file({row(p, kernel)}), h200(), api::validate_problem);
        logged.clear();
        for (int i = 0; i < 3; ++i) EXPECT_EQ(rank(p, h200(), "", SIZE_MAX, &db)->front().tuned, nullptr);
        EXPECT_NE(logged.find("row 1 of the tuning database of " + kernel), std::string::npos) << logged;
        EXPECT_EQ(logged.find("is ignored"), logged.rfind("is ignored"));
    }
    log::set_callback(nullptr, nullptr, CARAT_LOG_OFF);
}

TEST(Neighbours, AreConfigurationsThatTheRowHas) {
    const Problem p = problem(4096, 4096, 4096);
    const auto ranked = rank(p, h200());
    const auto found = neighbours(ranked->front(), p, h200());
    EXPECT_FALSE(found.empty());
    for (const Candidate& one : found) {
        EXPECT_NE(one.config, ranked->front().config);
        EXPECT_TRUE(select(p, h200(), one.config.name()).ok()) << one.config.name();
    }
    const auto all = tuning_candidates(p, h200());
    ASSERT_TRUE(all.ok());
    EXPECT_GT(all->size(), ranked->size());
    for (const Candidate& one : *all)
        EXPECT_EQ(std::count_if(all->begin(), all->end(), [&](auto& c) { return c.config == one.config; }), 1);
    // Those that differ little from others come after other tiles that are as near.
    const auto rank_of = [&](const Candidate& one) {
        const bool own = std::any_of(ranked->begin(), ranked->end(), [&](auto& c) { return c.config == one.config; });
        return one.prediction.us * (own ? 1 : 1.05);
    };
    EXPECT_TRUE(
        std::is_sorted(all->begin(), all->end(), [&](auto& x, auto& y) { return rank_of(x) < rank_of(y) - 1e-9; }));
}

}  // namespace
}  // namespace carat
