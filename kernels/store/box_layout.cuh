// SPDX-License-Identifier: Apache-2.0
// box_layout.cuh: a box of shared memory between a warpgroup and the copy engine: 64 rows by 128 bytes of columns of D, in D's own
// order and under the 128-byte swizzle; and how C, in the same place and order, is read from it.
#pragma once

#include <shared/matrix_descriptor.h>
#include <ptx/block.cuh>
#include <ptx/convert.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/shared.cuh>

namespace carat_kernel {

constexpr int kStoreBoxBytes = 64 * kLineBytes;
constexpr int kStoreBoxes = 2;  // of a warpgroup: one is filled while the other is stored
constexpr int kStoreBytes = kStoreBoxes * kStoreBoxBytes;

// How elements of D lie in a box: row-major, a line of 128 bytes is a row; column-major, 64 rows of a column follow each
// other.
template <class Config>
struct BoxLayout {
    static constexpr unsigned kElement = type_bytes(Config::kTypeD), kCols = kLineBytes / kElement;
    static constexpr unsigned kColumnBytes = 64 * kElement;

    __device__ static constexpr unsigned swizzled(unsigned byte) { return byte ^ (byte / kLineBytes % 8 * 16); }
    __device__ static constexpr unsigned at(unsigned row, unsigned col) {
        return swizzled(Config::kRowMajorD ? row * kLineBytes + col * kElement : col * kColumnBytes + row * kElement);
    }
};

// Where a lane finds, or leaves, one line of 8 elements of 16 bits of the four matrices of two blocks: upper and lower 8 rows of
// the left block, then of the right one.
template <class Config>
struct LineOfMatrices {
    unsigned thread, lane = thread % kWarpThreads, warp_row = thread / kWarpThreads * 16;
    unsigned half = lane / 8 % 2 * 8, right = lane / 16 * 8, line = lane % 8;

    __device__ unsigned at(unsigned block) const {
        const unsigned row = warp_row + half + (Config::kRowMajorD ? line : 0);
        const unsigned col = block * 8 + right + (Config::kRowMajorD ? 0 : line);
        return BoxLayout<Config>::at(row, col);
    }
};

// C for the accumulators of a lane in `blocks` blocks from `begin` on: the mirror image of fill_box() (boxes.cuh). Elements are of D's size, and row-major if they are
// not of 16 bits.
template <class Config, int kMost>
__device__ void read_box(float (&c)[4 * kMost], int begin, int blocks, const char* box, unsigned thread) {
    using Layout = BoxLayout<Config>;
    if constexpr (Layout::kElement == 2) {
        const unsigned from = shared_address(box);
        const LineOfMatrices<Config> line = {thread};
#pragma unroll
        for (int block = 0; block < kMost; block += 2) {
            if (block >= blocks) continue;
            unsigned pairs[4];
            ldmatrix_x4<!Config::kRowMajorD>(pairs, from + line.at(begin + block));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                c[4 * block + 2 * i] = unpack<Config::kTypeC>(static_cast<unsigned short>(pairs[i]));
                c[4 * block + 2 * i + 1] = unpack<Config::kTypeC>(static_cast<unsigned short>(pairs[i] >> 16));
            }
        }
    } else {
        const unsigned lane = thread % kWarpThreads, row = thread / kWarpThreads * 16 + lane / 4;
#pragma unroll
        for (int pair = 0; pair < 2 * kMost; ++pair) {
            if (pair >= 2 * blocks) continue;
            const unsigned col = (begin + pair / 2) * 8 + lane % 4 * 2;
            const float2 both = load_pair<Config::kTypeC>(box + Layout::at(row + pair % 2 * 8, col), 0);
            c[2 * pair] = both.x, c[2 * pair + 1] = both.y;
        }
    }
}

}  // namespace carat_kernel
