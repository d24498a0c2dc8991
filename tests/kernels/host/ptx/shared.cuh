// SPDX-License-Identifier: Apache-2.0
// shared.cuh: dynamic shared memory of the emulation: one buffer, and addresses that count from its begin.
#pragma once

#include <cstring>

namespace carat_kernel {

inline constexpr unsigned kSharedBytes = 227 << 10;  // all that a block can have
alignas(1024) inline char shared_bytes[kSharedBytes];

inline char* dynamic_shared() {
    return shared_bytes;
}
inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(static_cast<const char*>(pointer) - shared_bytes);
}
// The way back, for the twins of instructions that take an address.
inline char* shared_pointer(unsigned address) {
    return shared_bytes + address;
}
struct alignas(16) Chunk {
    unsigned words[4];
};
inline void store_shared(unsigned address, const Chunk& chunk) {
    std::memcpy(shared_pointer(address), &chunk, sizeof chunk);
}
// What a kernel has not written reads as NaN in every type.
inline void poison_shared() {
    std::memset(shared_bytes, 0xff, sizeof shared_bytes);
}

}  // namespace carat_kernel
