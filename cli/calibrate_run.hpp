// SPDX-License-Identifier: Apache-2.0
// calibrate_run.hpp: `carat calibrate`: kernels of a designed set of problems timed on this GPU, the cost models' parameters fitted to
// their times, and the device file written.
#pragma once

#include "problem_flags.hpp"

namespace carat::cli {

struct CalibrateOptions {
    const MachineFlags& machine;
    const Output& output;
    double seconds = 60;  // to sample all problems for
    std::string file;     // the device file; "": the place where plans look for it
    std::string shapes;   // measure these, not the designed problems
    std::string samples;  // take them from here, measure nothing
    std::string save_samples;
    bool dry_run = false;  // measure or write nothing
};

Json calibrate(const CalibrateOptions& options, ExitCode& code);
// Predicted against measured times, of each file.
Json report_errors(const CalibrateOptions& options, const std::vector<std::string>& files);

}  // namespace carat::cli
