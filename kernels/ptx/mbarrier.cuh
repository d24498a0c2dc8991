// SPDX-License-Identifier: Apache-2.0
// mbarrier.cuh: barriers in shared memory that count arrivals of threads and bytes of bulk copies. A barrier is named by
// its address in the shared window. A phase ends when all arrivals are there and all expected bytes have landed; phases
// have parity 0, 1, 0, 1, ..., and a wait names the parity of the phase that it waits for, so a waiter may lag by one
// phase and not by two. A wait for parity 1 on a fresh barrier returns at once.
#pragma once

namespace carat_kernel {

constexpr int kBarrierBytes = 8;

__device__ inline void barrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// After the init and before any other thread, copy or CTA of the cluster may see the barriers; followed by a barrier of
// the block or the cluster.
__device__ inline void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void barrier_arrive(unsigned barrier) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}

// Arrives and adds to the bytes that the phase waits for.
__device__ inline void barrier_arrive_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Adds to the bytes without an arrival.
__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives at the barrier of the same address in another CTA of the cluster (or in this one). Not as a release at cluster
// scope: that waits for all memory traffic of the thread and took half of the kernel's speed (480 TFLOP/s for 790). What
// it says, that wgmma has read the stage, is known from wgmma_wait().
__device__ inline void barrier_arrive_at(unsigned barrier, int rank) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
        "}" ::"r"(barrier),
        "r"(rank)
        : "memory");
}

// try_wait (sm_90) lets the thread sleep for a while; before it, waiting is asking again and again.
#if __CUDA_ARCH__ >= 900
#define CARAT_BARRIER_TEST "try_wait"
#else
#define CARAT_BARRIER_TEST "test_wait"
#endif
__device__ inline void barrier_wait(unsigned barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier." CARAT_BARRIER_TEST
        ".parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
#undef CARAT_BARRIER_TEST

// Where a ring of barriers stands: which stage, and the parity of its current turn.
template <int kStages>
struct RingPosition {
    int stage = 0, parity = 0;

    __device__ void advance() {
        if (++stage < kStages) return;
        stage = 0;
        parity ^= 1;
    }
    // As many times as that.
    __device__ void skip(int steps) {
        stage += steps;
        parity ^= stage / kStages & 1;
        stage %= kStages;
    }
};

}  // namespace carat_kernel
