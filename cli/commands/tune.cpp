// SPDX-License-Identifier: Apache-2.0
// tune.cpp: `carat tune`: measures which kernel is the fastest for each problem and keeps it in a tuning database; and `carat tune
// list|merge|export`, which look at and put together such databases. docs/tuning.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "commands/commands.hpp"
#include "progress.hpp"
#include "table.hpp"
#include "tune_run.hpp"
#include "tuning_file.hpp"

namespace carat::cli {
namespace {

struct TuneFlags {
    Output output;
    ProblemFlags problem;
    SourceFlags source;
    MachineFlags machine;
    std::string budget = "1.5", timeout = "0", within = "1.5", most = "32";
    bool force = false, dry_run = false;
};

struct FilesFlags {
    std::vector<std::string> files;
    std::string output;
    bool all = false, json = false;
    MachineFlags machine;
};

Json tuning_info(const MachineFlags& machine) {
    return parse_json(make_context(machine).tuning(), "the tuning's report");
}

std::string database_of(const MachineFlags& machine) {
    if (machine.tuning == "off") fail(kUsage, "--tuning is off: give the file that the results go to");
    if (!machine.tuning.empty()) return machine.tuning;
    const std::string file = text_at(tuning_info(machine), "user_file");
    if (file.empty())
        fail(kUsage,
             "there is no place for the results, since CARAT_TUNING is off or HOME is not set: give --tuning FILE");
    return file;
}

Effort effort_of(const TuneFlags& flags) {
    Effort effort = {.seconds = parse_budget(flags.budget)};
    effort.within = parse_real(flags.within, "--within");
    if (!(effort.within >= 1)) fail(kUsage, "--within got \"{}\": it takes a factor from 1 on", one_line(flags.within));
    effort.most = size_t(parse_integer(flags.most, "--most", 1, 1024));
    effort.least = std::min(effort.least, effort.most);
    effort.stop = [] { return stop_asked() != kOk; };
    return effort;
}

ExitCode run_tune(const TuneFlags& flags) {
    if (!flags.machine.kernel.empty()) fail(kUsage, "--kernel does not go with tune, which chooses among all of them");
    if (!flags.machine.target.empty() && !flags.dry_run)
        fail(kUsage, "--target plans for a GPU that is not here: it goes with --dry-run");
    const double limit = parse_timeout(flags.timeout);
    const TuneOptions options = {.machine = flags.machine,
                                 .output = flags.output,
                                 .jobs = read_jobs(flags.problem, flags.source),
                                 .database = database_of(flags.machine),
                                 .effort = effort_of(flags),
                                 .force = flags.force};
    OutputFile file(flags.output.file);
    ExitCode code = kOk;
    Json report;
    if (flags.dry_run) {
        report = tune_dry(options);
    } else {
        catch_interrupts();
        set_time_limit(limit);
        report = tune(options, code);
    }
    file.commit(dump(report));
    print_json(flags.output, report);
    return code;
}

// The files named, or the one that a context here would use.
std::vector<std::vector<Json>> read_files(const FilesFlags& flags) {
    std::vector<std::string> files = flags.files;
    if (files.empty()) files.push_back(database_of(flags.machine));
    std::vector<std::vector<Json>> all;
    for (const std::string& file : files) all.push_back(read_tuning_rows(file, true));
    return all;
}

void write_or_print(const std::string& path, const std::vector<Json>& rows) {
    if (path.empty())
        print(tuning_text(rows));
    else
        write_tuning_rows(path, rows);
}

ExitCode run_list(const FilesFlags& flags) {
    const std::vector<Json> rows = merge_rows(read_files(flags));
    if (flags.json) {
        print(dump({{"schema", "carat.tune_list/1"}, {"rows", rows}, {"summary", summarize_rows(rows).json()}}));
        return kOk;
    }
    Table table({"device", "M x N x K", "kernel", ">us", ">the library's own, us", "date"});
    for (const Json& row : rows)
        table.add({text_at(member(row, "device"), "name"), row_name(row), text_at(row, "kernel"),
                   human(number_at(row, "us", NAN)), human(number_at(member(row, "own"), "us", NAN)),
                   text_at(member(row, "provenance"), "date").substr(0, 10)});
    print(table.str(Output().colored(stdout)) + summarize_rows(rows).text());
    return kOk;
}

ExitCode run_merge(const FilesFlags& flags) {
    write_or_print(flags.output, merge_rows(read_files(flags)));
    return kOk;
}

ExitCode run_export(const FilesFlags& flags) {
    std::vector<Json> rows = merge_rows(read_files(flags));
    if (!flags.all) {
        const Json device = member(tuning_info(flags.machine), "device");
        std::erase_if(rows, [&](const Json& row) { return member(row, "device") != device; });
    }
    write_or_print(flags.output, rows);
    return kOk;
}

using FilesCommand = ExitCode (*)(const FilesFlags&);

struct Verb {
    CLI::App* app;
    std::shared_ptr<FilesFlags> flags;
    FilesCommand run;
};

Verb add_verb(CLI::App& app, const char* name, const char* summary, FilesCommand run) {
    Verb verb = {app.add_subcommand(name, summary), std::make_shared<FilesFlags>(), run};
    auto* files = verb.app->add_option("files", verb.flags->files, "Tuning databases (default: the user's)");
    files->type_name("FILE...");
    if (run == run_merge) files->required();
    if (run == run_list)
        verb.app->add_flag("--json", verb.flags->json, "Print JSON to stdout instead of a table");
    else
        verb.app->add_option("-o,--output,--out", verb.flags->output, "Write here, not to stdout")->type_name("FILE");
    if (run == run_export) {
        verb.app->add_flag("--all", verb.flags->all, "Rows of every device, not of this one alone");
        verb.app->add_option("--backend", verb.flags->machine.backend, "Whose device: auto, cpu or cuda")
            ->type_name("NAME");
    }
    return verb;
}

}  // namespace

Command add_tune(CLI::App& app) {
    auto flags = std::make_shared<TuneFlags>();
    add_problem_flags(app, flags->problem, ShapeFlags::lists);
    add_source_flags(app, flags->source, "--shapes,--file", "--trace");
    app.add_option("--budget", flags->budget, "Seconds to sample a problem for (default 1.5)")->type_name("SECONDS");
    app.add_option("--timeout", flags->timeout, "Stop after this many seconds, keep what is done, exit 7")
        ->type_name("SECONDS");
    app.add_option("--within", flags->within, "Measure what is predicted within this factor of the best (default 1.5)")
        ->type_name("FACTOR");
    app.add_option("--most", flags->most, "Measure no more kernels of a problem (default 32)")->type_name("N");
    app.add_flag("--force", flags->force, "Measure again what has a fresh row");
    app.add_flag("--dry-run", flags->dry_run, "Say what would be measured, and measure nothing");
    add_machine_flags(app, flags->machine, true);
    add_output_flags(app, flags->output, true);
    app.require_subcommand(0, 1);
    const std::vector<Verb> verbs = {
        add_verb(app, "list", "The rows of a database, and how good the own choices are", run_list),
        add_verb(app, "merge", "Several databases as one; the newest row wins", run_merge),
        add_verb(app, "export", "The rows of this device, or of all", run_export)};
    return [flags, verbs]() -> ExitCode {
        for (const Verb& verb : verbs)
            if (verb.app->parsed()) return verb.run(*verb.flags);
        return run_tune(*flags);
    };
}

}  // namespace carat::cli
