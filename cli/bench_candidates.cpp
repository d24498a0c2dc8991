// SPDX-License-Identifier: Apache-2.0
#include "bench_candidates.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "progress.hpp"
#include "report.hpp"

namespace carat::cli {
namespace {

// Timed in turn. Each has graphs of its own, and where operands are small a buffer that flushes the L2 cache.
constexpr size_t kInTurn = 8;

struct Line {
    std::string layer;  // of a model
    carat_problem problem;
    std::string kernel;
    double predicted_us = NAN;
    bool chosen = false;
    std::optional<Plan> plan;  // while it is timed
    std::string refusal;
    Floor floor;
    CheckReport check;
    Timing timing;
    bool timed() const { return timing.samples > 0; }
};

struct Run {
    const CandidatesOptions& options;
    const Context& context;
    const Stream& stream;
    double alpha, beta;
    std::vector<Line> lines;  // of all problems
    ExitCode failure = kOk;   // the first
    std::string failure_sentence;
};

void note_failure(Run& run, ExitCode code, const std::string& sentence) {
    if (run.failure != kOk) return;
    run.failure = code;
    run.failure_sentence = sentence;
}

// The candidates of the row, best predicted first; fails with the reasons where no row takes the problem.
std::vector<Line> list_candidates(const Run& run, const Shape& shape, const carat_problem& problem) {
    const carat_plan_options options = plan_options(run.options.machine);
    const Json explained = parse_json(run.context.explain(problem, options), "the explanation");
    const std::string chosen = text_at(member(explained, "chosen"), "row");
    if (chosen.empty()) run.context.plan(problem, options);  // fails, and says why
    std::vector<Line> lines;
    for (const Json& row : member(explained, "rows")) {
        if (text_at(row, "row") != chosen) continue;
        for (const Json& candidate : member(row, "candidates"))
            lines.push_back({.layer = shape.name,
                             .problem = problem,
                             .kernel = text_at(candidate, "kernel"),
                             .predicted_us = number_at(candidate, "predicted_us", NAN)});
    }
    std::stable_sort(lines.begin(), lines.end(),
                     [](const Line& x, const Line& y) { return x.predicted_us < y.predicted_us; });
    return lines;
}

void compile_one(const Run& run, Line& line) {
    try {
        line.plan.emplace(run.context.plan(line.problem, line.kernel));
    } catch (const std::exception& error) {
        line.refusal = one_line(error.what());
    }
}

// On all cores.
void compile(const Run& run, std::vector<Line>& lines) {
    std::atomic<size_t> next{0};
    const auto work = [&] {
        for (size_t i = next++; i < lines.size(); i = next++) compile_one(run, lines[i]);
    };
    const size_t workers = std::min<size_t>(lines.size(), std::max(1u, std::thread::hardware_concurrency()));
    std::vector<std::thread> threads;
    for (size_t i = 1; i < workers; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
}

// D is filled with NaN first, so that no result of the kernel before it is taken for its own.
void check_line(Run& run, Line& line, OperandSets& sets) {
    check(carat_memory_fill(run.context.get(), sets[0].d, 0xff, sets.layout().d.bytes));
    line.check = check_once(run.context, run.stream, *line.plan, line.problem, sets[0]);
    if (!line.check.ok())
        note_failure(run, kCheckFailed,
                     fmt::format("the result of {} is wrong: {}", line.kernel, describe_failure(line.check)));
}

void time_in_turn(const Run& run, std::span<Line*> lines, const OperandSets& sets) {
    std::vector<std::unique_ptr<Repeater>> repeaters;
    std::vector<Sampler> samplers;
    for (Line* line : lines) {
        const Plan& plan = *line->plan;
        repeaters.push_back(std::make_unique<Repeater>(run.context, run.stream, sets,
                                                       [&plan](const Operands& o, void* s) { plan.execute(o, s); }));
        samplers.push_back([&repeater = *repeaters.back()] { return repeater.sample(); });
    }
    const std::vector<Timing> timings = measure(samplers, {.seconds = run.options.budget * double(lines.size())});
    for (size_t i = 0; i < lines.size(); ++i) lines[i]->timing = timings[i];
}

void time_lines(Run& run, std::vector<Line>& lines) {
    std::vector<Line*> ready;
    size_t workspace_bytes = 1;
    for (Line& line : lines) {
        if (!line.plan) continue;
        ready.push_back(&line);
        workspace_bytes = std::max(workspace_bytes, line.plan->workspace_bytes());
    }
    if (ready.empty()) return;
    auto sets = allocate_cold(run.context, ready[0]->problem, seed_of(run.options.machine), run.alpha, run.beta);
    Buffer workspace(run.context, workspace_bytes);
    sets->set_workspace(workspace);
    for (Line* line : ready)
        if (run.options.check && stop_asked() == kOk) check_line(run, *line, *sets);
    for (size_t first = 0; first < ready.size() && stop_asked() == kOk; first += kInTurn)
        time_in_turn(run, std::span(ready).subspan(first, std::min(kInTurn, ready.size() - first)), *sets);
}

void time_problem(Run& run, const Shape& shape, const carat_problem& problem) {
    std::vector<Line> lines = list_candidates(run, shape, problem);
    compile(run, lines);
    if (std::any_of(lines.begin(), lines.end(), [](const Line& line) { return line.plan.has_value(); })) {
        const std::string chosen = run.context.plan(problem, plan_options(run.options.machine)).kernel();
        for (Line& line : lines) line.chosen = line.kernel == chosen;
    }
    time_lines(run, lines);
    const Floor floor = floor_of(run.context, problem);
    for (Line& line : lines) {
        line.plan.reset();
        line.floor = floor;
        run.lines.push_back(std::move(line));
    }
}

Json result_json(const Run& run, const Line& line) {
    Json json = problem_json(line.problem, run.alpha, run.beta);
    json["kernel"] = line.kernel;
    json["chosen"] = line.chosen;
    json["us"] = maybe(line.timing.us);
    json["p05_us"] = maybe(line.timing.p05_us);
    json["p95_us"] = maybe(line.timing.p95_us);
    json["tflops"] = maybe(tflops(flops_of(line.problem), line.timing.us));
    json["gbps"] = maybe(gigabytes_per_second(line.floor.bytes, line.timing.us));
    json["floor_us"] = maybe(line.floor.us);
    json["predicted_us"] = maybe(line.predicted_us);
    json["peers"] = Json::object();
    json["check"] = line.check.json(false);
    return json;
}

Json skipped_json(const Run& run, const Line& line) {
    Json json = problem_json(line.problem, run.alpha, run.beta);
    json["kernel"] = maybe(line.kernel);
    json["reason"] = line.refusal;
    return json;
}

Table table_of(const std::vector<Line>& lines) {
    Table table({"problem", "kernel", ">us", ">predicted us", ">predicted / us", ">TFLOP/s", "check"});
    for (const Line& line : lines) {
        std::string problem = shape_name(line.problem);
        if (!line.layer.empty()) problem = line.layer + ", " + problem;
        if (!line.refusal.empty()) {
            table.add({problem, line.kernel, "-", human(line.predicted_us), "-", "-",
                       Cell("no: " + line.refusal, Tone::warning)});
        } else if (line.timed()) {
            const double us = line.timing.us;
            table.add({problem, line.chosen ? Cell(line.kernel + " (chosen)", Tone::strong) : Cell(line.kernel),
                       human(us), human(line.predicted_us), human(line.predicted_us / us),
                       human(tflops(flops_of(line.problem), us)), line.check.cell()});
        }
    }
    return table;
}

ExitCode verdict_of(const Run& run, size_t done, ExitCode stopped) {
    if (run.failure == kCheckFailed || (stopped == kOk && run.failure != kOk)) {
        complain(run.failure_sentence);
        return run.failure;
    }
    if (stopped != kOk)
        complain(fmt::format("{}: {} of {} problems were begun and what was timed is written",
                             stopped == kInterrupted ? "interrupted" : "--timeout has passed", done,
                             run.options.shapes.size()));
    return stopped;
}

}  // namespace

Json measure_candidates(const CandidatesOptions& options, ExitCode& code) {
    std::vector<carat_problem> problems;
    for (const Shape& shape : options.shapes) problems.push_back(make_problem(options.problem, shape));
    const Context context = make_context(options.machine);
    const Stream stream(context);
    Run run = {.options = options,
               .context = context,
               .stream = stream,
               .alpha = parse_real(options.problem.alpha, "--alpha"),
               .beta = parse_real(options.problem.beta, "--beta")};
    Json report = {{"schema", "carat.bench/1"}, {"env", environment_json(context, options.machine)}};
    Progress progress(options.output, problems.size());
    size_t done = 0;
    for (; done < problems.size() && stop_asked() == kOk; ++done) {
        progress.next(shape_name(problems[done]));
        try {
            time_problem(run, options.shapes[done], problems[done]);
        } catch (const Error& error) {
            // A wrong flag is wrong for every problem; a problem that nothing takes is left out of a sweep.
            if (error.status() == CARAT_INVALID_VALUE && run.lines.empty()) throw;
            const std::string reason = one_line(error.what());
            run.lines.push_back(
                {.layer = options.shapes[done].name, .problem = problems[done], .kernel = "", .refusal = reason});
            note_failure(run, exit_code_of(error.status()),
                         fmt::format("{} was not timed: {}", shape_name(problems[done]), reason));
        }
    }
    progress.clear();
    report["env"]["device_after"] = device_state_json(context);
    report["results"] = Json::array();
    for (const Line& line : run.lines) {
        if (line.timed()) report["results"].push_back(result_json(run, line));
        if (!line.refusal.empty()) report["skipped"].push_back(skipped_json(run, line));
    }
    if (options.table) print(table_of(run.lines).str(options.output.colored(stdout)));
    code = verdict_of(run, done, stop_asked());
    return report;
}

}  // namespace carat::cli
