// SPDX-License-Identifier: Apache-2.0
// How the tuner chooses, with a ring whose times and faults are made up; and its files.
#include "tuner.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tuning_file.hpp"

namespace carat::cli {
namespace {

using State = Contender::State;

// Times in us by kernel; samples are spread evenly around them by up to `noise`.
class FakeRing : public Ring {
  public:
    std::map<std::string, double> us, noise;
    std::map<std::string, State> faults;
    std::map<std::string, int> asked;

    void admit(Contender& contender) override {
        const auto fault = faults.find(contender.kernel);
        contender.state = fault == faults.end() ? State::ready : fault->second;
        if (fault != faults.end()) contender.reason = "made up";
    }
    double sample(const Contender& contender) override {
        EXPECT_EQ(contender.state, State::ready) << contender.kernel << " is timed though it is not right";
        const int turn = asked[contender.kernel]++ % 5 - 2;
        return us.at(contender.kernel) * (1 + noise[contender.kernel] * turn / 2);
    }
};

std::vector<Contender> contenders(const FakeRing& ring) {
    std::vector<Contender> all;
    for (const auto& [kernel, us] : ring.us) all.push_back({kernel, us});
    return all;
}

const Effort kQuick = {.seconds = 0.01};

TEST(Tuner, FindsTheFastest) {
    FakeRing ring;
    for (int i = 0; i < 20; ++i) ring.us["k" + std::to_string(i)] = 10 + (i * 7) % 20;
    const Verdict verdict = find_best(contenders(ring), "k5", ring, kQuick);
    ASSERT_NE(verdict.best, nullptr);
    EXPECT_EQ(verdict.best->kernel, "k0");
    ASSERT_NE(verdict.own, nullptr);
    EXPECT_EQ(verdict.own->us(), 25);
    // The slow ones are dropped early.
    EXPECT_LT(ring.asked["k" + std::to_string(17)], ring.asked["k0"]);
}

TEST(Tuner, KeepsTheOwnChoiceWithinTheNoise) {
    FakeRing ring;
    ring.us = {{"own", 10}, {"rival", 9.9}};
    ring.noise = {{"own", 0.05}, {"rival", 0.05}};
    EXPECT_EQ(find_best(contenders(ring), "own", ring, kQuick).best->kernel, "own");
    ring.noise = {{"own", 0.001}, {"rival", 0.001}};
    EXPECT_EQ(find_best(contenders(ring), "own", ring, kQuick).best->kernel, "rival");
    ring.us["rival"] = 10;
    EXPECT_EQ(find_best(contenders(ring), "own", ring, kQuick).best->kernel, "own");
}

TEST(Tuner, AnUnsteadyOwnChoiceIsNotKeptForItsNoise) {
    FakeRing ring;
    ring.us = {{"own", 10}, {"rival", 9}};
    ring.noise = {{"own", 0.5}, {"rival", 0.001}};
    EXPECT_EQ(find_best(contenders(ring), "own", ring, kQuick).best->kernel, "rival");
}

TEST(Tuner, AWrongKernelNeverWins) {
    FakeRing ring;
    ring.us = {{"own", 10}, {"right", 8}, {"wrong", 1}, {"refused", 2}};
    ring.faults = {{"wrong", State::wrong}, {"refused", State::refused}};
    const Verdict verdict = find_best(contenders(ring), "own", ring, kQuick);
    EXPECT_EQ(verdict.best->kernel, "right");
    EXPECT_EQ(ring.asked.count("wrong") + ring.asked.count("refused"), 0u);
    for (const Contender& one : verdict.contenders)
        if (one.kernel == "wrong") EXPECT_EQ(one.reason, "made up");
    ring.faults["own"] = State::wrong;
    const Verdict without = find_best(contenders(ring), "own", ring, kQuick);
    EXPECT_EQ(without.best->kernel, "right");
    EXPECT_EQ(without.own, nullptr);
    ring.faults["right"] = State::wrong;
    EXPECT_EQ(find_best(contenders(ring), "own", ring, kQuick).best, nullptr);
}

TEST(Tuner, WhoeverStopsItGetsNoVerdict) {
    FakeRing ring;
    for (int i = 0; i < 9; ++i) ring.us["k" + std::to_string(i)] = 10 + i;
    Effort effort = kQuick;
    int calls = 0;
    effort.stop = [&] { return ++calls > 30; };
    EXPECT_EQ(find_best(contenders(ring), "k0", ring, effort).best, nullptr);
}

TEST(Tuner, LeavesOutWhatIsPredictedToBeSlow) {
    std::vector<Contender> all;
    for (int i = 0; i < 50; ++i) all.push_back({"k" + std::to_string(i), 10.0 + i});
    const auto count = [&](const Effort& effort) { return prune(all, "k49", effort).size(); };
    EXPECT_EQ(count({.within = 1.5, .least = 1, .most = 100}), 6u + 1);
    EXPECT_EQ(count({.within = 1.0, .least = 8, .most = 100}), 8u + 1);
    EXPECT_EQ(count({.within = 100, .least = 8, .most = 20}), 20u + 1);
    EXPECT_EQ(prune(all, "k49", {.within = 1.0, .least = 1, .most = 1}).back().kernel, "k49");
    EXPECT_TRUE(prune({}, "", {}).empty());
}

TEST(Contender, MedianAndSpread) {
    Contender one{"k", 1};
    EXPECT_TRUE(std::isnan(one.us()));
    one.samples = {5, 1, 3, 2, 4};
    EXPECT_EQ(one.us(), 3);
    EXPECT_NEAR(one.spread(), 2.0 / 3, 1e-12);
}

Json row(int64_t m, const std::string& device, double us, double own_us, double predicted, const std::string& date,
         int kernels = 1) {
    return {{"problem", Json::parse(carat::problem_json(gemm_problem(m, 8, 8, CARAT_F32, "nt")))},
            {"device", {{"name", device}, {"compute_capability", ""}, {"units", 1}}},
            {"kernel", "cpu_reference_f32_f32_f32_nt_1x1x1"},
            {"us", us},
            {"spread", 0.0},
            {"own", {{"kernel", "k"}, {"us", own_us}, {"predicted_us", predicted}}},
            {"kernels", kernels},
            {"checked", true},
            {"provenance", {{"date", date}}}};
}

TEST(TuningFile, TheNewestRowWinsAMerge) {
    const Json old = row(1, "a", 10, 10, 10, "2026-01-01"), fresh = row(1, "a", 11, 11, 11, "2026-02-01");
    const Json newer_kernels = row(1, "a", 12, 12, 12, "2026-01-15", 2), elsewhere = row(1, "b", 1, 1, 1, "2026-01-01");
    EXPECT_EQ(merge_rows({{old}, {fresh}}), (std::vector<Json>{fresh}));
    EXPECT_EQ(merge_rows({{fresh}, {old}}), (std::vector<Json>{fresh}));
    EXPECT_EQ(merge_rows({{newer_kernels}, {fresh, elsewhere}}), (std::vector<Json>{newer_kernels, elsewhere}));
    EXPECT_TRUE(merge_rows({}).empty());
}

TEST(TuningFile, OneRowALineInAStableOrder) {
    const Json a = row(1, "a", 10, 10, 10, ""), b = row(16, "a", 10, 10, 10, ""), c = row(2, "b", 10, 10, 10, "");
    const std::string text = tuning_text({c, b, a});
    EXPECT_EQ(text, tuning_text({a, b, c}));
    EXPECT_EQ(text, "{\"schema\": \"carat.tuning/1\", \"rows\": [\n" + a.dump() + ",\n" + b.dump() + ",\n" + c.dump() +
                        "\n]}\n");
    EXPECT_EQ(tuning_text({}), "{\"schema\": \"carat.tuning/1\", \"rows\": [\n]}\n");
}

TEST(TuningFile, TheSummaryComparesTheOwnChoice) {
    const std::vector<Json> rows = {row(1, "a", 10, 10, 11, ""), row(2, "a", 10, 10.4, 10.4, ""),
                                    row(3, "a", 10, 12, 9, "")};
    const TuneSummary summary = summarize_rows(rows);
    EXPECT_EQ(summary.problems, 3u);
    EXPECT_NEAR(summary.within_5_percent, 2.0 / 3, 1e-12);
    EXPECT_NEAR(summary.median_loss, 0.04, 1e-12);
    EXPECT_NEAR(summary.worst_loss, 0.2, 1e-12);
    EXPECT_EQ(summary.worst_loss_problem, "3 x 8 x 8 f32 nt");
    EXPECT_NEAR(summary.median_error, 0.1, 1e-12);
    EXPECT_NEAR(summary.worst_error, 0.25, 1e-12);
    EXPECT_NE(summary.text().find("within 5 % of the best in 67 %"), std::string::npos) << summary.text();
    EXPECT_EQ(summarize_rows({}).problems, 0u);
    EXPECT_EQ(summarize_rows({}).text(), "");
}

TEST(TuningFile, FreshRowsAreOfTheSameProblemDeviceAndKernels) {
    const std::vector<Json> rows = {row(1, "a", 10, 10, 10, "")};
    EXPECT_NE(find_row(rows, rows[0]["problem"], rows[0]["device"], 1), nullptr);
    EXPECT_EQ(find_row(rows, rows[0]["problem"], rows[0]["device"], 2), nullptr);
    EXPECT_EQ(find_row(rows, rows[0]["device"], rows[0]["device"], 1), nullptr);
}

}  // namespace
}  // namespace carat::cli
