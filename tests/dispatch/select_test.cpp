// SPDX-License-Identifier: Apache-2.0
// Selection without a GPU: what an H200 would run, and why the rest is refused. The golden file holds each row's answer
// and the winner; predicted times are left out, since calibration moves them.

#include "dispatch/select.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/validate.hpp"
#include "dispatch/rows_ws.hpp"

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

// The Hopper row offers its 16 best, but has every tile in every order and with any stages that fit.
TEST(Select, AFullNameNeedNotBeACandidate) {
    const Problem p = problem(4096, 4096, 4096, CARAT_BF16);
    const std::vector<Config> offered = kRowWs.candidates(p, h200());
    const auto is_offered = [&](const std::string& name) {
        return std::any_of(offered.begin(), offered.end(), [&](const Config& c) { return c.name() == name; });
    };
    const std::string types = "sm90_ws_bf16_bf16_bf16_nt_";
    for (const char* rest : {"128x16x64_s10_c1x1_rm4", "128x16x64_s2_c1x1_rn1", "64x16x64_s19_c1x1_pp_rm1000000",
                             "256x208x64_s2_c2x2_rm3", "192x160x64_s3_c1x2_rn2147483647"}) {
        const std::string name = types + rest;
        EXPECT_FALSE(is_offered(name)) << name;
        const auto chosen = select(p, h200(), name);
        ASSERT_TRUE(chosen.ok()) << chosen.status().sentence();
        EXPECT_EQ(chosen->row->name, std::string("sm90_ws"));
        EXPECT_EQ(chosen->config.name(), name);
        EXPECT_GT(chosen->prediction.us, 0);
    }
    // One stage, more than fit, no order, tiles and forms that it does not have, and K of another depth.
    for (const char* rest :
         {"128x256x64_s1_c1x1_rm4", "128x256x64_s5_c1x1_rm4", "128x256x64_s4_c1x1", "128x250x64_s4_c1x1_rm4",
          "320x64x64_s2_c1x1_rm4", "128x256x32_s4_c1x1_rm4", "128x256x64_s4_c4x1_rm4", "128x256x64_s4_c1x1_k2c_rm4"}) {
        const Status status = select(p, h200(), types + rest).status();
        EXPECT_EQ(status.code(), CARAT_NOT_SUPPORTED) << rest;
        EXPECT_NE(status.sentence().find("sm90_ws: it has no configuration " + types + rest), std::string::npos)
            << status.sentence();
    }
}

// A decode step is a read of its weights, whichever operand they are: by the stream, or with the weights on the side of wgmma
// that goes in 64s, and promised to take about as long as the read.
TEST(Select, DecodeStepsReadTheirWeightsOnce) {
    const auto reads_once = [](const Candidate& chosen, bool weights_are_b) {
        const Config& c = chosen.config;
        return (chosen.row->name == std::string_view("sm80_stream") ||
                chosen.row->name == std::string_view("sm90_ws")) &&
               (chosen.row->name == std::string_view("sm90_ws") ? c.swapped == weights_are_b && c.bn <= 16
                                                                : c.swapped != weights_are_b && c.bm <= 16);
    };
    for (const int64_t m : {1, 7, 8, 9, 16})
        for (const auto& [n, k] :
             {std::pair<int64_t, int64_t>{576, 7168}, {2112, 7168}, {4096, 4096}, {128256, 4096}}) {
            const auto chosen = select(problem(m, n, k, CARAT_BF16), h200());
            ASSERT_TRUE(chosen.ok()) << chosen.status().sentence();
            EXPECT_TRUE(reads_once(*chosen, true)) << chosen->config.name();
            const Floor floor = floor_of(problem(m, n, k, CARAT_BF16), h200());
            EXPECT_GE(chosen->prediction.us, 0.97 * floor.us) << chosen->config.name();
            EXPECT_LE(chosen->prediction.us, 1.5 * floor.us + 2) << chosen->config.name();
            const auto swapped = select(problem(n, m, k, CARAT_BF16), h200());
            ASSERT_TRUE(swapped.ok()) << swapped.status().sentence();
            EXPECT_TRUE(reads_once(*swapped, false)) << swapped->config.name();
        }
    EXPECT_STRNE(select(problem(17, 4096, 4096, CARAT_BF16), h200())->row->name, "sm80_stream");
}

TEST(Select, AStreamHasAnyRingThatFits) {
    const std::string types = "sm80_stream_bf16_bf16_bf16_nt_";
    const Problem p = problem(8, 1024, 4096, CARAT_BF16);
    const auto code = [](const Problem& of, const std::string& name) {
        return select(of, h200(), name).status().code();
    };
    for (const char* rest :
         {"8x32x512_t8x32_s2", "8x32x512_t8x32_s5", "8x16x512_t8x16_s8_k8c", "8x32x512_t8x32_s3_k4c"})
        EXPECT_EQ(code(p, types + rest), CARAT_SUCCESS) << rest;
    // Rings of one step and of too many, a cluster of three, rows and a shape that it does not have.
    for (const char* rest : {"8x32x512_t8x32_s1", "8x32x512_t8x32_s6", "8x32x512_t8x32_s3_k3c", "16x32x512_t16x32_s3",
                             "8x48x512_t8x48_s3", "8x32x512_t8x32_s4_swap"})
        EXPECT_EQ(code(p, types + rest), CARAT_NOT_SUPPORTED) << rest;
    // Scales of 128 columns of D want a tile of as many; a row-major B comes in lines of 64.
    Problem scaled = p;
    scaled.d.dtype = CARAT_E4M3;
    scaled.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
    EXPECT_EQ(code(scaled, "sm80_stream_bf16_bf16_e4m3_nt_8x128x128_t8x32_s4"), CARAT_SUCCESS);
    EXPECT_EQ(code(scaled, "sm80_stream_bf16_bf16_e4m3_nt_8x32x512_t8x32_s4"), CARAT_NOT_SUPPORTED);
    const Problem lines = problem(8, 1024, 4096, CARAT_BF16, "nn");
    EXPECT_EQ(code(lines, "sm80_stream_bf16_bf16_bf16_nn_8x64x256_t8x64_s4"), CARAT_SUCCESS);
    EXPECT_EQ(code(lines, "sm80_stream_bf16_bf16_bf16_nn_8x32x512_t8x32_s4"), CARAT_NOT_SUPPORTED);
}

TEST(Select, AFullNameMustSuitTheProblem) {
    const std::string tile = "128x96x64_s4_c1x1_rm4", cluster = "128x128x64_s4_c2x1_rm4";
    const auto code = [](const Problem& p, const std::string& name) { return select(p, h200(), name).status().code(); };
    const Problem nt = problem(512, 512, 512, CARAT_BF16), nn = problem(512, 512, 512, CARAT_BF16, "nn");
    EXPECT_EQ(code(nt, "sm90_ws_bf16_bf16_bf16_nt_" + tile), CARAT_SUCCESS);
    EXPECT_EQ(code(nn, "sm90_ws_bf16_bf16_bf16_nt_" + tile), CARAT_NOT_SUPPORTED);
    EXPECT_EQ(code(nt, "sm90_ws_f16_f16_f16_nt_" + tile), CARAT_NOT_SUPPORTED);
    // Row-major B comes in boxes of 64 columns.
    EXPECT_EQ(code(nn, "sm90_ws_bf16_bf16_bf16_nn_" + tile), CARAT_NOT_SUPPORTED);
    EXPECT_EQ(code(nt, "sm90_ws_bf16_bf16_bf16_nt_" + cluster), CARAT_SUCCESS);
    Problem odd = nt;
    odd.a.ld = 513;  // threads copy A, and reach no other block
    EXPECT_EQ(code(odd, "sm90_ws_bf16_bf16_bf16_nt_" + cluster), CARAT_NOT_SUPPORTED);
    EXPECT_EQ(code(odd, "sm90_ws_bf16_bf16_bf16_nt_" + tile), CARAT_SUCCESS);
    // Neither do they have the registers for more than 128 accumulators, nor has C for more than 160.
    const std::string large = "128x192x64_s4_c1x1_pp_rm1", largest = "256x208x64_s3_c1x1_rm1";
    EXPECT_EQ(code(nt, "sm90_ws_bf16_bf16_bf16_nt_" + large), CARAT_SUCCESS);
    EXPECT_EQ(code(odd, "sm90_ws_bf16_bf16_bf16_nt_" + large), CARAT_NOT_SUPPORTED);
    Problem with_c = nt;
    with_c.c = nt.d;
    EXPECT_EQ(code(nt, "sm90_ws_bf16_bf16_bf16_nt_" + largest), CARAT_SUCCESS);
    EXPECT_EQ(code(with_c, "sm90_ws_bf16_bf16_bf16_nt_" + largest), CARAT_NOT_SUPPORTED);
    const Target ampere = *find_gpu("a100");
    EXPECT_EQ(select(nt, ampere, "sm90_ws_bf16_bf16_bf16_nt_" + tile).status().code(), CARAT_NOT_SUPPORTED);
}

// K in 1 to 80 parts that come together through L2 can be had of any tile of a lone block that takes no turns.
TEST(Select, PartsThroughL2AndTheirWorkspace) {
    const std::string types = "sm90_ws_bf16_bf16_bf16_nt_";
    const Problem p = problem(512, 512, 4096, CARAT_BF16);
    const auto workspace = [&](const std::string& rest) {
        const auto chosen = select(p, h200(), types + rest);
        EXPECT_TRUE(chosen.ok()) << chosen.status().sentence();
        return chosen.ok() ? workspace_bytes({chosen->row, chosen->config, {}}, p) : 0;
    };
    // 4 x 4 tiles of f32; of each a word for each of 8 warps; where both begin, and a workspace at any address: 256.
    const size_t tiles = 4 * 4, tile = 128 * 128 * 4;
    EXPECT_EQ(workspace("128x128x64_s4_c1x1_k1s_rm4"), 0u);
    EXPECT_EQ(workspace("128x128x64_s4_c1x1_k1w_rm4"), 0u);
    EXPECT_EQ(workspace("128x128x64_s4_c1x1_k7s_rm4"), 256 + 512 + tiles * tile);
    EXPECT_EQ(workspace("128x128x64_s4_c1x1_k80s_rm4"), 256 + 512 + tiles * tile);
    EXPECT_EQ(workspace("128x128x64_s4_c1x1_k7w_rm4"), 256 + 7 * tiles * tile);
    for (const auto& [limit, fits] : {std::pair(256 + 511 + tiles * tile, false), {256 + 512 + tiles * tile, true}}) {
        const Selection selection = consider(p, h200(), types + "128x128x64_s4_c1x1_k7s_rm4", limit);
        EXPECT_EQ(selection.winner != nullptr, fits) << limit;
    }
    const auto code = [&](const std::string& rest) { return select(p, h200(), types + rest).status().code(); };
    for (const char* rest : {"128x128x64_s4_c1x1_k81s_rm4", "128x128x64_s4_c2x1_k2s_rm4",
                             "128x128x64_s4_c1x1_k2w_pp_rm4", "256x208x64_s3_c1x1_k2s_rm4"})
        EXPECT_EQ(code(rest), CARAT_NOT_SUPPORTED) << rest;
    EXPECT_EQ(code("256x208x64_s3_c1x1_k2w_rm4"), CARAT_SUCCESS);
    // Stream-K: a slot for each block that there may be, whatever the tiles; also in clusters that share operands.
    EXPECT_EQ(workspace("128x128x64_s4_c1x1_sk_rm4"), 256 + round_up(132 * 8 * 4, 256) + 132 * tile);
    EXPECT_EQ(workspace("128x128x64_s4_c2x1_sk_rm4"), workspace("128x128x64_s4_c1x1_sk_rm4"));
    for (const char* rest : {"128x128x64_s4_c1x1_sk_pp_rm4", "256x208x64_s3_c1x1_sk_rm4"})
        EXPECT_EQ(code(rest), CARAT_NOT_SUPPORTED) << rest;
    EXPECT_EQ(kRowWs.batch_invariant(p, *Config::parse(types + "128x128x64_s4_c1x1_sk_rm4")), false);
    EXPECT_EQ(kRowWs.batch_invariant(p, *Config::parse(types + "128x128x64_s4_c1x1_k7s_rm4")), false);
    // Beside copies of the operands.
    const Problem odd = problem(512, 512, 4097, CARAT_BF16);
    const Config aligned = *Config::parse(types + "128x128x64_s4_c1x1_k7w_rm4_aligned");
    ASSERT_TRUE(kRowWs.has(odd, aligned, h200()));
    Config whole = aligned;
    whole.split_k = 0, whole.split_form = SplitForm::none;
    EXPECT_EQ(kRowWs.workspace_bytes(odd, aligned), kRowWs.workspace_bytes(odd, whole) + 256 + 7 * tiles * tile);
}

// Splits through L2 are offered to the tuner where SMs would be idle. Of up to 128 rows, where a cluster has room for K, none is
// chosen, but for the one that was measured to be the fastest.
TEST(Select, SplitsThroughL2AreOfferedAndChosenWhereTheyWin) {
    const auto in_l2 = [](const Candidate& one) {
        const SplitForm form = one.config.split_form;
        return form != SplitForm::none && form != SplitForm::cluster;
    };
    for (const int64_t m : {1, 16, 64, 128, 256, 512, 1024, 4096})
        for (const auto& [n, k] : {std::pair<int64_t, int64_t>{2112, 7168}, {576, 7168}, {4096, 7168}, {6144, 4096}}) {
            const Problem p = problem(m, n, k, CARAT_BF16);
            const auto all = rank(p, h200(), "sm90_ws");
            ASSERT_TRUE(all.ok()) << all.status().sentence();
            const auto whole =
                std::find_if(all->begin(), all->end(), [&](const Candidate& one) { return !in_l2(one); });
            ASSERT_NE(whole, all->end());
            if (m == 128 && n == 2112) {
                EXPECT_EQ(all->front().config.split_form, SplitForm::workspace);
            } else if (m <= 128) {
                EXPECT_EQ(whole, all->begin()) << describe(p);
            }
            std::string forms;
            for (const Candidate& one : *all)
                if (in_l2(one)) forms += char(one.config.split_form);
            const bool few_tiles = m * n <= 66 * 64 * 64;
            if (few_tiles) {
                EXPECT_NE(forms.find('s'), std::string::npos) << describe(p);
                EXPECT_NE(forms.find('w'), std::string::npos) << describe(p);
            }
            if (m >= 512) {
                EXPECT_NE(forms.find('k'), std::string::npos) << describe(p);
            }
        }
}

// The fewer tiles share the clusters, the more clusters of one tile wait for each other.
TEST(Select, StreamKOfFewTilesIsAChain) {
    const auto us = [](int64_t m, const char* form) {
        const Problem p = problem(m, 512, 8192, CARAT_BF16);
        return kRowWs
            .predict(p, *Config::parse(std::string("sm90_ws_bf16_bf16_bf16_nt_128x128x64_s6_c1x1_") + form + "_rm4"),
                     h200())
            .us;
    };
    EXPECT_GT(us(512, "sk"), us(512, "k8w"));           // 16 tiles, each of 8 clusters and more
    EXPECT_LT(us(4096, "sk"), 1.05 * us(4096, "k2s"));  // 128 tiles, each of two; the 5 % are doubt
}

TEST(Select, WhyThereIsNoSplit) {
    const Problem p = problem(512, 512, 4096, CARAT_BF16);
    const auto why = [&](const std::string& rest, const Problem& of) {
        return select(of, h200(), "sm90_ws_bf16_bf16_bf16_nt_" + rest).status().sentence();
    };
    const auto expect_why = [&](const std::string& rest, const Problem& of, const char* words) {
        EXPECT_NE(why(rest, of).find(words), std::string::npos) << why(rest, of);
    };
    expect_why("128x128x64_s4_c1x1_sk_pp_rm4", p, "leave _pp out");
    expect_why("128x128x64_s4_c2x1_k2s_rm4", p, "ask for _c1x1 or _sk");
    expect_why("256x208x64_s3_c1x1_sk_rm4", p, "ask for a smaller one");
    expect_why("128x128x64_s4_c1x1_k81w_rm4", p, "more than 80 parts");
    expect_why("128x128x64_s4_c1x1_sk_rm4", problem(512, 512, 4097, CARAT_BF16), "ask for _aligned");
    expect_why("128x120x64_s4_c2x1_sk_rm4", p, "see what it has with");
}

TEST(Select, StreamKIsNotBatchInvariant) {
    Problem p = problem(512, 512, 4096, CARAT_BF16);
    p.numerics = CARAT_BATCH_INVARIANT;
    const auto chosen = select(p, h200(), "sm90_ws_bf16_bf16_bf16_nt_128x128x64_s4_c1x1_sk_rm4");
    EXPECT_NE(chosen.status().sentence().find("numerics batch_invariant forbids"), std::string::npos)
        << chosen.status().sentence();
}

Problem with_numerics(Problem p, carat_numerics numerics) {
    p.numerics = numerics;
    return p;
}

// One row for every M: two rows need not give the same bits.
TEST(Select, BatchInvariantResultsComeFromOneRow) {
    for (const carat_dtype dtype : {CARAT_BF16, CARAT_F32})
        for (const char* target : {"h200", "a100"}) {
            std::string row;
            for (const int64_t m : {1, 2, 7, 16, 33, 64, 300, 1024, 4096, 16384}) {
                const Problem p = with_numerics(problem(m, 4096, 4096, dtype), CARAT_BATCH_INVARIANT);
                const auto all = rank(p, *find_gpu(target));
                ASSERT_TRUE(all.ok()) << all.status().sentence();
                if (row.empty()) row = all->front().row->name;
                for (const Candidate& candidate : *all) {
                    EXPECT_EQ(candidate.row->name, row) << describe(p) << " on " << target;
                    EXPECT_EQ(candidate.config.split_form, SplitForm::none);
                }
            }
        }
}

TEST(Select, RowsThatPromiseNoBatchInvarianceAreRefused) {
    const Problem p = with_numerics(problem(512, 512, 512, CARAT_BF16), CARAT_BATCH_INVARIANT);
    const auto by_name = select(p, h200(), "v6_wgmma");
    EXPECT_EQ(by_name.status().code(), CARAT_NOT_SUPPORTED);
    EXPECT_NE(by_name.status().sentence().find("numerics batch_invariant asks"), std::string::npos);
    EXPECT_TRUE(select(p, h200(), "mma").ok());
    const Selection selection = consider(p, h200());
    EXPECT_STREQ(selection.winner->row->name, "sm90_ws");
    for (const Considered& entry : selection.considered)
        if (std::string_view(entry.row->name) != "sm90_ws" && std::string_view(entry.row->name) != "sm80_stream") {
            EXPECT_EQ(entry.refusal, "all batch-invariant results come from sm90_ws");
        }
    EXPECT_NE(describe(p).find(" batch_invariant"), std::string::npos);
    // Where atomics are allowed the choice is the same, as no kernel has them.
    const Problem plain = problem(512, 512, 512, CARAT_BF16);
    EXPECT_EQ(select(with_numerics(plain, CARAT_FAST), h200())->config, select(plain, h200())->config);
}

TEST(Select, WhatNeedsTooMuchWorkspaceIsRuledOutAndTold) {
    const Problem p = problem(4096, 4096, 4097, CARAT_BF16);
    const Selection all = consider(p, h200()), none = consider(p, h200(), {}, 0);
    ASSERT_TRUE(all.winner && none.winner);
    EXPECT_TRUE(all.winner->config.aligned);
    EXPECT_FALSE(none.winner->config.aligned);
    const auto of_ws = [](const Selection& selection) -> const Considered& {
        return *std::find_if(selection.considered.begin(), selection.considered.end(),
                             [](const Considered& one) { return one.row == find_row("sm90_ws"); });
    };
    const Considered &before = of_ws(all), &after = of_ws(none);
    EXPECT_EQ(after.candidates.size() + after.ruled_out.size(), before.candidates.size());
    const size_t bytes = workspace_bytes(*all.winner, p);
    ASSERT_FALSE(after.ruled_out.empty());
    EXPECT_EQ(after.ruled_out[0].reason,
              fmt::format("it needs {} bytes of workspace, but workspace_limit is 0", bytes));
    EXPECT_EQ(consider(p, h200(), {}, bytes).winner->config, all.winner->config);
    // By name nothing is left.
    const Status status = rank(p, h200(), all.winner->config.name(), bytes - 1).status();
    EXPECT_EQ(status.code(), CARAT_INVALID_VALUE);
    for (const std::string& part :
         {std::string("raise workspace_limit"), all.winner->config.name(), fmt::format("{}", bytes)})
        EXPECT_NE(status.sentence().find(part), std::string::npos) << status.sentence();
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
