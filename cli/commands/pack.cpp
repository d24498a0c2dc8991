// SPDX-License-Identifier: Apache-2.0
// pack.cpp: `carat pack build|list|verify`: kernels compiled ahead of time, in one file.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>

#include "commands/commands.hpp"
#include "preparation.hpp"
#include "progress.hpp"
#include "table.hpp"

namespace carat::cli {
namespace {

struct PackFlags {
    Output output;
    WorkloadFlags workload;
    std::string out, arch = "sm_90a", targets, cache_dir, jobs = "0";
    std::string file;  // of list and verify
};

// The known GPUs of --arch, or those that --target names.
std::vector<std::string> wanted_targets(const PackFlags& flags) {
    if (!flags.targets.empty()) return split(flags.targets, ',');
    std::vector<std::string> names, archs;
    const Json list = parse_json(carat::list(), "the list");
    for (const Json& target : member(list, "targets")) {
        archs.push_back(text_at(target, "arch"));
        if (archs.back() == flags.arch) names.push_back(text_at(target, "name"));
    }
    if (names.empty())
        fail(kUsage, "--arch got \"{}\": no known GPU has it; those of `carat list --targets` have {}",
             one_line(flags.arch), join(archs, ", "));
    return names;
}

// Kernels of other packs are left alone: this one is to be of one compiler.
Context planning_context(const PackFlags& flags, const std::string& target) {
    carat_context_options options = Context::default_options();
    options.backend = CARAT_BACKEND_CUDA;
    options.target = target.c_str();
    if (!flags.cache_dir.empty()) options.cache_dir = flags.cache_dir.c_str();
    options.pack = "";
    return Context(options);
}

ExitCode build(const PackFlags& flags) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<carat_problem> problems = workload(flags.workload);
    const int jobs = parse_jobs(flags.jobs);
    const auto folder = std::filesystem::path(flags.out).parent_path();
    std::error_code error;
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error) fail(kInputOutput, "--out {} cannot be written: {}", one_line(flags.out), error.message());
    catch_interrupts();
    std::vector<Context> contexts;
    Json targets = Json::array();
    for (const std::string& target : wanted_targets(flags)) {
        contexts.push_back(planning_context(flags, target));
        const std::vector<Planned> planned = plan_all(contexts.back(), problems, jobs, flags.output);
        throw_first_failure(planned);
        targets.push_back(preparation_json(planned, contexts.back()));
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (flags.output.tables())
            print(preparation_text(targets.back(), seconds, flags.output.colored(stdout)) + "\n");
    }
    std::vector<carat_context_t> handles;
    for (const Context& context : contexts) handles.push_back(context.get());
    check(carat_pack_write(handles.data(), handles.size(), flags.out.c_str()));
    Json report = parse_json(carat::pack(flags.out, "list"), "the pack's index");
    report["command"] = "build";
    report["targets"] = targets;
    print_json(flags.output, report);
    if (flags.output.tables())
        print(fmt::format("{}: {} kernels of {}, {}\n", one_line(flags.out), number_at(report, "entries", 0),
                          text_at(report, "archs"), human_bytes(number_at(report, "bytes", NAN))));
    return kOk;
}

void print_pack(const Json& report, bool verified, bool colored) {
    print(fmt::format("{}: {} kernels of {}, {}, by {} and {}{}\n\n", one_line(text_at(report, "path")),
                      number_at(report, "entries", 0), text_at(report, "archs"),
                      human_bytes(number_at(report, "bytes", NAN)), text_at(report, "library"),
                      text_at(report, "compiler"),
                      member(report, "of_this_library") == true ? "" : " (not the sources of this program)"));
    Table table(verified ? std::vector<std::string>{"kernel", ">registers", ">spilled", ">bytes", "state"}
                         : std::vector<std::string>{"kernel", "arch", ">bytes"});
    for (const Json& kernel : member(report, "kernels")) {
        const std::string name = one_line(text_at(kernel, "name")), bytes = human(number_at(kernel, "bytes", NAN));
        const std::string damage = one_line(text_at(kernel, "damage"));
        if (verified)
            table.add({name, human(number_at(kernel, "registers", NAN)), human(number_at(kernel, "spill_bytes", NAN)),
                       bytes, damage.empty() ? Cell("ok", Tone::good) : Cell(damage, Tone::bad)});
        else
            table.add({name, one_line(text_at(kernel, "arch")), bytes});
    }
    print(table.str(colored));
}

ExitCode look(const PackFlags& flags, const char* command) {
    const Json report = parse_json(carat::pack(flags.file, command), "the pack's report");
    print_json(flags.output, report);
    const bool verify = std::string_view(command) == "verify";
    if (flags.output.tables()) print_pack(report, verify, flags.output.colored(stdout));
    if (const double bad = number_at(report, "bad", 0); bad > 0)
        fail(kInputOutput, "{} of {} kernels of {} are damaged and count as missing: build the pack again", bad,
             number_at(report, "entries", 0), one_line(flags.file));
    return kOk;
}

}  // namespace

Command add_pack(CLI::App& app) {
    auto flags = std::make_shared<PackFlags>();
    CLI::App* make = app.add_subcommand("build", "Compile the kernels of models and suites into a pack; needs no GPU");
    CLI::App* list = app.add_subcommand("list", "What a pack holds");
    CLI::App* verify = app.add_subcommand("verify", "Read every kernel of a pack and compare its checksums");
    app.require_subcommand(1);
    make->add_option("--out", flags->out, "The pack to write")->type_name("FILE")->required();
    make->add_option("--arch", flags->arch, "For all known GPUs of this architecture (default sm_90a)")
        ->type_name("ARCH");
    make->add_option("--target", flags->targets, "Or for these GPUs of `carat list` alone")->type_name("LIST");
    add_workload_flags(*make, flags->workload);
    make->add_option("--cache-dir", flags->cache_dir, "Where compiled kernels are kept")->type_name("DIR");
    make->add_option("--jobs", flags->jobs, "Kernels compiled at a time (default: one a core)")->type_name("N");
    for (CLI::App* sub : {list, verify})
        sub->add_option("file", flags->file, "The pack")->type_name("FILE")->required();
    for (CLI::App* sub : {make, list, verify}) add_output_flags(*sub, flags->output);
    return [=] { return make->parsed() ? build(*flags) : look(*flags, list->parsed() ? "list" : "verify"); };
}

}  // namespace carat::cli
