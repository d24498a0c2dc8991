// SPDX-License-Identifier: Apache-2.0
// What becomes of a candidate that the compiler refuses or makes slow: the next one is taken, and the log says so.

#include "dispatch/prepare.hpp"

#include <gtest/gtest.h>

#include "api/validate.hpp"
#include "core/log.hpp"
#include "dispatch/cuda_kernel.hpp"
#include "dispatch/rows_simt.hpp"
#include "dispatch/runtime.hpp"
#include "jit/jit.hpp"

namespace carat {
namespace {

Problem f32_problem() {
    carat_problem p;
    EXPECT_EQ(carat_problem_init(&p, 256, 256, 256, CARAT_F32, "nn"), CARAT_SUCCESS);
    return *api::validate_problem(&p);
}

Runtime planning_runtime() {
    static const auto compiler = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
    Runtime runtime;
    runtime.target = *find_gpu("h200");
    runtime.jit = compiler;
    return runtime;
}

class Nothing final : public Executable {
  public:
    Status execute(const carat_operands&, void*) const override { return {}; }
};

using Made = Result<std::unique_ptr<Executable>>;
Made take(const Problem&, const Config&, Runtime&) {
    return std::unique_ptr<Executable>(new Nothing);
}
Made refuse(const Problem&, const Config& config, Runtime&) {
    return fail(CARAT_COMPILE_FAILED, "{} is refused", config.family);
}
Made run_out(const Problem&, const Config&, Runtime&) {
    return fail(CARAT_ALLOC_FAILED, "out of memory");
}

// A candidate whose row does no more than that.
Candidate candidate(const Row& row) {
    Candidate made{&row, {}, {}};
    made.config.family = row.name;
    return made;
}
Row row_of(const char* name, Made (*prepare)(const Problem&, const Config&, Runtime&)) {
    Row row{};
    row.name = name, row.prepare = prepare;
    return row;
}

class PrepareBest : public testing::Test {
  protected:
    void SetUp() override {
        if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
        log::set_callback([](carat_log_level, const char* text, void* to) { *static_cast<std::string*>(to) += text; },
                          &logged_, CARAT_LOG_WARN);
    }
    void TearDown() override { log::set_callback(nullptr, nullptr, CARAT_LOG_OFF); }

    Result<Prepared> prepare(const std::vector<Candidate>& candidates) {
        Runtime runtime = planning_runtime();
        return prepare_best(candidates, f32_problem(), runtime);
    }

    const Row good_ = row_of("good", take), bad_ = row_of("bad", refuse), worse_ = row_of("worse", refuse),
              broken_ = row_of("broken", run_out);
    std::string logged_;
};

TEST_F(PrepareBest, TakesTheFirstWhereNothingIsWrong) {
    const auto prepared = prepare({candidate(good_), candidate(bad_)});
    ASSERT_TRUE(prepared.ok());
    EXPECT_EQ(prepared->chosen.row, &good_);
    EXPECT_TRUE(prepared->refused.empty());
    EXPECT_EQ(logged_, "");
}

TEST_F(PrepareBest, TakesTheNextWhereTheCompilerRefusesAndSaysSo) {
    const auto prepared = prepare({candidate(bad_), candidate(worse_), candidate(good_)});
    ASSERT_TRUE(prepared.ok()) << prepared.status().sentence();
    EXPECT_EQ(prepared->chosen.row, &good_);
    EXPECT_EQ(prepared->refused, (std::vector<std::string>{"bad is refused", "worse is refused"}));
    EXPECT_TRUE(logged_.starts_with("bad is refused (and 1 more): the next best predicted kernel is taken, good"))
        << logged_;
}

TEST_F(PrepareBest, FailsAsTheBestDoesWhereTheListEnds) {
    const auto prepared = prepare({candidate(bad_), candidate(worse_)});
    ASSERT_FALSE(prepared.ok());
    EXPECT_EQ(prepared.status().code(), CARAT_COMPILE_FAILED);
    EXPECT_EQ(prepared.status().sentence(), "bad is refused");
}

TEST_F(PrepareBest, OtherFailuresAreNoReasonToGoOn) {
    const auto prepared = prepare({candidate(bad_), candidate(broken_), candidate(good_)});
    ASSERT_FALSE(prepared.ok());
    EXPECT_EQ(prepared.status().code(), CARAT_ALLOC_FAILED);
}

// v2's 64 sums a thread fit into the 255 registers of two blocks an SM, and not into the 32 of eight.
Made v2_at(const Problem& p, const Config& config, Runtime& runtime, const char* blocks, bool must_not_spill) {
    CudaKernel kernel;
    kernel.include = "ladder/v2_registers.cuh";
    kernel.function = "carat_kernel::v2_registers";
    kernel.constants = epilogue_constants(p);
    kernel.constants.emplace_back("kThreads", "256");
    kernel.constants.emplace_back("kMinBlocks", blocks);
    kernel.shape.threads = 256;
    kernel.must_not_spill = must_not_spill;
    return prepare_cuda(p, config, {&kernel, 1}, runtime);
}
Made spilling(const Problem& p, const Config& config, Runtime& runtime) {
    return v2_at(p, config, runtime, "8", true);
}
Made fitting(const Problem& p, const Config& config, Runtime& runtime) {
    return v2_at(p, config, runtime, "1", true);
}

TEST_F(PrepareBest, ARealKernelThatSpillsGivesWayToOneThatDoesNot) {
    const Row spills = row_of("spills", spilling), fits = row_of("fits", fitting);
    const Problem problem = f32_problem();
    const Config config = kRowV2Registers.candidates(problem, *find_gpu("h200"))[0];
    const auto prepared = prepare({{&spills, config, {}}, {&fits, config, {}}});
    ASSERT_TRUE(prepared.ok()) << prepared.status().sentence();
    EXPECT_EQ(prepared->chosen.row, &fits);
    EXPECT_EQ(prepared->executable->facts().spill_bytes, 0);
    ASSERT_EQ(prepared->refused.size(), 1u);
    for (const std::string& part : {config.name(), std::string("32 registers"), std::string("spilled"),
                                    std::string("carat explain --candidates")})
        EXPECT_NE(prepared->refused[0].find(part), std::string::npos) << part << ": " << prepared->refused[0];
    Runtime runtime = planning_runtime();
    const auto let_be = v2_at(problem, config, runtime, "8", false);
    ASSERT_TRUE(let_be.ok()) << let_be.status().sentence();
    EXPECT_GT((*let_be)->facts().spill_bytes, 0);
}

TEST(RefuseIfSlow, NamesTheSpillOrTheCompilersWords) {
    KernelFacts facts;
    facts.registers = 168;
    EXPECT_TRUE(refuse_if_slow("k", facts).ok());
    facts.warnings = "(C7514) Potential Performance Loss";
    EXPECT_EQ(refuse_if_slow("k", facts).code(), CARAT_COMPILE_FAILED);
    EXPECT_NE(refuse_if_slow("k", facts)
                  .sentence()
                  .find("k (168 registers) is refused, because the compiler says "
                        "'(C7514) Potential Performance Loss'"),
              std::string::npos);
    facts.spill_bytes = 48;
    EXPECT_NE(refuse_if_slow("k", facts).sentence().find("168 registers and spilled 48 bytes"), std::string::npos);
}

}  // namespace
}  // namespace carat
