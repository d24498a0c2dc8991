// SPDX-License-Identifier: Apache-2.0
#include "preparation.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "progress.hpp"
#include "report.hpp"

namespace carat::cli {
namespace {

void plan_with(const Context& context, size_t workspace_limit, Planned& planned) {
    carat_plan_options options;
    check(carat_plan_options_init(&options));
    options.workspace_limit = workspace_limit;
    carat_plan_t raw = nullptr;
    check(carat_plan_create(context.get(), &planned.problem, &options, &raw));
    const Plan plan(raw);
    if (!planned.kernel.empty()) return;
    planned.kernel = plan.kernel();
    const Json report = parse_json(plan.report(), "the report of a plan");
    for (const Json& reason : member(report, "refused")) planned.refused.push_back(reason.get<std::string>());
}

void plan_one(const Context& context, Planned& planned) {
    try {
        plan_with(context, SIZE_MAX, planned);
        plan_with(context, 0, planned);
    } catch (const Error& error) {
        planned.status = error.status();
        planned.failure = one_line(error.what());
    }
}

Json planned_json(const Planned& planned) {
    Json json = problem_json(planned.problem, 1, planned.problem.c.dtype == CARAT_NONE ? 0 : 1);
    json["kernel"] = maybe(planned.kernel);
    json["refused"] = planned.refused;
    json["status"] = carat_status_name(planned.status);
    json["failure"] = maybe(planned.failure);
    return json;
}

}  // namespace

int parse_jobs(const std::string& text) {
    const int jobs = int(parse_integer(text, "--jobs", 0, 1024));
    return jobs > 0 ? jobs : std::max(int(std::thread::hardware_concurrency()), 1);
}

std::vector<Planned> plan_all(const Context& context, const std::vector<carat_problem>& problems, int jobs,
                              const Output& output) {
    std::vector<Planned> planned(problems.size());
    Progress progress(output, problems.size());
    std::mutex mutex;
    size_t next = 0;
    const auto take = [&]() -> Planned* {
        const std::lock_guard lock(mutex);
        if (next == problems.size() || stop_asked() != kOk) return nullptr;
        Planned& one = planned[next];
        one.problem = problems[next++];
        progress.next(shape_name(one.problem) + " " + epilogue_name(one.problem, 1, 0));
        return &one;
    };
    std::vector<std::jthread> threads;
    for (int i = 0; i < jobs; ++i)
        threads.emplace_back([&] {
            while (Planned* one = take()) plan_one(context, *one);
        });
    threads.clear();  // joins
    progress.clear();
    if (const ExitCode stopped = stop_asked(); stopped != kOk)
        fail(stopped, "interrupted: {} of {} problems were planned; compiled kernels are in the cache", next,
             problems.size());
    return planned;
}

Json preparation_json(const std::vector<Planned>& planned, const Context& context) {
    const Json report = parse_json(context.kernels(), "the list of kernels");
    Json problems = Json::array(), from = Json::object();
    for (const Planned& one : planned) problems.push_back(planned_json(one));
    for (const Json& kernel : member(report, "kernels")) {
        Json& count = from[text_at(kernel, "from", "?")];
        count = count.is_null() ? 1 : count.get<int>() + 1;
    }
    return {{"target", member(report, "target")},
            {"problems", problems},
            {"from", from},
            {"kernels", member(report, "kernels")}};
}

std::string preparation_text(const Json& report, double seconds, bool colored) {
    std::map<std::string, std::vector<std::string>> left_out;  // sentences by status
    int worse = 0;
    for (const Json& problem : member(report, "problems")) {
        if (const std::string why = text_at(problem, "failure"); !why.empty())
            left_out[text_at(problem, "status")].push_back(why);
        worse += !member(problem, "refused").empty();
    }
    Table table({text_at(report, "target"), ""});
    table.add({"problems", fmt::format("{}", member(report, "problems").size())});
    table.add({"kernels", fmt::format("{}, after {:.1f} s", member(report, "kernels").size(), seconds)});
    for (const auto& [source, count] : member(report, "from").items())
        table.add({source == "compiled" ? source : "from the " + source, fmt::format("{}", count.get<int>())});
    if (worse > 0)
        table.add({"not the best", Cell(fmt::format("{} problems: see `refused` with --json", worse), Tone::warning)});
    for (const auto& [status, sentences] : left_out)
        table.add({"left out", Cell(fmt::format("{} by {}: see `failure` with --json; the first: {}", sentences.size(),
                                                status, sentences[0].substr(0, 100)),
                                    Tone::faint)});
    return table.str(colored);
}

void throw_first_failure(const std::vector<Planned>& planned) {
    for (const Planned& one : planned)
        if (one.status != CARAT_SUCCESS && one.status != CARAT_NOT_SUPPORTED)
            fail(exit_code_of(one.status), "{}: {}", shape_name(one.problem), one.failure);
}

}  // namespace carat::cli
