// SPDX-License-Identifier: Apache-2.0
// bench.cpp: `carat bench`: times problems from flags, a file or a model, with peers in the same run, and compares with
// an earlier result. timing.hpp says how; results are "carat.bench/1".
#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <memory>

#include "bench_candidates.hpp"
#include "commands/commands.hpp"
#include "compare.hpp"
#include "peers/cublaslt.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "shapes.hpp"

namespace carat::cli {
namespace {

struct BenchFlags {
    Output output;
    ProblemFlags problem;
    MachineFlags machine;
    std::string shapes, model, tokens, tp;
    std::vector<std::string> peers;
    std::string compare, load, fail_above = "3%", timeout = "0", budget = "1.5";
    bool check = true, csv = false, all_candidates = false;
};

struct PeerResult {
    double us = NAN;
    std::string choice;  // or why there is no time
    Json json() const { return {{"us", maybe(us)}, {"choice", maybe(choice)}}; }
};

struct Result {
    carat_problem problem;
    std::string name, kernel, refusal;
    ExitCode refusal_code = kOk;
    Timing timing;
    Floor floor;
    CheckReport check;
    double predicted_us = NAN;
    std::map<std::string, PeerResult> peers;
};

// A run's fixed parts.
struct Bench {
    const BenchFlags& flags;
    const Context& context;
    const Stream& stream;
    CublasLt* cublaslt = nullptr;
    double alpha, beta;
};

std::vector<Shape> shapes_to_time(const BenchFlags& flags) {
    const int sources = !flags.shapes.empty() + !flags.model.empty() +
                        !(flags.problem.m.empty() && flags.problem.n.empty() && flags.problem.k.empty());
    if (sources > 1) fail(kUsage, "--m/--n/--k, --shapes and --model were given together: give one source of problems");
    if (sources == 0) fail(kUsage, "--m is missing: give --m, --n and --k, or --shapes FILE, or --model NAME");
    if (flags.model.empty() && !(flags.tokens.empty() && flags.tp.empty()))
        fail(kUsage, "{} goes with --model", flags.tokens.empty() ? "--tp" : "--tokens");
    if (!flags.shapes.empty()) return shapes_of_file(flags.shapes);
    if (flags.model.empty()) return shapes_of_flags(flags.problem);
    const std::vector<int64_t> tokens = parse_sizes(flags.tokens.empty() ? "1,64,4096" : flags.tokens, "--tokens");
    return shapes_of_model(flags.model, tokens, parse_integer(flags.tp.empty() ? "1" : flags.tp, "--tp", 1, 4096));
}

std::unique_ptr<CublasLt::Contestant> invite(const Bench& bench, const carat_problem& problem, const OperandSets& sets,
                                             PeerResult& result) {
    const auto ask = bench.flags.check ? &CublasLt::invite : &CublasLt::prepare;
    return (bench.cublaslt->*ask)(bench.context, bench.stream, problem, sets, &result.choice);
}

void time_problem(const Bench& bench, Result& result) {
    const carat_problem& problem = result.problem;
    const Plan plan = bench.context.plan(problem, bench.flags.machine.kernel);
    result.kernel = plan.kernel();
    result.predicted_us = plan.predicted_us() > 0 ? plan.predicted_us() : NAN;
    result.floor = floor_of(bench.context, problem);
    auto sets = allocate_cold(bench.context, problem, seed_of(bench.flags.machine), bench.alpha, bench.beta);
    Buffer workspace(bench.context, std::max<size_t>(plan.workspace_bytes(), 1));
    sets->set_workspace(workspace);
    std::unique_ptr<CublasLt::Contestant> peer;
    if (bench.cublaslt) peer = invite(bench, problem, *sets, result.peers["cublaslt"]);
    if (bench.flags.check) result.check = check_once(bench.context, bench.stream, plan, problem, (*sets)[0]);
    Repeater ours(bench.context, bench.stream, *sets, [&plan](const Operands& o, void* s) { plan.execute(o, s); });
    std::vector<Sampler> contestants = {[&ours] { return ours.sample(); }};
    if (peer) contestants.push_back([&peer] { return peer->repeater->sample(); });
    const Budget budget = {.seconds = parse_budget(bench.flags.budget)};
    const std::vector<Timing> timings = measure(contestants, budget);
    result.timing = timings[0];
    if (peer) result.peers["cublaslt"] = {timings[1].us, peer->choice};
}

Json result_json(const Bench& bench, const Result& r) {
    Json json = problem_json(r.problem, bench.alpha, bench.beta);
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
    return json;
}

Json skipped_json(const Bench& bench, const Result& r) {
    Json json = problem_json(r.problem, bench.alpha, bench.beta);
    json["reason"] = r.refusal;
    return json;
}

Table result_table(const Bench& bench, const std::vector<Result>& results) {
    const bool named = std::any_of(results.begin(), results.end(), [](const Result& r) { return !r.name.empty(); });
    std::vector<std::string> titles = {
        named ? "layer, M x N x K" : "M x N x K", "kernel", ">us", ">p05", ">p95", ">TFLOP/s", ">GB/s", ">% of floor"};
    if (bench.cublaslt) titles.insert(titles.end(), {">cuBLASLt us", ">ratio"});
    titles.push_back("check");
    Table table(titles);
    for (const Result& r : results) {
        std::vector<Cell> row = {r.name.empty() ? shape_name(r.problem) : r.name + ", " + shape_name(r.problem)};
        if (!r.refusal.empty()) {
            row.resize(titles.size() - 1, Cell("-"));
            row.push_back(Cell("no: " + r.refusal, Tone::warning));
            table.add(row);
            continue;
        }
        const double us = r.timing.us;
        for (const std::string& text : {r.kernel, human(us), human(r.timing.p05_us), human(r.timing.p95_us),
                                        human(tflops(flops_of(r.problem), us)),
                                        human(gigabytes_per_second(r.floor.bytes, us)), human(100 * r.floor.us / us)})
            row.emplace_back(text);
        if (bench.cublaslt) {
            const auto peer = r.peers.find("cublaslt");
            const double peer_us = peer == r.peers.end() ? NAN : peer->second.us;
            row.emplace_back(human(peer_us));
            row.emplace_back(human(peer_us / us));
        }
        row.push_back(r.check.cell());
        table.add(row);
    }
    return table;
}

std::string csv_field(const Json& value) {
    if (value.is_null()) return "";
    if (!value.is_string()) return value.dump();
    std::string text(1, '"');
    for (char c : value.get<std::string>()) text += c == '"' ? std::string("\"\"") : std::string(1, c);
    return text + '"';
}

std::string csv_text(const Json& results) {
    static constexpr const char* kColumns[] = {"m",      "n",      "k",        "batch",    "groups",      "dtype",
                                               "layout", "recipe", "epilogue", "kernel",   "us",          "p05_us",
                                               "p95_us", "tflops", "gbps",     "floor_us", "predicted_us"};
    std::string text = fmt::format("{},cublaslt_us,check_ok\n", fmt::join(kColumns, ","));
    for (const Json& r : results) {
        std::vector<std::string> fields;
        for (const char* column : kColumns) fields.push_back(csv_field(member(r, column)));
        fields.push_back(csv_field(member(member(member(r, "peers"), "cublaslt"), "us")));
        fields.push_back(csv_field(member(member(r, "check"), "ok")));
        text += join(fields, ",") + "\n";
    }
    return text;
}

// The first of what went wrong, in the order in which it matters.
ExitCode verdict_of(const std::vector<Result>& results, ExitCode stopped) {
    for (const Result& r : results)
        if (!r.check.ok()) return kCheckFailed;
    if (stopped != kOk) return stopped;
    for (const Result& r : results)
        if (r.refusal_code != kOk) return r.refusal_code;
    return kOk;
}

void explain_verdict(const std::vector<Result>& results, size_t planned, ExitCode code) {
    if (code == kInterrupted)
        complain(fmt::format("interrupted: {} of {} problems were done and are written", results.size(), planned));
    if (code == kTimeOut)
        complain(
            fmt::format("--timeout has passed: {} of {} problems were done and are written", results.size(), planned));
    for (const Result& r : results) {
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

Json measure_all(const BenchFlags& flags, const std::vector<Shape>& shapes, ExitCode& code) {
    std::vector<carat_problem> problems;
    for (const Shape& shape : shapes) problems.push_back(make_problem(flags.problem, shape));
    const Context context = make_context(flags.machine);
    const Stream stream(context);
    Bench bench = {flags,
                   context,
                   stream,
                   nullptr,
                   parse_real(flags.problem.alpha, "--alpha"),
                   parse_real(flags.problem.beta, "--beta")};
    Json report = {{"schema", "carat.bench/1"}, {"env", environment_json(context, flags.machine)}};
    std::unique_ptr<CublasLt> cublaslt;
    if (!flags.peers.empty()) cublaslt = CublasLt::join(context, flags.machine.device, report["env"]);
    bench.cublaslt = cublaslt.get();

    std::vector<Result> results;
    Progress progress(flags.output, problems.size());
    ExitCode stopped = kOk;
    for (size_t i = 0; i < problems.size() && (stopped = stop_asked()) == kOk; ++i) {
        Result result = {.problem = problems[i], .name = shapes[i].name};
        progress.next(result.name + " " + shape_name(problems[i]));
        try {
            time_problem(bench, result);
        } catch (const Error& error) {
            // A wrong flag is wrong for every problem; a problem that nothing takes is left out of a sweep.
            if (error.status() == CARAT_INVALID_VALUE && results.empty()) throw;
            result.refusal = one_line(error.what());
            result.refusal_code = exit_code_of(error.status());
        }
        results.push_back(std::move(result));
    }
    progress.clear();
    if (stopped == kOk && results.size() == problems.size())
        stopped = stop_asked() == kInterrupted ? kInterrupted : kOk;
    report["env"]["device_after"] = device_state_json(context);
    report["results"] = Json::array();
    for (const Result& r : results)
        if (r.refusal.empty()) report["results"].push_back(result_json(bench, r));
    for (const Result& r : results)
        if (!r.refusal.empty()) report["skipped"].push_back(skipped_json(bench, r));
    code = verdict_of(results, stopped);
    if (flags.output.tables() && !flags.csv) print(result_table(bench, results).str(flags.output.colored(stdout)));
    explain_verdict(results, problems.size(), code);
    return report;
}

CandidatesOptions candidates_options(const BenchFlags& flags, const std::vector<Shape>& shapes) {
    return {.problem = flags.problem,
            .machine = flags.machine,
            .output = flags.output,
            .shapes = shapes,
            .budget = parse_budget(flags.budget),
            .check = flags.check,
            .table = flags.output.tables() && !flags.csv};
}

ExitCode run_bench(const BenchFlags& flags) {
    if (flags.all_candidates && (!flags.peers.empty() || !flags.compare.empty()))
        fail(kUsage, "--all-candidates compares kernels of one row: --peer, --compare and --load do not go with it");
    parse_percent(flags.fail_above, "--fail-above");
    if (flags.csv && flags.output.json) fail(kUsage, "--csv and --json were both given: stdout takes one");
    parse_budget(flags.budget);
    const double limit = parse_timeout(flags.timeout);
    const Json before = flags.compare.empty() ? Json() : load_results(flags.compare, "--compare");
    OutputFile file(flags.output.file);
    ExitCode code = kOk;
    Json report;
    if (flags.load.empty()) {
        const std::vector<Shape> shapes = shapes_to_time(flags);
        catch_interrupts();
        set_time_limit(limit);
        report = flags.all_candidates ? measure_candidates(candidates_options(flags, shapes), code)
                                      : measure_all(flags, shapes, code);
    } else {
        if (flags.compare.empty()) fail(kUsage, "--load goes with --compare: it takes results in place of measuring");
        report = load_results(flags.load, "--load");
    }
    ExitCode compared = kOk;
    if (!flags.compare.empty()) compared = compare(flags, before, report, flags.output.tables() && !flags.csv);
    file.commit(dump(report));
    print_json(flags.output, report);
    if (flags.csv) print(csv_text(member(report, "results")));
    if (compared == kOk) return code;
    complain(fmt::format("a result is slower than --compare {} by more than --fail-above {}", flags.compare,
                         flags.fail_above));
    return code == kOk ? compared : code;
}

}  // namespace

Command add_bench(CLI::App& app) {
    auto flags = std::make_shared<BenchFlags>();
    add_problem_flags(app, flags->problem, ShapeFlags::lists);
    app.add_option("--shapes", flags->shapes, "Problems from a file, lines \"m n k [dtype] [layout]\"")
        ->type_name("FILE");
    app.add_option("--model", flags->model, "Problems of a model's linear layers: a bundled name or a config.json")
        ->type_name("NAME");
    app.add_option("--tokens", flags->tokens, "With --model: tokens a step (default 1,64,4096)")->type_name("LIST");
    app.add_option("--tp", flags->tp, "With --model: GPUs that share each layer (default 1)")->type_name("N");
    app.add_option("--peer", flags->peers, "Also time this library on the same operands: cublaslt")
        ->check(CLI::IsMember({"cublaslt"}))
        ->type_name("NAME")
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
    add_machine_flags(app, flags->machine);
    add_output_flags(app, flags->output, true);
    return [flags] { return run_bench(*flags); };
}

}  // namespace carat::cli
