// SPDX-License-Identifier: Apache-2.0
// ws_cost.hpp: what a configuration of the Hopper kernel is predicted to take.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

// Of a problem as the kernel runs it, neither swapped nor aligned.
Prediction ws_predict(const Problem& problem, const Config& config, const Target& target);

}  // namespace carat
