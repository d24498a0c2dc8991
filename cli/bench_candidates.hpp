// SPDX-License-Identifier: Apache-2.0
// bench_candidates.hpp: `carat bench --all-candidates`: every configuration of one kernel row, each a result of its own,
// on the same operands in the same run. What the cost model is tuned with.
#pragma once

#include <string>
#include <vector>

#include "problem_flags.hpp"

namespace carat::cli {

struct CandidatesOptions {
    const ProblemFlags& problem;
    const MachineFlags& machine;  // its kernel: the row, or none for the row that the library chooses
    const Output& output;
    std::vector<Shape> shapes;
    double budget;  // seconds a candidate
    bool check;
    bool table;  // print it
};

// The report, "carat.bench/1". A result has `chosen`: whether a plan under the same flags takes it. Candidates that the
// compiler refuses are under `skipped` with the reason.
Json measure_candidates(const CandidatesOptions& options, ExitCode& code);

}  // namespace carat::cli
