// SPDX-License-Identifier: Apache-2.0
// The Hopper kernel with K in parts that come together through L2, without a GPU: what it compiles to, and its workspace.
#include <gtest/gtest.h>

#include <array>

#include "dispatch/registry.hpp"
#include "dispatch/rows_ws.hpp"
#include "dispatch/runtime.hpp"
#include "dispatch/ws_tiles.hpp"
#include "jit/jit.hpp"
#include "kernels/problems.hpp"

namespace carat::test {
namespace {

// In parts through L2, in forms and numbers that change with the tile.
TEST(SplitCompile, EveryFormFitsWithoutSpills) {
    if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
    Runtime runtime;
    runtime.target = *find_gpu("h200");
    runtime.jit = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
    const Problem plain = make_problem(kBf16, 512, 512, 4096, "nt");
    Problem gated = plain, with_c = plain, scaled = make_problem({CARAT_BF16, CARAT_E4M3}, 512, 512, 4096, "nt");
    gated.epilogue.gate = CARAT_GATE_SPLIT, gated.epilogue.activation = CARAT_ACT_SILU;
    add_c(with_c), add_bias(with_c, CARAT_BIAS_N);
    scaled.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
    size_t turn = 0;
    for (const Problem& p : {plain, gated, with_c, scaled})
        for (Config c : ws_configs(p, runtime.target)) {
            const bool some =
                (c.bm == 64 && c.bn == 256) || (c.bm == 128 && c.bn == 256) || (c.bm == 256 && c.bn == 192);
            c.split_form = std::array{SplitForm::workspace, SplitForm::stream_k, SplitForm::serial}[turn % 3];
            c.split_k = c.split_form == SplitForm::stream_k ? 0 : std::array{2, 3, 7, 80}[turn % 4];
            if (!some || !kRowWs.has(p, c, runtime.target)) continue;
            ++turn;
            const auto executable = kRowWs.prepare(p, c, runtime);
            ASSERT_TRUE(executable.ok()) << executable.status().sentence();  // one that spills is refused
            EXPECT_EQ((*executable)->workspace_bytes(), kRowWs.workspace_bytes(p, c));
        }
    EXPECT_GE(turn, 9u);
}

// Dealing out steps takes registers of the producer in a pair, and of the consumers where the epilogue has most of them.
TEST(SplitCompile, StreamKUnderGatesFitsWithoutSpills) {
    if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
    Runtime runtime;
    runtime.target = *find_gpu("h200");
    runtime.jit = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
    for (const carat_gate gate : {CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT})
        for (const int amax : {0, 1}) {
            Problem p = make_problem(kBf16, 300, 512, 1000, "nt");
            p.epilogue.gate = gate, p.epilogue.activation = CARAT_ACT_SILU;
            add_bias(p, CARAT_BIAS_N);
            p.epilogue.amax = amax, p.epilogue.scalars_on_device = 1;
            int compiled = 0;
            for (Config c : ws_configs(p, runtime.target)) {
                c.split_form = SplitForm::stream_k;
                const bool largest = (c.bm == 256 && c.bn >= 96) || (c.bm == 128 && c.bn >= 192);
                if (!largest || !kRowWs.has(p, c, runtime.target)) continue;
                ++compiled;
                const auto executable = kRowWs.prepare(p, c, runtime);
                EXPECT_TRUE(executable.ok()) << executable.status().sentence();
            }
            EXPECT_GE(compiled, 2) << describe(p);
        }
}

}  // namespace
}  // namespace carat::test
