// SPDX-License-Identifier: Apache-2.0
// rows_ws.hpp: the row of the Hopper kernel, kernels/gemm_ws.cuh.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

extern const Row kRowWs;

// Every tile and cluster that the kernel has for a problem, with the order of tiles that suits it. candidates() gives those
// of them that are predicted best.
std::vector<Config> ws_configs(const Problem& problem, const Target& target);

}  // namespace carat
