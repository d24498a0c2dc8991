// SPDX-License-Identifier: Apache-2.0
// roofline_test.cpp: FLOP per byte of kernels by hand, the bandwidths and ridges of an H200, and blocks an SM.
#include "limits/roofline.hpp"

#include <gtest/gtest.h>

#include "limits/occupancy.hpp"

namespace carat {
namespace {

TEST(Roofline, NaiveKernelsLoadBothOperandsForEachMultiplyAdd) {
    EXPECT_DOUBLE_EQ(naive_intensity(CARAT_F32, CARAT_F32), 0.25);
    EXPECT_DOUBLE_EQ(naive_intensity(CARAT_BF16, CARAT_BF16), 0.5);
    EXPECT_DOUBLE_EQ(naive_intensity(CARAT_BF16, CARAT_S4), 0.8);
}

TEST(Roofline, TilesLoadEachOperandOnce) {
    EXPECT_DOUBLE_EQ(tiled_intensity(CARAT_F32, CARAT_F32, {32, 32}), 8);
    EXPECT_DOUBLE_EQ(tiled_intensity(CARAT_F32, CARAT_F32, {128, 128}), 32);
    EXPECT_NEAR(tiled_intensity(CARAT_BF16, CARAT_BF16, {128, 256}), 85.333, 1e-3);
    EXPECT_DOUBLE_EQ(tiled_intensity(CARAT_BF16, CARAT_BF16, {128, 128}), 64);
    // A tile of one element is the naive kernel.
    EXPECT_DOUBLE_EQ(tiled_intensity(CARAT_F32, CARAT_F32, {1, 1}), naive_intensity(CARAT_F32, CARAT_F32));
}

// Two blocks above each other share the columns of B: a step of K loads 256 of A and 256 of B for 2 * 128 * 256 * 2 FLOP.
TEST(Roofline, AClusterLoadsWhatItSharesOnce) {
    EXPECT_DOUBLE_EQ(tiled_intensity(CARAT_BF16, CARAT_BF16, {128, 256, 2, 1}), 128);
    EXPECT_NEAR(tiled_intensity(CARAT_BF16, CARAT_BF16, {128, 256, 1, 2}), 2.0 * 128 * 512 / (2 * 640), 1e-9);
    EXPECT_DOUBLE_EQ(tiled_intensity(CARAT_F32, CARAT_F32, {64, 64, 2, 2}),
                     tiled_intensity(CARAT_F32, CARAT_F32, {128, 128}));
}

TEST(Roofline, H200sBandwidthsAndRidges) {
    const Target t = *find_gpu("h200");
    EXPECT_NEAR(memory_tb_per_s(t), 4.594, 1e-3);
    EXPECT_NEAR(ridge(t.f32_tflops, memory_tb_per_s(t)), 62 / 4.594, 1e-2);
    EXPECT_NEAR(ridge(t.f16_tflops, t.l2_tb_per_s), 800 / 10.193, 1e-2);
    EXPECT_EQ(ridge(t.f16_tflops, 0), 0);
    EXPECT_EQ(memory_tb_per_s(Target()), 0);
}

TEST(Occupancy, IsTheLeastOfWhatEachResourceAllows) {
    const Target h200 = *find_gpu("h200");
    const auto blocks = [&](int threads, int registers, int64_t shared) {
        return occupancy_of({threads, registers, shared}, h200).blocks;
    };
    EXPECT_EQ(blocks(1024, 32, 8192), 2) << "64 warps";
    EXPECT_EQ(blocks(1024, 33, 8192), 1) << "33 registers take 1280 a warp, so 48 warps";
    EXPECT_EQ(blocks(256, 128, 0), 2) << "16 warps of 4096 registers";
    EXPECT_EQ(blocks(256, 64, 0), 4);
    EXPECT_EQ(blocks(32, 16, 0), 32) << "the most blocks an SM takes";
    EXPECT_EQ(blocks(256, 40, 49152), 4) << "228 KB hold four of 48 KB and the 1 KB reserved for each";
    EXPECT_EQ(blocks(384, 168, 232448), 1) << "the most shared memory a block may have";
    EXPECT_EQ(blocks(384, 168, 232449), 0);
    EXPECT_DOUBLE_EQ(occupancy_of({1024, 32, 8192}, h200).share, 1);
    EXPECT_DOUBLE_EQ(occupancy_of({384, 168, 200000}, h200).share, 12.0 / 64);
    EXPECT_EQ(occupancy_of({1024, 32, 8192}, *find_gpu("l40s")).blocks, 1) << "48 warps";
}

}  // namespace
}  // namespace carat
