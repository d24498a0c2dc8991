// SPDX-License-Identifier: Apache-2.0
#include "tune_run.hpp"

#include <algorithm>

#include "progress.hpp"
#include "report.hpp"
#include "tuning_file.hpp"
#include "workbench.hpp"

namespace carat::cli {
namespace {

using State = Contender::State;

struct Skipped {
    const Job* job;
    std::string reason;
    ExitCode code;
};

// The model alone chooses: what was tuned before is not what a tuner starts from.
Context open_untuned(MachineFlags machine) {
    machine.tuning = "off";
    return make_context(machine);
}

struct Run {
    explicit Run(const TuneOptions& asked)
        : options(asked), context(open_untuned(asked.machine)), rows(read_tuning_rows(asked.database, false)) {
        const Json info = parse_json(context.tuning(), "the tuning's report");
        device = member(info, "device");
        kernels = int64_t(number_at(info, "kernels", 0));
    }
    const TuneOptions& options;
    const Context context;
    Json device;          // as rows name it
    int64_t kernels = 0;  // their version
    std::vector<Json> rows, measured, results;
    std::vector<Skipped> skipped;
    std::vector<std::string> wrong;
    size_t fresh = 0;
};

Json problem_of(const Job& job) {
    return parse_json(carat::problem_json(job.problem), "the problem");
}

std::vector<Contender> contenders_of(const Run& run, const Job& job, std::string& own) {
    return prune(all_contenders(run.context, job.problem, own), own, run.options.effort);
}

Json own_json(const Verdict& verdict, const std::string& own) {
    Json json = {{"kernel", own}, {"us", nullptr}, {"predicted_us", nullptr}};
    for (const Contender& contender : verdict.contenders)
        if (contender.kernel == own) json["predicted_us"] = maybe(contender.predicted_us);
    if (verdict.own) json["us"] = maybe(verdict.own->us());
    return json;
}

Json row_json(const Run& run, const Job& job, const Verdict& verdict, const std::string& own) {
    const Contender& best = *verdict.best;
    return {{"problem", problem_of(job)},
            {"device", run.device},
            {"kernel", best.kernel},
            {"us", best.us()},
            {"spread", best.spread()},
            {"samples", best.samples.size()},
            {"own", own_json(verdict, own)},
            {"kernels", run.kernels},
            {"checked", true},
            {"provenance", provenance_json(run.context)}};
}

Json contenders_json(const std::vector<Contender>& contenders) {
    static constexpr const char* kStates[] = {"waiting", "ready", "refused", "wrong"};
    Json list = Json::array();
    for (const Contender& contender : contenders)
        list.push_back({{"kernel", contender.kernel},
                        {"predicted_us", maybe(contender.predicted_us)},
                        {"state", kStates[int(contender.state)]},
                        {"reason", maybe(contender.reason)},
                        {"us", maybe(contender.us())},
                        {"spread", maybe(contender.spread())},
                        {"samples", contender.samples.size()}});
    return list;
}

void report_wrong(Run& run, const Job& job, const std::vector<Contender>& contenders) {
    for (const Contender& contender : contenders)
        if (contender.state == State::wrong)
            run.wrong.push_back(fmt::format("the result of {} is wrong for {}: {}", contender.kernel,
                                            shape_name(job.problem), contender.reason));
}

// Leaves no row where it was stopped before its end.
void tune_problem(Run& run, const Job& job) {
    if (const std::string why = why_no_operands(job.problem); !why.empty()) fail(kTaskFailed, "{}", why);
    std::string own;
    std::vector<Contender> contenders = contenders_of(run, job, own);
    own = run.context.plan(job.problem).kernel();  // another one where the compiler refuses the best predicted
    const Stream stream(run.context);
    Workbench bench(run.context, stream, job, seed_of(run.options.machine));
    bench.compile(contenders);
    const Verdict verdict = find_best(std::move(contenders), own, bench, run.options.effort);
    report_wrong(run, job, verdict.contenders);
    if (!verdict.best && run.options.effort.stop()) return;
    Json result = problem_json(job.problem, job.alpha, job.beta);
    result["name"] = maybe(job.name);
    result["kernel"] = verdict.best ? Json(verdict.best->kernel) : Json();
    result["us"] = verdict.best ? maybe(verdict.best->us()) : Json();
    result["own"] = own_json(verdict, own);
    result["contenders"] = contenders_json(verdict.contenders);
    run.results.push_back(std::move(result));
    if (!verdict.best) fail(kTaskFailed, "no kernel gave a right result: {}", verdict.contenders.front().reason);
    Json row = row_json(run, job, verdict, own);
    run.measured.push_back(row);
    put_row(run.rows, std::move(row));
    write_tuning_rows(run.options.database, run.rows);
}

void try_problem(Run& run, const Job& job) {
    const auto skip = [&](const std::string& reason, ExitCode code) {
        run.skipped.push_back({&job, one_line(reason), code});
    };
    try {
        if (!run.options.force && find_row(run.rows, problem_of(job), run.device, run.kernels))
            ++run.fresh;
        else
            tune_problem(run, job);
    } catch (const Error& error) {
        // A wrong flag is wrong for every problem; a problem that nothing takes is left out of a sweep.
        if (error.status() == CARAT_INVALID_VALUE && run.results.empty()) throw;
        skip(error.what(), exit_code_of(error.status()));
    } catch (const Failure& failure) {
        if (failure.code() == kInputOutput) throw;  // the database cannot be written
        skip(failure.what(), failure.code());
    }
}

Json report_json(const Run& run) {
    Json report = {{"schema", "carat.tune/1"},
                   {"env", environment_json(run.context, run.options.machine)},
                   {"database", run.options.database},
                   {"results", run.results},
                   {"fresh", run.fresh},
                   {"wrong", run.wrong},
                   {"summary", summarize_rows(run.measured).json()}};
    report["skipped"] = Json::array();
    for (const Skipped& skipped : run.skipped) {
        Json json = problem_json(skipped.job->problem, skipped.job->alpha, skipped.job->beta);
        json["reason"] = skipped.reason;
        report["skipped"].push_back(std::move(json));
    }
    return report;
}

void print_results(const Run& run) {
    Table table({"M x N x K", "kernel", ">us", "the library's own choice", ">us", ">faster by", ">predicted us"});
    for (const Json& row : run.measured) {
        const Json& own = member(row, "own");
        const bool same = text_at(own, "kernel") == text_at(row, "kernel");
        const double us = number_at(row, "us", NAN), own_us = number_at(own, "us", NAN);
        table.add({row_name(row), same ? Cell(text_at(row, "kernel")) : Cell(text_at(row, "kernel"), Tone::good),
                   human(us), same ? Cell("the same", Tone::faint) : Cell(text_at(own, "kernel")), human(own_us),
                   same ? "-" : fmt::format("{:.1f} %", 100 * (own_us / us - 1)),
                   human(number_at(own, "predicted_us", NAN))});
    }
    print(table.str(run.options.output.colored(stdout)));
    for (const Skipped& skipped : run.skipped)
        print(fmt::format("{}: {}\n", shape_name(skipped.job->problem), skipped.reason));
    print(summarize_rows(run.measured).text());
    print(fmt::format("{} problems measured, {} had a fresh row; {} has {} rows\n", run.measured.size(), run.fresh,
                      run.options.database, run.rows.size()));
}

ExitCode verdict_of(const Run& run, ExitCode stopped) {
    for (const std::string& sentence : run.wrong) complain(sentence);
    if (stopped != kOk)
        complain(fmt::format("{}: {} of {} problems are in {}; the same command goes on from there",
                             stopped == kInterrupted ? "interrupted" : "--timeout has passed",
                             run.measured.size() + run.fresh, run.options.jobs.size(), run.options.database));
    if (!run.wrong.empty()) return kCheckFailed;
    if (stopped != kOk) return stopped;
    if (run.skipped.empty()) return kOk;
    const Skipped& first = run.skipped.front();
    complain(fmt::format("{} was not measured: {}", shape_name(first.job->problem), first.reason));
    return first.code;
}

}  // namespace

Json tune(const TuneOptions& options, ExitCode& code) {
    Run run(options);
    Progress progress(options.output, options.jobs.size());
    ExitCode stopped = kOk;
    for (const Job& job : options.jobs) {
        if ((stopped = stop_asked()) != kOk) break;
        progress.next(job.name.empty() ? shape_name(job.problem) : job.name + " " + shape_name(job.problem));
        try_problem(run, job);
    }
    if (stopped == kOk && run.measured.size() + run.fresh + run.skipped.size() < options.jobs.size())
        stopped = stop_asked();
    progress.clear();
    const Json report = report_json(run);
    if (options.output.tables()) print_results(run);
    code = verdict_of(run, stopped);
    return report;
}

Json tune_dry(const TuneOptions& options) {
    const Run run(options);
    Json problems = Json::array();
    Table table({"M x N x K", "kernel", ">predicted us", ""});
    for (const Job& job : options.jobs) {
        const bool fresh = find_row(run.rows, problem_of(job), run.device, run.kernels) != nullptr;
        std::string own;
        const std::vector<Contender> contenders = contenders_of(run, job, own);
        Json list = Json::array();
        for (const Contender& contender : contenders) {
            list.push_back({{"kernel", contender.kernel}, {"predicted_us", maybe(contender.predicted_us)}});
            table.add({shape_name(job.problem), contender.kernel, human(contender.predicted_us),
                       fresh && !options.force   ? Cell("has a fresh row", Tone::faint)
                       : contender.kernel == own ? Cell("the library's own choice", Tone::good)
                                                 : Cell("")});
        }
        Json problem = problem_json(job.problem, job.alpha, job.beta);
        problem["fresh"] = fresh;
        problem["own"] = own;
        problem["contenders"] = std::move(list);
        problems.push_back(std::move(problem));
    }
    if (options.output.tables()) print(table.str(options.output.colored(stdout)));
    return {{"schema", "carat.tune_plan/1"},
            {"device", run.device},
            {"database", options.database},
            {"problems", std::move(problems)}};
}

}  // namespace carat::cli
