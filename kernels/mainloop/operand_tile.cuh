// SPDX-License-Identifier: Apache-2.0
// operand_tile.cuh: a tile of a 16-bit operand, kRows (of M or N) by 64 (of K), in shared memory as wgmma reads it: in
// lines of 128 bytes under the 128-byte swizzle.
//   K-major (A row-major, B column-major): a line is one row, 64 of K.
//   MN-major: boxes of 64 rows; a line of a box is one k, 64 rows.
// Says how the copy engine brings it and how its parts are described to wgmma.
#pragma once

#include <shared/matrix_descriptor.h>
#include <ptx/bulk_copy.cuh>

namespace carat_kernel {

using namespace carat_shared;

constexpr int kTileDepth = 64;  // of K: a line of a K-major tile
constexpr int kStepDepth = 16;  // of K: one wgmma

template <bool kKMajor, int kRows>
struct OperandTile {
    static constexpr int kBytes = kRows * kLineBytes;
    static constexpr int kBoxBytes = 64 * kLineBytes;  // MN-major

    // One thread: the part `part` of kParts of the tile whose first row and k are given, for this block or, of several
    // parts, for every block of the cluster.
    template <int kParts>
    __device__ static void load(unsigned to, const BulkMap& map, unsigned barrier, int row, int k, int batch,
                                int part) {
        constexpr int kPartRows = kRows / kParts, kBoxRows = kKMajor ? kPartRows : 64;
        static_assert(kPartRows % kBoxRows == 0 && kPartRows % 8 == 0,
                      "a part is whole boxes and whole swizzle patterns");
#pragma unroll
        for (int done = 0; done < kPartRows; done += kBoxRows) {
            const int first = part * kPartRows + done;
            const int x = kKMajor ? k : row + first, y = kKMajor ? row + first : k;
            if constexpr (kParts == 1)
                bulk_load(to + first * kLineBytes, map, barrier, x, y, batch);
            else
                bulk_load_multicast(to + first * kLineBytes, map, barrier, x, y, batch, (1 << kParts) - 1);
        }
    }

    // The descriptor of the rows from `row` on (a multiple of 64), for the `step`th 16 of K.
    __device__ static u64 descriptor(unsigned tile, int row, int step) {
        const unsigned first = tile + row * kLineBytes;
        if constexpr (kKMajor) return matrix_descriptor(first + step * kStepDepth * 2, 16, kSwizzleBytes);
        return matrix_descriptor(first + step * kStepDepth * kLineBytes, kBoxBytes, kSwizzleBytes);
    }
};

}  // namespace carat_kernel
