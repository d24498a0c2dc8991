// SPDX-License-Identifier: Apache-2.0
// workload.hpp: the problems whose kernels shall be ready before a model is served: the shapes of suites and models, in the
// types and with the epilogues that servers use.
#pragma once

#include <string>
#include <vector>

#include "problem_flags.hpp"

namespace carat::cli {

struct WorkloadFlags {
    std::vector<std::string> shapes, models;
    std::string tokens = "1:8192:x2", tp = "1", dtypes, epilogues = "common";
};

void add_workload_flags(CLI::App& app, WorkloadFlags& flags);

// Each problem once. Neighbours differ in type or epilogue, and so in their kernels: threads that take them in turn seldom
// wait for each other's.
std::vector<carat_problem> workload(const WorkloadFlags& flags);

}  // namespace carat::cli
