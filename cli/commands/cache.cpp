// SPDX-License-Identifier: Apache-2.0
// cache.cpp: `carat cache stats|verify|prune|clear|path`: the compiled kernels kept on disk.
#include <CLI/CLI.hpp>
#include <memory>

#include "commands/commands.hpp"
#include "problem_flags.hpp"
#include "table.hpp"

namespace carat::cli {
namespace {

struct CacheFlags {
    Output output;
    std::string command = "stats", directory;
};

void print_report(const Json& report, const Output& output) {
    Table table({"cache", ""});
    const std::string path = text_at(report, "path");
    table.add({"path", path.empty() ? "in memory only: " + text_at(report, "why_memory_only", "no directory") : path});
    table.add({"entries", human(number_at(report, "entries", NAN))});
    table.add({"size", human_bytes(number_at(report, "bytes", NAN))});
    table.add({"limit", human_bytes(number_at(report, "limit_bytes", NAN))});
    for (const char* key : {"checked", "bad", "removed"})
        if (member(report, key).is_number()) table.add({key, human(number_at(report, key, NAN))});
    print(table.str(output.colored(stdout)));
}

ExitCode run_cache(const CacheFlags& flags) {
    MachineFlags machine;
    machine.backend = "cpu";  // the cache is the same one, and needs no GPU to be looked at
    machine.cache_dir = flags.directory;
    const Context context = make_context(machine);
    const bool only_path = flags.command == "path";
    Json report = parse_json(context.cache(only_path ? "stats" : flags.command.c_str()), "the cache's report");
    report["command"] = flags.command;
    print_json(flags.output, report);
    const std::string path = text_at(report, "path");
    if (only_path && path.empty())
        fail(kInputOutput, "the cache has no directory: {}",
             text_at(report, "why_memory_only", "it is in memory only"));
    if (flags.output.tables()) {
        if (only_path)
            print(path + "\n");
        else
            print_report(report, flags.output);
    }
    if (number_at(report, "bad", 0) > 0)
        fail(kInputOutput,
             "the cache holds {} damaged entries: they count as missing; `carat cache clear` removes them",
             number_at(report, "bad", 0));
    return kOk;
}

}  // namespace

Command add_cache(CLI::App& app) {
    auto flags = std::make_shared<CacheFlags>();
    app.add_option("command", flags->command, "stats (default), verify, prune, clear or path")
        ->check(CLI::IsMember({"stats", "verify", "prune", "clear", "path"}))
        ->type_name("");
    app.add_option("--cache-dir", flags->directory, "Look at this directory")->type_name("DIR");
    add_output_flags(app, flags->output);
    return [flags] { return run_cache(*flags); };
}

}  // namespace carat::cli
