// SPDX-License-Identifier: Apache-2.0
// swizzle.h: where a 16-byte chunk of a tile lies in shared memory, for the copies that write it, the fragment loads and
// matrix descriptors that read it, and tests on the host.
// A tile is a stack of 128-byte lines. Left straight, the same chunk of 8 lines, which a matrix load reads at once, would
// lie in the same 4 of the 32 banks and be read in 8 turns. So line r keeps its chunk c at place c ^ (r mod 8): 8 lines
// of one chunk, and the 8 chunks of one line, both touch each bank once. The hardware's 128-byte swizzle is the same
// permutation, if the tile begins at a multiple of 1024 bytes.
#pragma once

namespace carat_shared {

// Byte offset of chunk 0..7 of a line.
constexpr int swizzle_128(int line, int chunk) {
    return line * 128 + (chunk ^ (line & 7)) * 16;
}

}  // namespace carat_shared
