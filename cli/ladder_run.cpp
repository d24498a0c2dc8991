// SPDX-License-Identifier: Apache-2.0
#include "ladder_run.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "peers/peer.hpp"
#include "progress.hpp"
#include "report.hpp"

namespace carat::cli {
namespace {

// In a sweep the rungs up to v1 stop here: above, one launch of them takes tens of milliseconds.
constexpr int kSlowRung = 1;
constexpr int64_t kSlowRungsLargest = 2048;
// Kernels predicted to be this much slower than the fastest of their type are timed apart from it: in turn with them it
// would run on a GPU that is mostly doing something else.
constexpr double kApart = 4;

// One kernel on one problem.
struct Line {
    const Rung* rung = nullptr;
    carat_problem problem;
    Json candidate;            // as explain has it
    std::optional<Plan> plan;  // none: it could not be compiled, and nothing is to be timed
    Json facts;                // "carat.plan/1"
    Floor floor;
    CheckReport check;
    Timing timing;
    double peer_us = NAN;
    double predicted_us() const { return number_at(candidate, "predicted_us", NAN); }
    bool timed() const { return timing.samples > 0; }
};

// cuBLASLt on the problem of some lines.
struct Rival {
    std::unique_ptr<Contestant> contestant;
    std::string choice;  // or why it is not timed
    double us = NAN;
};

struct Run {
    const LadderOptions& options;
    const Context& context;
    Progress& progress;
    std::unique_ptr<Stream> stream;  // null: nothing is timed
    std::unique_ptr<Peer> cublaslt;  // null: no peer
    bool may_lack_facts = false;     // there is no compiler, and a report without its words is wanted
    Json results = Json::array(), peers = Json::array(), skipped = Json::array();
    ExitCode failure = kOk;        // the first that is worth an exit code
    std::string failure_sentence;  // its reason
};

void note_failure(Run& run, ExitCode code, const std::string& sentence) {
    if (run.failure != kOk || code == kOk) return;
    run.failure = code;
    run.failure_sentence = sentence;
}

// A rung that is left out, with an exit code if that is a failure.
void skip(Run& run, const Rung& rung, const Shape& shape, const std::string& reason, ExitCode code) {
    run.skipped.push_back(
        {{"rung", rung.name}, {"m", shape.m}, {"n", shape.n}, {"k", shape.k}, {"reason", one_line(reason)}});
    note_failure(run, code, fmt::format("{} was left out: {}", rung.row, reason));
}

// Compiles the kernel. False: it is left out.
bool prepare(Run& run, Line& line, const Shape& shape) {
    try {
        line.plan.emplace(run.context.plan(line.problem, text_at(line.candidate, "kernel")));
        line.facts = parse_json(line.plan->report(), "the report of a plan");
        return true;
    } catch (const Error& error) {
        if (run.may_lack_facts && error.status() == CARAT_COMPILE_FAILED) return true;
        skip(run, *line.rung, shape, error.what(), exit_code_of(error.status()));
        return false;
    }
}

// The kernels that show a rung on a problem: its best predicted one, or all of them, best first.
void add_lines(Run& run, const Rung& rung, const Shape& shape, std::vector<Line>& lines) {
    const carat_problem problem =
        gemm_problem(shape.m, shape.n, shape.k, parse_dtype(rung.dtype, "--dtype"), rung.layout.c_str());
    const Json explained = parse_json(run.context.explain(problem, rung.row), "the explanation");
    for (const Json& row : member(explained, "rows")) {
        if (text_at(row, "row") != rung.row) continue;
        if (const std::string refusal = text_at(row, "refusal"); !refusal.empty())
            return skip(run, rung, shape, refusal, run.options.rungs_named ? kNoDevice : kOk);
        auto candidates = member(row, "candidates").get<std::vector<Json>>();
        std::stable_sort(candidates.begin(), candidates.end(), [](const Json& x, const Json& y) {
            return number_at(x, "predicted_us", INFINITY) < number_at(y, "predicted_us", INFINITY);
        });
        if (!run.options.all_candidates) candidates.resize(1);
        for (Json& candidate : candidates) {
            if (stop_asked() != kOk) return;
            Line line = {.rung = &rung, .problem = problem, .candidate = std::move(candidate)};
            line.floor = floor_of(run.context, problem);
            run.progress.next(fmt::format("{}, {}", rung.row, shape_name(problem)));
            if (prepare(run, line, shape)) lines.push_back(std::move(line));
        }
    }
}

// Filled with NaN first, so that no result of the kernel before it is taken for its own.
void check_line(Run& run, Line& line, OperandSets& sets) {
    blank_result(run.context, sets);
    line.check = check_once(run.context, *run.stream, *line.plan, line.problem, sets[0]);
    if (!line.check.ok())
        note_failure(run, kCheckFailed,
                     fmt::format("the result of {} is wrong: {}", line.plan->kernel(), describe_failure(line.check)));
}

std::vector<std::vector<Line*>> groups_of(std::vector<Line>& lines) {
    double fastest = INFINITY;
    for (const Line& line : lines) fastest = std::min(fastest, line.predicted_us());
    std::vector<std::vector<Line*>> groups(2);  // slow ones first: the peer's last time is beside the fast ones
    for (Line& line : lines) groups[line.predicted_us() > kApart * fastest ? 0 : 1].push_back(&line);
    std::erase_if(groups, [](const auto& group) { return group.empty(); });
    return groups;
}

// All of a group and the peer in turn, so that they share one state of clocks and power.
void time_group(Run& run, const std::vector<Line*>& group, const OperandSets& sets, Rival& peer) {
    std::vector<std::unique_ptr<Repeater>> repeaters;
    std::vector<Sampler> contestants;
    for (const Line* line : group) {
        const Plan& plan = *line->plan;
        repeaters.push_back(std::make_unique<Repeater>(run.context, *run.stream, sets,
                                                       [&plan](const Operands& o, void* s) { plan.execute(o, s); }));
        contestants.push_back([&repeater = *repeaters.back()] { return repeater.sample(); });
    }
    if (peer.contestant) contestants.push_back([&] { return peer.contestant->sample(); });
    const std::vector<Timing> timings = measure(contestants, {.seconds = run.options.budget});
    if (peer.contestant) peer.us = timings.back().us;
    for (size_t i = 0; i < group.size(); ++i) {
        group[i]->timing = timings[i];
        group[i]->peer_us = peer.us;
    }
}

// Kernels of one problem.
void time_lines(Run& run, std::vector<Line>& lines, Rival& peer) {
    const carat_problem& problem = lines[0].problem;
    auto sets = allocate_cold(run.context, problem, seed_of(run.options.machine), 1, 0);
    size_t workspace_bytes = 1;
    for (const Line& line : lines) workspace_bytes = std::max(workspace_bytes, line.plan->workspace_bytes());
    Buffer workspace(run.context, workspace_bytes);
    sets->set_workspace(workspace);
    if (run.cublaslt) peer.contestant = run.cublaslt->invite(problem, *sets, &peer.choice);
    for (Line& line : lines)
        if (stop_asked() == kOk) check_line(run, line, *sets);
    for (const std::vector<Line*>& group : groups_of(lines))
        if (stop_asked() == kOk) time_group(run, group, *sets, peer);
}

Json result_json(const Line& line, const Rival& peer) {
    const double us = line.timed() ? line.timing.us : NAN;
    const auto number = [](const Json& json, const char* key) { return member(json, key); };
    const Json shared =
        line.facts.is_object()
            ? Json(number_at(line.facts, "static_shared_bytes", 0) + number_at(line.facts, "dynamic_shared_bytes", 0))
            : Json();
    Json json;
    json["rung"] = line.rung->name;
    json["row"] = line.rung->row;
    json["kernel"] = member(line.candidate, "kernel");
    json["summary"] = line.rung->summary;
    json["source"] = line.rung->source;
    json["m"] = line.problem.m;
    json["n"] = line.problem.n;
    json["k"] = line.problem.k;
    json["dtype"] = dtype_name(line.problem);
    json["layout"] = layout_name(line.problem);
    json["us"] = maybe(us);
    json["p05_us"] = maybe(line.timed() ? line.timing.p05_us : NAN);
    json["p95_us"] = maybe(line.timed() ? line.timing.p95_us : NAN);
    json["tflops"] = maybe(tflops(flops_of(line.problem), us));
    json["peer"] = std::isfinite(line.peer_us) ? Json("cublaslt") : Json();
    json["peer_us"] = maybe(line.peer_us);
    json["peer_choice"] = std::isfinite(line.peer_us) ? maybe(peer.choice) : Json();
    json["of_peer"] = maybe(line.peer_us / us);
    json["of_limit"] = maybe(line.floor.us / us);
    json["floor_us"] = maybe(line.floor.us);
    for (const char* key : {"predicted_us", "bound", "intensity", "tile"}) json[key] = number(line.candidate, key);
    for (const char* key : {"threads", "registers", "spill_bytes"}) json[key] = number(line.facts, key);
    json["shared_bytes"] = shared;
    for (const char* key : {"blocks_per_unit", "occupancy"}) json[key] = number(line.facts, key);
    json["check"] = line.check.json(false);
    return json;
}

void add_peer(Run& run, const carat_problem& problem, const Rival& peer) {
    if (!run.cublaslt) return;
    run.peers.push_back({{"peer", "cublaslt"},
                         {"dtype", dtype_name(problem)},
                         {"layout", layout_name(problem)},
                         {"m", problem.m},
                         {"n", problem.n},
                         {"k", problem.k},
                         {"us", maybe(peer.us)},
                         {"tflops", maybe(tflops(flops_of(problem), peer.us))},
                         {"choice", maybe(peer.contestant ? peer.contestant->choice : peer.choice)}});
}

// The rungs of one type and layout on one problem.
void climb(Run& run, const std::vector<const Rung*>& rungs, const Shape& shape) {
    std::vector<Line> lines;
    for (const Rung* rung : rungs) {
        if (run.options.sweep && rung->number <= kSlowRung && std::max({shape.m, shape.n, shape.k}) > kSlowRungsLargest)
            skip(run, *rung, shape,
                 fmt::format("a sweep runs it up to {} only, since it takes long; --size runs it", kSlowRungsLargest),
                 kOk);
        else
            add_lines(run, *rung, shape, lines);
    }
    if (lines.empty()) return;
    Rival peer;
    if (run.stream) {
        try {
            time_lines(run, lines, peer);
        } catch (const Error& error) {
            for (const Line& line : lines)
                if (!line.timed()) skip(run, *line.rung, shape, error.what(), exit_code_of(error.status()));
        }
        if (peer.contestant) peer.choice = peer.contestant->choice;
        add_peer(run, lines[0].problem, peer);
    }
    for (const Line& line : lines)
        if (line.timed() || !run.stream) run.results.push_back(result_json(line, peer));
}

// Rungs by type and layout, in the order in which they come.
std::vector<std::vector<const Rung*>> by_problem(const std::vector<Rung>& rungs) {
    std::vector<std::vector<const Rung*>> groups;
    for (const Rung& rung : rungs) {
        const auto same = [&](const auto& group) {
            return group[0]->dtype == rung.dtype && group[0]->layout == rung.layout;
        };
        auto group = std::find_if(groups.begin(), groups.end(), same);
        if (group == groups.end()) group = groups.insert(groups.end(), std::vector<const Rung*>());
        group->push_back(&rung);
    }
    return groups;
}

Json limits_json(const Context& context) {
    const Json limits = parse_json(context.limits(), "the limits");
    const Json& rates = member(limits, "rates");
    const auto rate = [&](const char* type) { return member(member(rates, type), "tflops"); };
    return {{"device", member(limits, "device")},
            {"target", member(limits, "target")},
            {"units", member(limits, "units")},
            {"hbm_tbs", member(limits, "memory_tb_per_s")},
            {"l2_tbs", member(limits, "l2_tb_per_s")},
            {"f32_tflops", rate("f32")},
            {"tf32_tflops", rate("tf32")},
            {"f16_tflops", rate("f16")},
            {"launch_us", member(limits, "launch_us")},
            {"source", member(limits, "source")}};
}

// The exit code, with a sentence if it is not kOk.
ExitCode verdict_of(const Run& run, ExitCode stopped) {
    if (run.failure == kCheckFailed || (stopped == kOk && run.failure != kOk)) {
        complain(run.failure_sentence);
        return run.failure;
    }
    if (stopped != kOk)
        complain(fmt::format("{}: {} kernels were {} by then and are written",
                             stopped == kInterrupted ? "interrupted" : "--timeout has passed", run.results.size(),
                             run.stream ? "timed" : "reported"));
    if (stopped == kOk && run.results.empty() && !run.skipped.empty()) {
        complain(fmt::format("no rung runs here; {}: {}", text_at(run.skipped[0], "rung"),
                             text_at(run.skipped[0], "reason")));
        return kNoDevice;
    }
    return stopped;
}

}  // namespace

Json run_ladder(const LadderOptions& options, const Context& context, const std::string& note, ExitCode& code) {
    const auto groups = by_problem(options.rungs);
    Progress progress(options.output, options.rungs.size() * options.shapes.size());
    Run run = {.options = options, .context = context, .progress = progress};
    if (note.empty()) run.stream = std::make_unique<Stream>(context);
    Json env = environment_json(context, options.machine);
    run.may_lack_facts = !run.stream && member(env, "nvrtc").is_null();
    if (options.peer && run.stream)
        run.cublaslt = join("cublaslt", arena_of(options.machine, context, *run.stream), env).peer;
    ExitCode stopped = kOk;
    for (const Shape& shape : options.shapes)
        for (const auto& rungs : groups)
            if ((stopped = stop_asked()) == kOk) climb(run, rungs, shape);
    if (stopped == kOk) stopped = stop_asked() == kInterrupted ? kInterrupted : kOk;
    progress.clear();
    env["device_after"] = run.stream ? device_state_json(context) : Json();
    const std::string no_compiler =
        run.may_lack_facts ? " Nothing is compiled either, because there is no NVRTC: registers, spills and blocks an "
                             "SM are not known (`carat doctor` says how to get it)."
                           : "";
    code = verdict_of(run, stopped);
    return {{"schema", "carat.ladder/1"},
            {"env", env},
            {"timed", run.stream != nullptr},
            {"note", maybe(note + no_compiler)},
            {"limits", limits_json(context)},
            {"results", run.results},
            {"peers", run.peers},
            {"skipped", run.skipped}};
}

}  // namespace carat::cli
