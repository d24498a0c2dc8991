// SPDX-License-Identifier: Apache-2.0
// prepare.cpp: `carat prepare`: every kernel that a model or a suite needs on this GPU is compiled now, if it is in no pack
// and no cache yet, and not when the first request waits for it.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "commands/commands.hpp"
#include "preparation.hpp"
#include "progress.hpp"

namespace carat::cli {
namespace {

struct PrepareFlags {
    Output output;
    WorkloadFlags workload;
    MachineFlags machine;
    std::string jobs = "0";
};

ExitCode run_prepare(const PrepareFlags& flags) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<carat_problem> problems = workload(flags.workload);
    const int jobs = parse_jobs(flags.jobs);
    const Context context = make_context(flags.machine);
    catch_interrupts();
    const std::vector<Planned> planned = plan_all(context, problems, jobs, flags.output);
    Json report = {{"schema", "carat.prepare/1"}};
    report.update(preparation_json(planned, context));
    print_json(flags.output, report);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (flags.output.tables()) print(preparation_text(report, seconds, flags.output.colored(stdout)));
    throw_first_failure(planned);
    return kOk;
}

}  // namespace

Command add_prepare(CLI::App& app) {
    auto flags = std::make_shared<PrepareFlags>();
    flags->machine.backend = "cuda";  // the CPU has nothing to compile
    add_workload_flags(app, flags->workload);
    app.add_option("--target", flags->machine.target, "Prepare for this GPU of `carat list`, with no such GPU here")
        ->type_name("GPU");
    app.add_option("--device", flags->machine.device, "CUDA device (default 0)")->type_name("N");
    app.add_option("--cache-dir", flags->machine.cache_dir, "Where compiled kernels are kept")->type_name("DIR");
    app.add_option("--jobs", flags->jobs, "Kernels compiled at a time (default: one a core)")->type_name("N");
    add_output_flags(app, flags->output);
    return [flags] { return run_prepare(*flags); };
}

}  // namespace carat::cli
