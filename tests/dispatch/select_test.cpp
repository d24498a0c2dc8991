// SPDX-License-Identifier: Apache-2.0
// Selection without a GPU: what an H200 would run, and why the rest is refused. The golden file holds each row's answer
// and the winner; predicted times are left out, since calibration moves them.

#include "dispatch/select.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/validate.hpp"

namespace carat {
namespace {

Problem problem(int64_t m, int64_t n, int64_t k, carat_dtype dtype, const char* layout = "nt") {
    carat_problem p;
    EXPECT_EQ(carat_problem_init(&p, m, n, k, dtype, layout), CARAT_SUCCESS);
    return *api::validate_problem(&p);
}

// Where the sources lie: SOURCE_DIR of the environment where the built tree was copied to another machine.
std::filesystem::path source_dir() {
    const char* copied = std::getenv("SOURCE_DIR");
    return copied ? copied : CARAT_SOURCE_DIR;
}

Target h200() {
    return *find_gpu("h200");
}

std::string transcript(const Problem& p, const Target& target) {
    const Selection selection = consider(p, target);
    std::string text = describe(p) + " on " + target.name + "\n";
    for (const Considered& entry : selection.considered) {
        if (!entry.refusal.empty()) text += fmt::format("  {}: refused: {}\n", entry.row->name, entry.refusal);
        for (const Candidate& candidate : entry.candidates)
            text += fmt::format("  {}: {}\n", entry.row->name, candidate.config.name());
    }
    return text + fmt::format("  winner: {}\n", selection.winner ? selection.winner->config.name() : "none");
}

TEST(Select, AnswersMatchTheGoldenFile) {
    std::string text;
    text += transcript(problem(4096, 4096, 4096, CARAT_F32), h200());
    text += transcript(problem(1, 6144, 4096, CARAT_F32), h200());
    text += transcript(problem(0, 16, 16, CARAT_F32, "tn"), h200());
    text += transcript(problem(512, 512, 512, CARAT_BF16), h200());
    text += transcript(problem(64, 64, 64, CARAT_S8), h200());
    carat_problem grouped;
    ASSERT_EQ(carat_problem_init(&grouped, 64, 64, 64, CARAT_F32, "nt"), CARAT_SUCCESS);
    grouped.mode = CARAT_GROUPED, grouped.group_form = CARAT_GROUP_M_OFFSETS, grouped.batch = 4;
    text += transcript(*api::validate_problem(&grouped), h200());

    const std::filesystem::path golden = source_dir() / "tests/dispatch/golden/select.txt";
    std::ifstream file(golden);
    std::stringstream expected;
    expected << file.rdbuf();
    if (expected.str() != text) std::ofstream(golden.string() + ".new") << text;
    EXPECT_EQ(expected.str(), text) << "if the change is meant, move " << golden << ".new over the golden file";
}

TEST(Select, EveryProblemOfTheCpuHasAWinner) {
    Target cpu;
    cpu.backend = CARAT_BACKEND_CPU;
    cpu.name = "cpu", cpu.full_name = "the CPU";
    cpu.units = 2;
    cpu.f32_tflops = 0.2, cpu.f64_tflops = 0.1;
    cpu.read_curve = {{1e6, 50}, {1e9, 50000}};
    cpu.isas = {"portable"};
    for (const DtypeInfo& type : dtypes()) {
        carat_problem p;
        ASSERT_EQ(carat_problem_init(&p, 8, 8, 8, type.dtype, "nn"), CARAT_SUCCESS);
        const auto valid = api::validate_problem(&p);
        if (!valid.ok()) continue;  // s32, s4 and u4 are no type of both operands
        EXPECT_TRUE(select(*valid, cpu).ok()) << type.name;
    }
}

TEST(Select, ForcedKernels) {
    const Problem p = problem(256, 256, 256, CARAT_F32);
    EXPECT_EQ(select(p, h200(), "v0_naive")->config.family, "v0_naive");
    const std::string name = select(p, h200(), "v1_shared")->config.name();
    EXPECT_EQ(select(p, h200(), name)->config.name(), name);
    EXPECT_EQ(select(p, h200(), "nonsense").status().code(), CARAT_INVALID_VALUE);
    // The name of a configuration that this problem has no candidate of.
    EXPECT_EQ(select(p, h200(), "v1_shared_f32_f32_f32_nn_32x32x32").status().code(), CARAT_NOT_SUPPORTED);
}

TEST(Registry, RowsAreNamedOnceAndEndInTheReference) {
    for (const Row& row : registry()) {
        EXPECT_EQ(find_row(row.name), &row);
        EXPECT_TRUE(std::filesystem::exists(source_dir() / row.source)) << row.source;
        EXPECT_EQ(std::string(row.summary).back(), '.') << row.name;
    }
    EXPECT_STREQ(registry().back().name, "cpu_reference");
    EXPECT_EQ(find_row("nonsense"), nullptr);
}

}  // namespace
}  // namespace carat
