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

}  // namespace carat_kernel
