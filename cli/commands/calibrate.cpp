// SPDX-License-Identifier: Apache-2.0
// calibrate.cpp: `carat calibrate`: fits the cost models to this GPU and writes its device file; with --report it says how far predicted
// times are from measured ones. docs/calibration.md.
#include <CLI/CLI.hpp>
#include <memory>

#include "calibrate_run.hpp"
#include "commands/commands.hpp"
#include "progress.hpp"

namespace carat::cli {
namespace {

struct CalibrateFlags {
    Output output;
    MachineFlags machine;
    std::string budget = "60", timeout = "0", file, shapes, samples, save_samples;
    std::vector<std::string> report;
    bool dry_run = false;
};

ExitCode run_calibrate(const CalibrateFlags& flags) {
    if (!flags.samples.empty() && !flags.save_samples.empty())
        fail(kUsage, "--save-samples keeps what is measured, and with --samples nothing is: give one of them");
    if (!flags.report.empty() && !(flags.file + flags.samples + flags.save_samples).empty())
        fail(kUsage, "--report writes no file and takes its own: give it without -o, --samples and --save-samples");
    const double limit = parse_timeout(flags.timeout);
    const CalibrateOptions options = {.machine = flags.machine,
                                      .output = flags.output,
                                      .seconds = parse_budget(flags.budget),
                                      .file = flags.file,
                                      .shapes = flags.shapes,
                                      .samples = flags.samples,
                                      .save_samples = flags.save_samples,
                                      .dry_run = flags.dry_run};
    ExitCode code = kOk;
    catch_interrupts();
    set_time_limit(limit);
    print_json(flags.output, flags.report.empty() ? calibrate(options, code) : report_errors(options, flags.report));
    return code;
}

}  // namespace

Command add_calibrate(CLI::App& app) {
    auto flags = std::make_shared<CalibrateFlags>();
    flags->machine.backend = "cuda";  // the CPU is measured whenever it is used
    app.add_option("--budget", flags->budget, "Seconds to sample for, in all (default 60)")->type_name("SECONDS");
    app.add_option("--timeout", flags->timeout, "Stop after this many seconds, exit 7")->type_name("SECONDS");
    app.add_option("-o,--output,--out", flags->file, "The device file (default: where plans look for it)")
        ->type_name("FILE");
    app.add_option("--shapes", flags->shapes,
                   "Measure these problems in place of the designed ones: lines \"m n k dtype\"")
        ->type_name("FILE");
    app.add_option("--samples", flags->samples,
                   "Fit to these, or to a report of `carat bench` or `carat tune`, and measure nothing")
        ->type_name("FILE");
    app.add_option("--save-samples", flags->save_samples, "Keep what was measured, for --samples and --report")
        ->type_name("FILE");
    app.add_flag("--dry-run", flags->dry_run,
                 "Say what would be measured, or with --samples fitted, and write nothing");
    app.add_option("--report", flags->report,
                   "Only compare predictions with samples or reports of `carat bench` or `carat tune`")
        ->type_name("FILE...");
    app.add_option("--target", flags->machine.target, "For this GPU of `carat list`, with no such GPU here")
        ->type_name("GPU");
    app.add_option("--device", flags->machine.device, "CUDA device (default 0)")->type_name("N");
    app.add_option("--cache-dir", flags->machine.cache_dir, "Where compiled kernels are kept")->type_name("DIR");
    app.add_option("--seed", flags->machine.seed, "Seed of the random data (default 0)")->type_name("N");
    add_output_flags(app, flags->output);
    return [flags] { return run_calibrate(*flags); };
}

}  // namespace carat::cli
