// SPDX-License-Identifier: Apache-2.0
// cublaslt.hpp: cuBLASLt as a peer: the best of its heuristic's candidates, each timed.
#pragma once

#include "peers/peer.hpp"

namespace carat::cli {

// Null with a sentence where there is no library or no usable device context.
std::unique_ptr<Peer> open_cublaslt(const Arena& arena, std::string* why_not);

}  // namespace carat::cli
