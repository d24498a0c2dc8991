// SPDX-License-Identifier: Apache-2.0
// The descriptor of wgmma bit by bit: what each field holds, that fields do not run into each other, and the two steps
// that the kernels take through a tile.
#include <shared/matrix_descriptor.h>

#include <gtest/gtest.h>

#include <cstdint>

namespace carat::test {
namespace {

using carat_shared::kLineBytes;
using carat_shared::kSwizzleBytes;
using carat_shared::matrix_descriptor;

uint64_t field(uint64_t descriptor, int first, int bits) {
    return descriptor >> first & ((uint64_t(1) << bits) - 1);
}

static_assert(matrix_descriptor(0, 0, 0) == 1ull << 62, "the 128-byte swizzle and nothing else");

TEST(MatrixDescriptor, FieldsHoldSixteenths) {
    constexpr uint64_t descriptor = matrix_descriptor(0x8400, 64 * kLineBytes, kSwizzleBytes);
    EXPECT_EQ(field(descriptor, 0, 14), 0x8400u / 16);
    EXPECT_EQ(field(descriptor, 16, 14), 8192u / 16);
    EXPECT_EQ(field(descriptor, 32, 14), 1024u / 16);
    EXPECT_EQ(field(descriptor, 49, 3), 0u) << "the base offset: tiles begin at multiples of 1024 bytes";
    EXPECT_EQ(field(descriptor, 62, 2), 1u);
    EXPECT_EQ(descriptor & ~(0x3fffull | 0x3fffull << 16 | 0x3fffull << 32 | 3ull << 62), 0u) << "the rest is 0";
}

TEST(MatrixDescriptor, TheLargestAddressOfSharedMemoryFits) {
    for (unsigned address = 0; address < 228u << 10; address += 1024)
        EXPECT_EQ(field(matrix_descriptor(address, 16, 1024), 0, 14) * 16, address);
    // Bits that the field has no room for do not spill into the next.
    EXPECT_EQ(matrix_descriptor(0x40000 + 0x400, 16, 1024), matrix_descriptor(0x400, 16, 1024));
}

TEST(MatrixDescriptor, StepsAreAdditions) {
    const uint64_t tile = matrix_descriptor(0x2000, 16, kSwizzleBytes);
    for (unsigned step = 0; step < 4; ++step) {
        EXPECT_EQ(matrix_descriptor(0x2000 + step * 32, 16, kSwizzleBytes), tile + 2 * step) << "16 of K, K-major";
        EXPECT_EQ(matrix_descriptor(0x2000 + step * 16 * kLineBytes, 16, kSwizzleBytes), tile + 128 * step)
            << "16 of K, MN-major";
    }
    EXPECT_EQ(matrix_descriptor(0x2000 + 64 * kLineBytes, 16, kSwizzleBytes), tile + 512) << "the next 64 rows";
}

}  // namespace
}  // namespace carat::test
