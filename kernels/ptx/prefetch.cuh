// SPDX-License-Identifier: Apache-2.0
// prefetch.cuh: a line of global memory on its way to L2, or a sector to L1, without a register to wait for it.
#pragma once

namespace carat_kernel {

__device__ inline void prefetch_to_l2(const void* line) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(line)));
}

// The same of `bytes` bytes, a multiple of 16 as the address is: one instruction for the copy engine. Nothing before Hopper.
__device__ inline void prefetch_run_to_l2(const void* run, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(run)), "r"(bytes));
#endif
}

// A load whose result nobody waits for.
__device__ inline void prefetch_to_l1(const void* element) {
    asm volatile("{\n.reg .u32 unused;\nld.global.u8 unused, [%0];\n}" ::"l"(__cvta_generic_to_global(element)));
}

}  // namespace carat_kernel
