// SPDX-License-Identifier: Apache-2.0
// ladder.cpp: `carat ladder`: the kernels from the naive one to the fastest, each timed and checked beside cuBLASLt and
// the hardware's limits; without a GPU, what the compiler and the model say of them. Results are "carat.ladder/1".
#include <CLI/CLI.hpp>
#include <memory>

#include "commands/commands.hpp"
#include "ladder_html.hpp"
#include "ladder_run.hpp"
#include "ladder_view.hpp"
#include "progress.hpp"

namespace carat::cli {
namespace {

constexpr int64_t kLargestSize = 1 << 20;
constexpr int64_t kSweep[] = {512, 1024, 2048, 4096, 8192};
constexpr const char* kDefaultTarget = "h200";  // planned for where there is no GPU

struct LadderFlags {
    Output output;
    MachineFlags machine;
    RungFlags rungs;
    std::string size, m, n, k;
    bool sweep = false, all_candidates = false, peer = true;
    std::string html, load, budget = "1.5", timeout = "0";
};

bool has_extents(const LadderFlags& flags) {
    return !(flags.m.empty() && flags.n.empty() && flags.k.empty());
}

std::vector<Shape> shapes_to_climb(const LadderFlags& flags) {
    if (!flags.size.empty() + has_extents(flags) + flags.sweep > 1)
        fail(kUsage, "--size, --m/--n/--k and --sweep were given together: give one of them");
    if (has_extents(flags)) {
        const auto extent = [](const std::string& text, const char* flag) {
            if (text.empty()) fail(kUsage, "{} is missing: --m, --n and --k go together, or give --size", flag);
            return parse_integer(text, flag, 1, kLargestSize);
        };
        return {{.m = extent(flags.m, "--m"), .n = extent(flags.n, "--n"), .k = extent(flags.k, "--k")}};
    }
    std::vector<Shape> shapes;
    if (flags.sweep) {
        for (const int64_t size : kSweep) shapes.push_back({.m = size, .n = size, .k = size});
        return shapes;
    }
    const int64_t size = flags.size.empty() ? 4096 : parse_integer(flags.size, "--size", 1, kLargestSize);
    return {{.m = size, .n = size, .k = size}};
}

// A context that can run, or else one that plans, and then the sentence that says why.
Context open_context(const MachineFlags& flags, std::string& note) {
    MachineFlags machine = flags;
    if (!machine.target.empty()) {
        note = fmt::format("Nothing is timed: --target {} plans for that GPU; leave it out on a machine with a GPU.",
                           one_line(machine.target));
        return make_context(machine);
    }
    if (!machine.device.empty()) machine.backend = "cuda";  // a device that was asked for must be there
    Context context = make_context(machine);
    if (context.backend() == CARAT_BACKEND_CUDA) return context;
    std::string why = "CARAT_BACKEND asks for the CPU";
    try {
        machine.backend = "cuda";
        make_context(machine);
    } catch (const Error& error) {  // its first clause: the rest is what `carat doctor` says
        why = error.what();
        for (const char* end : {" (", ": "}) why = why.substr(0, why.find(end));
    }
    machine.backend = "auto";
    machine.target = kDefaultTarget;
    note = fmt::format(
        "Nothing is timed, because no GPU is used here ({}; see `carat doctor`): this is a plan for an "
        "{}. Run it where there is a GPU to get times, or show a kept result with --load FILE.",
        one_line(why), kDefaultTarget);
    return make_context(machine);
}

Json climb(const LadderFlags& flags, double limit, double budget, ExitCode& code) {
    LadderOptions options = {.rungs = find_rungs(flags.rungs),
                             .shapes = shapes_to_climb(flags),
                             .rungs_named = !flags.rungs.rungs.empty(),
                             .sweep = flags.sweep,
                             .all_candidates = flags.all_candidates,
                             .peer = flags.peer,
                             .budget = budget,
                             .machine = flags.machine,
                             .output = flags.output};
    catch_interrupts();
    set_time_limit(limit);
    std::string note;
    const Context context = open_context(flags.machine, note);
    return run_ladder(options, context, note, code);
}

void require_alone(const LadderFlags& flags) {
    if (flags.load.empty()) return;
    if (!flags.size.empty() || has_extents(flags) || flags.sweep || !flags.rungs.rungs.empty() ||
        flags.all_candidates || !flags.machine.target.empty())
        fail(kUsage, "--load shows the results of a file: flags that choose what to run do not go with it");
}

ExitCode run(const LadderFlags& flags) {
    require_alone(flags);
    const double budget = parse_budget(flags.budget), limit = parse_timeout(flags.timeout);
    OutputFile file(flags.output.file), page(flags.html, "--html");
    ExitCode code = kOk;
    const Json report = flags.load.empty() ? climb(flags, limit, budget, code) : load_ladder(flags.load);
    file.commit(dump(report));
    page.commit(ladder_html(report));
    print_json(flags.output, report);
    if (flags.output.tables()) print(ladder_text(report, flags.output.colored(stdout)));
    return code;
}

}  // namespace

Command add_ladder(CLI::App& app) {
    auto flags = std::make_shared<LadderFlags>();
    app.add_option("--size", flags->size, "M = N = K (default 4096)")->type_name("N");
    app.add_option("--m", flags->m, "Rows of A and D, in place of --size")->type_name("M");
    app.add_option("--n", flags->n, "Columns of B")->type_name("N");
    app.add_option("--k", flags->k, "Columns of A, rows of B")->type_name("K");
    app.add_flag("--sweep", flags->sweep, "Sizes 512 to 8192; v0 and v1 up to 2048");
    app.add_option("--rungs", flags->rungs.rungs, "Only these: v0,v3 or their rows of `carat list`")->type_name("LIST");
    app.add_option("--layout", flags->rungs.layout,
                   "Transposition of A and B over row-major storage: nt nn tn tt (default nn in f32, nt in 16 bits)")
        ->check(CLI::IsMember({"nt", "nn", "tn", "tt"}))
        ->type_name("LAYOUT");
    app.add_option("--dtype", flags->rungs.dtype, "Type of the rungs on tensor cores: bf16 or f16 (default bf16)")
        ->check(CLI::IsMember({"bf16", "f16"}))
        ->type_name("TYPE");
    app.add_flag("--all-candidates", flags->all_candidates, "Every tile of a rung, not its best predicted one alone");
    app.add_flag("--peer,!--no-peer", flags->peer, "Also time cuBLASLt on the same operands (default: on)");
    app.add_option("--budget", flags->budget, "Seconds to sample a group of kernels for (default 1.5)")
        ->type_name("SECONDS");
    app.add_option("--timeout", flags->timeout, "Stop after this many seconds, write what is done, exit 7")
        ->type_name("SECONDS");
    app.add_option("--html", flags->html, "Write a page with charts and the table to this file")->type_name("FILE");
    app.add_option("--load", flags->load, "Show the results of this file, and measure nothing")->type_name("FILE");
    app.add_option("--target", flags->machine.target, "Compile and predict for this GPU of `carat list`, time nothing")
        ->type_name("GPU");
    app.add_option("--device", flags->machine.device, "CUDA device (default 0)")->type_name("N");
    app.add_option("--cache-dir", flags->machine.cache_dir, "Where compiled kernels are kept")->type_name("DIR");
    app.add_option("--seed", flags->machine.seed, "Seed of the random data (default 0)")->type_name("N");
    add_output_flags(app, flags->output, true);
    return [flags] { return run(*flags); };
}

}  // namespace carat::cli
