// SPDX-License-Identifier: Apache-2.0
// select.hpp: problem -> rows -> candidates -> cost -> least. The same walk serves plan, explain and the tuner. A
// choice that was measured (tuning_db.hpp) goes before the least predicted one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/registry.hpp"
#include "dispatch/tuning_db.hpp"

namespace carat {

struct Candidate {
    const Row* row;
    Config config;
    Prediction prediction;
    const TunedChoice* tuned = nullptr;  // the database's, which outlives it, where that is why it comes first
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
    const Candidate* winner = nullptr;   // the least predicted, into `considered`
    std::optional<Candidate> tuned;      // what goes before it
    const Candidate* chosen() const { return tuned ? &*tuned : winner; }
};

// Bytes that a candidate needs of the caller's workspace.
size_t workspace_bytes(const Candidate& candidate, const Problem& problem);

// `kernel`: "" for the library's choice, a row's name, or a full configuration name, which need not be a candidate if the
// row has it. `workspace_limit`: bytes that a candidate may need. `tuning` has a say only where the library chooses; null:
// none. Never fails: see select().
Selection consider(const Problem& problem, const Target& target, std::string_view kernel = {},
                   size_t workspace_limit = SIZE_MAX, const TuningDb* tuning = nullptr);
// Every candidate, the tuned one and then the best predicted first; or NOT_SUPPORTED with each row's reason, or INVALID_VALUE
// for an unknown `kernel` or a limit that rules all of them out. Never empty.
Result<std::vector<Candidate>> rank(const Problem& problem, const Target& target, std::string_view kernel = {},
                                    size_t workspace_limit = SIZE_MAX, const TuningDb* tuning = nullptr);
// The first of them.
Result<Candidate> select(const Problem& problem, const Target& target, std::string_view kernel = {},
                         const TuningDb* tuning = nullptr);

}  // namespace carat
