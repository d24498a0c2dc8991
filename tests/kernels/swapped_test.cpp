// SPDX-License-Identifier: Apache-2.0
// D^T = B^T A^T: what a problem with swapped operands is, and that an executable for it gives the problem's own D. The
// CPU's reference runs both.
#include "dispatch/swapped.hpp"

#include <gtest/gtest.h>

#include <array>

#include "cpu/threads.hpp"
#include "dispatch/aligned.hpp"
#include "dispatch/rows_cpu.hpp"
#include "dispatch/rows_ws.hpp"
#include "dispatch/runtime.hpp"
#include "dispatch/split_k.hpp"
#include "kernels/gemm_case.hpp"

namespace carat::test {
namespace {

Problem batched_with_everything(const char* layout, bool row_major_d, carat_bias bias) {
    Problem p = make_problem({CARAT_BF16, CARAT_F16}, 37, 21, 45, layout, row_major_d);
    set_pitch(p, Pitch::odd);
    set_batch(p, 3);
    p.c = p.d;
    p.c.dtype = CARAT_F32;
    carat_epilogue& e = p.epilogue;
    e.bias = bias, e.bias_dtype = CARAT_F32;
    if (bias != CARAT_BIAS_NONE) e.bias_batch_stride = 64;
    e.activation = CARAT_ACT_SILU;
    e.amax = 1;
    e.out_scale = CARAT_OUT_SCALE_TENSOR;
    return p;
}

TEST(Swapped, TwiceIsTheProblem) {
    for (const char* layout : {"nn", "nt", "tn", "tt"}) {
        const Problem p = batched_with_everything(layout, true, CARAT_BIAS_N);
        const Problem q = swap_operands(p);
        EXPECT_EQ(q.m, p.n);
        EXPECT_EQ(q.n, p.m);
        EXPECT_EQ(q.epilogue.bias, CARAT_BIAS_M);
        EXPECT_EQ(q.d.order, CARAT_COL_MAJOR);
        EXPECT_EQ(describe(swap_operands(q)), describe(p));
    }
}

TEST(Swapped, GivesTheProblemsD) {
    for (const char* layout : {"nn", "nt", "tn", "tt"})
        for (const bool row_major_d : {true, false})
            for (const carat_bias bias : {CARAT_BIAS_NONE, CARAT_BIAS_N, CARAT_BIAS_M}) {
                const Problem p = batched_with_everything(layout, row_major_d, bias);
                GemmCase gemm(p, Data::normal, 5, 0.5, 2);
                Runtime runtime;
                runtime.threads = std::make_shared<cpu::ThreadPool>(1);
                auto executable = kRowCpuReference.prepare(swap_operands(p), {}, runtime);
                ASSERT_TRUE(executable.ok()) << executable.status().sentence();
                float amax = NAN;
                carat_operands operands = gemm.operands();
                operands.amax = &amax;
                ASSERT_TRUE(swap_operands(std::move(*executable))->execute(operands, nullptr).ok());
                EXPECT_EQ(gemm.verify(amax), "");
            }
}

TEST(Swapped, NotWhatIsTiedToRowsOrColumns) {
    const Problem plain = make_problem({CARAT_BF16, CARAT_BF16}, 64, 64, 64, "nt");
    EXPECT_TRUE(can_swap(plain));
    Problem gated = plain, by_row = plain, pointers = plain;
    gated.epilogue.gate = CARAT_GATE_SPLIT;
    by_row.epilogue.out_scale = CARAT_OUT_SCALE_ROW;
    pointers.mode = CARAT_BATCHED_POINTERS;
    for (const Problem& p : {gated, by_row, pointers}) EXPECT_FALSE(can_swap(p)) << describe(p);
}

// An odd pitch brings forms on aligned copies, whose workspace the row tells; where none may be had, others are left.
TEST(Aligned, IsACandidateThatTheRowHas) {
    const Target h200 = *find_gpu("h200");
    const Problem p = make_problem({CARAT_BF16, CARAT_BF16}, 4096, 4096, 4097, "nt");
    int aligned = 0, as_it_is = 0;
    for (const Config& config : kRowWs.candidates(p, h200)) {
        ++(config.aligned ? aligned : as_it_is);
        EXPECT_EQ(Config::parse(config.name()).value(), config);
        EXPECT_TRUE(kRowWs.has(p, config, h200)) << config.name();
        EXPECT_EQ(kRowWs.workspace_bytes(p, undivided(config)), config.aligned ? 256 + 2 * 4096 * 4160 * 2 : 0)
            << config.name();
    }
    EXPECT_GT(aligned, 0);
    EXPECT_GT(as_it_is, 0) << "for callers without a workspace";
    Config config = kRowWs.candidates(p, h200).front();
    EXPECT_TRUE(config.aligned);
    EXPECT_FALSE(kRowWs.has(make_problem({CARAT_BF16, CARAT_BF16}, 4096, 4096, 4096, "nt"), config, h200));
}

// The engine's coordinates are of 31 bits, and so are the elements of a line that a warp copies.
TEST(Aligned, NotLinesOf2To31Elements) {
    const int64_t beyond = (int64_t(1) << 31) + 1;
    EXPECT_TRUE(can_align(make_problem({CARAT_BF16, CARAT_BF16}, 1, 1, INT32_MAX, "nt")));
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, beyond}, {beyond, 1, 9}, {1, beyond, 9}})
        EXPECT_FALSE(can_align(make_problem({CARAT_BF16, CARAT_BF16}, m, n, k, "nt"))) << m << " " << n << " " << k;
}

// A candidate's name is the problem's; what it stands for is a configuration of the swapped one.
TEST(Swapped, IsACandidateThatTheRowHas) {
    const Target h200 = *find_gpu("h200");
    for (const char* layout : {"nn", "nt", "tn", "tt"}) {
        const Problem p = make_problem({CARAT_BF16, CARAT_BF16}, 1024, 2112, 7168, layout);
        int found = 0;
        for (const Config& config : kRowWs.candidates(p, h200)) {
            if (!config.swapped) continue;
            ++found;
            EXPECT_EQ(config.layout, layout);
            EXPECT_EQ(Config::parse(config.name()).value(), config);
            EXPECT_TRUE(kRowWs.has(p, config, h200)) << config.name();
            const Problem other = swap_operands(p);
            EXPECT_TRUE(kRowWs.has(other, unswapped(config, other), h200)) << config.name();
            EXPECT_EQ(swapped(unswapped(config, other), p), config);
            EXPECT_EQ(kRowWs.predict(p, config, h200).us, kRowWs.predict(other, unswapped(config, other), h200).us);
        }
        EXPECT_GT(found, 0) << layout;
    }
}

}  // namespace
}  // namespace carat::test
