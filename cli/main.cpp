// SPDX-License-Identifier: Apache-2.0
// main.cpp: the program `carat`: its subcommands, and the one place where a failure becomes a sentence and an exit code.
#include <CLI/CLI.hpp>
#include <new>

#include "commands/commands.hpp"
#include "common.hpp"

using namespace carat;
using namespace carat::cli;

namespace {

struct Subcommand {
    const char* name;
    const char* summary;
    Command (*add)(CLI::App& app);
};

constexpr Subcommand kSubcommands[] = {
    {"demo", "The linear layers of a real model on this machine, each checked", add_demo},
    {"run", "One problem, from flags or from .npy and .safetensors files", add_run},
    {"bench", "Time problems: from flags, a file or a model; with peers and a comparison", add_bench},
    {"tune", "Measure the fastest kernel of each problem, and keep the choices in a database", add_tune},
    {"calibrate", "Fit the cost models to this GPU, or say how far their predictions are off", add_calibrate},
    {"ladder", "From the naive kernel to the fastest: what each step brings, beside cuBLAS and the limits", add_ladder},
    {"explain", "Which kernel a problem gets, why, and how far from the limit it is", add_explain},
    {"list", "Kernels, GPUs, environment variables, statuses, exit codes", add_list},
    {"models", "The bundled models and the problems of their linear layers", add_models},
    {"doctor", "What this machine has, what is missing and how to fix it", add_doctor},
    {"prepare", "Compile what a model or a suite needs on this GPU, before it is served", add_prepare},
    {"pack", "Kernel packs, compiled ahead of time: build, list, verify", add_pack},
    {"cache", "The kernel cache: stats, verify, prune, clear, path", add_cache},
};

std::string version_text() {
    return fmt::format("carat {} (g++ {}, {}, {})", carat_version(), __VERSION__, CARAT_BUILD_TYPE, "x86-64 Linux");
}

std::string exit_code_text() {
    std::string text = "Exit codes:";
    for (const ExitCodeRow& row : kExitCodes)
        text += fmt::format("\n  {:<4}{}", static_cast<int>(row.code), row.meaning);
    return text;
}

// A mistyped flag as one sentence that names it.
ExitCode usage_failure(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "carat" : "carat " + chosen.front()->get_name();
    std::string what = one_line(error.what());
    while (!what.empty() && (what.back() == '.' || what.back() == ' ')) what.pop_back();
    complain(fmt::format("{} (see `{} --help`)", what, command));
    return kUsage;
}

ExitCode run_command(const Command& command) {
    try {
        return command();
    } catch (const Failure& failure) {
        complain(failure.what());
        return failure.code();
    } catch (const Error& error) {
        complain(error.what());
        return exit_code_of(error.status());
    } catch (const std::bad_alloc&) {
        complain("out of memory: give smaller sizes");
        return kTaskFailed;
    } catch (const std::exception& error) {
        complain(fmt::format("an unexpected failure, please report it: {}", error.what()));
        return kTaskFailed;
    }
}

}  // namespace

int main(int argc, char** argv) {
    remember_command(argc, argv);
    CLI::App app("Carat: matrix products for LLM inference on NVIDIA GPUs and CPUs", "carat");
    app.set_version_flag("--version", version_text());
    app.footer(exit_code_text());
    app.require_subcommand(0, 1);
    std::vector<std::pair<CLI::App*, Command>> commands;
    for (const Subcommand& subcommand : kSubcommands) {
        CLI::App* sub = app.add_subcommand(subcommand.name, subcommand.summary);
        commands.emplace_back(sub, subcommand.add(*sub));
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
        return usage_failure(app, error);
    }
    for (const auto& [sub, command] : commands)
        if (sub->parsed()) return run_command(command);
    complain(
        "a subcommand is missing: demo, run, bench, tune, calibrate, ladder, explain, list, models, doctor, prepare, "
        "pack or "
        "cache (see `carat --help`)");
    return kUsage;
}
