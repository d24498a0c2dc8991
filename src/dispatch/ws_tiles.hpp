// SPDX-License-Identifier: Apache-2.0
// ws_tiles.hpp: the tiles, forms and clusters that the Hopper kernel (kernels/gemm_ws.cuh) has for a problem.
#pragma once

#include <vector>

#include "dispatch/config.hpp"
#include "dispatch/wgmma_kernel.hpp"
#include "limits/target.hpp"

namespace carat {

inline constexpr const char* kWsFamily = "sm90_ws";

// How a block divides a configuration's tile.
WgmmaBlock ws_block(const Config& config);

// Whether there is a C that threads read, with registers of their own, as it does not come through shared memory or its epilogue is
// too long to be unrolled.
bool threads_read_c(const Problem& problem);

// Clusters of so many blocks that run at once.
int running_clusters(const Target& target, int blocks);

// Blocks of a cluster.
int ws_cluster_blocks(const Config& config);

// Tiles of clusters over D and the batch.
int64_t ws_clusters(const Problem& problem, const Config& config);

// Every tile and cluster for a problem, with as many stages as fit and in no order of tiles yet.
std::vector<Config> ws_tilings(const Problem& problem, const Target& target);

// The strip that lets the clusters that run together share most: least lines of A and of B in all. Strips lie along the
// dimension where fewer of them end within a wave.
int ws_strip(const Problem& problem, const Config& config, const Target& target);

// Those of ws_tilings(), each in the order that suits it.
std::vector<Config> ws_configs(const Problem& problem, const Target& target);

// Whether a lone block can have a tile, dealt out evenly for this number of tokens or for another: what is measured for 16 rows of D is to
// run for 13, too.
bool ws_lone_tile(const Problem& problem, const Config& config);

// Whether a number of stages is enough, and fits into a block's shared memory.
bool ws_fits(const Problem& problem, const Config& config, const Target& target);

}  // namespace carat
