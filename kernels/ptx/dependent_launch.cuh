// SPDX-License-Identifier: Apache-2.0
// dependent_launch.cuh: overlap with the neighbours on the stream. A kernel that was launched as programmatic
// (cuda::LaunchShape) may start while the one before it still runs, and sets up its barriers meanwhile. It must then wait
// before it reads what that one wrote, and before it writes what that one reads or writes. Without such a launch, and
// before Hopper, both functions do nothing.
#pragma once

namespace carat_kernel {

// Until all kernels before this one have ended and their writes are visible. Every thread that touches global memory.
__device__ inline void wait_for_kernels_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may start once every block of this one has called this or ended. It takes the place of blocks that end,
// so call this where no more blocks are to come. It says nothing of memory: the next kernel waits for itself.
__device__ inline void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace carat_kernel
