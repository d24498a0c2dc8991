// SPDX-License-Identifier: Apache-2.0
// rows_mma.hpp: the rungs on the tensor cores' warp-wide instructions (wmma, mma.sync) as rows of the registry.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

extern const Row kRowV4Wmma;
extern const Row kRowV5Mma;

}  // namespace carat
