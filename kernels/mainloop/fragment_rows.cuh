// SPDX-License-Identifier: Apache-2.0
// fragment_rows.cuh: where each lane finds its row of the four 8x8 matrices of a fragment (ptx/ldmatrix.cuh) in a tile
// that TileCopy wrote swizzled: 16 elements along MN by 16 along K.
// Of the address only two things change from one fragment to the next, and both are cheap: whole lines, which fit the
// instruction's immediate, and steps of two chunks within a line, which are an XOR (shared/swizzle.h).
#pragma once

#include <shared/swizzle.h>
#include <ptx/ldmatrix.cuh>

namespace carat_kernel {

// kMnFirst: the second matrix is the other 8 of MN (the order of mma's A), else the other 8 of K (B, two blocks of 8).
template <bool kKMajor, bool kMnFirst>
class FragmentRows {
  public:
    // mn: where the warp's part of the tile begins, a multiple of 16.
    __device__ FragmentRows(int mn, int lane) {
        const int second = lane / 8 % 2 * 8, third = lane / 16 * 8;
        const int mn_half = kMnFirst ? second : third, k_half = kMnFirst ? third : second;
        if constexpr (kKMajor)
            offset_ = carat_shared::swizzle_128(mn + mn_half + lane % 8, k_half / 8);
        else
            offset_ = carat_shared::swizzle_128(mn / 64 * 64 + k_half + lane % 8, (mn % 64 + mn_half) / 8);
    }

    // The fragment `block` (of 16) along MN and `step` (of 16) along K.
    __device__ void load(unsigned (&registers)[4], unsigned tile, int block, int step) const {
        const int within = kKMajor ? step : block % 4;
        const int lines = kKMajor ? 16 * block : 64 * (block / 4) + 16 * step;
        ldmatrix_x4<!kKMajor>(registers, ((tile + offset_) ^ (32 * within)) + 128 * lines);
    }

  private:
    unsigned offset_;
};

}  // namespace carat_kernel
