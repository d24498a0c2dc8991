// SPDX-License-Identifier: Apache-2.0
// models_test.cpp: layer shapes of the bundled models against hand-computed ones, tensor parallelism, bad
// configurations.
#include "limits/models.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace carat {
namespace {

using Json = nlohmann::json;

struct Expected {
    const char* name;
    int64_t n, k, count;
    int64_t experts = 0, top_k = 0;
};

void expect_layers(const char* model_name, int64_t tp, const std::vector<Expected>& expected) {
    const Result<Model> model = load_model(model_name, tp);
    ASSERT_TRUE(model.ok()) << model.status().sentence();
    ASSERT_EQ(model->gemms.size(), expected.size()) << model_name;
    for (size_t i = 0; i < expected.size(); ++i) {
        const LayerGemm& got = model->gemms[i];
        EXPECT_EQ(got.name, expected[i].name);
        EXPECT_EQ(got.n, expected[i].n) << model_name << " " << got.name;
        EXPECT_EQ(got.k, expected[i].k) << model_name << " " << got.name;
        EXPECT_EQ(got.count, expected[i].count) << model_name << " " << got.name;
        EXPECT_EQ(got.experts, expected[i].experts) << model_name << " " << got.name;
        EXPECT_EQ(got.top_k, expected[i].top_k) << model_name << " " << got.name;
    }
}

TEST(Models, Llama8B) {
    expect_layers("Llama-3.1-8B", 1,
                  {{"qkv_proj", 6144, 4096, 32},
                   {"o_proj", 4096, 4096, 32},
                   {"gate_up_proj", 28672, 4096, 32},
                   {"down_proj", 4096, 14336, 32},
                   {"lm_head", 128256, 4096, 1}});
}

TEST(Models, Llama70BOnEightGpus) {
    expect_layers("Llama-3.1-70B", 8,
                  {{"qkv_proj", 1280, 8192, 80},  // 8 Q heads, 1 K and 1 V head of 128
                   {"o_proj", 8192, 1024, 80},
                   {"gate_up_proj", 7168, 8192, 80},
                   {"down_proj", 8192, 3584, 80},
                   {"lm_head", 16032, 8192, 1}});
}

TEST(Models, KvHeadsAreReplicatedBeyondTheirNumber) {
    expect_layers("Llama-3.1-70B", 32,
                  {{"qkv_proj", 512, 8192, 80},  // 2 Q heads, and 1 of the 8 K/V heads on each 4 GPUs
                   {"o_proj", 8192, 256, 80},
                   {"gate_up_proj", 1792, 8192, 80},
                   {"down_proj", 8192, 896, 80},
                   {"lm_head", 4008, 8192, 1}});
}

TEST(Models, Qwen3Dense) {
    expect_layers("Qwen3-8B", 1,
                  {{"qkv_proj", 6144, 4096, 36},
                   {"o_proj", 4096, 4096, 36},
                   {"gate_up_proj", 24576, 4096, 36},
                   {"down_proj", 4096, 12288, 36},
                   {"lm_head", 151936, 4096, 1}});
}

TEST(Models, Qwen3Moe) {
    // 32 heads of 128 are twice the hidden size.
    expect_layers("Qwen3-30B-A3B", 1,
                  {{"qkv_proj", 5120, 2048, 48},
                   {"o_proj", 2048, 4096, 48},
                   {"router", 128, 2048, 48},
                   {"experts.gate_up_proj", 1536, 2048, 48, 128, 8},
                   {"experts.down_proj", 2048, 768, 48, 128, 8},
                   {"lm_head", 151936, 2048, 1}});
}

TEST(Models, Mixtral) {
    expect_layers("Mixtral-8x7B", 2,
                  {{"qkv_proj", 3072, 4096, 32},
                   {"o_proj", 4096, 2048, 32},
                   {"router", 8, 4096, 32},
                   {"experts.gate_up_proj", 14336, 4096, 32, 8, 2},
                   {"experts.down_proj", 4096, 7168, 32, 8, 2},
                   {"lm_head", 16000, 4096, 1}});
}

TEST(Models, DeepSeekV3) {
    expect_layers("DeepSeek-V3", 1,
                  {{"fused_qkv_a_proj", 2112, 7168, 61},  // 1536 + 512 + 64
                   {"q_b_proj", 24576, 1536, 61},         // 128 heads of 192
                   {"kv_b_proj", 32768, 512, 61},         // 128 heads of 128 + 128
                   {"o_proj", 7168, 16384, 61},
                   {"gate_up_proj", 36864, 7168, 3},
                   {"down_proj", 7168, 18432, 3},
                   {"shared_experts.gate_up_proj", 4096, 7168, 58},
                   {"shared_experts.down_proj", 7168, 2048, 58},
                   {"router", 256, 7168, 58},
                   {"experts.gate_up_proj", 4096, 7168, 58, 256, 8},
                   {"experts.down_proj", 7168, 2048, 58, 256, 8},
                   {"lm_head", 129280, 7168, 1}});
    const Result<Model> split = load_model("DeepSeek-V3", 8);
    ASSERT_TRUE(split.ok());
    EXPECT_EQ(split->gemms[0].n, 2112);  // every GPU does the down-projection whole
    EXPECT_EQ(split->gemms[1].n, 3072);
    EXPECT_EQ(split->gemms[3].k, 2048);
    EXPECT_EQ(split->gemms[9].n, 512);
    EXPECT_EQ(split->gemms[9].experts, 256);
}

// The weights of a model's linear layers, times the experts, make up its parameters (embeddings and norms aside).
TEST(Models, ParameterCounts) {
    const std::map<std::string, double> billions = {{"Llama-3.1-8B", 7.5},  {"Llama-3.1-70B", 69.5},
                                                    {"Qwen3-8B", 7.57},     {"Qwen3-30B-A3B", 30.2},
                                                    {"Mixtral-8x7B", 46.6}, {"DeepSeek-V3", 670}};
    ASSERT_EQ(model_files().size(), billions.size());
    for (const auto& [name, wanted] : billions) {
        double parameters = 0;
        const Result<Model> model = load_model(name, 1);
        ASSERT_TRUE(model.ok());
        for (const LayerGemm& g : model->gemms) {
            parameters += double(g.n) * double(g.k) * double(g.count) * double(std::max<int64_t>(g.experts, 1));
        }
        EXPECT_NEAR(parameters / 1e9, wanted, 0.01 * wanted) << name;
    }
}

TEST(Models, WithoutAQRank) {
    const char* config = R"({"model_type": "deepseek_v3", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100,
        "num_attention_heads": 4, "q_lora_rank": null, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32})";
    const Result<Model> model = parse_model(config, "x", "x.json", 2);
    ASSERT_TRUE(model.ok()) << model.status().sentence();
    EXPECT_EQ(model->gemms[0].name, "q_proj");
    EXPECT_EQ(model->gemms[0].n, 24);
    EXPECT_EQ(model->gemms[1].name, "kv_a_proj_with_mqa");
    EXPECT_EQ(model->gemms[1].n, 20);
    EXPECT_EQ(model->gemms[4].name, "router");  // no dense and no shared layers
}

TEST(Models, LayersWithoutExperts) {
    const char* config = R"({"model_type": "qwen3_moe", "num_hidden_layers": 6, "hidden_size": 64, "vocab_size": 100,
        "num_attention_heads": 4, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "intermediate_size": 128, "decoder_sparse_step": 2, "mlp_only_layers": [1, 1]})";
    const Result<Model> model = parse_model(config, "x", "x.json", 1);
    ASSERT_TRUE(model.ok()) << model.status().sentence();
    ASSERT_EQ(model->gemms[2].name, "gate_up_proj");
    EXPECT_EQ(model->gemms[2].count, 4);  // layers 0, 2, 4 and 1
    ASSERT_EQ(model->gemms[5].name, "experts.gate_up_proj");
    EXPECT_EQ(model->gemms[5].count, 2);
}

TEST(Models, Json) {
    const Result<std::string> text = model_gemms_json("qwen3-30b-a3b", 64, 2);
    ASSERT_TRUE(text.ok()) << text.status().sentence();
    const Json json = Json::parse(*text);
    EXPECT_EQ(json["schema"], "carat.models/1");
    EXPECT_EQ(json["model"], "Qwen3-30B-A3B");
    EXPECT_EQ(json["model_type"], "qwen3_moe");
    EXPECT_EQ(json["layers"], 48);
    EXPECT_EQ(json["tokens"], 64);
    EXPECT_EQ(json["tp"], 2);
    const Json& qkv = json["gemms"][0];
    EXPECT_EQ(qkv, Json::parse(R"({"name": "qkv_proj", "m": 64, "n": 2560, "k": 2048, "count": 48, "groups": null,
                                  "top_k": null, "tokens_per_group": null, "tokens_rule": "every_token"})"));
    const Json& experts = json["gemms"][3];
    EXPECT_EQ(experts, Json::parse(R"({"name": "experts.gate_up_proj", "m": 512, "n": 768, "k": 2048, "count": 48,
                                      "groups": 128, "top_k": 8, "tokens_per_group": 4.0, "tokens_rule": "chosen_experts"})"));
    EXPECT_EQ(json["gemms"].back()["tokens_rule"], "last_token");
}

TEST(Models, ListOfBundledModels) {
    const Result<std::string> text = models_json();
    ASSERT_TRUE(text.ok()) << text.status().sentence();
    const Json json = Json::parse(*text);
    EXPECT_EQ(json["schema"], "carat.models/1");
    ASSERT_EQ(json["models"].size(), 6u);
    for (const Json& row : json["models"]) EXPECT_TRUE(load_model(row["model"], 1).ok());
}

TEST(Models, NamesAndPaths) {
    EXPECT_EQ(load_model("llama-3.1-8b", 1)->name, "Llama-3.1-8B");
    EXPECT_EQ(load_model("meta-llama/Llama-3.1-8B", 1)->name, "Llama-3.1-8B");
    EXPECT_EQ(load_model("Llama-3.1-8B.json", 1)->name, "Llama-3.1-8B");
    const Result<Model> none = load_model("gpt-5", 1);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.status().code(), CARAT_INVALID_VALUE);
    EXPECT_EQ(none.status().sentence(),
              "'gpt-5' is neither a file nor a bundled model: use one of DeepSeek-V3, Llama-3.1-70B, Llama-3.1-8B, "
              "Mixtral-8x7B, Qwen3-30B-A3B, Qwen3-8B, or the path of a config.json");
    EXPECT_FALSE(load_model("", 1).ok());

    const std::filesystem::path dir =
        std::filesystem::temp_directory_path() / fmt::format("carat_models_{}", ::getpid()) / "my-model";
    std::filesystem::create_directories(dir);
    EXPECT_FALSE(load_model(dir.string(), 1).ok());  // a directory without a config.json
    std::ofstream(dir / "config.json") << model_files()[0].text;
    EXPECT_EQ(load_model(dir.string(), 1)->name, "my-model");
    EXPECT_EQ(load_model((dir / "config.json").string(), 1)->name, "my-model");
    std::ofstream(dir / "config.json") << "{\"model_type\": 3}";
    EXPECT_NE(load_model(dir.string(), 1).status().sentence().find("config.json' has no string \"model_type\""),
              std::string::npos);
    std::ofstream(dir / "config.json") << std::string((16 << 20) + 1, ' ');
    EXPECT_NE(load_model(dir.string(), 1).status().sentence().find("larger than 16 MiB"), std::string::npos);
    std::filesystem::remove_all(dir.parent_path());
}

// A good configuration with one field replaced ("" removes it).
std::string sentence_with(const char* model, const char* field, const char* value, int64_t tp = 1) {
    for (const ModelFile& file : model_files()) {
        if (std::string(file.name) != std::string(model) + ".json") continue;
        Json json = Json::parse(file.text);
        json.erase(field);
        if (*value) json[field] = Json::parse(value);
        const Result<Model> result = parse_model(json.dump(), "x", "'x.json'", tp);
        return result.ok() ? "" : result.status().sentence();
    }
    return "no such model";
}

TEST(Models, BadFieldsAreNamed) {
    EXPECT_EQ(sentence_with("Llama-3.1-8B", "hidden_size", ""),
              "'x.json' has no \"hidden_size\": add it, a whole number from 1 to 16777216");
    for (const char* value : {"-1", "0", "\"4096\"", "4096.0", "null", "[1]", "{}", "16777217", "true",
                              "9223372036854775808", "18446744073709551616"}) {
        const std::string sentence = sentence_with("Llama-3.1-8B", "intermediate_size", value);
        EXPECT_NE(sentence.find("'x.json' has \"intermediate_size\": "), std::string::npos)
            << value << ": " << sentence;
        EXPECT_NE(sentence.find("from 1 to 16777216"), std::string::npos) << value;
    }
    const struct {
        const char *model, *field;
    } required[] = {{"Llama-3.1-8B", "num_hidden_layers"}, {"Llama-3.1-8B", "num_attention_heads"},
                    {"Llama-3.1-8B", "vocab_size"},        {"Llama-3.1-8B", "model_type"},
                    {"Mixtral-8x7B", "num_local_experts"}, {"Mixtral-8x7B", "num_experts_per_tok"},
                    {"Qwen3-30B-A3B", "num_experts"},      {"Qwen3-30B-A3B", "moe_intermediate_size"},
                    {"DeepSeek-V3", "kv_lora_rank"},       {"DeepSeek-V3", "n_routed_experts"},
                    {"DeepSeek-V3", "qk_rope_head_dim"},   {"DeepSeek-V3", "v_head_dim"}};
    for (const auto& row : required) {
        EXPECT_NE(sentence_with(row.model, row.field, "").find(row.field), std::string::npos) << row.field;
        EXPECT_NE(sentence_with(row.model, row.field, "-5").find(row.field), std::string::npos) << row.field;
    }
    EXPECT_NE(sentence_with("Mixtral-8x7B", "num_experts_per_tok", "9").find("from 1 to 8"), std::string::npos);
    EXPECT_NE(sentence_with("Llama-3.1-8B", "num_key_value_heads", "33").find("from 1 to 32"), std::string::npos);
    EXPECT_NE(sentence_with("Qwen3-30B-A3B", "mlp_only_layers", "[48]").find("layers from 0 to 47"), std::string::npos);
    EXPECT_NE(sentence_with("Qwen3-30B-A3B", "mlp_only_layers", "3").find("mlp_only_layers"), std::string::npos);
    EXPECT_NE(sentence_with("Mixtral-8x7B", "num_attention_heads", "24").find("add \"head_dim\""), std::string::npos);
    const std::string unknown = sentence_with("Llama-3.1-8B", "model_type", "\"gpt2\"");
    EXPECT_EQ(unknown,
              "'x.json' has model_type \"gpt2\", whose layers are not known: use one of llama, mistral, qwen2, "
              "qwen3, qwen3_moe, mixtral, deepseek_v3");
}

TEST(Models, BadJson) {
    for (const char* text :
         {"", "[]", "null", "{\"hidden_size\": ", "{\"hidden_size\": 1e400}", "\xff\xfe{}", "\"llama\""}) {
        const Result<Model> model = parse_model(text, "x", "'x.json'", 1);
        ASSERT_FALSE(model.ok());
        EXPECT_EQ(model.status().sentence(), "'x.json' is not a JSON object: give the config.json of a model") << text;
    }
    const std::string deep = "{\"model_type\": \"llama\", \"num_hidden_layers\": " + std::string(300000, '[') +
                             std::string(300000, ']') + "}";
    EXPECT_NE(parse_model(deep, "x", "'x.json'", 1).status().sentence().find("num_hidden_layers"), std::string::npos);
}

TEST(Models, TensorParallelismThatDoesNotDivide) {
    const auto sentence = [](const char* model, int64_t tp) {
        const Result<Model> result = load_model(model, tp);
        return result.ok() ? std::string() : result.status().sentence();
    };
    EXPECT_EQ(
        sentence("Llama-3.1-8B", 3),
        "models/Llama-3.1-8B.json: num_attention_heads is 32, which does not divide by a tensor-parallel degree of 3: "
        "use a divisor");
    EXPECT_NE(sentence_with("Llama-3.1-8B", "intermediate_size", "14337", 2).find("intermediate_size is 14337"),
              std::string::npos);
    EXPECT_NE(sentence_with("Llama-3.1-8B", "num_key_value_heads", "6", 4).find("neither divides it nor"),
              std::string::npos);
    EXPECT_NE(sentence("DeepSeek-V3", 256).find("num_attention_heads is 128"), std::string::npos);
    EXPECT_NE(sentence("Llama-3.1-8B", 0).find("1 to 4096"), std::string::npos);
    EXPECT_NE(sentence("Llama-3.1-8B", -8).find("-8"), std::string::npos);
    EXPECT_FALSE(load_model("Llama-3.1-8B", 1 << 20).ok());
}

TEST(Models, AbsurdTokens) {
    for (int64_t tokens : {int64_t(0), int64_t(-1), INT64_MAX}) {
        const Result<std::string> json = model_gemms_json("Llama-3.1-8B", tokens, 1);
        ASSERT_FALSE(json.ok());
        EXPECT_NE(json.status().sentence().find("number of tokens"), std::string::npos);
    }
    EXPECT_TRUE(model_gemms_json("DeepSeek-V3", int64_t(1) << 30, 1).ok());
}

}  // namespace
}  // namespace carat
