// SPDX-License-Identifier: Apache-2.0
// bench_chain.hpp: `carat bench --chain`: the linear layers of one decoder layer timed as a whole, as a step of a model runs them,
// beside the same chain of other libraries, each of whose products uses its own best algorithm.
#pragma once

#include <string>
#include <vector>

#include "jobs.hpp"

namespace carat::cli {

struct ChainOptions {
    const ProblemFlags& problem;
    const MachineFlags& machine;
    const SourceFlags& source;  // a model
    const Output& output;
    std::vector<std::string> peers;
    double budget;  // seconds a chain
    bool check;
};

// The report, "carat.bench_chain/1": a chain for each number of tokens.
Json measure_chains(const ChainOptions& options, ExitCode& code);

}  // namespace carat::cli
