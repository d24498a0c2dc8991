// SPDX-License-Identifier: Apache-2.0
// split_k.hpp: K in parts whose f32 sums come together in the caller's workspace, through L2 (kernels/mainloop/split_in_l2.cuh):
// what the forms `s`, `w` and `sk` of sm90_ws take of it, and the kernel that adds up after `w`.
#pragma once

#include "dispatch/cuda_kernel.hpp"
#include "dispatch/wgmma_kernel.hpp"

namespace carat {

// Parts of a form; 1 for all other forms. One part is no split, and needs nothing.
int serial_parts(const Config& config);
int separate_parts(const Config& config);
int parts_in_l2(const Config& config);
bool is_stream_k(const Config& config);
bool adds_up_in_l2(const Config& config);  // in any of the three forms
// The configuration whose tiles are divided so.
Config undivided(Config config);

inline constexpr int kMostPartsInL2 = 80;
inline constexpr int kMostStreamKBlocks = 132;  // one an SM, each with a slot; no GPU with wgmma has more

// Whether a tile that is whole can be split so: of operands that the copy engine brings, by consumers that share it; a lone block's, or for
// stream-K a pair's.
bool can_split_in_l2(const Problem& problem, const Config& whole, SplitForm form);

// What a configuration needs of the workspace. Nothing for K = 0, whose kernel is not split.
WorkspaceUse split_workspace(const Problem& problem, const Config& config, const WgmmaBlock& block);

// The problem whose epilogue is only what the products need of it, where a second kernel has the rest.
Problem without_epilogue(const Problem& problem);

// That second kernel, after tiles of a walk.
CudaKernel reduce_kernel(const Problem& problem, const Config& config, const WgmmaBlock& block,
                         const carat_shared::TileWalk& walk);

}  // namespace carat
