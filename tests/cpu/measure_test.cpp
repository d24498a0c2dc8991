// SPDX-License-Identifier: Apache-2.0
// The measured limits of the machine are plausible, and measured once.
#include <gtest/gtest.h>

#include <ctime>

#include "cpu/fast.hpp"

namespace carat::cpu {
namespace {

TEST(MeasureCpu, GivesPlausibleLimitsOnce) {
    ThreadPool pool(1);
    const std::clock_t start = std::clock();  // of this process's time: that of a busy machine says nothing
    const Target target = measure_cpu(pool);
    const double first = double(std::clock() - start) / CLOCKS_PER_SEC;
    RecordProperty("seconds", std::to_string(first));
    EXPECT_LT(first, 5.0);  // 0.3 s is the aim; sanitizers are slower
    EXPECT_EQ(target.backend, CARAT_BACKEND_CPU);
    EXPECT_EQ(target.name, "cpu");
    EXPECT_FALSE(target.full_name.empty());
    EXPECT_EQ(target.units, 1);
    EXPECT_GT(target.memory_bytes, int64_t{64} << 20);
    // Any machine of this century does more than 0.1 and less than 10 TFLOP/s a core.
    for (const double rate : {target.f32_tflops, target.f64_tflops, target.f16_tflops}) {
        EXPECT_GT(rate, 1e-4);
        EXPECT_LT(rate, 10);
    }
    ASSERT_GE(target.read_curve.size(), 2u);
    for (size_t i = 1; i < target.read_curve.size(); ++i) {
        EXPECT_GT(target.read_curve[i].bytes, target.read_curve[i - 1].bytes);
        EXPECT_GE(target.read_curve[i].us, target.read_curve[i - 1].us);
    }
    const ReadPoint& last = target.read_curve.back();
    EXPECT_GT(last.bytes / last.us, 100);  // 0.1 GB/s
    const Target again = measure_cpu(pool);
    EXPECT_EQ(again.f32_tflops, target.f32_tflops);
    EXPECT_EQ(again.read_curve.back().us, last.us);
}

}  // namespace
}  // namespace carat::cpu
