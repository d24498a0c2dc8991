// SPDX-License-Identifier: Apache-2.0
// What belongs to a decoder layer, how its products hang together in memory, that the check sees a wrong one, and how a
// chain is timed as one launch. On the CPU backend.
#include "chain.hpp"

#include <gtest/gtest.h>

namespace carat::cli {
namespace {

std::vector<std::string> names_of(const DecoderLayer& layer) {
    std::vector<std::string> names;
    for (const Shape& shape : layer.gemms) names.push_back(shape.name);
    return names;
}

TEST(DecoderLayer, IsOneLayerInTheOrderOfExecution) {
    const DecoderLayer llama = decoder_layer("llama-3.1-8b", 16, 1);
    EXPECT_EQ(llama.model, "Llama-3.1-8B");
    EXPECT_EQ(names_of(llama), (std::vector<std::string>{"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}));
    EXPECT_EQ(llama.gemms[3].k, 14336);
    EXPECT_EQ(
        names_of(decoder_layer("deepseek-v3", 16, 8)),
        (std::vector<std::string>{"fused_qkv_a_proj", "q_b_proj", "kv_b_proj", "o_proj", "shared_experts.gate_up_proj",
                                  "shared_experts.down_proj", "router", "experts.gate_up_proj", "experts.down_proj"}));
}

class ChainTest : public testing::Test {
  protected:
    static Context cpu() {
        carat_context_options options = Context::default_options();
        options.backend = CARAT_BACKEND_CPU;
        return Context(options);
    }
    static Job job(const char* name, int64_t n, int64_t k, carat_dtype dtype = CARAT_F32) {
        return {gemm_problem(3, n, k, dtype, "nt"), name};
    }
    Chain chain(const std::vector<Job>& jobs) const { return Chain(context_, jobs, Context::plan_options(), 0); }

    const Context context_ = cpu();
    const Stream stream_{context_};
};

TEST_F(ChainTest, AResultIsTheNextInputWhereTheShapesAllow) {
    const Chain layer = chain({job("qkv", 96, 64), job("o", 64, 64), job("up", 128, 64), job("down", 64, 128)});
    const size_t layers = layer.layers().sets;
    ASSERT_GE(layers, 2u);
    for (size_t i = 0; i < layers; ++i) {
        EXPECT_EQ(layer.operands(0, i).a, layer.operands(3, (i + layers - 1) % layers).d);
        EXPECT_NE(layer.operands(1, i).a, layer.operands(0, i).d);  // attention lies between them
        EXPECT_EQ(layer.operands(2, i).a, layer.operands(1, i).d);
        EXPECT_EQ(layer.operands(3, i).a, layer.operands(2, i).d);
        EXPECT_NE(layer.operands(2, i).b, layer.operands(2, (i + 1) % layers).b);
    }
    EXPECT_EQ((std::vector<bool>{layer.fed(0), layer.fed(1), layer.fed(2), layer.fed(3)}),
              (std::vector<bool>{true, false, true, true}));
    EXPECT_FALSE(chain({job("a", 64, 64), job("b", 64, 64, CARAT_BF16)}).fed(1)) << "of another type";
}

TEST_F(ChainTest, OneProductReadsWhatItWroteALayerBefore) {
    const Chain square = chain({job("only", 64, 64)});
    EXPECT_TRUE(square.fed(0));
    EXPECT_NE(square.operands(0, 0).a, square.operands(0, 0).d);
}

TEST_F(ChainTest, TheCheckIsOfEachProductOnItsInput) {
    const Chain layer = chain({job("o", 64, 32), job("up", 128, 64)});
    for (const CheckReport& report : layer.check(stream_)) EXPECT_TRUE(report.ran && report.ok());
    static_cast<float*>(layer.operands(0, 0).d)[0] += 100;
    EXPECT_FALSE(context_.verify(layer.job(1).problem, layer.operands(1, 0)).ok) << "its input is another one now";
}

TEST_F(ChainTest, IsTimedLayerAfterLayer) {
    std::vector<size_t> launched;
    Repeater repeater(context_, stream_, {3, 64}, [&](size_t set, void*) { launched.push_back(set); });
    for (int i = 0; i < 3; ++i) EXPECT_GE(repeater.sample(), 0);
    ASSERT_GE(launched.size(), 4u);  // samples double until they are long enough for the clock
    for (size_t i = 0; i < launched.size(); ++i) EXPECT_EQ(launched[i], i % 3);
}

}  // namespace
}  // namespace carat::cli
