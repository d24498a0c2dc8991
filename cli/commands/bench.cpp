// SPDX-License-Identifier: Apache-2.0
// bench.cpp: `carat bench`: times problems from flags, a file or a model, with peers in the same run, and compares with
// an earlier result. timing.hpp says how; results are "carat.bench/1".
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "bench_candidates.hpp"
#include "bench_chain.hpp"
#include "bench_view.hpp"
#include "commands/commands.hpp"
#include "compare.hpp"
#include "jobs.hpp"
#include "peers/peer.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "shapes.hpp"

namespace carat::cli {
namespace {

struct BenchFlags {
    Output output;
    ProblemFlags problem;
    MachineFlags machine;
    SourceFlags source;
    std::vector<std::string> peers;
    std::string compare, load, fail_above = "3%", timeout = "0", budget = "1.5";
    bool check = true, csv = false, all_candidates = false, chain = false;
};

// A run's fixed parts.
struct Bench {
    const BenchFlags& flags;
    const Context& context;
    const Stream& stream;
    std::vector<Guest> guests;
};

// A peer on one problem.
struct Rival {
    std::unique_ptr<Contestant> contestant;
    PeerResult* result;
};

std::vector<Rival> invite(const Bench& bench, const OperandSets& sets, BenchResult& result) {
    const auto ask = bench.flags.check ? &Peer::invite : &Peer::prepare;
    std::vector<Rival> rivals;
    for (const Guest& guest : bench.guests) {
        PeerResult& entry = result.peers[guest.name];
        entry.choice = guest.left_out;
        if (!guest.peer) continue;
        auto contestant = (guest.peer.get()->*ask)(result.problem, sets, &entry.choice);
        if (!contestant) continue;
        entry.choice = contestant->choice;
        rivals.push_back({std::move(contestant), &entry});
    }
    return rivals;
}

void time_problem(const Bench& bench, BenchResult& result) {
    const carat_problem& problem = result.problem;
    if (const std::string why = why_no_operands(problem); !why.empty()) fail(kTaskFailed, "{}", why);
    const Plan plan = bench.context.plan(problem, plan_options(bench.flags.machine));
    result.kernel = plan.kernel();
    result.predicted_us = plan.predicted_us() > 0 ? plan.predicted_us() : NAN;
    result.floor = floor_of(bench.context, problem);
    auto sets = allocate_cold(bench.context, problem, seed_of(bench.flags.machine), result.alpha, result.beta);
    Buffer workspace(bench.context, std::max<size_t>(plan.workspace_bytes(), 1));
    sets->set_workspace(workspace);
    const std::vector<Rival> rivals = invite(bench, *sets, result);
    if (bench.flags.check) {
        blank_result(bench.context, *sets);
        result.check = check_once(bench.context, bench.stream, plan, problem, (*sets)[0]);
    }
    Repeater ours(bench.context, bench.stream, *sets, [&plan](const Operands& o, void* s) { plan.execute(o, s); });
    std::vector<Sampler> contestants = {[&ours] { return ours.sample(); }};
    for (const Rival& rival : rivals)
        contestants.push_back(
            unless_it_fails([&one = *rival.contestant] { return one.sample(); }, &rival.result->choice));
    const std::vector<Timing> timings = measure(contestants, {.seconds = parse_budget(bench.flags.budget)});
    result.timing = timings[0];
    for (size_t i = 0; i < rivals.size(); ++i) rivals[i].result->timing = timings[i + 1];
}

Json result_json(const BenchResult& r) {
    Json json = problem_json(r.problem, r.alpha, r.beta);
    json["kernel"] = maybe(r.kernel);
    json["us"] = maybe(r.timing.us);
    json["p05_us"] = maybe(r.timing.p05_us);
    json["p95_us"] = maybe(r.timing.p95_us);
    json["tflops"] = maybe(tflops(flops_of(r.problem), r.timing.us));
    json["gbps"] = maybe(gigabytes_per_second(r.floor.bytes, r.timing.us));
    json["floor_us"] = maybe(r.floor.us);
    json["predicted_us"] = maybe(r.predicted_us);
    json["peers"] = Json::object();
    for (const auto& [name, peer] : r.peers) json["peers"][name] = peer.json();
    json["check"] = r.check.json(false);
    if (r.count > 0) json["count"] = r.count;
    return json;
}

Json skipped_json(const BenchResult& r) {
    Json json = problem_json(r.problem, r.alpha, r.beta);
    json["reason"] = r.refusal;
    return json;
}

// The first of what went wrong, in the order in which it matters.
ExitCode verdict_of(const std::vector<BenchResult>& results, ExitCode stopped) {
    for (const BenchResult& r : results)
        if (!r.check.ok()) return kCheckFailed;
    if (stopped != kOk) return stopped;
    for (const BenchResult& r : results)
        if (r.refusal_code != kOk) return r.refusal_code;
    return kOk;
}

void explain_verdict(const std::vector<BenchResult>& results, size_t planned, ExitCode code) {
    if (code == kInterrupted)
        complain(fmt::format("interrupted: {} of {} problems were done and are written", results.size(), planned));
    if (code == kTimeOut)
        complain(
            fmt::format("--timeout has passed: {} of {} problems were done and are written", results.size(), planned));
    for (const BenchResult& r : results) {
        if (code == kCheckFailed && !r.check.ok())
            return complain(
                fmt::format("the result of {} is wrong: {}", shape_name(r.problem), describe_failure(r.check)));
        if (code == r.refusal_code && !r.refusal.empty() && code != kOk)
            return complain(fmt::format("{} was not timed: {}", shape_name(r.problem), r.refusal));
    }
}

// A comparison printed and put into `report`; kTaskFailed if something is slower.
ExitCode compare(const BenchFlags& flags, const Json& before, Json& report, bool show) {
    const double limit = parse_percent(flags.fail_above, "--fail-above");
    const std::vector<Change> changes = compare_results(before, report, limit);
    report["compare"] = {{"with", flags.compare}, {"fail_above", limit}, {"changes", changes_json(changes)}};
    const std::string old_device = text_at(member(before, "env"), "device"),
                      new_device = text_at(member(report, "env"), "device");
    if (old_device != new_device)
        complain(fmt::format("note: --compare {} was measured on \"{}\", this on \"{}\"", flags.compare, old_device,
                             new_device));
    if (show) print("\n" + changes_table(changes).str(flags.output.colored(stdout)));
    return any_slower(changes) ? kTaskFailed : kOk;
}

Json measure_all(const BenchFlags& flags, const std::vector<Job>& jobs, ExitCode& code) {
    const Context context = make_context(flags.machine);
    const Stream stream(context);
    Bench bench = {flags, context, stream, {}};
    Json report = {{"schema", "carat.bench/1"}, {"env", environment_json(context, flags.machine)}};
    const std::vector<std::string> peers = parse_peers(flags.peers);
    const Arena arena = arena_of(flags.machine, context, stream);
    for (const std::string& name : peers) bench.guests.push_back(join(name, arena, report["env"]));

    std::vector<BenchResult> results;
    Progress progress(flags.output, jobs.size());
    ExitCode stopped = kOk;
    for (size_t i = 0; i < jobs.size() && (stopped = stop_asked()) == kOk; ++i) {
        const Job& job = jobs[i];
        BenchResult result = {
            .problem = job.problem, .alpha = job.alpha, .beta = job.beta, .count = job.count, .name = job.name};
        progress.next(result.name + " " + shape_name(job.problem));
        try {
            time_problem(bench, result);
        } catch (const Error& error) {
            // A wrong flag is wrong for every problem; a problem that nothing takes is left out of a sweep.
            if (error.status() == CARAT_INVALID_VALUE && results.empty()) throw;
            result.refusal = one_line(error.what());
            result.refusal_code = exit_code_of(error.status());
        } catch (const Failure& failure) {
            if (flags.source.trace.empty()) throw;
            result.refusal = failure.what();
            result.refusal_code = failure.code();
        }
        results.push_back(std::move(result));
    }
    progress.clear();
    if (stopped == kOk && results.size() == jobs.size()) stopped = stop_asked() == kInterrupted ? kInterrupted : kOk;
    report["env"]["device_after"] = device_state_json(context);
    report["results"] = Json::array();
    for (const BenchResult& r : results)
        if (r.refusal.empty()) report["results"].push_back(result_json(r));
    for (const BenchResult& r : results)
        if (!r.refusal.empty()) report["skipped"].push_back(skipped_json(r));
    if (!flags.source.trace.empty()) report["replay"] = replay_json(flags.source.trace, results);
    code = verdict_of(results, stopped);
    if (flags.output.tables() && !flags.csv)
        print(bench_table(results, peers).str(flags.output.colored(stdout)) + ratio_summary(results) +
              replay_summary(member(report, "replay")));
    explain_verdict(results, jobs.size(), code);
    return report;
}

CandidatesOptions candidates_options(const BenchFlags& flags) {
    return {.problem = flags.problem,
            .machine = flags.machine,
            .output = flags.output,
            .shapes = shapes_of(flags.problem, flags.source),
            .budget = parse_budget(flags.budget),
            .check = flags.check,
            .table = flags.output.tables() && !flags.csv};
}

ChainOptions chain_options(const BenchFlags& flags) {
    return {.problem = flags.problem,
            .machine = flags.machine,
            .source = flags.source,
            .output = flags.output,
            .peers = parse_peers(flags.peers),
            .budget = parse_budget(flags.budget),
            .check = flags.check};
}

// What does not go together.
void check_flags(const BenchFlags& flags) {
    const bool loads = !flags.compare.empty() || !flags.load.empty();
    if (flags.all_candidates && (!flags.peers.empty() || loads || !flags.source.trace.empty()))
        fail(kUsage,
             "--all-candidates compares kernels of one row: --peer, --compare, --load and --replay do not go with it");
    if (flags.chain && (flags.all_candidates || flags.csv || loads))
        fail(kUsage,
             "--chain times a layer as a whole: --all-candidates, --csv, --compare and --load do not go with it");
    if (flags.chain && flags.source.model.empty())
        fail(kUsage, "--chain takes the linear layers of a model: give --model NAME");
    if (flags.csv && flags.output.json) fail(kUsage, "--csv and --json were both given: stdout takes one");
    if (!flags.load.empty() && flags.compare.empty())
        fail(kUsage, "--load goes with --compare: it takes results in place of measuring");
}

Json measure(const BenchFlags& flags, ExitCode& code) {
    const double limit = parse_timeout(flags.timeout);
    std::vector<Job> jobs;
    if (!flags.chain) jobs = read_jobs(flags.problem, flags.source);
    catch_interrupts();
    set_time_limit(limit);
    if (flags.chain) return measure_chains(chain_options(flags), code);
    if (flags.all_candidates) return measure_candidates(candidates_options(flags), code);
    return measure_all(flags, jobs, code);
}

ExitCode run_bench(const BenchFlags& flags) {
    check_flags(flags);
    parse_percent(flags.fail_above, "--fail-above");
    parse_budget(flags.budget);
    parse_peers(flags.peers);
    parse_timeout(flags.timeout);
    const Json before = flags.compare.empty() ? Json() : load_results(flags.compare, "--compare");
    OutputFile file(flags.output.file);
    ExitCode code = kOk;
    Json report = flags.load.empty() ? measure(flags, code) : load_results(flags.load, "--load");
    ExitCode compared = kOk;
    if (!flags.compare.empty()) compared = compare(flags, before, report, flags.output.tables() && !flags.csv);
    file.commit(dump(report));
    print_json(flags.output, report);
    if (flags.csv) print(bench_csv(member(report, "results")));
    if (compared == kOk) return code;
    complain(fmt::format("a result is slower than --compare {} by more than --fail-above {}", flags.compare,
                         flags.fail_above));
    return code == kOk ? compared : code;
}

}  // namespace

Command add_bench(CLI::App& app) {
    auto flags = std::make_shared<BenchFlags>();
    add_problem_flags(app, flags->problem, ShapeFlags::lists);
    add_source_flags(app, flags->source, "--shapes", "--replay");
    app.add_option("--peer", flags->peers,
                   "Also time these libraries in the same run: " + join(peer_names(), ", ") + " (docs/benchmarks.md)")
        ->type_name("LIST")
        ->expected(1)
        ->take_all();
    app.add_flag("--check,!--no-check", flags->check, "Check each result once (default: on)");
    app.add_option("--compare", flags->compare, "Compare with an earlier JSON result")->type_name("FILE");
    app.add_option("--fail-above", flags->fail_above,
                   "With --compare: exit 1 if a problem is slower by more (default 3%)")
        ->type_name("PERCENT");
    app.add_option("--load", flags->load, "With --compare: take the new results from this file, and measure nothing")
        ->type_name("FILE");
    app.add_option("--budget", flags->budget, "Seconds to sample a problem for (default 1.5)")->type_name("SECONDS");
    app.add_option("--timeout", flags->timeout, "Stop after this many seconds, write what is done, exit 7")
        ->type_name("SECONDS");
    app.add_flag("--csv", flags->csv, "Print CSV to stdout instead of a table");
    app.add_flag("--all-candidates", flags->all_candidates,
                 "Time every configuration of the row that --kernel names, or that is chosen; --budget is of each");
    app.add_flag("--chain", flags->chain,
                 "With --model: time the products of one decoder layer as a whole, each after the one before");
    add_machine_flags(app, flags->machine);
    add_output_flags(app, flags->output, true);
    return [flags] { return run_bench(*flags); };
}

}  // namespace carat::cli
