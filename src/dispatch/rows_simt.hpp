// SPDX-License-Identifier: Apache-2.0
// rows_simt.hpp: the rungs of the ladder that multiply in f32 units, as rows of the registry.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

extern const Row kRowV0Naive;
extern const Row kRowV1Shared;
extern const Row kRowV2Registers;
extern const Row kRowV3DoubleBuffer;

}  // namespace carat
