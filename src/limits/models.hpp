// SPDX-License-Identifier: Apache-2.0
// models.hpp: the configuration of a language model -> the matrix products of its linear layers, as a serving framework
// runs them (Q, K and V fused, gate and up fused), on one of `tp` GPUs that share every layer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace carat {

// How the rows of a layer's input follow from the tokens of a step.
enum class TokensRule {
    every_token,     // M = tokens
    chosen_experts,  // M = tokens * top_k, spread over `experts` groups
    last_token,      // M = sequences, at most the tokens (all of them when decoding)
};
const char* name(TokensRule rule);

struct LayerGemm {
    std::string name;  // as frameworks call it: "qkv_proj"
    int64_t n = 0, k = 0;
    int64_t count = 0;               // how often the whole model runs it on one token
    int64_t experts = 0, top_k = 0;  // routed experts: one grouped product over `experts` weights; else 0
    TokensRule rule = TokensRule::every_token;
};

struct Model {
    std::string name, type;  // "Llama-3.1-8B", "llama"
    int64_t layers = 0, hidden = 0, vocabulary = 0;
    std::vector<LayerGemm> gemms;
};

// A bundled configuration: models/NAME.json.
struct ModelFile {
    const char* name;
    const char* text;
};
const std::vector<ModelFile>& model_files();

// The model of a configuration's text. `source` names it in messages ("models/x.json"), `name` in the result.
Result<Model> parse_model(std::string_view text, const std::string& name, const std::string& source, int64_t tp);
// A bundled name in any case ("llama-3.1-8b"), a HuggingFace name whose last part is one, a config.json, or its
// directory.
Result<Model> load_model(const std::string& name_or_path, int64_t tp);

// Rows of the layer's input for a step of `tokens`.
int64_t rows_of(const LayerGemm& gemm, int64_t tokens);

// JSON "carat.models/1", one model: {"schema", "model", "model_type", "layers", "tokens", "tp", "gemms": [{"name", "m",
// "n", "k", "count", "groups", "top_k", "tokens_per_group", "tokens_rule"}]}; groups, top_k and tokens_per_group (the
// expected number) are null for a dense layer.
Result<std::string> model_gemms_json(const std::string& name_or_path, int64_t tokens, int64_t tp);
// JSON "carat.models/1", the bundled ones: {"schema", "models": [{"model", "model_type", "layers", "hidden",
// "vocabulary"}]}.
Result<std::string> models_json();

}  // namespace carat
