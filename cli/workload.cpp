// SPDX-License-Identifier: Apache-2.0
#include "workload.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "shapes.hpp"

namespace carat::cli {
namespace {

// layers: in a set, of a model's layers only those with one of these words in their name ("": all; problems of a suite
// have no names, and get every epilogue).
struct NamedEpilogue {
    const char* name;
    const char* bias;
    const char* activation;
    const char* gate;
    const char* beta;
    std::vector<std::string> layers;
    bool common;
};

const std::vector<NamedEpilogue>& epilogues() {
    static const std::vector<NamedEpilogue> table = {
        {"none", "", "none", "", "0", {""}, true},
        {"bias", "n", "none", "", "0", {"qkv"}, true},
        {"residual", "", "none", "", "1", {"o_proj", "down_proj"}, true},
        {"silu-split", "", "silu", "split", "0", {"gate_up"}, true},
        {"silu-interleaved", "", "silu", "interleaved", "0", {"gate_up"}, true},
        {"bias-gelu", "n", "gelu-tanh", "", "0", {}, true},  // of models without a gate
        {"bias-residual", "n", "none", "", "1", {"o_proj", "down_proj"}, false},
        {"gelu-split", "", "gelu-tanh", "split", "0", {"gate_up"}, false},
    };
    return table;
}

std::string epilogue_names() {
    std::vector<std::string> names;
    for (const NamedEpilogue& epilogue : epilogues()) names.emplace_back(epilogue.name);
    return join(names, ", ");
}

bool has_layer(const NamedEpilogue& epilogue, const std::string& name) {
    return name.empty() || std::any_of(epilogue.layers.begin(), epilogue.layers.end(),
                                       [&](const std::string& word) { return name.find(word) != std::string::npos; });
}

// Those of the set or list that --epilogues names; those of a list go with every layer.
std::vector<const NamedEpilogue*> wanted_epilogues(const std::string& text, const Shape& shape) {
    std::vector<const NamedEpilogue*> wanted;
    const bool all = text == "all", common = text == "common";
    if (all || common) {
        for (const NamedEpilogue& epilogue : epilogues())
            if ((all || epilogue.common) && has_layer(epilogue, shape.name)) wanted.push_back(&epilogue);
        return wanted;
    }
    for (const std::string& name : split(text == "plain" ? "none" : text, ',')) {
        const auto is_it = [&](const NamedEpilogue& epilogue) { return name == epilogue.name; };
        const auto found = std::find_if(epilogues().begin(), epilogues().end(), is_it);
        if (found == epilogues().end())
            fail(kUsage, "--epilogues got \"{}\": it takes plain, common, all, or a list of {}", one_line(name),
                 epilogue_names());
        wanted.push_back(&*found);
    }
    return wanted;
}

// Odd N has no gate.
bool suits(const NamedEpilogue& epilogue, const Shape& shape) {
    return *epilogue.gate == '\0' || shape.n % 2 == 0;
}

carat_problem problem_of(const Shape& shape, const NamedEpilogue& epilogue, const std::string& dtype) {
    ProblemFlags flags;
    flags.dtype = dtype.empty() ? "bf16" : dtype;
    flags.dtype_given = !dtype.empty();
    flags.bias = epilogue.bias;
    flags.activation = epilogue.activation;
    flags.gate = epilogue.gate;
    flags.beta = epilogue.beta;
    return make_problem(flags, shape);
}

std::vector<Shape> all_shapes(const WorkloadFlags& flags) {
    if (flags.shapes.empty() && flags.models.empty())
        fail(kUsage, "--model is missing: give --model NAME or --shapes FILE, as often as you like");
    std::vector<Shape> shapes;
    const std::vector<int64_t> tokens = parse_sizes(flags.tokens, "--tokens");
    const int64_t tp = parse_integer(flags.tp, "--tp", 1, 4096);
    for (const std::string& file : flags.shapes)
        for (Shape& shape : shapes_of_file(file)) shapes.push_back(std::move(shape));
    for (const std::string& model : flags.models)
        for (Shape& shape : shapes_of_model(model, tokens, tp)) shapes.push_back(std::move(shape));
    return shapes;
}

}  // namespace

void add_workload_flags(CLI::App& app, WorkloadFlags& f) {
    app.add_option("--model", f.models, "A bundled model or a config.json; may be given several times")
        ->type_name("NAME")
        ->expected(1)
        ->take_all();
    app.add_option("--tokens", f.tokens, "Tokens a step, of models (default 1:8192:x2)")->type_name("LIST");
    app.add_option("--tp", f.tp, "GPUs that share each layer, of models (default 1)")->type_name("N");
    app.add_option("--shapes,--suite", f.shapes,
                   "Problems from a file, lines \"m n k [dtype] [layout]\"; may be given several times")
        ->type_name("FILE")
        ->expected(1)
        ->take_all();
    app.add_option("--dtype", f.dtypes, "Element types (default: the file's, bf16 for models)")->type_name("LIST");
    app.add_option("--epilogues", f.epilogues,
                   "plain; common (default) and all: what suits a model's layers; or a list of " + epilogue_names())
        ->type_name("LIST");
}

std::vector<carat_problem> workload(const WorkloadFlags& flags) {
    std::vector<carat_problem> problems;
    std::set<std::string> known;
    const std::vector<std::string> dtypes = split(flags.dtypes, ',');  // one empty word if none was given
    for (const Shape& shape : all_shapes(flags))
        for (const NamedEpilogue* epilogue : wanted_epilogues(flags.epilogues, shape))
            for (const std::string& dtype : dtypes) {
                if (!suits(*epilogue, shape)) continue;
                const carat_problem problem = problem_of(shape, *epilogue, dtype);
                if (known.insert(shape_name(problem) + epilogue->name).second) problems.push_back(problem);
            }
    return problems;
}

}  // namespace carat::cli
