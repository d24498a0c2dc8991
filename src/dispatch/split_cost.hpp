// SPDX-License-Identifier: Apache-2.0
// split_cost.hpp: where the Hopper kernel shall split K through L2 (dispatch/split_k.hpp), and what that is predicted to take.
#pragma once

#include <vector>

#include "dispatch/registry.hpp"

namespace carat {

// Of a problem as the kernel runs it and a configuration that adds up in L2.
Prediction split_predict(const Problem& problem, const Config& config, const Target& target);

// Those of a problem's configurations whose tiles leave most SMs idle, in as many parts as fill them, or in few; and those whose last
// wave is not full, by stream-K.
std::vector<Config> split_tilings(const Problem& problem, const std::vector<Config>& whole, const Target& target);

}  // namespace carat
