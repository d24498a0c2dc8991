// SPDX-License-Identifier: Apache-2.0
// select.hpp: problem -> rows -> candidates -> cost -> least. The same walk serves plan, explain and, later, the tuner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dispatch/registry.hpp"

namespace carat {

struct Candidate {
    const Row* row;
    Config config;
    Prediction prediction;
};

// One that the row offers and the caller's wishes rule out.
struct RuledOut {
    Candidate candidate;
    std::string reason;
};

struct Considered {
    const Row* row;
    std::string refusal;  // "" if there are candidates
    std::vector<Candidate> candidates;
    std::vector<RuledOut> ruled_out;
};

struct Selection {
    std::vector<Considered> considered;  // every row, in registry order
    const Candidate* winner = nullptr;   // into `considered`
};

// Bytes that a candidate needs of the caller's workspace.
size_t workspace_bytes(const Candidate& candidate, const Problem& problem);

// `kernel`: "" for the library's choice, a row's name, or a full configuration name, which need not be a candidate if the
// row has it. `workspace_limit`: bytes that a candidate may need. Never fails: see select().
Selection consider(const Problem& problem, const Target& target, std::string_view kernel = {},
                   size_t workspace_limit = SIZE_MAX);
// Every candidate, the best predicted first; or NOT_SUPPORTED with each row's reason, or INVALID_VALUE for an unknown
// `kernel` or a limit that rules all of them out. Never empty.
Result<std::vector<Candidate>> rank(const Problem& problem, const Target& target, std::string_view kernel = {},
                                    size_t workspace_limit = SIZE_MAX);
// The first of them.
Result<Candidate> select(const Problem& problem, const Target& target, std::string_view kernel = {});

}  // namespace carat
