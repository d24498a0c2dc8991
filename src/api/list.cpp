// SPDX-License-Identifier: Apache-2.0
// list.cpp: carat_list: the registry with what each row takes, found by asking the row itself, so that no table can
// disagree with the code. Also the targets, environment variables, statuses and types.
#include <nlohmann/json.hpp>
#include <optional>

#include "api/error.hpp"
#include "api/handles.hpp"
#include "api/validate.hpp"
#include "core/env.hpp"

using namespace carat;
using namespace carat::api;
using Json = nlohmann::ordered_json;

namespace {

constexpr int64_t kProbeExtent = 256;  // even, and a multiple of every block: a shape every feature is legal for
constexpr const char* kLayouts[] = {"nn", "nt", "tn", "tt"};

struct Types {
    carat_dtype a, b, d;
};

// Every pair of inputs with every output that the border lets through.
std::vector<Types> type_triples() {
    std::vector<Types> triples;
    for (const DtypeInfo& a : dtypes())
        for (const DtypeInfo& b : dtypes())
            for (const DtypeInfo& d : dtypes()) triples.push_back({a.dtype, b.dtype, d.dtype});
    return triples;
}

carat_problem problem_of(const Row& row, const Types& types, int64_t extent, const char* layout = "nt") {
    carat_problem problem;
    carat_problem_init(&problem, row.most_rows ? row.most_rows : extent, extent, extent, types.a, layout);
    problem.b.dtype = types.b;
    problem.d.dtype = types.d;
    return problem;
}

struct Feature {
    const char* name;
    void (*apply)(carat_problem&);
};

constexpr Feature kModes[] = {
    {"single", [](carat_problem&) {}},
    {"batched", [](carat_problem& p) { p.mode = CARAT_BATCHED, p.batch = 2; }},
    {"batched_pointers", [](carat_problem& p) { p.mode = CARAT_BATCHED_POINTERS, p.batch = 2; }},
    {"m_offsets", [](carat_problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_M_OFFSETS, p.batch = 2; }},
    {"m_indices", [](carat_problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_M_INDICES, p.batch = 2; }},
    {"m_masked", [](carat_problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_M_MASKED, p.batch = 2; }},
    {"k_offsets", [](carat_problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_K_OFFSETS, p.batch = 2; }},
    {"array", [](carat_problem& p) { p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_ARRAY, p.batch = 2; }},
    {"sparse_a", [](carat_problem& p) { p.sparsity = CARAT_SPARSE_A_24; }},
    {"sparse_b", [](carat_problem& p) { p.sparsity = CARAT_SPARSE_B_24; }},
};

constexpr Feature kEpilogues[] = {
    {"beta", [](carat_problem& p) { p.c = p.d; }},
    {"device_scalars", [](carat_problem& p) { p.epilogue.scalars_on_device = 1; }},
    {"bias_n", [](carat_problem& p) { p.epilogue.bias = CARAT_BIAS_N, p.epilogue.bias_dtype = CARAT_F32; }},
    {"bias_m", [](carat_problem& p) { p.epilogue.bias = CARAT_BIAS_M, p.epilogue.bias_dtype = CARAT_F32; }},
    {"relu", [](carat_problem& p) { p.epilogue.activation = CARAT_ACT_RELU; }},
    {"gelu_erf", [](carat_problem& p) { p.epilogue.activation = CARAT_ACT_GELU_ERF; }},
    {"gelu_tanh", [](carat_problem& p) { p.epilogue.activation = CARAT_ACT_GELU_TANH; }},
    {"silu", [](carat_problem& p) { p.epilogue.activation = CARAT_ACT_SILU; }},
    {"sigmoid", [](carat_problem& p) { p.epilogue.activation = CARAT_ACT_SIGMOID; }},
    {"gate_interleaved",
     [](carat_problem& p) { p.epilogue.activation = CARAT_ACT_SILU, p.epilogue.gate = CARAT_GATE_INTERLEAVED; }},
    {"gate_split",
     [](carat_problem& p) { p.epilogue.activation = CARAT_ACT_SILU, p.epilogue.gate = CARAT_GATE_SPLIT; }},
    {"clamp", [](carat_problem& p) { p.epilogue.clamp = 1, p.epilogue.clamp_lo = -1, p.epilogue.clamp_hi = 1; }},
    {"out_scale_tensor", [](carat_problem& p) { p.epilogue.out_scale = CARAT_OUT_SCALE_TENSOR; }},
    {"out_scale_row", [](carat_problem& p) { p.epilogue.out_scale = CARAT_OUT_SCALE_ROW; }},
    {"out_scale_1x128", [](carat_problem& p) { p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128; }},
    {"amax", [](carat_problem& p) { p.epilogue.amax = 1; }},
};

constexpr Feature kRecipes[] = {
    {"tensorwise", [](carat_problem& p) { p.scale_a.recipe = p.scale_b.recipe = CARAT_SCALE_TENSOR_WISE; }},
    {"rowwise", [](carat_problem& p) { p.scale_a.recipe = p.scale_b.recipe = CARAT_SCALE_ROW_WISE; }},
    {"1x128/128x128",
     [](carat_problem& p) {
         p.scale_a.recipe = CARAT_SCALE_BLOCK_WISE_1X128, p.scale_b.recipe = CARAT_SCALE_BLOCK_WISE_128X128;
     }},
    {"none/rowwise", [](carat_problem& p) { p.scale_b.recipe = CARAT_SCALE_ROW_WISE; }},
    {"none/groupwise", [](carat_problem& p) { p.scale_b.recipe = CARAT_SCALE_GROUP_WISE, p.scale_b.group = 128; }},
};

// A machine of the row's own kind that has everything: what it refuses there, it refuses everywhere.
Target probe_target(const Row& row) {
    if (row.backend == CARAT_BACKEND_CUDA) return known_gpus().front();
    Target target;
    target.backend = CARAT_BACKEND_CPU;
    target.name = "cpu";
    target.full_name = "the CPU";
    target.units = 1;
    target.isas = {"avx512_bf16", "avx512", "avx2", "portable"};
    return target;
}

bool takes(const Row& row, const Target& target, const carat_problem& problem) {
    const auto valid = validate_problem(&problem);
    if (!valid.ok()) return false;
    Requirements requirements;
    row.require(*valid, target, requirements);
    return requirements.ok();
}

Json names_taken(const Row& row, const Target& target, const Types& types, std::span<const Feature> features) {
    Json names = Json::array();
    for (const Feature& feature : features) {
        carat_problem problem = problem_of(row, types, kProbeExtent);
        feature.apply(problem);
        if (takes(row, target, problem)) names.push_back(feature.name);
    }
    return names;
}

Json supports_json(const Row& row) {
    const Target target = probe_target(row);
    Json supports = Json::array();
    for (const Types& types : type_triples()) {
        Json layouts = Json::array();
        for (const char* layout : kLayouts)
            if (takes(row, target, problem_of(row, types, kProbeExtent, layout))) layouts.push_back(layout);
        if (layouts.empty()) continue;
        supports.push_back({{"a", name(types.a)},
                            {"b", name(types.b)},
                            {"d", name(types.d)},
                            {"layouts", layouts},
                            {"modes", names_taken(row, target, types, kModes)},
                            {"epilogues", names_taken(row, target, types, kEpilogues)},
                            {"recipes", names_taken(row, target, types, kRecipes)}});
    }
    return supports;
}

// The size at which configurations are listed: a large problem, since a small one has fewer.
constexpr int64_t kTypicalExtent = 4096;

// bf16 where the row takes it, else the first types that it takes.
std::optional<carat_problem> typical_problem(const Row& row, const Target& target) {
    std::vector<Types> triples = type_triples();
    triples.insert(triples.begin(), {CARAT_BF16, CARAT_BF16, CARAT_BF16});
    for (const Types& types : triples) {
        const carat_problem problem = problem_of(row, types, kTypicalExtent);
        if (takes(row, target, problem)) return problem;
    }
    return std::nullopt;
}

// "9.0", "7.5 or newer", "8.0, 9.0": of GPUs that are otherwise like the target.
std::string capabilities(const Row& row, Target target, const carat_problem& problem) {
    constexpr int kKnown[] = {75, 80, 86, 89, 90, 100, 103, 120};
    std::vector<std::string> names;
    bool newer_ones_too = true;
    for (const int capability : kKnown) {
        target.cc_major = capability / 10, target.cc_minor = capability % 10;
        const bool taken = takes(row, target, problem);
        if (taken) names.push_back(fmt::format("{}.{}", target.cc_major, target.cc_minor));
        newer_ones_too = newer_ones_too && (taken || names.empty());
    }
    if (newer_ones_too && names.size() > 1) return names.front() + " or newer";
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

Json typical_json(const Row& row, const Target& target) {
    const std::optional<carat_problem> problem = typical_problem(row, target);
    if (!problem) return nullptr;
    const auto valid = validate_problem(&*problem);
    Json names = Json::array();
    for (const Config& config : row.candidates(*valid, target)) names.push_back(config.name());
    return {
        {"problem", describe(*valid)},
        {"compute_capability", row.backend == CARAT_BACKEND_CUDA ? Json(capabilities(row, target, *problem)) : Json()},
        {"configurations", names}};
}

Json rows_json() {
    Json rows = Json::array();
    for (const Row& row : registry())
        rows.push_back({{"name", row.name},
                        {"summary", row.summary},
                        {"source", row.source},
                        {"backend", row.backend == CARAT_BACKEND_CUDA ? "cuda" : "cpu"},
                        {"supports", supports_json(row)},
                        {"typical", typical_json(row, probe_target(row))}});
    return rows;
}

Json statuses_json() {
    Json statuses = Json::array();
    for (int value = CARAT_SUCCESS; value <= CARAT_INTERNAL_ERROR; ++value)
        statuses.push_back({{"name", carat_status_name(carat_status(value))},
                            {"value", value},
                            {"sentence", carat_status_sentence(carat_status(value))}});
    return statuses;
}

Json list_json() {
    Json targets = Json::array(), variables = Json::array(), types = Json::array();
    for (const Target& gpu : known_gpus())
        targets.push_back(
            {{"name", gpu.name}, {"full_name", gpu.full_name}, {"arch", gpu.arch()}, {"source", gpu.source}});
    for (const env::Variable& v : env::variables())
        variables.push_back({{"name", v.name}, {"values", v.values}, {"fallback", v.fallback}, {"meaning", v.meaning}});
    for (const DtypeInfo& type : dtypes()) types.push_back(type.name);
    return {{"schema", "carat.list/1"}, {"version", carat_version()},  {"rows", rows_json()}, {"targets", targets},
            {"env", variables},         {"statuses", statuses_json()}, {"dtypes", types}};
}

}  // namespace

carat_status carat_list(carat_text_t* json) {
    return guard([&]() -> Status { return give_json(list_json(), json); });
}
