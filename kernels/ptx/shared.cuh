// SPDX-License-Identifier: Apache-2.0
// shared.cuh: shared memory by its own addresses. Instructions that name the shared window take a 32-bit address in it,
// half the registers of a pointer.
#pragma once

namespace carat_kernel {

__device__ inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// The block's dynamic shared memory, as many bytes as the launch gave. 1024: what the 128-byte swizzle of the bulk copies
// and matrix descriptors wants of a tile.
__device__ inline char* dynamic_shared() {
    extern __shared__ __align__(1024) char dynamic_bytes[];
    return dynamic_bytes;
}

// 16 bytes in four registers; the address must be a multiple of 16.
struct alignas(16) Chunk {
    unsigned words[4];
};

__device__ inline void store_shared(unsigned address, const Chunk& chunk) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(chunk.words[0]), "r"(chunk.words[1]),
                 "r"(chunk.words[2]), "r"(chunk.words[3])
                 : "memory");
}

}  // namespace carat_kernel
