// SPDX-License-Identifier: Apache-2.0
// models.cpp: the linear layers of each model family we know. Weights are N x K (out x in), as checkpoints store them.
#include "limits/models.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "core/problem.hpp"
#include "limits/model_config.hpp"

namespace carat {
namespace {

constexpr int64_t kMostWidth = int64_t(1) << 24;  // hidden and intermediate sizes, vocabularies
constexpr int64_t kMostHeads = 65536, kMostLayers = 10000, kMostExperts = 65536, kMostTp = 4096;
constexpr int64_t kMostTokens = int64_t(1) << 30;

// A layer's share of an extent on one of tp GPUs.
Result<int64_t> share(int64_t extent, int64_t tp, const char* what, const std::string& source) {
    if (extent % tp == 0) return extent / tp;
    return fail(CARAT_INVALID_VALUE,
                "{}: {} is {}, which does not divide by a tensor-parallel degree of {}: use a divisor", source, what,
                extent, tp);
}

// Everything the families share while they fill in a model.
struct Builder {
    const ConfigReader& config;
    int64_t tp;
    Model& model;

    Result<int64_t> width(const char* field) const { return config.number(field, 1, kMostWidth); }
    Result<int64_t> split(const char* field) const {
        CARAT_ASSIGN(const int64_t extent, width(field));
        return share(extent, tp, field, config.source());
    }
    void add(std::string name, int64_t n, int64_t k, int64_t count) const {
        if (count > 0) model.gemms.push_back({std::move(name), n, k, count, 0, 0, TokensRule::every_token});
    }
    // One feed-forward block: gate and up fused and split by columns, down split by rows.
    void add_ffn(const std::string& prefix, int64_t intermediate, int64_t count) const {
        add(prefix + "gate_up_proj", 2 * intermediate, model.hidden, count);
        add(prefix + "down_proj", model.hidden, intermediate, count);
    }
    void add_experts(int64_t intermediate, int64_t count, int64_t experts, int64_t top_k) const {
        if (count == 0) return;
        add("router", experts, model.hidden, count);  // every GPU routes all tokens
        model.gemms.push_back({"experts.gate_up_proj", 2 * intermediate, model.hidden, count, experts, top_k,
                               TokensRule::chosen_experts});
        model.gemms.push_back(
            {"experts.down_proj", model.hidden, intermediate, count, experts, top_k, TokensRule::chosen_experts});
    }
    Result<int64_t> chosen(int64_t experts) const { return config.number("num_experts_per_tok", 1, experts); }
};

// Attention with separate K and V heads (grouped-query attention included).
Status add_gqa(const Builder& b) {
    CARAT_ASSIGN(const int64_t heads, b.config.number("num_attention_heads", 1, kMostHeads));
    CARAT_ASSIGN(const int64_t kv_heads, b.config.number_or("num_key_value_heads", 1, heads, heads));
    CARAT_ASSIGN(const int64_t head_dim, b.config.number_or("head_dim", 1, kMostHeads, 0));
    if (head_dim == 0 && b.model.hidden % heads != 0) {
        return fail(CARAT_INVALID_VALUE,
                    "{}: hidden_size {} does not divide by num_attention_heads {}: add \"head_dim\"", b.config.source(),
                    b.model.hidden, heads);
    }
    const int64_t dim = head_dim ? head_dim : b.model.hidden / heads;
    CARAT_ASSIGN(const int64_t own_heads, share(heads, b.tp, "num_attention_heads", b.config.source()));
    // With more GPUs than K/V heads, each head is held by several of them.
    if (kv_heads % b.tp != 0 && b.tp % kv_heads != 0) {
        return fail(
            CARAT_INVALID_VALUE,
            "{}: num_key_value_heads is {}, and a tensor-parallel degree of {} neither divides it nor is a multiple "
            "of it: use one that does",
            b.config.source(), kv_heads, b.tp);
    }
    const int64_t own_kv_heads = std::max<int64_t>(1, kv_heads / b.tp);
    b.add("qkv_proj", (own_heads + 2 * own_kv_heads) * dim, b.model.hidden, b.model.layers);
    b.add("o_proj", b.model.hidden, own_heads * dim, b.model.layers);
    return {};
}

// Multi-head latent attention: the down-projections of Q and of K/V (with the shared rotary key) are one product that
// every GPU does whole; the up-projections are split by heads.
Status add_mla(const Builder& b) {
    CARAT_ASSIGN(const int64_t heads, b.config.number("num_attention_heads", 1, kMostHeads));
    CARAT_ASSIGN(const int64_t q_rank, b.config.number_or("q_lora_rank", 1, kMostWidth, 0));
    CARAT_ASSIGN(const int64_t kv_rank, b.width("kv_lora_rank"));
    CARAT_ASSIGN(const int64_t nope, b.config.number("qk_nope_head_dim", 1, kMostHeads));
    CARAT_ASSIGN(const int64_t rope, b.config.number("qk_rope_head_dim", 1, kMostHeads));
    CARAT_ASSIGN(const int64_t v_dim, b.config.number("v_head_dim", 1, kMostHeads));
    CARAT_ASSIGN(const int64_t own_heads, share(heads, b.tp, "num_attention_heads", b.config.source()));
    const int64_t layers = b.model.layers, hidden = b.model.hidden, q_columns = own_heads * (nope + rope);
    if (q_rank > 0) {
        b.add("fused_qkv_a_proj", q_rank + kv_rank + rope, hidden, layers);  // q_a and kv_a_with_mqa
        b.add("q_b_proj", q_columns, q_rank, layers);
    } else {
        b.add("q_proj", q_columns, hidden, layers);
        b.add("kv_a_proj_with_mqa", kv_rank + rope, hidden, layers);
    }
    b.add("kv_b_proj", own_heads * (nope + v_dim), kv_rank, layers);
    b.add("o_proj", hidden, own_heads * v_dim, layers);
    return {};
}

Status add_dense(const Builder& b) {
    CARAT_TRY(add_gqa(b));
    CARAT_ASSIGN(const int64_t intermediate, b.split("intermediate_size"));
    b.add_ffn("", intermediate, b.model.layers);
    return {};
}

Status add_mixtral(const Builder& b) {
    CARAT_TRY(add_gqa(b));
    CARAT_ASSIGN(const int64_t intermediate, b.split("intermediate_size"));
    CARAT_ASSIGN(const int64_t experts, b.config.number("num_local_experts", 1, kMostExperts));
    CARAT_ASSIGN(const int64_t top_k, b.chosen(experts));
    b.add_experts(intermediate, b.model.layers, experts, top_k);
    return {};
}

Status add_qwen3_moe(const Builder& b) {
    CARAT_TRY(add_gqa(b));
    CARAT_ASSIGN(const int64_t experts, b.config.number("num_experts", 1, kMostExperts));
    CARAT_ASSIGN(const int64_t top_k, b.chosen(experts));
    CARAT_ASSIGN(const int64_t intermediate, b.split("moe_intermediate_size"));
    CARAT_ASSIGN(const int64_t step, b.config.number_or("decoder_sparse_step", 1, kMostLayers, 1));
    CARAT_ASSIGN(const std::vector<bool> mlp_only, b.config.layer_set("mlp_only_layers", b.model.layers));
    int64_t sparse = 0;
    for (int64_t layer = 0; layer < b.model.layers; ++layer)
        sparse += !mlp_only[size_t(layer)] && (layer + 1) % step == 0;
    if (sparse < b.model.layers) {
        CARAT_ASSIGN(const int64_t dense, b.split("intermediate_size"));
        b.add_ffn("", dense, b.model.layers - sparse);
    }
    b.add_experts(intermediate, sparse, experts, top_k);
    return {};
}

Status add_deepseek_v3(const Builder& b) {
    CARAT_TRY(add_mla(b));
    CARAT_ASSIGN(const int64_t experts, b.config.number("n_routed_experts", 1, kMostExperts));
    CARAT_ASSIGN(const int64_t top_k, b.chosen(experts));
    CARAT_ASSIGN(const int64_t shared, b.config.number_or("n_shared_experts", 0, kMostExperts, 0));
    CARAT_ASSIGN(const int64_t intermediate, b.split("moe_intermediate_size"));
    CARAT_ASSIGN(const int64_t first, b.config.number_or("first_k_dense_replace", 0, b.model.layers, 0));
    CARAT_ASSIGN(const int64_t step, b.config.number_or("moe_layer_freq", 1, kMostLayers, 1));
    int64_t sparse = 0;
    for (int64_t layer = first; layer < b.model.layers; ++layer) sparse += layer % step == 0;
    if (sparse < b.model.layers) {
        CARAT_ASSIGN(const int64_t dense, b.split("intermediate_size"));
        b.add_ffn("", dense, b.model.layers - sparse);
    }
    if (shared > 0) b.add_ffn("shared_experts.", shared * intermediate, sparse);
    b.add_experts(intermediate, sparse, experts, top_k);
    return {};
}

struct Family {
    const char* type;
    Status (*add)(const Builder&);
};
constexpr Family kFamilies[] = {
    {"llama", add_dense},
    {"mistral", add_dense},
    {"qwen2", add_dense},
    {"qwen3", add_dense},
    {"qwen3_moe", add_qwen3_moe},
    {"mixtral", add_mixtral},
    {"deepseek_v3", add_deepseek_v3},
};

Result<const Family*> find_family(const std::string& type, const std::string& source) {
    std::string known;
    for (const Family& family : kFamilies) {
        if (type == family.type) return &family;
        known += fmt::format("{}{}", known.empty() ? "" : ", ", family.type);
    }
    return fail(CARAT_NOT_SUPPORTED, "{} has model_type \"{}\", whose layers are not known: use one of {}", source,
                type.substr(0, 40), known);
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return text;
}

// "Llama-3.1-8B" of "Llama-3.1-8B.json".
std::string stem_of(const char* file_name) {
    return std::filesystem::path(file_name).stem().string();
}

const ModelFile* find_bundled(const std::string& name) {
    const std::string last = lower(name.substr(name.rfind('/') + 1));
    for (const ModelFile& file : model_files()) {
        std::string known = lower(file.name);
        if (last == known || last + ".json" == known) return &file;
    }
    return nullptr;
}

Result<std::string> read_text(const std::filesystem::path& path) {
    constexpr std::streamsize kLongest = 16 << 20;  // real ones have a few KB
    std::ifstream in(path, std::ios::binary);
    std::string text(size_t(kLongest) + 1, '\0');
    in.read(text.data(), std::streamsize(text.size()));
    if (in.bad() || !(in.eof() || in.good())) {
        return fail(CARAT_IO_ERROR, "cannot read '{}': check the path and its permissions", path.string());
    }
    if (in.gcount() > kLongest) {
        return fail(CARAT_INVALID_VALUE, "'{}' is larger than 16 MiB: give the config.json of a model", path.string());
    }
    text.resize(size_t(in.gcount()));
    return text;
}

// A file's model is called after its directory when the file is a plain config.json.
std::string name_of(const std::filesystem::path& path) {
    std::error_code error;
    std::filesystem::path absolute = std::filesystem::weakly_canonical(path, error);
    if (error) absolute = path;
    const bool plain = absolute.filename() == "config.json" && !absolute.parent_path().filename().empty();
    return plain ? absolute.parent_path().filename().string() : absolute.stem().string();
}

}  // namespace

const char* name(TokensRule rule) {
    switch (rule) {
        case TokensRule::every_token:
            return "every_token";
        case TokensRule::chosen_experts:
            return "chosen_experts";
        case TokensRule::last_token:
            return "last_token";
    }
    return "?";
}

Result<Model> parse_model(std::string_view text, const std::string& name, const std::string& source, int64_t tp) {
    if (tp < 1 || tp > kMostTp) {
        return fail(CARAT_INVALID_VALUE, "the tensor-parallel degree is {}, and 1 to {} are possible: correct it", tp,
                    kMostTp);
    }
    CARAT_ASSIGN(const ConfigReader config, ConfigReader::parse(text, source));
    Model model;
    model.name = name;
    CARAT_ASSIGN(model.type, config.text("model_type"));
    CARAT_ASSIGN(const Family* family, find_family(model.type, source));
    CARAT_ASSIGN(model.layers, config.number("num_hidden_layers", 1, kMostLayers));
    CARAT_ASSIGN(model.hidden, config.number("hidden_size", 1, kMostWidth));
    CARAT_ASSIGN(model.vocabulary, config.number("vocab_size", 1, kMostWidth));
    CARAT_TRY(family->add({config, tp, model}));
    // Frameworks pad the vocabulary where it does not divide.
    model.gemms.push_back({"lm_head", ceil_div(model.vocabulary, tp), model.hidden, 1, 0, 0, TokensRule::last_token});
    return model;
}

Result<Model> load_model(const std::string& name_or_path, int64_t tp) {
    std::error_code ignored;
    std::filesystem::path path = name_or_path;
    if (!std::filesystem::exists(path, ignored)) {
        if (const ModelFile* file = find_bundled(name_or_path)) {
            return parse_model(file->text, stem_of(file->name), fmt::format("models/{}", file->name), tp);
        }
        std::string known;
        for (const ModelFile& file : model_files()) known += (known.empty() ? "" : ", ") + stem_of(file.name);
        return fail(CARAT_INVALID_VALUE,
                    "'{}' is neither a file nor a bundled model: use one of {}, or the path of a config.json",
                    name_or_path, known);
    }
    if (std::filesystem::is_directory(path, ignored)) path /= "config.json";
    CARAT_ASSIGN(const std::string text, read_text(path));
    return parse_model(text, name_of(path), fmt::format("'{}'", path.string()), tp);
}

int64_t rows_of(const LayerGemm& gemm, int64_t tokens) {
    return gemm.rule == TokensRule::chosen_experts ? tokens * gemm.top_k : tokens;
}

Result<std::string> model_gemms_json(const std::string& name_or_path, int64_t tokens, int64_t tp) {
    if (tokens < 1 || tokens > kMostTokens) {
        return fail(CARAT_INVALID_VALUE, "the number of tokens is {}, and 1 to {} are possible: correct it", tokens,
                    kMostTokens);
    }
    CARAT_ASSIGN(const Model model, load_model(name_or_path, tp));
    nlohmann::ordered_json json = {{"schema", "carat.models/1"}, {"model", model.name}, {"model_type", model.type},
                                   {"layers", model.layers},     {"tokens", tokens},    {"tp", tp}};
    json["gemms"] = nlohmann::ordered_json::array();
    for (const LayerGemm& g : model.gemms) {
        const int64_t m = rows_of(g, tokens);
        nlohmann::ordered_json row = {{"name", g.name}, {"m", m}, {"n", g.n}, {"k", g.k}, {"count", g.count}};
        row["groups"] = g.experts ? nlohmann::ordered_json(g.experts) : nlohmann::ordered_json();
        row["top_k"] = g.experts ? nlohmann::ordered_json(g.top_k) : nlohmann::ordered_json();
        row["tokens_per_group"] =
            g.experts ? nlohmann::ordered_json(double(m) / double(g.experts)) : nlohmann::ordered_json();
        row["tokens_rule"] = carat::name(g.rule);
        json["gemms"].push_back(std::move(row));
    }
    return json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

Result<std::string> models_json() {
    nlohmann::ordered_json json = {{"schema", "carat.models/1"}, {"models", nlohmann::ordered_json::array()}};
    for (const ModelFile& file : model_files()) {
        CARAT_ASSIGN(const Model model,
                     parse_model(file.text, stem_of(file.name), fmt::format("models/{}", file.name), 1));
        json["models"].push_back({{"model", model.name},
                                  {"model_type", model.type},
                                  {"layers", model.layers},
                                  {"hidden", model.hidden},
                                  {"vocabulary", model.vocabulary}});
    }
    return json.dump();
}

}  // namespace carat
