// SPDX-License-Identifier: Apache-2.0
// block.cuh: parts of a block and of a cluster: warpgroups, named barriers, register shares, clusters.
#pragma once

namespace carat_kernel {

constexpr int kWarpThreads = 32, kWarpgroupThreads = 128;

// The warpgroup of this thread, in a form that the compiler knows to be the same for the whole warp.
__device__ inline int warpgroup_index() {
    return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
}

// threadIdx.x, read anew each time, so that nothing that is worked out from it is kept in registers over the loops around.
// Unsigned, since a division of a number that may be negative is four instructions.
__device__ inline unsigned fresh_thread() {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// A barrier of kThreads threads under one of 16 numbers; 0 is that of __syncthreads().
template <int kThreads>
__device__ inline void named_barrier(int number) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(kThreads) : "memory");
}

// One warpgroup gives registers back, another takes them. All of its warps, in multiples of 8 from 24 to 256; a kernel's
// shares must sum to at most 512 registers times 128 threads, or the taker waits for ever.
template <int kRegisters>
__device__ inline void shrink_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void grow_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// This CTA's place in its cluster.
__device__ inline int cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
}

// A float at the same place in the shared memory of another block of the cluster, which a cluster_barrier() has made visible.
__device__ inline float load_of_block(const float* own, int rank) {
    float value;
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %1, %2;\n"
        "ld.shared::cluster.f32 %0, [remote];\n"
        "}"
        : "=f"(value)
        : "r"(static_cast<unsigned>(__cvta_generic_to_shared(own))), "r"(rank)
        : "memory");
    return value;
}

// A barrier of all threads of the cluster that have not exited. Lanes of a warp may come apart.
__device__ inline void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

}  // namespace carat_kernel
