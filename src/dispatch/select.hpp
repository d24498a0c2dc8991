// SPDX-License-Identifier: Apache-2.0
// select.hpp: problem -> rows -> candidates -> cost -> least. The same walk serves plan, explain and, later, the tuner.
#pragma once

#include <string>
#include <vector>

#include "dispatch/registry.hpp"

namespace carat {

struct Candidate {
    const Row* row;
    Config config;
    Prediction prediction;
};

struct Considered {
    const Row* row;
    std::string refusal;  // "" if the row takes the problem
    std::vector<Candidate> candidates;
};

struct Selection {
    std::vector<Considered> considered;  // every row, in registry order
    const Candidate* winner = nullptr;   // into `considered`
};

// `kernel`: "" for the library's choice, a row's name, or a full configuration name, which need not be a candidate if the
// row has it. Never fails: see select().
Selection consider(const Problem& problem, const Target& target, std::string_view kernel = {});
// Every candidate, the best predicted first; or NOT_SUPPORTED with each row's reason, or INVALID_VALUE for an unknown
// `kernel`. Never empty.
Result<std::vector<Candidate>> rank(const Problem& problem, const Target& target, std::string_view kernel = {});
// The first of them.
Result<Candidate> select(const Problem& problem, const Target& target, std::string_view kernel = {});

}  // namespace carat
