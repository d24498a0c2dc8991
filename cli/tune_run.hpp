// SPDX-License-Identifier: Apache-2.0
// tune_run.hpp: `carat tune`: each problem's kernels compiled, checked and raced (tuner.hpp), and the winner put into the database,
// which is written after every problem. Results are "carat.tune/1".
#pragma once

#include "jobs.hpp"
#include "tuner.hpp"

namespace carat::cli {

struct TuneOptions {
    const MachineFlags& machine;
    const Output& output;
    std::vector<Job> jobs;
    std::string database;
    Effort effort;
    bool force = false;  // measure what has a fresh row, too
};

Json tune(const TuneOptions& options, ExitCode& code);
// What would be measured.
Json tune_dry(const TuneOptions& options);

}  // namespace carat::cli
