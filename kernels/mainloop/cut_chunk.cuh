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

}  // namespace carat_kernel
