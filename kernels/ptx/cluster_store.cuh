// SPDX-License-Identifier: Apache-2.0
// cluster_store.cuh: stores into the shared memory of another block of the cluster, which count on a barrier there: whoever
// waits for the barrier sees them, and no fence or barrier of the cluster is needed.
#pragma once

#include <ptx/mbarrier.cuh>

namespace carat_kernel {

// Four floats to the address `to` of block `rank`, 16 bytes on its `barrier`. Asynchronous.
__device__ inline void store_at(unsigned to, unsigned barrier, int rank, float4 value) {
    asm volatile(
        "{\n"
        ".reg .b32 remote, remote_barrier;\n"
        "mapa.shared::cluster.u32 remote, %0, %2;\n"
        "mapa.shared::cluster.u32 remote_barrier, %1, %2;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [remote], {%3, %4, %5, %6}, [remote_barrier];\n"
        "}" ::"r"(to),
        "r"(barrier), "r"(rank), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
        : "memory");
}

// Arrives at the barrier of the same address in another block; what this thread has read before is read then.
__device__ inline void barrier_arrive_release_at(unsigned barrier, int rank) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
        "}" ::"r"(barrier),
        "r"(rank)
        : "memory");
}

// As barrier_wait(), for what other blocks of the cluster did before they arrived.
__device__ inline void barrier_wait_cluster(unsigned barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

}  // namespace carat_kernel
