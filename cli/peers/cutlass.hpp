// SPDX-License-Identifier: Apache-2.0
// cutlass.hpp: CUTLASS as a peer, by way of the plugin that tools/build_peers.sh builds (bench/peers/cutlass/plugin.h): f16 and bf16
// products of Hopper, the best of the plugin's kernels and of the orders in which their blocks walk.
#pragma once

#include "peers/peer.hpp"

namespace carat::cli {

// Null with a sentence where there is no plugin or no usable device context.
std::unique_ptr<Peer> open_cutlass(const Arena& arena, std::string* why_not);

}  // namespace carat::cli
