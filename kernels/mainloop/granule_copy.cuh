// SPDX-License-Identifier: Apache-2.0
// granule_copy.cuh: an operand's tile of 64 along K into swizzled lines of shared memory, where its address or pitch is no
// multiple of 16 bytes and no copy engine takes it. As TileCopy (tile_copy.cuh) lays it out, but read as whole granules of
// 16 aligned bytes, of which each chunk of 8 elements is cut: two 16-byte loads in place of eight of 2 bytes.
// - All chunks of a thread are equally far off a granule's begin: they lie whole passes of 16 lines, or 8 elements, apart.
// - Rows (columns) beyond M (N) repeat ones within it: what they are multiplied to lies outside of D. K beyond its end is
//   zero.
// - Several loads of each thread are on their way together, and the lines of a later step are asked to come to L2 first,
//   since threads that wait for memory itself (600 clocks) cannot keep up with tensor cores.
// Granules hold what lies around the operand's rows, too. Where they could reach beyond its first or last element, smooth()
// says no, and the tile is for TileCopy.
#pragma once

#include <shared/gemm_params.h>
#include <shared/swizzle.h>
#include <mainloop/cut_chunk.cuh>
#include <ptx/prefetch.cuh>
#include <ptx/shared.cuh>

namespace carat_kernel {

using namespace carat_shared;

template <bool kKMajor, int kRows, int kThreads>
class GranuleCopy {
    static constexpr int kLines = kThreads / 8, kPasses = kRows / kLines;
    static constexpr int kTogether = kPasses % 8 == 0 ? 8 : kPasses % 6 == 0 ? 6 : kPasses % 4 == 0 ? 4 : 1;
    static constexpr int kAhead = 128;  // of K, of the lines that are asked to L2
    static_assert(kLines % 8 == 0 && kRows % kLines == 0 && (kKMajor || (kRows % 64 == 0 && 64 % kLines == 0)));

  public:
    // For the tile whose first row and k are given; the same answer for all threads. stride: from one line to the next.
    __device__ static bool smooth(const void* base, i64 stride, i64 mn_extent, i64 k_extent, i64 mn, i64 k) {
        constexpr int kReach = 64 + 8;  // from a line's first chunk to the end of its last granule
        const bool begin = mn == 0 && k == 0 && reinterpret_cast<u64>(base) % 16 != 0;
        if (begin || stride < kReach) return false;
        if (kKMajor) return mn + kRows < mn_extent || k + kReach <= k_extent;
        return k + 64 < k_extent || mn + kRows + 8 <= mn_extent;
    }

    __device__ static void copy(const void* base, i64 stride, i64 mn_extent, i64 k_extent, i64 mn, i64 k, int thread,
                                unsigned tile) {
        const int line = thread / 8, chunk = thread % 8;
        const i64 lines_left = kKMajor ? mn_extent - mn : k_extent - k,
                  along_left = kKMajor ? k_extent - k : mn_extent - mn;
        // Lines beyond the end: whole passes back, for the same place in the granule.
        const int first_line = line < lines_left ? line : static_cast<int>(lines_left) - 1;
        const i64 more = (lines_left - 1 - first_line) / kLines;
        const int most_passes = more < kPasses ? static_cast<int>(more) : kPasses;
        const unsigned short* const from = static_cast<const unsigned short*>(base) +
                                           ((kKMajor ? mn : k) + first_line) * stride + (kKMajor ? k : mn) + chunk * 8;
        const int shift = static_cast<int>(reinterpret_cast<u64>(from) % 16) / 2;  // elements
        const bool tail = k + 64 > k_extent, ahead = k + kAhead + 64 <= k_extent;
        const unsigned to = tile + swizzle_128(line, chunk);

#pragma unroll 1
        for (int begin = 0; begin < kPasses; begin += kTogether) {
            Chunk low[kTogether], high[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const int pass = begin + i, of_box = kKMajor ? pass : pass % (64 / kLines);
                const int box = kKMajor ? 0 : pass / (64 / kLines) * 64;
                const int lines = (of_box < most_passes ? of_box : most_passes) * kLines;
                // Chunks beyond the columns of an MN-major operand: any of the line will do.
                const int along = !kKMajor && box + chunk * 8 >= along_left ? -chunk * 8 : box;
                const unsigned short* const at = from + lines * stride + along;
                if (ahead && chunk == pass % 8) prefetch_to_l2(at + (kKMajor ? i64(kAhead) : kAhead * stride));
                const Chunk* const granule = reinterpret_cast<const Chunk*>(at - shift);
                low[i] = granule[0];
                high[i] = granule[shift ? 1 : 0];
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const int pass = begin + i;
                Chunk cut = cut_chunk(low[i], high[i], shift);
                if (tail) {
                    const int k_line = line + pass % (64 / kLines) * kLines;
                    keep(cut, kKMajor ? along_left - chunk * 8 : k_line < lines_left ? 8 : 0);
                }
                store_shared(to + pass * kLines * 128, cut);
            }
        }
    }

  private:
    // The first `count` elements, and zero in place of the others.
    __device__ static void keep(Chunk& chunk, i64 count) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            chunk.words[i] = count >= 2 * i + 2 ? chunk.words[i] : count == 2 * i + 1 ? chunk.words[i] & 0xffff : 0;
    }
};

}  // namespace carat_kernel
