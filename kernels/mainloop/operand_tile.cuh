// SPDX-License-Identifier: Apache-2.0
// operand_tile.cuh: a tile of a 16-bit operand, kRows (of M or N) by 64 (of K), in shared memory as wgmma reads it: in
// lines of 128 bytes under the 128-byte swizzle.
//   K-major (A row-major, B column-major): a line is one row, 64 of K.
//   MN-major: boxes of 64 rows; a line of a box is one k, 64 rows. A last box that is not full is brought whole.
// Says how the copy engine brings it and how its parts are described to wgmma.
// A stage may have several tiles of an operand, its panels, which follow each other.
#pragma once

#include <shared/matrix_descriptor.h>
#include <ptx/bulk_copy.cuh>

namespace carat_kernel {

using namespace carat_shared;

constexpr int kTileDepth = 64;  // of K: a line of a K-major tile
constexpr int kStepDepth = 16;  // of K: one wgmma

template <bool kKMajor, int kRows>
struct OperandTile {
    static constexpr int kLines = kKMajor ? kRows : (kRows + 63) / 64 * 64;
    static constexpr int kBytes = kLines * kLineBytes;
    static constexpr int kBoxBytes = 64 * kLineBytes;  // MN-major
    // Whether copies end where the operand does. Those of MN-major boxes do not, nor those of two pieces, the first of which
    // ends in the second; nor parts of other blocks of a cluster: each stage waits for all of them, which is what keeps a block
    // from running ahead of one whose stage it shares.
    template <int kParts, int kPieces>
    static constexpr bool kEnds = kKMajor&& kParts* kPieces == 1;

    // By which a box comes that begins at `row`.
    template <int kParts, int kPieces>
    __device__ static const BulkMap& map_of(const OperandMaps& maps, int row, int end) {
        return kEnds<kParts, kPieces> && row + kRows > end ? maps.last : maps.whole;
    }

    // One thread: all kPanels of a stage, as load_panel() says. kInOneBox: together, of a map that has lines of K as a dimension of
    // their own. The copy engine takes some 130 clocks for a box, however small it is. The operand's last rows come panel by panel.
    template <int kParts, int kPanels, bool kInOneBox, int kPieces>
    __device__ static void load(unsigned to, const OperandMaps& maps, unsigned barrier, const int (&rows)[kPieces],
                                int end, int k, int batch, int part, unsigned short mask, bool once) {
        static_assert(!kInOneBox || (kEnds<kParts, kPieces> && kPanels > 1), "one box is all of a stage's operand");
        if (kInOneBox && rows[0] + kRows <= end) {
            once ? bulk_load<true>(to, maps.whole, barrier, 0, rows[0], k / kTileDepth, batch)
                 : bulk_load<false>(to, maps.whole, barrier, 0, rows[0], k / kTileDepth, batch);
            return;
        }
#pragma unroll
        for (int panel = 0; panel < kPanels; ++panel)
            load_panel<kParts>(to + panel * kBytes, maps, barrier, rows, end, k + panel * kTileDepth, batch, part, mask,
                               once);
    }

    // One thread: part `part` of kParts of the tile, whose kPieces pieces of equal size begin at the given rows of the
    // operand; for this block or, of several parts, for every block of the cluster in `mask`. once: nobody reads it again.
    // end: the operand's rows. Of a part that they end in the rows that there are are brought, by a map of their own: the copy
    // engine takes 5 clocks and more for a row outside of an operand, and 270 for a box that has one.
    template <int kParts, int kPieces>
    __device__ static void load_panel(unsigned to, const OperandMaps& maps, unsigned barrier,
                                      const int (&rows)[kPieces], int end, int k, int batch, int part,
                                      unsigned short mask, bool once = false) {
        constexpr int kPieceRows = kRows / kPieces, kPartRows = kPieceRows / kParts;
        constexpr int kBoxRows = kKMajor ? kPartRows : 64;
        static_assert(kPartRows % 8 == 0, "a part is whole swizzle patterns");
        static_assert(kPartRows % kBoxRows == 0 || kParts * kPieces == 1, "a part is whole boxes");
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece)
#pragma unroll
            for (int done = 0; done < kPartRows; done += kBoxRows) {
                const int first = part * kPartRows + done;
                const int row = rows[piece] + first;
                if (kEnds<kParts, kPieces> && row >= end) continue;
                const BulkMap& map = map_of<kParts, kPieces>(maps, row, end);
                const unsigned line = to + (piece * kPieceRows + first) * kLineBytes;
                const int x = kKMajor ? k : row, y = kKMajor ? row : k;
                if constexpr (kParts == 1)
                    once ? bulk_load<true>(line, map, barrier, x, y, batch)
                         : bulk_load<false>(line, map, barrier, x, y, batch);
                else
                    bulk_load_multicast(line, map, barrier, x, y, batch, mask);
            }
    }

    // Bytes of all parts of the tile that begins at `row`.
    template <int kParts, int kPieces>
    __device__ static int bytes(int row, int end) {
        if (!kEnds<kParts, kPieces> || row + kRows <= end) return kBytes;
        return row < end ? (end - row) * kLineBytes : 0;
    }

    // The descriptor of the rows from `row` on (a multiple of 64), for the `step`th 16 of K.
    __device__ static u64 descriptor(unsigned tile, int row, int step) {
        const unsigned first = tile + row * kLineBytes;
        if constexpr (kKMajor) return matrix_descriptor(first + step * kStepDepth * 2, 16, kSwizzleBytes);
        return matrix_descriptor(first + step * kStepDepth * kLineBytes, kBoxBytes, kSwizzleBytes);
    }
};

}  // namespace carat_kernel
