// SPDX-License-Identifier: Apache-2.0
// rows_ladder.hpp: the rungs of the optimisation ladder as rows of the registry.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

extern const Row kRowV0Naive;
extern const Row kRowV1Shared;

}  // namespace carat
