// SPDX-License-Identifier: Apache-2.0
// The swizzle is a permutation of every line, and each of the accesses that it exists for touches every bank once.
#include <shared/swizzle.h>

#include <gtest/gtest.h>

#include <set>

namespace carat::test {
namespace {

using carat_shared::swizzle_128;

static_assert(swizzle_128(0, 0) == 0 && swizzle_128(0, 7) == 112);
static_assert(swizzle_128(1, 0) == 128 + 16 && swizzle_128(9, 1) == 9 * 128);

// The group of 4 banks (16 bytes) that an offset lies in.
int bank_group(int offset) {
    return offset % 128 / 16;
}

TEST(Swizzle, PermutesTheChunksOfEachLine) {
    for (int line = 0; line < 64; ++line) {
        std::set<int> offsets;
        for (int chunk = 0; chunk < 8; ++chunk) {
            EXPECT_EQ(swizzle_128(line, chunk) / 128, line);
            EXPECT_EQ(swizzle_128(line, chunk) % 16, 0);
            offsets.insert(swizzle_128(line, chunk));
        }
        EXPECT_EQ(offsets.size(), 8u);
    }
}

TEST(Swizzle, ColumnsOfEightLinesTouchEachBankOnce) {
    for (int line = 0; line < 64; line += 8)
        for (int chunk = 0; chunk < 8; ++chunk) {
            std::set<int> groups;
            for (int row = 0; row < 8; ++row) groups.insert(bank_group(swizzle_128(line + row, chunk)));
            EXPECT_EQ(groups.size(), 8u);
        }
}

// Steps of two chunks (16 elements) may be taken by XOR on the address, which costs one instruction and no addition.
TEST(Swizzle, AStepOfTwoChunksIsAnXor) {
    for (int line = 0; line < 16; ++line)
        for (int chunk = 0; chunk < 2; ++chunk)
            for (int step = 0; step < 4; ++step)
                EXPECT_EQ(swizzle_128(line, 2 * step + chunk), swizzle_128(line, chunk) ^ (32 * step));
}

}  // namespace
}  // namespace carat::test
