// SPDX-License-Identifier: Apache-2.0
// matrix_descriptor.h: the 64-bit descriptor by which wgmma finds an operand in shared memory, as plain arithmetic that
// the host tests. Operands lie in 128-byte lines of 64 16-bit elements with the 128-byte swizzle (swizzle.h); their
// first line is 1024-byte aligned.
//   bits  0-13  start address / 16
//   bits 16-29  leading byte offset / 16
//   bits 32-45  stride byte offset / 16: from one group of 8 lines to the next
//   bits 62-63  1: 128-byte swizzle
// K-major (a line holds 64 of K of one row): a step of 16 along K starts 32 bytes further in the same lines, as the
// hardware swizzles the address that it works out; the leading offset is not used.
// MN-major (a line holds 64 rows of one k): a step of 16 along K starts 16 lines further; the leading offset leads to the
// next 64 rows.
#pragma once

namespace carat_shared {

constexpr int kLineBytes = 128;
constexpr int kSwizzleBytes = 8 * kLineBytes;  // the pattern repeats after 8 lines

constexpr unsigned long long matrix_descriptor(unsigned address, int leading_bytes, int stride_bytes) {
    constexpr unsigned long long kSwizzle128 = 1ull << 62;
    return kSwizzle128 | static_cast<unsigned long long>(stride_bytes >> 4) << 32 |
           static_cast<unsigned long long>(leading_bytes >> 4) << 16 | (address & 0x3ffff) >> 4;
}

}  // namespace carat_shared
