// SPDX-License-Identifier: Apache-2.0
// cp_async.cuh: copies from global to shared memory that pass no register and that the thread does not wait for. Groups
// complete in the order of their commits.
#pragma once

namespace carat_kernel {

// 16 bytes, past the L1; both addresses multiples of 16. Where not `inside`, nothing is read and zeros are written. (As a
// predicate: a count of bytes would cost four more instructions for the address.)
__device__ inline void cp_async_16(unsigned to, const void* from, bool inside) {
    asm volatile(
        "{\n"
        ".reg .pred outside;\n"
        "setp.eq.u32 outside, %2, 0;\n"
        "cp.async.cg.shared.global [%0], [%1], 16, outside;\n"
        "}" ::"r"(to),
        "l"(__cvta_generic_to_global(from)), "r"(static_cast<unsigned>(inside))
        : "memory");
}

// The same, of memory that is read once: 256 bytes around it come to L2 together.
__device__ inline void cp_async_16_once(unsigned to, const void* from, bool inside) {
    asm volatile(
        "{\n"
        ".reg .pred outside;\n"
        "setp.eq.u32 outside, %2, 0;\n"
        "cp.async.cg.shared.global.L2::256B [%0], [%1], 16, outside;\n"
        "}" ::"r"(to),
        "l"(__cvta_generic_to_global(from)), "r"(static_cast<unsigned>(inside))
        : "memory");
}

// The same, of memory that other warps of the SM read, too: through the L1.
__device__ inline void cp_async_16_cached(unsigned to, const void* from, bool inside) {
    asm volatile(
        "{\n"
        ".reg .pred outside;\n"
        "setp.eq.u32 outside, %2, 0;\n"
        "cp.async.ca.shared.global [%0], [%1], 16, outside;\n"
        "}" ::"r"(to),
        "l"(__cvta_generic_to_global(from)), "r"(static_cast<unsigned>(inside))
        : "memory");
}

__device__ inline void cp_async_commit_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until at most kPending of this thread's groups are still on their way. Other threads see the bytes after a barrier.
template <int kPending>
__device__ inline void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace carat_kernel
