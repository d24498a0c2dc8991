// SPDX-License-Identifier: Apache-2.0
#include "jobs.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

namespace carat::cli {
namespace {

constexpr size_t kLargestTrace = size_t(1) << 30;

struct Record {
    std::string problem;  // as the library writes it, so that equal problems are equal text
    uint64_t count;
};

// A line of a trace; nothing, and why, where it is no record.
std::optional<Record> parse_record(const std::string& line, std::string& why) {
    const Json json = Json::parse(line, nullptr, false);
    const Json& count = member(json, "count");
    why = "it is no record of \"carat.trace/1\"";
    if (text_at(json, "schema") != "carat.trace/1" || !count.is_number_unsigned()) return std::nullopt;
    try {
        return Record{carat::problem_json(parse_problem(member(json, "problem").dump())), count.get<uint64_t>()};
    } catch (const Error& error) {
        why = error.what();
        return std::nullopt;
    }
}

}  // namespace

void add_source_flags(CLI::App& app, SourceFlags& flags, const std::string& shapes_flag,
                      const std::string& trace_flag) {
    flags.trace_flag = trace_flag;
    app.add_option(shapes_flag, flags.shapes,
                   "Problems from a file, lines \"m n k [dtype] [layout]\"; --dtype replaces each dtype")
        ->type_name("FILE");
    app.add_option("--model", flags.model, "Problems of a model's linear layers: a bundled name or a config.json")
        ->type_name("NAME");
    app.add_option("--tokens", flags.tokens, "With --model: tokens a step (default 1,64,4096)")->type_name("LIST");
    app.add_option("--tp", flags.tp, "With --model: GPUs that share each layer (default 1)")->type_name("N");
    app.add_option(trace_flag, flags.trace, "Problems that a program executed under CARAT_TRACE=FILE")
        ->type_name("FILE");
}

void require_one_source(const ProblemFlags& problem, const SourceFlags& source) {
    const bool sizes = !(problem.m.empty() && problem.n.empty() && problem.k.empty());
    const int sources = sizes + !source.shapes.empty() + !source.model.empty() + !source.trace.empty();
    if (sources > 1)
        fail(kUsage, "--m/--n/--k, --shapes, --model and {} were given together: give one source of problems",
             source.trace_flag);
    if (sources == 0)
        fail(kUsage, "--m is missing: give --m, --n and --k, or --shapes FILE, or --model NAME, or {} FILE",
             source.trace_flag);
    if (source.model.empty() && !(source.tokens.empty() && source.tp.empty()))
        fail(kUsage, "{} goes with --model", source.tokens.empty() ? "--tp" : "--tokens");
}

std::vector<int64_t> tokens_of(const SourceFlags& source) {
    return parse_sizes(source.tokens.empty() ? "1,64,4096" : source.tokens, "--tokens");
}

int64_t tp_of(const SourceFlags& source) {
    return parse_integer(source.tp.empty() ? "1" : source.tp, "--tp", 1, 4096);
}

std::vector<Shape> shapes_of(const ProblemFlags& problem, const SourceFlags& source) {
    if (!source.shapes.empty()) return shapes_of_file(source.shapes);
    if (source.model.empty()) return shapes_of_flags(problem);
    return shapes_of_model(source.model, tokens_of(source), tp_of(source));
}

std::vector<Job> jobs_of(const ProblemFlags& problem, const std::vector<Shape>& shapes) {
    const double alpha = parse_real(problem.alpha, "--alpha"), beta = parse_real(problem.beta, "--beta");
    std::vector<Job> jobs;
    for (const Shape& shape : shapes) jobs.push_back({make_problem(problem, shape), shape.name, alpha, beta});
    return jobs;
}

std::vector<Job> jobs_of_trace(const std::string& path, const std::string& flag) {
    std::istringstream lines(read_text_file(path, kLargestTrace));
    std::map<std::string, uint64_t> counts;
    size_t bad = 0, first_bad = 0;
    std::string line, why, first_why;
    for (size_t number = 1; std::getline(lines, line); ++number) {
        if (const auto record = parse_record(line, why))
            counts[record->problem] += record->count;
        else if (bad++ == 0)
            first_bad = number, first_why = why;
    }
    if (bad > 0)
        complain(fmt::format("{} {}: line {} is left out: {}{}", flag, one_line(path), first_bad, one_line(first_why),
                             bad > 1 ? fmt::format(" (and {} more lines)", bad - 1) : ""));
    if (counts.empty())
        fail(kInputOutput, "{} {} holds no problem: record one by running a program under CARAT_TRACE=FILE", flag,
             one_line(path));
    std::vector<Job> jobs;
    for (const auto& [problem, count] : counts) {
        Job job = {.problem = parse_problem(problem), .count = count};
        job.beta = job.problem.c.dtype == CARAT_NONE ? 0 : 1;
        jobs.push_back(job);
    }
    std::stable_sort(jobs.begin(), jobs.end(), [](const Job& x, const Job& y) { return x.count > y.count; });
    return jobs;
}

std::vector<Job> read_jobs(const ProblemFlags& problem, const SourceFlags& source) {
    require_one_source(problem, source);
    if (!source.trace.empty()) return jobs_of_trace(source.trace, source.trace_flag);
    return jobs_of(problem, shapes_of(problem, source));
}

}  // namespace carat::cli
