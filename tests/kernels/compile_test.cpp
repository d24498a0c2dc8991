// SPDX-License-Identifier: Apache-2.0
// Every CUDA row, without a GPU: what it refuses, what its kernels compile to (registers, spills, shared memory, warnings)
// for Hopper and Ampere, what it predicts, and that a planned kernel says why it cannot run.
#include <gtest/gtest.h>

#include <optional>

#include "core/log.hpp"
#include "dispatch/registry.hpp"
#include "dispatch/rows_gemm_mma.hpp"
#include "dispatch/rows_mma.hpp"
#include "dispatch/rows_simt.hpp"
#include "dispatch/rows_stream.hpp"
#include "dispatch/rows_wgmma.hpp"
#include "dispatch/rows_ws.hpp"
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

Runtime planning_runtime(int cc_major = 9) {
    static const auto compiler = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
    Runtime runtime;
    runtime.target = find_gpu(cc_major == 9 ? "h200" : "a100").value();
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

// The same problem with A and B of a 16-bit type.
Problem of_16bit(Problem p, carat_dtype type, carat_dtype d_type) {
    p.a.dtype = p.b.dtype = type;
    p.d.dtype = d_type;
    return p;
}

// Each type, each order of each operand, and epilogues from the plainest to all at once.
std::vector<Problem> representative_16bit_problems() {
    Problem all = of_16bit(f32_problem(64, 64, 64, "nn"), CARAT_BF16, CARAT_BF16);
    add_c(all);
    set_batch(all, 3);
    all.epilogue.scalars_on_device = 1;
    all.epilogue.bias = CARAT_BIAS_N, all.epilogue.bias_dtype = CARAT_BF16;
    all.epilogue.activation = CARAT_ACT_GELU_ERF;
    all.epilogue.clamp = 1;
    all.epilogue.out_scale = CARAT_OUT_SCALE_ROW;
    all.epilogue.amax = 1;
    Problem other = of_16bit(f32_problem(64, 64, 64, "tt", false), CARAT_F16, CARAT_F32);
    add_c(other);
    other.c.dtype = CARAT_F16;
    other.epilogue.bias = CARAT_BIAS_M, other.epilogue.bias_dtype = CARAT_F32;
    other.epilogue.activation = CARAT_ACT_SILU;
    // Pitches that no bulk copy takes: the kernels whose threads copy.
    Problem odd = of_16bit(f32_problem(64, 64, 64, "nt"), CARAT_BF16, CARAT_BF16);
    pad(odd, 1);
    return {of_16bit(f32_problem(64, 64, 64, "nt"), CARAT_BF16, CARAT_BF16), odd,
            of_16bit(f32_problem(64, 64, 64, "tn", false), CARAT_F16, CARAT_F16), all, other};
}

// What only the production kernels take of 16-bit operands: gates, narrow types of D, computed scales, any C.
std::vector<Problem> general_16bit_problems() {
    Problem gated = of_16bit(f32_problem(64, 256, 64, "nt"), CARAT_BF16, CARAT_BF16);
    gated.epilogue.gate = CARAT_GATE_INTERLEAVED, gated.epilogue.activation = CARAT_ACT_SILU;
    Problem split = of_16bit(f32_problem(64, 256, 64, "nn", false), CARAT_F16, CARAT_F16);
    split.epilogue.gate = CARAT_GATE_SPLIT, split.epilogue.activation = CARAT_ACT_GELU_ERF;
    add_c(split, CARAT_F32), add_bias(split, CARAT_BIAS_N, CARAT_BF16);
    split.epilogue.amax = 1;
    Problem s8 = of_16bit(f32_problem(64, 256, 64, "tn"), CARAT_BF16, CARAT_S8);
    s8.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
    Problem all = split;
    all.d.dtype = CARAT_E4M3;
    all.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128, all.epilogue.clamp = 1;
    return {gated, split, s8, all};
}

// The same with the rows of a decode step, for the kernel that takes no more.
std::vector<Problem> of_rows(std::vector<Problem> problems, int64_t m) {
    for (Problem& p : problems) p.m = m;
    return problems;
}

// What a block of a kernel takes, by its design.
struct Design {
    int threads;
    int64_t static_shared = 0, dynamic_shared = 0;
};
// A consumer's, for `rows` of its own.
int64_t bias_bytes(const Problem& p, int64_t rows, int64_t cols) {
    return 4 * (p.epilogue.bias == CARAT_BIAS_N ? cols : p.epilogue.bias == CARAT_BIAS_M ? rows : 0);
}

std::optional<Design> design_of(const Problem& p, const Config& c) {
    const int parts = p.epilogue.gate == CARAT_GATE_NONE ? 1 : 2;
    if (c.family == "v0_naive") return Design{c.bm * c.bn};
    if (c.family == "v1_shared") return Design{c.bm * c.bn, 4 * (c.bm * (c.bk + 1) + parts * c.bk * (c.bn + 1))};
    const int buffers = c.family == "v3_double_buffer" ? 2 : 1;
    if (c.tm && c.a == CARAT_F32)
        return Design{c.bm * c.bn / (c.tm * c.tn), buffers * 4 * c.bk * (c.bm + 4 + c.bn + 4)};
    if (c.family == "v4_wmma") return Design{256, 0, 2 * 144 * (c.bm + c.bn)};
    if (c.family == "v5_mma") return Design{256, 0, c.stages * 128 * (c.bm + c.bn)};
    if (c.family == "mma")
        return Design{32 * (c.bm / c.tm) * (c.bn * parts / c.tn), 0, c.stages * 128 * (c.bm + c.bn * parts)};
    if (c.family == "sm80_stream") {
        // A ring of chunks of 16 bytes for each lane, and sums for each warp along K.
        const int warps_k = c.bk / 32, cols = c.bn * parts, threads = c.bk * cols / c.tn;
        const int pitch = p.d.order == CARAT_ROW_MAJOR ? cols + 8 : c.bm + 4;
        return Design{threads, 0,
                      c.stages * (c.tn / 8 + c.bm / 8) * 16 * threads +
                          4 * warps_k * pitch * (p.d.order == CARAT_ROW_MAJOR ? c.bm : cols)};
    }
    if (c.family == "sm90_ws") {
        // As below, but with a barrier for each consumer where they take turns, and two where C comes in bulk.
        const bool bulk_c = p.has_c() && parts == 1 && bits(p.c.dtype) == bits(p.d.dtype) && p.c.ld % 8 == 0;
        if (c.split_k > 0 || c.bm % 64 != 0) return {};  // partial sums, and rows beyond a tile, take more
        const int consumers = c.pingpong ? 2 : c.bm == 64 ? 1 : c.bm == 192 ? 3 : 2;
        const int64_t cols_b = p.b.order == CARAT_ROW_MAJOR ? ceil_div(c.bn, 64) * 64 : c.bn;
        const int64_t bias = bias_bytes(p, c.bm / (c.pingpong ? 1 : consumers), c.bn);
        return Design{128 * (1 + consumers), 0,
                      c.stages * (128 * (c.bm + cols_b) + 16) +
                          consumers * (16384 + bias + (bulk_c ? 16 : 0) + (c.pingpong ? 8 : 0))};
    }
    // Stages with two barriers each, and for each of two consumers 16 KB for its stores and a bias; rung 6 only where it
    // stages them, and without the bias.
    const bool staged = p.d.order == CARAT_COL_MAJOR || p.has_c() || p.epilogue.activation > CARAT_ACT_RELU;
    const int64_t ring = c.stages * (128 * (c.bm + c.bn) + 16);
    if (c.family == "v6_wgmma") return Design{256, 0, ring + (staged ? 2 * 16384 : 0)};
    // Where threads copy, a tile of 128 x 128 stands in for 256 x 192.
    const bool by_threads = p.a.ld % 8 != 0 || p.b.ld % 8 != 0;
    if (c.bm * c.bn > 128 * 256 && by_threads) return {};
    if (c.family == "v7_warp_specialized" || c.family == "v8_cluster")
        return Design{384, 0, ring + 2 * (16384 + bias_bytes(p, c.bm / 2, c.bn))};
    return {};
}

void expect_fits(const Problem& problem, const Kernel& kernel, Runtime& runtime) {
    const auto executable = kernel.row->prepare(problem, kernel.config, runtime);
    ASSERT_TRUE(executable.ok()) << executable.status().sentence();
    const KernelFacts facts = (*executable)->facts();
    const std::string what = kernel.config.name() + " for " + runtime.target.arch() + ", " + describe(problem);
    EXPECT_GT(facts.registers, 0) << what;
    EXPECT_LE(facts.registers, std::min(255, 65536 / facts.threads)) << what;
    EXPECT_EQ(facts.spill_bytes, 0) << what;
    EXPECT_EQ(facts.stack_bytes, 0) << what;
    EXPECT_LE(facts.static_shared_bytes + facts.dynamic_shared_bytes, runtime.target.shared_bytes_per_block) << what;
    if (const auto design = design_of(problem, kernel.config)) {
        EXPECT_EQ(facts.static_shared_bytes, design->static_shared) << what;
        EXPECT_EQ(facts.dynamic_shared_bytes, design->dynamic_shared) << what;
        EXPECT_EQ(facts.threads, design->threads) << what;
    }
}

struct Compilation {
    Problem problem;
    Kernel kernel;
};

// Nothing to warn of, either.
void expect_fit(const std::vector<Compilation>& all, Runtime& runtime) {
    std::string warnings;
    log::set_callback([](carat_log_level, const char* text, void* to) { *static_cast<std::string*>(to) += text; },
                      &warnings, CARAT_LOG_WARN);
    for (const auto& [problem, kernel] : all) expect_fits(problem, kernel, runtime);
    log::set_callback(nullptr, nullptr, CARAT_LOG_OFF);
    EXPECT_EQ(warnings, "");
}

// Every kernel (of one family, if named, else of all but the Hopper kernel, which has tests of its own) that takes one of
// the problems, on a GPU of that compute capability; returns how many.
int expect_all_fit(const std::vector<Problem>& problems, int cc_major, const std::string& family = "") {
    Runtime runtime = planning_runtime(cc_major);
    std::vector<Compilation> all;
    for (const Problem& problem : problems)
        for (const Kernel& kernel : cuda_kernels(problem, runtime.target))
            if (family.empty() ? kernel.row->name != std::string(kRowWs.name) : kernel.config.family == family)
                all.push_back({problem, kernel});
    expect_fit(all, runtime);
    return int(all.size());
}

class KernelCompile : public testing::Test {
  protected:
    void SetUp() override {
        if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
    }
};

TEST_F(KernelCompile, EveryF32RowFitsItsLaunchBoundWithoutSpillsOnHopper) {
    EXPECT_GE(expect_all_fit(representative_problems(), 9), 40);
}

TEST_F(KernelCompile, EveryF32RowFitsItsLaunchBoundWithoutSpillsOnAmpere) {
    EXPECT_GE(expect_all_fit(representative_problems(), 8), 40);
}

// In pieces that processes share: a problem each, on Hopper and on Ampere.
class KernelCompile16Bit : public KernelCompile, public testing::WithParamInterface<int> {};

TEST_P(KernelCompile16Bit, EveryRowFitsItsLaunchBoundWithoutSpills) {
    const std::vector<Problem> problems = representative_16bit_problems();
    const Problem& problem = problems[size_t(GetParam()) / 2 % problems.size()];
    EXPECT_GE(expect_all_fit({problem}, GetParam() % 2 ? 8 : 9), 3);
}
INSTANTIATE_TEST_SUITE_P(Gpus, KernelCompile16Bit, testing::Range(0, 2 * int(representative_16bit_problems().size())));

TEST_F(KernelCompile, EveryMmaTileFitsWithGatesNarrowTypesAndComputedScalesOnHopper) {
    EXPECT_GE(expect_all_fit(general_16bit_problems(), 9, "mma"), 16);
}

TEST_F(KernelCompile, EveryMmaTileFitsWithGatesNarrowTypesAndComputedScalesOnAmpere) {
    EXPECT_GE(expect_all_fit(general_16bit_problems(), 8, "mma"), 14);
}

// In pieces, of a problem each.
class StreamCompile : public KernelCompile, public testing::WithParamInterface<int> {};

TEST_P(StreamCompile, FitsWithoutSpills) {
    std::vector<Problem> problems = of_rows(representative_16bit_problems(), 7);
    for (const Problem& p : of_rows(general_16bit_problems(), 16)) problems.push_back(p);
    EXPECT_GE(expect_all_fit({problems.at(size_t(GetParam()))}, 9, "sm80_stream"), 1);
}
INSTANTIATE_TEST_SUITE_P(Hopper, StreamCompile, testing::Range(0, 9));

TEST_F(KernelCompile, StreamFitsWithoutSpillsOnAmpere) {
    const std::vector<Problem> problems = of_rows(representative_16bit_problems(), 16);
    EXPECT_GE(expect_all_fit({problems[0], problems[3]}, 8, "sm80_stream"), 6);
}

// ---------------------------------------------------------------- the Hopper kernel, in pieces that processes share

// One of its kernels for each tile that it has for a problem, in another cluster each.
std::vector<Kernel> ws_tiles(const Problem& p, const Target& target) {
    std::vector<std::vector<Kernel>> of_tile;
    for (const Config& c : ws_configs(p, target)) {
        const Config* last = of_tile.empty() ? nullptr : &of_tile.back()[0].config;
        if (!last || c.bm != last->bm || c.bn != last->bn || c.pingpong != last->pingpong) of_tile.emplace_back();
        of_tile.back().push_back({&kRowWs, c});
    }
    std::vector<Kernel> tiles;
    for (const std::vector<Kernel>& clusters : of_tile) tiles.push_back(clusters[tiles.size() % clusters.size()]);
    return tiles;
}

constexpr int kWsPieces = 9;
class WsTilesCompile : public KernelCompile, public testing::WithParamInterface<int> {};

TEST_P(WsTilesCompile, FitWithoutSpills) {
    Runtime runtime = planning_runtime();
    const Problem p = make_problem(kBf16, 512, 512, 512, "nt");
    const std::vector<Kernel> tiles = ws_tiles(p, runtime.target);
    EXPECT_GE(tiles.size(), 40u);
    std::vector<Compilation> piece;
    for (size_t i = size_t(GetParam()); i < tiles.size(); i += kWsPieces) piece.push_back({p, tiles[i]});
    expect_fit(piece, runtime);
}
INSTANTIATE_TEST_SUITE_P(Hopper, WsTilesCompile, testing::Range(0, kWsPieces));

struct WsProblem {
    const char* name;
    Problem problem;
};
std::vector<WsProblem> ws_problems() {
    std::vector<WsProblem> all;
    const auto add = [&](const char* name, Types types, const char* layout, bool row_major, auto change) {
        Problem p = make_problem(types, 512, 512, 512, layout, row_major);
        change(p);
        all.push_back({name, p});
    };
    const auto plain = [](Problem&) {};
    const auto activation = [](carat_activation kind) { return [=](Problem& p) { p.epilogue.activation = kind; }; };
    const auto gated = [](carat_gate gate) {
        return [=](Problem& p) { p.epilogue.gate = gate, p.epilogue.activation = CARAT_ACT_SILU; };
    };
    const auto scaled = [](carat_gate gate) {
        return [=](Problem& p) {
            p.epilogue.gate = gate, p.epilogue.activation = gate ? CARAT_ACT_SILU : CARAT_ACT_NONE;
            p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
        };
    };
    const auto everything = [](carat_gate gate) {
        return [=](Problem& p) {
            add_c(p, CARAT_F32), add_bias(p, CARAT_BIAS_N, CARAT_F32);
            p.epilogue.gate = gate, p.epilogue.activation = CARAT_ACT_GELU_ERF;
            p.epilogue.scalars_on_device = 1;
            p.epilogue.clamp = 1, p.epilogue.amax = 1;
            p.epilogue.out_scale = CARAT_OUT_SCALE_ROW;
        };
    };
    const auto odd = [&](auto change) { return [=](Problem& p) { change(p), pad(p, 1); }; };
    constexpr Types kF16 = {CARAT_F16, CARAT_F16}, kF32D = {CARAT_BF16, CARAT_F32};
    constexpr Types kE4m3 = {CARAT_BF16, CARAT_E4M3}, kS8 = {CARAT_F16, CARAT_S8};
    add("nn", kF16, "nn", true, plain);
    add("tn", kBf16, "tn", true, plain);
    add("tt_column", kBf16, "tt", false, plain);
    add("f32_row", kF32D, "nt", true, plain);
    add("f32_column", kF32D, "nt", false, plain);
    add("c", kBf16, "nt", true, [](Problem& p) { add_c(p); });
    add("c_f32", kF32D, "nt", true, [](Problem& p) { add_c(p), p.epilogue.out_scale = CARAT_OUT_SCALE_ROW; });
    add("c_column", kF16, "nt", false, [&](Problem& p) { add_c(p, CARAT_BF16), set_batch(p, 3); });
    add("c_bias_silu", kBf16, "nt", true,
        [&](Problem& p) { add_c(p), add_bias(p, CARAT_BIAS_N), p.epilogue.activation = CARAT_ACT_SILU; });
    add("bias_n", kBf16, "nt", true, [&](Problem& p) { add_bias(p, CARAT_BIAS_N); });
    add("c_bias", kBf16, "nt", true, [&](Problem& p) { add_c(p), add_bias(p, CARAT_BIAS_N); });
    add("all_short_steps", kF16, "nt", true, [&](Problem& p) {
        add_bias(p, CARAT_BIAS_N), p.epilogue.activation = CARAT_ACT_SILU;
        p.epilogue.clamp = 1, p.epilogue.amax = 1, p.epilogue.out_scale = CARAT_OUT_SCALE_ROW;
    });
    add("gelu_tanh", kF32D, "nn", true, activation(CARAT_ACT_GELU_TANH));
    add("gelu_erf", kBf16, "nt", true, activation(CARAT_ACT_GELU_ERF));
    add("gate_interleaved", kBf16, "nt", true, gated(CARAT_GATE_INTERLEAVED));
    add("gate_split", kBf16, "nt", true, gated(CARAT_GATE_SPLIT));
    add("scaled_e4m3", kE4m3, "nt", true, scaled(CARAT_GATE_NONE));
    add("scaled_s8_interleaved", kS8, "nt", false, scaled(CARAT_GATE_INTERLEAVED));
    add("scaled_e4m3_split", kE4m3, "nt", true, scaled(CARAT_GATE_SPLIT));
    add("odd", kBf16, "nn", true, odd(plain));
    add("everything", kBf16, "nt", true, everything(CARAT_GATE_NONE));
    add("everything_interleaved", kF32D, "nn", false, everything(CARAT_GATE_INTERLEAVED));
    add("everything_split", kF16, "nt", true, everything(CARAT_GATE_SPLIT));
    add("everything_odd", kBf16, "tt", true, odd(everything(CARAT_GATE_NONE)));
    return all;
}

// The smallest tile, the largest that the problem has of each form, and one between.
class WsEpiloguesCompile : public KernelCompile, public testing::WithParamInterface<WsProblem> {};

TEST_P(WsEpiloguesCompile, FitWithoutSpills) {
    Runtime runtime = planning_runtime();
    const Problem& p = GetParam().problem;
    const auto accumulators = [](const Config& c) { return c.bm * c.bn / (c.pingpong ? 1 : c.bm == 192 ? 3 : 2); };
    std::vector<Kernel> tiles = ws_tiles(p, runtime.target);
    std::stable_sort(tiles.begin(), tiles.end(),
                     [&](const Kernel& x, const Kernel& y) { return accumulators(x.config) < accumulators(y.config); });
    std::vector<Compilation> all;
    const auto add_largest = [&](bool pingpong) {
        for (size_t i = tiles.size(); i-- > 0;)
            if (tiles[i].config.pingpong == pingpong) return all.push_back({p, tiles[i]});
    };
    add_largest(false), add_largest(true);
    all.push_back({p, tiles.at(0)}), all.push_back({p, tiles[tiles.size() / 2]});
    EXPECT_GE(all.size(), 3u);
    expect_fit(all, runtime);
}
INSTANTIATE_TEST_SUITE_P(Hopper, WsEpiloguesCompile, testing::ValuesIn(ws_problems()),
                         [](const auto& piece) { return std::string(piece.param.name); });

std::vector<std::byte> cubin_of(const std::string& body, const std::string& arch) {
    jit::Request request;
    request.name = "body";
    request.main =
        "#include <ptx/dependent_launch.cuh>\nusing namespace carat_kernel;\nnamespace entry {\n"
        "extern \"C\" __global__ void carat_kernel(float* x) {\n" +
        body + "\n}\n}\n";
    request.arch = arch;
    const auto artifact = jit::Jit({CARAT_JIT_AUTO, ""}).build(request);
    EXPECT_TRUE(artifact.ok()) << artifact.status().sentence();
    return artifact.ok() ? (*artifact)->cubin : std::vector<std::byte>();
}

TEST_F(KernelCompile, DependentLaunchIsAnInstructionOnHopperAndNothingBefore) {
    const std::string plain = "x[0] = 1;", wait = "wait_for_kernels_before(); x[0] = 1;",
                      start = "x[0] = 1; let_next_kernel_start();";
    EXPECT_NE(cubin_of(wait, "sm_90a"), cubin_of(plain, "sm_90a"));
    EXPECT_NE(cubin_of(start, "sm_90a"), cubin_of(plain, "sm_90a"));
    EXPECT_EQ(cubin_of(wait, "sm_80"), cubin_of(plain, "sm_80"));
    EXPECT_EQ(cubin_of(start, "sm_80"), cubin_of(plain, "sm_80"));
}

TEST_F(KernelCompile, APlannedKernelSaysWhyItCannotRun) {
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

TEST(KernelRows, TensorCoreRungsRefuseWithASentence) {
    const Target gpu = find_gpu("h200").value();
    const auto refused = [](const Problem& p, const Target& target) {
        Requirements v4, v5;
        kRowV4Wmma.require(p, target, v4);
        kRowV5Mma.require(p, target, v5);
        EXPECT_EQ(v4.refusal(), v5.refusal());
        return v5.refusal();
    };
    const auto expect_refused = [&](const char* part, auto change) {
        Problem p = of_16bit(f32_problem(8, 8, 8), CARAT_BF16, CARAT_BF16);
        change(p);
        EXPECT_NE(refused(p, gpu).find(part), std::string::npos)
            << "'" << refused(p, gpu) << "' lacks '" << part << "'";
    };
    EXPECT_EQ(refused(of_16bit(f32_problem(8, 8, 8), CARAT_F16, CARAT_F32), gpu), "");
    Target turing = gpu;
    turing.cc_major = 7, turing.cc_minor = 5;
    EXPECT_NE(refused(of_16bit(f32_problem(8, 8, 8), CARAT_F16, CARAT_F32), turing).find("8.0 or newer"),
              std::string::npos);
    expect_refused("both be f16 or both bf16", [](Problem& p) { p.b.dtype = CARAT_F16; });
    expect_refused("D must be", [](Problem& p) { p.d.dtype = CARAT_F16; });
    expect_refused("gated", [](Problem& p) { p.epilogue.gate = CARAT_GATE_SPLIT; });
}

TEST(KernelRows, TensorCoreTilesAndStagesFollowTheSharedMemory) {
    const Problem p = of_16bit(f32_problem(256, 256, 256), CARAT_BF16, CARAT_BF16);
    const auto names = [&](int64_t shared) {
        Target target = find_gpu("h200").value();
        target.shared_bytes_per_block = shared;
        std::string text;
        for (const Row* row : {&kRowV4Wmma, &kRowV5Mma})
            for (const Config& config : row->candidates(p, target)) text += config.name() + " ";
        return text;
    };
    const std::string v4 = "v4_wmma_bf16_bf16_bf16_nn_128x128x64 ", v5 = "v5_mma_bf16_bf16_bf16_nn_";
    EXPECT_EQ(names(227 << 10), v4 + v5 + "128x256x64_s4 " + v5 + "128x128x64_s4 ");
    EXPECT_EQ(names(163 << 10), v4 + v5 + "128x256x64_s3 " + v5 + "128x128x64_s4 ");
    EXPECT_EQ(names(99 << 10), v4 + v5 + "128x128x64_s3 ");
    EXPECT_EQ(names(48 << 10), "");
}

TEST(KernelRows, MmaRefusesWithASentence) {
    const Target hopper = find_gpu("h200").value(), ampere = find_gpu("a100").value();
    const auto refused = [](carat_dtype in, carat_dtype out, const Target& target, auto change) {
        Problem p = of_16bit(f32_problem(8, 8, 8), in, out);
        change(p);
        return refusal(p, target, kRowMma);
    };
    const auto nothing = [](Problem&) {};
    for (const carat_dtype out : {CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_S8, CARAT_E4M3, CARAT_E5M2}) {
        EXPECT_EQ(refused(CARAT_BF16, out, hopper, nothing), "");
        const bool fp8 = out == CARAT_E4M3 || out == CARAT_E5M2;
        EXPECT_EQ(refused(CARAT_F16, out, ampere, nothing).find("rounds to FP8") != std::string::npos, fp8);
    }
    const auto expect_refused = [&](const char* part, auto change) {
        const std::string sentence = refused(CARAT_BF16, CARAT_BF16, hopper, change);
        EXPECT_NE(sentence.find(part), std::string::npos) << "'" << sentence << "' lacks '" << part << "'";
    };
    expect_refused("both be f16 or both bf16", [](Problem& p) { p.b.dtype = CARAT_F16; });
    expect_refused("D must be", [](Problem& p) { p.d.dtype = CARAT_S32; });
    expect_refused("C must be", [](Problem& p) { p.c.dtype = CARAT_E4M3; });
    expect_refused("bias must be", [](Problem& p) { add_bias(p, CARAT_BIAS_N, CARAT_F64); });
    expect_refused("compute mode", [](Problem& p) { p.compute = CARAT_COMPUTE_FAST; });
    expect_refused("groups", [](Problem& p) { p.mode = CARAT_GROUPED; });
    expect_refused("no scales", [](Problem& p) { p.scale_a.recipe = CARAT_SCALE_ROW_WISE; });
    expect_refused("dense", [](Problem& p) { p.sparsity = CARAT_SPARSE_B_24; });
}

TEST(KernelRows, MmaTilesFollowTheSharedMemoryAndTheProblem) {
    const auto tiles = [](Problem p, int64_t shared, auto change) {
        Target target = find_gpu("h200").value();
        target.shared_bytes_per_block = shared;
        change(p);
        std::string text;
        for (const Config& c : kRowMma.candidates(p, target)) text += fmt::format("{}x{}_s{} ", c.bm, c.bn, c.stages);
        return text;
    };
    const Problem nt = of_16bit(f32_problem(256, 256, 256, "nt"), CARAT_BF16, CARAT_BF16);
    const auto nothing = [](Problem&) {};
    EXPECT_EQ(tiles(nt, 227 << 10, nothing), "128x256_s4 128x128_s4 64x256_s4 64x128_s4 128x64_s4 64x64_s4 32x128_s3 ");
    EXPECT_EQ(tiles(nt, 163 << 10, nothing), "128x256_s3 128x128_s4 64x256_s4 64x128_s3 128x64_s3 64x64_s3 32x128_s4 ");
    EXPECT_EQ(tiles(nt, 99 << 10, nothing), "128x256_s2 128x128_s3 64x256_s2 64x128_s4 128x64_s4 64x64_s3 32x128_s4 ");
    EXPECT_EQ(tiles(nt, 48 << 10, nothing), "64x128_s2 128x64_s2 64x64_s3 32x128_s2 ");
    // Two stages of 128 x 256 would not hold it as f32.
    EXPECT_EQ(tiles(nt, 99 << 10, [](Problem& p) { add_c(p); }),
              "128x128_s3 64x256_s2 64x128_s4 128x64_s4 64x64_s3 32x128_s4 ");
    // Boxes of 64 along M.
    EXPECT_EQ(tiles(nt, 99 << 10, [](Problem& p) { p.a.order = CARAT_COL_MAJOR; }),
              "128x256_s2 128x128_s3 64x256_s2 64x128_s4 128x64_s4 64x64_s3 ");
    // Under a gate the tile of D has half of the columns; computed scales want 128.
    const auto gate = [](Problem& p) { p.epilogue.gate = CARAT_GATE_SPLIT; };
    const auto scaled = [](Problem& p) {
        p.d.dtype = CARAT_S8;
        p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
    };
    EXPECT_EQ(tiles(nt, 163 << 10, gate), "128x128_s3 128x64_s4 64x128_s4 64x64_s3 128x32_s3 64x32_s3 32x64_s4 ");
    EXPECT_EQ(tiles(nt, 163 << 10,
                    [&](Problem& p) {
                        gate(p);
                        p.b.order = CARAT_ROW_MAJOR;
                    }),
              "128x128_s3 128x64_s4 64x128_s4 64x64_s3 32x64_s4 ");
    EXPECT_EQ(tiles(nt, 163 << 10, scaled), "128x256_s3 128x128_s4 64x256_s4 64x128_s3 32x128_s4 ");
    EXPECT_EQ(tiles(nt, 99 << 10, [&](Problem& p) { gate(p), scaled(p); }), "64x128_s2 ");
}

// Where threads have to copy element by element, explain says so and the time is longer.
TEST(KernelRows, PitchesThatNoBulkCopyTakesAreNamed) {
    const Target gpu = find_gpu("h200").value();
    Problem even = of_16bit(f32_problem(4096, 4096, 4096), CARAT_BF16, CARAT_BF16), odd = even;
    pad(odd, 1);
    for (const Row* row : {&kRowMma, &kRowV5Mma, &kRowV6Wgmma, &kRowV7WarpSpecialized, &kRowV8Cluster})
        for (const Config& config : row->candidates(even, gpu)) {
            const Prediction fast = row->predict(even, config, gpu), slow = row->predict(odd, config, gpu);
            EXPECT_EQ(std::string(fast.bound).find("copies by threads"), std::string::npos) << config.name();
            EXPECT_NE(std::string(slow.bound).find("copies by threads"), std::string::npos) << config.name();
            EXPECT_GT(slow.us, fast.us) << config.name();
        }
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
