// SPDX-License-Identifier: Apache-2.0
// rows_wgmma.hpp: the rungs of the ladder on Hopper's units (sm_90a): wgmma, bulk copies, mbarriers, clusters.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

extern const Row kRowV6Wgmma, kRowV7WarpSpecialized, kRowV8Cluster;

}  // namespace carat
