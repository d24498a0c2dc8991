// SPDX-License-Identifier: Apache-2.0
// jobs.hpp: the problems that a command measures, from one of: sizes on the command line, a file of shapes, a model, or a trace
// of what a program executed (CARAT_TRACE).
#pragma once

#include <string>
#include <vector>

#include "shapes.hpp"

namespace carat::cli {

struct Job {
    carat_problem problem;
    std::string name;  // of a model's layer
    double alpha = 1, beta = 0;
    uint64_t count = 0;  // executions in a trace
};

struct SourceFlags {
    std::string shapes, model, tokens, tp, trace;
    std::string trace_flag;  // its name: --trace or --replay
};
void add_source_flags(CLI::App& app, SourceFlags& flags, const std::string& shapes_flag, const std::string& trace_flag);

// Fails unless exactly one source is given.
void require_one_source(const ProblemFlags& problem, const SourceFlags& source);
// --tokens and --tp, or what stands for them.
std::vector<int64_t> tokens_of(const SourceFlags& source);
int64_t tp_of(const SourceFlags& source);
// Of all sources but a trace.
std::vector<Shape> shapes_of(const ProblemFlags& problem, const SourceFlags& source);
std::vector<Job> jobs_of(const ProblemFlags& problem, const std::vector<Shape>& shapes);
// Each problem once, with the sum of its counts, the most often executed first. Lines that are no record are left out, with one
// warning that names them.
std::vector<Job> jobs_of_trace(const std::string& path, const std::string& flag);
// Of whichever source is given.
std::vector<Job> read_jobs(const ProblemFlags& problem, const SourceFlags& source);

}  // namespace carat::cli
