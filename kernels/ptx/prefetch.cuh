// SPDX-License-Identifier: Apache-2.0
// prefetch.cuh: a line of global memory on its way to L2, without a register to wait for it.
#pragma once

namespace carat_kernel {

__device__ inline void prefetch_to_l2(const void* line) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(line)));
}

}  // namespace carat_kernel
