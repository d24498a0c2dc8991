// SPDX-License-Identifier: Apache-2.0
// target_test.cpp: the table of GPUs, matching a device to it, rates of type pairs, the streaming-read curve.
#include "limits/target.hpp"

#include <gtest/gtest.h>

#include <set>

namespace carat {
namespace {

TEST(Target, H200HasTheMeasuredNumbers) {
    const Result<Target> t = find_gpu("H200");
    ASSERT_TRUE(t.ok());
    EXPECT_EQ(t->name, "h200");
    EXPECT_EQ(t->backend, CARAT_BACKEND_CUDA);
    EXPECT_EQ(t->arch(), "sm_90a");
    EXPECT_EQ(t->units, 132);
    EXPECT_EQ(t->shared_bytes_per_block, 232448);
    EXPECT_EQ(t->l2_bytes, 62914560);
    EXPECT_EQ(t->memory_bytes, 141000000000);
    EXPECT_DOUBLE_EQ(t->launch_us, 0.57);
    EXPECT_DOUBLE_EQ(t->f16_tflops, 800);
    EXPECT_DOUBLE_EQ(t->fp8_tflops, 1600);
    EXPECT_DOUBLE_EQ(t->s8_tflops, 1600);
    EXPECT_DOUBLE_EQ(t->tf32_tflops, 400);
    EXPECT_DOUBLE_EQ(t->f32_tflops, 62);
    EXPECT_NE(t->source.find("measured"), std::string::npos);
    EXPECT_NEAR(t->l2_tb_per_s, 39 * 132 * 1.98e-3, 1e-9);
}

TEST(Target, TableIsSane) {
    std::set<std::string> names;
    for (const Target& t : known_gpus()) {
        EXPECT_TRUE(names.insert(t.name).second) << t.name;
        EXPECT_TRUE(t.name == "h200" || t.source.find("datasheet") == 0) << t.name;
        EXPECT_GT(t.units, 0) << t.name;
        EXPECT_GT(t.f16_tflops, 0) << t.name;
        ASSERT_GE(t.read_curve.size(), 2u) << t.name;
        for (size_t i = 1; i < t.read_curve.size(); ++i) {
            EXPECT_LT(t.read_curve[i - 1].bytes, t.read_curve[i].bytes) << t.name;
            EXPECT_LT(t.read_curve[i - 1].us, t.read_curve[i].us) << t.name;
        }
    }
    EXPECT_EQ(find_gpu("a100")->arch(), "sm_80");
    EXPECT_EQ(find_gpu("a100")->fp8_tflops, 0);  // Ampere has no FP8 unit
    EXPECT_EQ(find_gpu("a100")->l2_tb_per_s, 0) << "no datasheet says it";
    EXPECT_EQ(find_gpu("l40s")->arch(), "sm_89");
    EXPECT_EQ(find_gpu("h100")->arch(), "sm_90a");
    // 3.35 of 4.8 TB/s: the same time streams 0.698 of the bytes.
    EXPECT_NEAR(find_gpu("h100")->read_us(1050673152 * 3.35 / 4.8), 231.48, 1e-6);
    EXPECT_NEAR(find_gpu("h20")->f16_tflops, 800 * 148 / 989.4, 1e-9);
}

TEST(Target, UnknownNameListsTheKnownOnes) {
    const Result<Target> t = find_gpu("b200");
    ASSERT_FALSE(t.ok());
    EXPECT_EQ(t.status().code(), CARAT_INVALID_VALUE);
    EXPECT_EQ(t.status().sentence(), "unknown GPU target 'b200': use one of h200, h100, h20, l40s, a100");
    EXPECT_FALSE(find_gpu("").ok());
}

TEST(Target, MatchTakesTheRowAndTheDriversFacts) {
    const Target t = match_gpu("NVIDIA H200", 9, 0, 132, 50 << 20, 150'000'000'000, 232448);
    EXPECT_EQ(t.name, "h200");
    EXPECT_EQ(t.full_name, "NVIDIA H200");
    EXPECT_EQ(t.l2_bytes, 50 << 20);
    EXPECT_EQ(t.memory_bytes, 150'000'000'000);
    EXPECT_DOUBLE_EQ(t.f16_tflops, 800);
    EXPECT_EQ(match_gpu("NVIDIA H100 80GB HBM3", 9, 0, 132, 0, 0, 0).name, "h100");
    EXPECT_EQ(match_gpu("NVIDIA H20", 9, 0, 78, 0, 0, 0).name, "h20");
    EXPECT_EQ(match_gpu("NVIDIA A100-SXM4-80GB", 8, 0, 108, 0, 0, 0).name, "a100");
    EXPECT_EQ(match_gpu("NVIDIA L40S", 8, 9, 142, 0, 0, 0).name, "l40s");
}

TEST(Target, RatesFollowTheNumberOfSms) {
    const Target t = match_gpu("NVIDIA H100 PCIe", 9, 0, 114, 0, 0, 0);
    EXPECT_EQ(t.name, "h100");
    EXPECT_EQ(t.units, 114);
    EXPECT_NEAR(t.f16_tflops, 800.0 * 114 / 132, 1e-9);
    EXPECT_NE(t.source.find("from 132 to 114 SMs"), std::string::npos);
}

TEST(Target, UnknownDevicesGetTheNearestCapability) {
    const Target ada = match_gpu("NVIDIA GeForce RTX 4090", 8, 9, 128, 0, 24'000'000'000, 101376);
    EXPECT_EQ(ada.name, "geforce_rtx_4090");
    EXPECT_EQ(ada.arch(), "sm_89");
    EXPECT_NE(ada.source.find("stands in: NVIDIA L40S"), std::string::npos);
    const Target a10 = match_gpu("NVIDIA A10", 8, 6, 72, 0, 0, 0);
    EXPECT_EQ(a10.arch(), "sm_86");
    EXPECT_EQ(a10.fp8_tflops, 0);  // though the L40S that stands in has it
    const Target turing = match_gpu("Tesla T4", 7, 5, 40, 0, 0, 0);
    EXPECT_EQ(turing.arch(), "sm_75");
    EXPECT_EQ(turing.tf32_tflops, 0);
    EXPECT_NE(turing.source.find("A100"), std::string::npos);
    EXPECT_EQ(match_gpu("NVIDIA B200", 10, 0, 148, 0, 0, 0).arch(), "sm_100");
    EXPECT_EQ(match_gpu("", 9, 0, 132, 0, 0, 0).name, "sm_90");
    // A name alone is not enough: an "H100" that reports 8.0 is no H100.
    EXPECT_NE(match_gpu("H100", 8, 0, 108, 0, 0, 0).source.find("stands in: NVIDIA A100"), std::string::npos);
}

TEST(Target, RateOfEveryPair) {
    const Target t = *find_gpu("h200");
    const auto rate = [&](carat_dtype a, carat_dtype b, carat_compute compute = CARAT_COMPUTE_DEFAULT) {
        return t.rate_tflops(a, b, compute);
    };
    EXPECT_NEAR(rate(CARAT_F64, CARAT_F64), 54.27, 1e-9);
    EXPECT_EQ(rate(CARAT_F32, CARAT_F32), 62);
    EXPECT_EQ(rate(CARAT_F32, CARAT_F32, CARAT_COMPUTE_F32), 62);
    EXPECT_EQ(rate(CARAT_F32, CARAT_F32, CARAT_COMPUTE_TF32), 400);
    EXPECT_DOUBLE_EQ(rate(CARAT_F32, CARAT_F32, CARAT_COMPUTE_3XTF32), 400.0 / 3);
    EXPECT_DOUBLE_EQ(rate(CARAT_F32, CARAT_F32, CARAT_COMPUTE_BF16X9), 800.0 / 9);
    EXPECT_EQ(rate(CARAT_BF16, CARAT_BF16), 800);
    EXPECT_EQ(rate(CARAT_F16, CARAT_F16), 800);
    EXPECT_EQ(rate(CARAT_E4M3, CARAT_E5M2), 1600);
    EXPECT_EQ(rate(CARAT_E5M2, CARAT_E4M3, CARAT_COMPUTE_FAST), 1600);
    EXPECT_EQ(rate(CARAT_S8, CARAT_S8), 1600);
    for (carat_dtype weight : {CARAT_S8, CARAT_E4M3, CARAT_S4, CARAT_U4}) EXPECT_EQ(rate(CARAT_BF16, weight), 800);
    EXPECT_EQ(rate(CARAT_E4M3, CARAT_BF16), 800);  // the wider decides, whichever side it is on
    EXPECT_EQ(rate(CARAT_NONE, CARAT_NONE), 0);
}

TEST(Target, MissingUnitsFallBackToWiderOnes) {
    const Target a100 = *find_gpu("a100");
    EXPECT_EQ(a100.rate_tflops(CARAT_E4M3, CARAT_E4M3, CARAT_COMPUTE_DEFAULT), a100.f16_tflops);
    Target cpu;
    cpu.f64_tflops = 0.1;
    cpu.f32_tflops = 0.2;
    EXPECT_EQ(cpu.arch(), "");
    for (carat_dtype type : {CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_S8}) {
        EXPECT_EQ(cpu.rate_tflops(type, type, CARAT_COMPUTE_DEFAULT), 0.2) << name(type);
    }
    EXPECT_EQ(cpu.rate_tflops(CARAT_F32, CARAT_F32, CARAT_COMPUTE_BF16X9), 0.2);
}

TEST(Target, ReadCurve) {
    const Target t = *find_gpu("h200");
    EXPECT_EQ(t.read_us(0), 0);
    EXPECT_NEAR(t.read_us(1e6), 1.66, 1e-12);
    EXPECT_NEAR(t.read_us(4e6), 2.47, 1e-12);
    EXPECT_NEAR(t.read_us(2.5e6), (1.66 + 2.47) / 2, 1e-12);
    EXPECT_NEAR(t.read_us(5e5), (0.57 + 1.66) / 2, 1e-12);
    EXPECT_NEAR(t.read_us(1050673152), 231.48, 1e-9);
    // Beyond the end at the last slope, 4.6 TB/s.
    EXPECT_NEAR(t.read_us(2e9), 231.48 + (2e9 - 1050673152) * (231.48 - 105.03) / (1050673152 - 469762048), 1e-9);
    double last = 0;
    for (double bytes = 1; bytes < 1e11; bytes *= 1.07) {
        EXPECT_GT(t.read_us(bytes), last);
        last = t.read_us(bytes);
    }
}

TEST(Target, ReadCurveOfFewPoints) {
    Target t;
    t.launch_us = 3;
    EXPECT_EQ(t.read_us(1e6), 3);  // nothing known but that it takes a launch
    t.read_curve = {{1e6, 10}};
    EXPECT_DOUBLE_EQ(t.read_us(1e6), 10);
    EXPECT_DOUBLE_EQ(t.read_us(2e6), 17);  // the only slope there is
    t.launch_us = 20;                      // a launch dearer than the read never makes the curve fall
    EXPECT_DOUBLE_EQ(t.read_us(5e5), 10);
    EXPECT_DOUBLE_EQ(t.read_us(2e6), 10);
}

}  // namespace
}  // namespace carat
