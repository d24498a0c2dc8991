// SPDX-License-Identifier: Apache-2.0
// cut_chunk.cuh: a chunk of 8 elements of 16 bits out of the two granules of 16 aligned bytes that it lies in.
#pragma once

#include <ptx/shared.cuh>

namespace carat_kernel {

// Elements shift .. shift + 7 of the 16 in two granules, 0 <= shift < 8.
__device__ inline Chunk cut_chunk(const Chunk& low, const Chunk& high, int shift) {
    unsigned words[8] = {low.words[0],  low.words[1],  low.words[2],  low.words[3],
                         high.words[0], high.words[1], high.words[2], high.words[3]};
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = shift & 4 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = shift & 2 ? words[i + 1] : words[i];
    Chunk chunk;
#pragma unroll
    for (int i = 0; i < 4; ++i) chunk.words[i] = __funnelshift_r(words[i], words[i + 1], 16 * (shift & 1));
    return chunk;
}

// The first `count` of 8 elements from `from` on, and zeros: cut out of two granules where both lie within [begin, end) of
// the operand, else read an element at a time. Nothing is read if count <= 0. All three lie `further` elements on.
__device__ inline Chunk load_chunk(const unsigned short* from, int count, const unsigned short* begin,
                                   const unsigned short* end, long long further = 0) {
    from += further;
    const int shift = static_cast<int>(reinterpret_cast<unsigned long long>(from) % 16) / 2;  // elements
    if (count == 8 && (shift == 0 || (from - shift >= begin + further && from - shift + 16 <= end + further))) {
        const Chunk* const granules = reinterpret_cast<const Chunk*>(from - shift);
        const Chunk low = granules[0];
        if (shift == 0) return low;
        const Chunk high = granules[1];
        return cut_chunk(low, high, shift);
    }
    Chunk chunk = {};
#pragma unroll
    for (int e = 0; e < 8; ++e)
        if (e < count) chunk.words[e / 2] |= static_cast<unsigned>(from[e]) << e % 2 * 16;
    return chunk;
}

}  // namespace carat_kernel
