// SPDX-License-Identifier: Apache-2.0
// rows_ws.hpp: the row of the Hopper kernel, kernels/gemm_ws.cuh: its tiles (ws_tiles.hpp), what they cost (ws_cost.hpp), and
// the forms in which it runs a problem (swapped.hpp, aligned.hpp). Candidates are those predicted best.
#pragma once

#include "dispatch/registry.hpp"
#include "dispatch/ws_tiles.hpp"

namespace carat {

extern const Row kRowWs;

}  // namespace carat
