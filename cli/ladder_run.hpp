// SPDX-License-Identifier: Apache-2.0
// ladder_run.hpp: runs the rungs of the ladder on each problem, beside cuBLASLt and the hardware's limits, into one
// result "carat.ladder/1". Where nothing can be run it holds what the compiler and the model say of each kernel.
#pragma once

#include "ladder_rungs.hpp"
#include "problem_flags.hpp"

namespace carat::cli {

struct LadderOptions {
    std::vector<Rung> rungs;
    std::vector<Shape> shapes;
    bool rungs_named = false;     // by --rungs: one that cannot run here is a failure
    bool sweep = false;           // the slowest rungs stop at the smaller sizes
    bool all_candidates = false;  // every tile of a rung, not its best predicted one alone
    bool peer = true;
    double budget = 1.5;  // seconds of samples for a group of kernels
    MachineFlags machine;
    Output output;
};

// `note`: why nothing is timed, empty if it is. Sets the exit code, and says on stderr what went wrong.
Json run_ladder(const LadderOptions& options, const Context& context, const std::string& note, ExitCode& code);

}  // namespace carat::cli
