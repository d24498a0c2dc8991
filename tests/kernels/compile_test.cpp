// SPDX-License-Identifier: Apache-2.0
// Every CUDA row, without a GPU: what it refuses, what its kernels compile to (registers, spills, shared memory, warnings)
// for Hopper and Ampere, what it predicts, and that a planned kernel says why it cannot run.
#include <gtest/gtest.h>

#include "core/log.hpp"
#include "dispatch/registry.hpp"
#include "dispatch/rows_simt.hpp"
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

Runtime planning_runtime(int cc_major = 9) {
    static const auto compiler = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
    Runtime runtime;
    runtime.target = find_gpu("h200").value();
    runtime.target.cc_major = cc_major;
    runtime.jit = compiler;
    return runtime;
}

// Layouts, D's order, and epilogues from the plainest to all at once.
std::vector<Problem> representative_problems() {
    std::vector<Problem> problems = {f32_problem(64, 64, 64, "nn"), f32_problem(64, 64, 64, "nt"),
                                     f32_problem(64, 64, 64, "tn", false)};
    Problem all = f32_problem(64, 64, 64, "tt");
    add_c(all);
    set_batch(all, 3);
    all.epilogue.scalars_on_device = 1;
    all.epilogue.bias = CARAT_BIAS_N, all.epilogue.bias_dtype = CARAT_F32;
    all.epilogue.activation = CARAT_ACT_GELU_ERF;
    all.epilogue.clamp = 1;
    all.epilogue.out_scale = CARAT_OUT_SCALE_ROW;
    all.epilogue.amax = 1;
    problems.push_back(all);
    all.epilogue.gate = CARAT_GATE_INTERLEAVED;
    all.epilogue.activation = CARAT_ACT_SILU;
    problems.push_back(all);
    all.epilogue.gate = CARAT_GATE_SPLIT;
    all.epilogue.activation = CARAT_ACT_GELU_TANH;
    all.epilogue.bias = CARAT_BIAS_M;
    problems.push_back(all);
    return problems;
}

int64_t designed_shared(const Problem& p, const Config& c) {
    const int parts = p.epilogue.gate == CARAT_GATE_NONE ? 1 : 2;
    if (c.family == "v1_shared") return 4 * (c.bm * (c.bk + 1) + parts * c.bk * (c.bn + 1));
    if (c.family == "v2_registers") return 4 * c.bk * (c.bm + 4 + c.bn + 4);
    if (c.family == "v3_double_buffer") return 2 * 4 * c.bk * (c.bm + 4 + c.bn + 4);
    return 0;
}

int designed_threads(const Config& c) {
    return c.bm * c.bn / (std::max(c.tm, 1) * std::max(c.tn, 1));
}

void expect_clean_compiles(int cc_major) {
    if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
    std::string warnings;
    log::set_callback([](carat_log_level, const char* text, void* to) { *static_cast<std::string*>(to) += text; },
                      &warnings, CARAT_LOG_WARN);
    int kernels = 0;
    Runtime runtime = planning_runtime(cc_major);
    for (const Problem& problem : representative_problems())
        for (const Kernel& kernel : cuda_kernels(problem, runtime.target)) {
            const auto executable = kernel.row->prepare(problem, kernel.config, runtime);
            ASSERT_TRUE(executable.ok()) << executable.status().sentence();
            const KernelFacts facts = (*executable)->facts();
            const std::string what = kernel.config.name() + " for " + runtime.target.arch() + ", " + describe(problem);
            ++kernels;
            EXPECT_GT(facts.registers, 0) << what;
            EXPECT_LE(facts.registers, std::min(255, 65536 / facts.threads)) << what;
            EXPECT_EQ(facts.spill_bytes, 0) << what;
            EXPECT_EQ(facts.stack_bytes, 0) << what;
            EXPECT_EQ(facts.static_shared_bytes, designed_shared(problem, kernel.config)) << what;
            EXPECT_EQ(facts.threads, designed_threads(kernel.config)) << what;
        }
    log::set_callback(nullptr, nullptr, CARAT_LOG_OFF);
    EXPECT_EQ(warnings, "");
    EXPECT_GE(kernels, 50);
}

TEST(KernelCompile, EveryRowFitsItsLaunchBoundWithoutSpills) {
    expect_clean_compiles(9);
}

TEST(KernelCompile, AndOnAmpere) {
    expect_clean_compiles(8);
}

TEST(KernelCompile, APlannedKernelSaysWhyItCannotRun) {
    if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
    Runtime runtime = planning_runtime();
    const Problem problem = f32_problem(64, 64, 64);
    const auto executable = kRowV1Shared.prepare(problem, kRowV1Shared.candidates(problem, runtime.target)[0], runtime);
    ASSERT_TRUE(executable.ok()) << executable.status().sentence();
    const Status status = (*executable)->execute(carat_operands{}, nullptr);
    EXPECT_EQ(status.code(), CARAT_NOT_INITIALIZED);
    EXPECT_NE(status.sentence().find("was only planned"), std::string::npos) << status.sentence();
}

TEST(KernelRows, ACpuContextCannotPrepareThem) {
    Runtime runtime;
    const Problem problem = f32_problem(64, 64, 64);
    const Config config = kRowV0Naive.candidates(problem, find_gpu("h200").value())[0];
    const auto executable = kRowV0Naive.prepare(problem, config, runtime);
    ASSERT_FALSE(executable.ok());
    EXPECT_EQ(executable.status().code(), CARAT_NOT_INITIALIZED);
}

std::string refusal(const Problem& problem, const Target& target, const Row& row = kRowV1Shared) {
    Requirements requirements;
    row.require(problem, target, requirements);
    return requirements.refusal();
}

TEST(KernelRows, RefuseWithASentence) {
    const Target gpu = find_gpu("h200").value();
    const auto expect_refused = [&](const char* part, auto change) {
        Problem p = f32_problem(8, 8, 8);
        change(p);
        EXPECT_NE(refusal(p, gpu).find(part), std::string::npos)
            << "'" << refusal(p, gpu) << "' lacks '" << part << "'";
    };
    EXPECT_EQ(refusal(f32_problem(8, 8, 8), gpu), "");
    EXPECT_NE(refusal(f32_problem(8, 8, 8), Target()).find("CUDA GPU"), std::string::npos);
    Target old = gpu;
    old.cc_major = 7, old.cc_minor = 0;
    EXPECT_NE(refusal(f32_problem(8, 8, 8), old).find("7.5 or newer"), std::string::npos);
    expect_refused("pointers", [](Problem& p) { p.mode = CARAT_BATCHED_POINTERS; });
    expect_refused("groups", [](Problem& p) { p.mode = CARAT_GROUPED; });
    expect_refused("bf16 and f32", [](Problem& p) { p.a.dtype = CARAT_BF16; });
    expect_refused("D must be f32", [](Problem& p) { p.d.dtype = CARAT_F16; });
    expect_refused("C must be f32", [](Problem& p) { p.c.dtype = CARAT_F16; });
    expect_refused("compute mode", [](Problem& p) { p.compute = CARAT_COMPUTE_TF32; });
    expect_refused("no scales", [](Problem& p) { p.scale_a.recipe = CARAT_SCALE_ROW_WISE; });
    expect_refused("dense", [](Problem& p) { p.sparsity = CARAT_SPARSE_A_24; });
    expect_refused("bias must be f32",
                   [](Problem& p) { p.epilogue.bias = CARAT_BIAS_N, p.epilogue.bias_dtype = CARAT_F16; });
    Problem gated = f32_problem(8, 8, 8);
    gated.epilogue.gate = CARAT_GATE_SPLIT;
    EXPECT_EQ(refusal(gated, gpu), "");
    for (const Row& row : {kRowV2Registers, kRowV3DoubleBuffer})
        EXPECT_NE(refusal(gated, gpu, row).find("a gated epilogue needs two"), std::string::npos) << row.name;
    expect_refused("output scales", [](Problem& p) { p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128; });
}

TEST(KernelRows, PredictionsFollowTheModel) {
    const Target gpu = find_gpu("h200").value();
    const auto us = [&](const Row& row, const Problem& p, size_t candidate = 0) {
        return row.predict(p, row.candidates(p, gpu)[candidate], gpu).us;
    };
    const Problem nt = f32_problem(2048, 4096, 4096, "nt"), nn = f32_problem(2048, 4096, 4096, "nn");
    const Problem decode = f32_problem(16, 4096, 4096, "nt"), prefill = f32_problem(128, 4096, 4096, "nt");
    // Measured on an H200, in us.
    EXPECT_NEAR(us(kRowV1Shared, nt), 10494, 0.1 * 10494);
    EXPECT_NEAR(us(kRowV1Shared, nt, 1), 11367, 0.1 * 11367);
    EXPECT_NEAR(us(kRowV1Shared, prefill), 710, 0.1 * 710);
    EXPECT_NEAR(us(kRowV1Shared, decode), 235, 0.1 * 235);
    EXPECT_NEAR(us(kRowV1Shared, decode, 1), 204, 0.1 * 204);
    EXPECT_NEAR(us(kRowV0Naive, nn), 13717, 0.1 * 13717);
    EXPECT_NEAR(us(kRowV0Naive, nt), 137587, 0.1 * 137587);
    EXPECT_NEAR(us(kRowV0Naive, decode), 1113, 0.1 * 1113);
    EXPECT_GE(us(kRowV1Shared, f32_problem(1, 1, 1)), gpu.launch_us);
    // The later rung is the faster one, on large tiles where they fill the GPU and on small ones where they do not.
    const Problem square = f32_problem(4096, 4096, 4096, "nt");
    EXPECT_LT(us(kRowV3DoubleBuffer, square), us(kRowV2Registers, square));
    EXPECT_LT(us(kRowV2Registers, square), us(kRowV1Shared, square));
    EXPECT_LT(us(kRowV2Registers, square), us(kRowV2Registers, square, 1));
    EXPECT_GT(us(kRowV2Registers, decode), us(kRowV2Registers, decode, 1));
    EXPECT_GE(us(kRowV3DoubleBuffer, square), 2.0 * 4096 * 4096 * 4096 / (gpu.f32_tflops * 1e6)) << "the f32 units";
}

}  // namespace
}  // namespace carat::test
