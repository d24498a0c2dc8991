// SPDX-License-Identifier: Apache-2.0
// tile_copy.cuh: one operand's tile of 64 along K, from global memory into 128-byte lines of shared memory, in chunks of
// 16 bytes. MN is the operand's other dimension: rows of A, columns of B.
// - K-major (row-major A, column-major B): line r is row r of the tile, 64 elements along K.
// - MN-major: the tile is kRows / 64 boxes of 64 lines; line k of a box is 64 elements along MN at that k.
// Lines are swizzled (shared/swizzle.h), or straight with kPitch bytes from one to the next.
// Everything outside of the operand's extents is written as zero and never read.
// Two ways: copy_async() wants whole chunks at multiples of 16 bytes (aligned() tells); load() and store() take any pointer,
// extent and leading dimension. A whole chunk at an odd place is cut out of the two granules of 16 bytes that it lies in,
// which hold elements of the operand or what lies between its rows; chunks at the operand's very begin and end, and those
// that an extent cuts, are read an element at a time.
// Consecutive threads copy consecutive chunks, 8 a line, so 8 threads read one full line of 128 bytes.
#pragma once

#include <shared/gemm_params.h>
#include <shared/swizzle.h>
#include <mainloop/cut_chunk.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/shared.cuh>

namespace carat_kernel {

using carat_shared::i64;

enum : int { kSwizzled = 0 };  // an enumerator: a constant would take device memory

template <bool kKMajor, int kRows, int kThreads, int kPitch = kSwizzled>
class TileCopy {
    static constexpr int kLines = kThreads / 8;  // copied in one pass by all threads
    static_assert(kThreads % 64 == 0 && kRows % kLines == 0, "each pass is whole and begins at a multiple of 8 lines");
    static_assert(kKMajor || (kRows % 64 == 0 && 64 % kLines == 0), "a pass lies within one box");

  public:
    static constexpr int kPasses = kRows / kLines;
    static constexpr int kBytes = kRows * (kPitch == kSwizzled ? 128 : kPitch);  // of the tile in shared memory

    // base: element (0, 0) of this batch entry; mn, k: where the first tile begins. One of the strides is 1.
    __device__ TileCopy(const void* base, i64 mn_stride, i64 k_stride, i64 mn_extent, i64 k_extent, i64 mn, i64 k,
                        int thread) {
        const int line = thread / 8, element = thread % 8 * 8;
        mn += kKMajor ? line : element;
        k += kKMajor ? element : line;
        from_ = static_cast<const unsigned short*>(base) + mn * mn_stride + k * k_stride;
        begin_ = static_cast<const unsigned short*>(base);
        end_ = begin_ + (mn_extent - 1) * mn_stride + (k_extent - 1) * k_stride + 1;
        line_stride_ = kKMajor ? mn_stride : k_stride;
        mn_left_ = static_cast<int>(mn_extent - mn < kRows ? mn_extent - mn : kRows);
        k_left_ = k_extent - k;
        offset_ = kPitch == kSwizzled ? carat_shared::swizzle_128(line, thread % 8) : line * kPitch + thread % 8 * 16;
    }

    // Whether copy_async() may be used: all chunks of all tiles of the batch are at multiples of 16 bytes, and none is cut
    // by an extent.
    __device__ static bool aligned(const void* base, i64 mn_stride, i64 k_stride, i64 batch_stride, i64 mn_extent,
                                   i64 k_extent) {
        return (kKMajor ? k_extent : mn_extent) % 8 == 0 && (kKMajor ? mn_stride : k_stride) % 8 == 0 &&
               batch_stride % 8 == 0 && reinterpret_cast<unsigned long long>(base) % 16 == 0;
    }

    // tile: the shared address of the tile. Each pass copies one chunk a thread; 0 <= pass < kPasses makes the tile.
    // further: elements from there to a second operand of the same extents and strides, which is copied instead.
    __device__ void copy_async(int pass, unsigned tile, i64 further = 0) const {
        cp_async_16(tile + place(pass), source(pass) + further, inside(pass) > 0);
    }

    __device__ Chunk load(int pass, i64 further = 0) const {
        return load_chunk(source(pass), inside(pass), begin_, end_, further);
    }
    __device__ void store(int pass, unsigned tile, const Chunk& chunk) const {
        store_shared(tile + place(pass), chunk);
    }

    // The one way or the other.
    template <bool kAligned>
    __device__ void copy_pass(int pass, unsigned tile, i64 further = 0) const {
        if constexpr (kAligned)
            copy_async(pass, tile, further);
        else
            store(pass, tile, load(pass, further));
    }

    // The whole tile at once: several loads of each thread are on their way together.
    __device__ void copy(unsigned tile) const {
        constexpr int kTogether = kPasses % 4 == 0 ? 4 : kPasses % 3 == 0 ? 3 : kPasses % 2 == 0 ? 2 : 1;
#pragma unroll 1
        for (int first = 0; first < kPasses; first += kTogether) {
            Chunk chunks[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) chunks[i] = load(first + i);
#pragma unroll
            for (int i = 0; i < kTogether; ++i) store(first + i, tile, chunks[i]);
        }
    }

    // To the next 64 of K.
    __device__ void advance() {
        from_ += kKMajor ? 64 : 64 * line_stride_;
        k_left_ -= 64;
    }

  private:
    __device__ unsigned place(int pass) const {
        return static_cast<unsigned>(offset_ + pass * kLines * (kBytes / kRows));
    }
    __device__ const unsigned short* source(int pass) const {
        const int line = pass * kLines;
        return kKMajor ? from_ + line * line_stride_ : from_ + line % 64 * line_stride_ + line / 64 * 64;
    }
    // How many of this thread's 8 elements are the operand's.
    __device__ int inside(int pass) const {
        const int line = pass * kLines;
        if constexpr (kKMajor) return line < mn_left_ ? up_to_8(k_left_) : 0;
        return line % 64 < k_left_ ? up_to_8(mn_left_ - line / 64 * 64) : 0;
    }
    __device__ static int up_to_8(i64 count) {
        return count < 0 ? 0 : count > 8 ? 8 : static_cast<int>(count);
    }

    const unsigned short* from_;          // this thread's chunk of pass 0
    const unsigned short *begin_, *end_;  // of the operand
    i64 line_stride_;
    i64 k_left_;  // from there to the extents
    int mn_left_;
    int offset_;
};

}  // namespace carat_kernel
