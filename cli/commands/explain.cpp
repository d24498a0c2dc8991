// SPDX-License-Identifier: Apache-2.0
// explain.cpp: `carat explain`: every row considered for a problem, why each was refused, what is predicted, the winner
// and the floor.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "commands/commands.hpp"
#include "problem_flags.hpp"
#include "table.hpp"

namespace carat::cli {
namespace {

struct ExplainFlags {
    Output output;
    ProblemFlags problem;
    MachineFlags machine;
    bool candidates = false, compile = false;
};

void add_rows(Table& table, const Json& row, const std::string& chosen, bool every) {
    const std::string name = text_at(row, "row");
    if (const std::string refusal = text_at(row, "refusal"); !refusal.empty())
        return table.add({Cell(name, Tone::faint), "", "", Cell("no: " + one_line(refusal), Tone::faint)});
    std::vector<const Json*> candidates;
    for (const Json& candidate : member(row, "candidates")) candidates.push_back(&candidate);
    std::stable_sort(candidates.begin(), candidates.end(), [](const Json* a, const Json* b) {
        return number_at(*a, "predicted_us", INFINITY) < number_at(*b, "predicted_us", INFINITY);
    });
    if (candidates.empty()) return table.add({name, "", "", "no candidate"});
    for (size_t i = 0; i < candidates.size(); ++i) {
        const Json& c = *candidates[i];
        const std::string kernel = text_at(c, "kernel");
        if (i > 0 && !every && kernel != chosen) continue;
        table.add({name, kernel, human(number_at(c, "predicted_us", NAN)),
                   kernel == chosen ? Cell("chosen, bound by " + text_at(c, "bound"), Tone::good)
                                    : Cell("bound by " + text_at(c, "bound"))});
    }
    for (const Json& other : member(row, "ruled_out"))
        if (every)
            table.add({Cell(name, Tone::faint), Cell(text_at(other, "kernel"), Tone::faint),
                       human(number_at(other, "predicted_us", NAN)),
                       Cell("no: " + one_line(text_at(other, "reason")), Tone::faint)});
    if (!every && candidates.size() > 1)
        table.add({name, Cell(fmt::format("({} candidates; --candidates shows all)", candidates.size()), Tone::faint)});
}

void print_report(const Json& report, const ExplainFlags& flags) {
    const Json& chosen = member(report, "chosen");
    const Json& floor = member(report, "floor");
    print(fmt::format("Problem {} for {}\n", text_at(report, "problem"), text_at(report, "target")));
    print(fmt::format("Floor {} us ({}): {} and {} GFLOP, {} FLOP a byte; figures: {}\n\n",
                      human(number_at(floor, "us", NAN)), text_at(floor, "bound"),
                      human_bytes(number_at(floor, "bytes", NAN)), human(number_at(floor, "flops", NAN) * 1e-9),
                      human(number_at(floor, "intensity", NAN)), one_line(text_at(floor, "source"))));
    Table table({"row", "kernel", ">predicted us", "verdict"});
    for (const Json& row : member(report, "rows")) add_rows(table, row, text_at(chosen, "kernel"), flags.candidates);
    print(table.str(flags.output.colored(stdout)));
    const Json& tuned = member(report, "tuned");
    if (!tuned.is_object()) return;
    print(
        fmt::format("Tuned: row {} of {} has {}, measured at {} us with M = {} of {}; the model alone would choose {}, "
                    "predicted {} us\n",
                    member(tuned, "row").dump(), one_line(text_at(tuned, "file")), text_at(chosen, "kernel"),
                    human(number_at(tuned, "us", NAN)), member(tuned, "m").dump(), text_at(tuned, "dtype"),
                    text_at(tuned, "model_kernel"), human(number_at(tuned, "model_predicted_us", NAN))));
}

// What the compiler made of the choice, and of better predicted kernels that it refused.
void print_plan(const Json& plan) {
    const auto shown = [&](const char* key) { return member(plan, key).is_null() ? "-" : member(plan, key).dump(); };
    for (const Json& refused : member(plan, "refused")) print("\n" + one_line(refused.get<std::string>()) + "\n");
    print(fmt::format("\nPlanned {}: {} registers, {} bytes spilled, {} + {} bytes of shared memory, {} blocks an SM\n",
                      text_at(plan, "kernel"), shown("registers"), shown("spill_bytes"), shown("static_shared_bytes"),
                      shown("dynamic_shared_bytes"), shown("blocks_per_unit")));
    if (const std::string warnings = text_at(plan, "warnings"); !warnings.empty())
        print("The compiler warns: " + one_line(warnings) + "\n");
}

ExitCode run_explain(const ExplainFlags& flags) {
    const std::vector<Shape> shapes = shapes_of_flags(flags.problem);
    if (shapes.size() != 1) fail(kUsage, "--m, --n and --k make {} problems: explain takes one", shapes.size());
    const carat_problem problem = make_problem(flags.problem, shapes[0]);
    const Context context = make_context(flags.machine);
    Json report = parse_json(context.explain(problem, plan_options(flags.machine)), "the explanation");
    if (flags.compile && member(report, "chosen").is_object())
        report["plan"] =
            parse_json(context.plan(problem, plan_options(flags.machine)).report(), "the report of the plan");
    print_json(flags.output, report);
    if (flags.output.tables()) print_report(report, flags);
    if (flags.output.tables() && member(report, "plan").is_object()) print_plan(report["plan"]);
    if (!member(report, "chosen").is_object())
        fail(kNoDevice, "no kernel takes this problem on {}", text_at(report, "target", "this machine"));
    return kOk;
}

}  // namespace

Command add_explain(CLI::App& app) {
    auto flags = std::make_shared<ExplainFlags>();
    add_problem_flags(app, flags->problem, ShapeFlags::one);
    add_machine_flags(app, flags->machine, true);
    app.add_flag("--candidates", flags->candidates, "Show every candidate of a row, not its best alone");
    app.add_flag("--compile", flags->compile,
                 "Compile the choice, too: registers, spills and what the compiler warns of");
    add_output_flags(app, flags->output);
    return [flags] { return run_explain(*flags); };
}

}  // namespace carat::cli
