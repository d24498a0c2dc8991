// SPDX-License-Identifier: Apache-2.0
// neighbours.hpp: what a tuner measures for a problem: every candidate, and around the best predicted ones the configurations
// that their rows have with other stages and other orders of tiles.
#pragma once

#include <vector>

#include "dispatch/select.hpp"

namespace carat {

// The same tile with one stage more or less, twice or half of them; with twice or half the strip, and the strip of the other kind,
// where the order of tiles matters; those that the row has.
std::vector<Candidate> neighbours(const Candidate& candidate, const Problem& problem, const Target& target);

// Best predicted first, each once. NOT_SUPPORTED as rank() gives it.
Result<std::vector<Candidate>> tuning_candidates(const Problem& problem, const Target& target);

}  // namespace carat
