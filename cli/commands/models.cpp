// SPDX-License-Identifier: Apache-2.0
// models.cpp: `carat models`: the bundled models, or the problems of one model's linear layers.
#include <CLI/CLI.hpp>
#include <memory>

#include "commands/commands.hpp"
#include "common.hpp"
#include "table.hpp"

namespace carat::cli {
namespace {

struct ModelsFlags {
    Output output;
    std::string model, tokens = "1", tp = "1";
};

void print_list(const Json& report, bool colored) {
    Table table({"model", "type", ">layers", ">hidden", ">vocabulary"});
    for (const Json& model : member(report, "models"))
        table.add({text_at(model, "model", text_at(model, "name", "?")), text_at(model, "model_type"),
                   fmt::format("{}", number_at(model, "layers", NAN)),
                   fmt::format("{}", number_at(model, "hidden", NAN)),
                   fmt::format("{}", number_at(model, "vocabulary", NAN))});
    print(table.str(colored));
    print("\n`carat models NAME --tokens 64 --tp 8` lists its problems; a path of a config.json works too.\n");
}

std::string whole(const Json& json, const char* key) {
    const double value = number_at(json, key, NAN);
    return value == value ? fmt::format("{:.0f}", value) : "-";
}

void print_model(const Json& report, bool colored) {
    print(fmt::format("{}: {} layers, {} tokens a step, tensor parallel over {}\n\n", text_at(report, "model"),
                      whole(report, "layers"), whole(report, "tokens"), whole(report, "tp")));
    Table table({"layer", ">M", ">N", ">K", ">times", ">groups", ">of them chosen", ">GFLOP"});
    for (const Json& g : member(report, "gemms")) {
        const double flops =
            2 * number_at(g, "m", 0) * number_at(g, "n", 0) * number_at(g, "k", 0) * number_at(g, "count", 0);
        table.add({text_at(g, "name"), whole(g, "m"), whole(g, "n"), whole(g, "k"), whole(g, "count"),
                   whole(g, "groups"), whole(g, "top_k"), human(flops * 1e-9)});
    }
    print(table.str(colored));
}

ExitCode run_models(const ModelsFlags& flags) {
    const int64_t tokens = parse_integer(flags.tokens, "--tokens", 0, int64_t(1) << 30);
    const int64_t tp = parse_integer(flags.tp, "--tp", 1, 4096);
    const char* model = flags.model.empty() ? nullptr : flags.model.c_str();
    const Json report = parse_json(carat::models(model, tokens, static_cast<int32_t>(tp)), "the list of models");
    print_json(flags.output, report);
    if (!flags.output.tables()) return kOk;
    const bool colored = flags.output.colored(stdout);
    if (model)
        print_model(report, colored);
    else
        print_list(report, colored);
    return kOk;
}

}  // namespace

Command add_models(CLI::App& app) {
    auto flags = std::make_shared<ModelsFlags>();
    app.add_option("model", flags->model, "A bundled model or a config.json; none: list the bundled ones")
        ->type_name("NAME");
    app.add_option("--tokens", flags->tokens, "Tokens in a step (default 1)")->type_name("N");
    app.add_option("--tp", flags->tp, "GPUs that share each layer (default 1)")->type_name("N");
    add_output_flags(app, flags->output);
    return [flags] { return run_models(*flags); };
}

}  // namespace carat::cli
