// SPDX-License-Identifier: Apache-2.0
// wgmma_kernel.hpp: what the kernels that feed wgmma from a ring of stages (kernels/mainloop/stages.cuh) share on the
// host: which operands the copy engine can take, and the block that runs a configuration.
#pragma once

#include "dispatch/cuda_kernel.hpp"

namespace carat {

inline constexpr int kStripRows = 64;   // of D: one wgmma
inline constexpr int kStageDepth = 64;  // of K: 128 bytes, the swizzle's period

// How a family runs its configurations.
struct WgmmaFamily {
    const char* include;
    const char* function;
    bool specialized;  // a producer warpgroup beside the consumers, persistent blocks, stores through boxes
    bool production;   // starts beside the kernel before it; brings C in bulk; is refused if it spills
};

// How a block divides a tile.
struct WgmmaBlock {
    int consumers = 2;  // warpgroups that multiply
    int strips = 1;     // of 64 rows, of each
    bool pingpong = false;
};

// Blocks of a cluster that take parts of K of one tile.
int parts_in_cluster(const Config& config);

// The descriptors of the operands, and of D where a family stores in bulk, each where its pitches allow it.
BulkMaps bulk_maps(const Problem& problem, const Config& config, bool stores);

// What one block asks the copy engine for in each stage of K-major operands, in boxes of all rows of a tile.
double boxes_of_stage(const Problem& problem, const Config& config);

// Whether a block's accumulators and the epilogue leave the registers with which threads copy.
bool threads_can_copy(const Problem& problem, const Config& config, const WgmmaBlock& block);

// Dynamic shared memory of a block. The layout is that of kernels/mainloop/stages.cuh.
int64_t wgmma_shared_bytes(const Problem& problem, const Config& config, const WgmmaBlock& block, int64_t store_bytes);
// What the stores of a consumer take: two boxes, a barrier for each where C is brought into them, and its part of the bias.
int64_t store_bytes(const Problem& problem, const Config& config, const WgmmaBlock& block, bool bulk_c);

// Shared memory of a block beside which another one fits.
int64_t half_of_shared(const Target& target);

// Blocks that an SM has room for, in decode: this kernel's, and one of the next, which then fetches its weights while this one
// ends. Of others: 1.
int blocks_of_sm(const Problem& problem, const Config& config, const WgmmaBlock& block, const Target& target);

// The kernel that copies in bulk what can be, one that leaves C to the threads, and for operands at odd addresses one in which
// threads copy all.
Result<std::unique_ptr<Executable>> prepare_wgmma(const Problem& problem, const Config& config, Runtime& runtime,
                                                  const WgmmaFamily& family, const WgmmaBlock& block);

}  // namespace carat
