// SPDX-License-Identifier: Apache-2.0
// Configuration names round-trip, and what is no name is refused.
#include "dispatch/config.hpp"

#include <gtest/gtest.h>

#include <random>

namespace carat {
namespace {

TEST(Config, NameRoundTrips) {
    std::mt19937 random(1);
    const char* families[] = {"v1_shared", "ws", "cpu_avx512_bf16", "v0_naive"};
    const char* layouts[] = {"nn", "nt", "tn", "tt"};
    for (int i = 0; i < 2000; ++i) {
        Config config;
        config.family = families[random() % 4];
        config.a = dtypes()[random() % dtypes().size()].dtype;
        config.b = dtypes()[random() % dtypes().size()].dtype;
        config.d = dtypes()[random() % dtypes().size()].dtype;
        config.layout = layouts[random() % 4];
        config.bm = 1 + random() % 300, config.bn = 1 + random() % 300, config.bk = 1 + random() % 300;
        if (random() % 2) config.tm = 8, config.tn = 4;
        if (random() % 2) config.stages = 1 + random() % 8;
        if (random() % 2) config.cluster_m = 2, config.cluster_n = 1;
        if (random() % 2) {
            config.split_form = SplitForm("cswk"[random() % 4]);
            if (config.split_form != SplitForm::stream_k) config.split_k = 1 + random() % 80;
        }
        if (random() % 2) config.strip = int(random() % 9) - 4;
        config.pingpong = random() % 2, config.swapped = random() % 2;
        config.aligned = random() % 2;
        const auto parsed = Config::parse(config.name());
        ASSERT_TRUE(parsed.ok()) << config.name();
        EXPECT_EQ(*parsed, config) << config.name();
        EXPECT_EQ(std::hash<Config>()(*parsed), std::hash<Config>()(config));
    }
}

TEST(Config, RefusesWhatIsNoName) {
    for (const char* text :
         {"", "_", "v1_shared", "v1_shared_f32_f32_f32_nt", "v1_shared_f32_f32_f32_nt_32x32",
          "v1_shared_f32_f32_f32_xx_32x32x32", "f32_f32_f32_nt_32x32x32", "v1_f32_f32_f99_nt_32x32x32",
          "v1_f32_f32_f32_nt_0x32x32", "v1_f32_f32_f32_nt_32x32x32_q3", "v1_f32_f32_f32_nt_32x32x32_k4",
          "v1_f32_f32_f32_nt_32x32x32_k4x", "v1_f32_f32_f32_nt_32x32x32_kc", "v1_f32_f32_f32_nt_32x32x32_s",
          "v1_f32_f32_f32_nt_32x32x-2", "v1_f32_f32_f32_nt_99999999999x1x1", "v1_f32_f32_f32_nt_32x32x32_c2x1_s4"}) {
        const auto parsed = Config::parse(text);
        EXPECT_FALSE(parsed.ok()) << text;
        EXPECT_NE(parsed.status().sentence().find(text), std::string::npos);
    }
}

}  // namespace
}  // namespace carat
