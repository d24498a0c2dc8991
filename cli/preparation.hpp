// SPDX-License-Identifier: Apache-2.0
// preparation.hpp: plans of many problems, made by several threads at once so that their kernels are compiled, and what
// came of it: for `carat prepare` and `carat pack build`.
#pragma once

#include <string>
#include <vector>

#include "workload.hpp"

namespace carat::cli {

struct Planned {
    carat_problem problem;
    std::string kernel;                // that runs it, with as much workspace as it likes
    std::vector<std::string> refused;  // why better predicted kernels are not it
    carat_status status = CARAT_SUCCESS;
    std::string failure;  // the sentence
};

// 0: as many as the machine has cores.
int parse_jobs(const std::string& text);

// Each problem is planned with any workspace and with none, as carat_gemm() plans it. Ends early, by a Failure, on SIGINT.
std::vector<Planned> plan_all(const Context& context, const std::vector<carat_problem>& problems, int jobs,
                              const Output& output);

// "problems": what each got, "kernels": carat_kernels(), "from": how many came from where.
Json preparation_json(const std::vector<Planned>& planned, const Context& context);
// The same for people: counts, and what was left out and why.
std::string preparation_text(const Json& report, double seconds, bool colored);
// A failure that is no refusal of a problem ends the command: the first of them.
void throw_first_failure(const std::vector<Planned>& planned);

}  // namespace carat::cli
