// SPDX-License-Identifier: Apache-2.0
// mbarrier.cuh: barriers of the emulation. They count in a table of the block and not in shared memory, so that nothing
// can be done with one that was not made, and a wait that never ends says what is missing.
#pragma once

#include <ptx/shared.cuh>

#include <map>

namespace carat_kernel {

constexpr int kBarrierBytes = 8;

struct HostBarrier {
    int wanted, missing;  // arrivals of a phase, those of this phase still to come
    long bytes = 0;       // that this phase still waits for; copies may land before they are announced
    unsigned phase = 0;   // how many have ended
    bool fenced = false;

    void settle() {
        if (missing > 0 || bytes != 0) return;
        ++phase;
        missing = wanted;
    }
};
using HostBarriers = std::map<unsigned, HostBarrier>;

// from_outside: for a copy or another block, who see a barrier only after barrier_init_fence().
inline HostBarrier& host_barrier(unsigned address, unsigned rank, bool from_outside) {
    HostBarriers& barriers = host_cuda::block_local<HostBarriers>(rank);
    const auto found = barriers.find(address);
    if (found == barriers.end())
        host_cuda::fail(
            fmt::format("block {} of the cluster has no barrier at {}: barrier_init() must come first", rank, address));
    if (from_outside && !found->second.fenced)
        host_cuda::fail(fmt::format("the barrier at {} is used before barrier_init_fence()", address));
    return found->second;
}

inline void barrier_init(unsigned barrier, int arrivals) {
    if (barrier % kBarrierBytes != 0) host_cuda::fail(fmt::format("a barrier at {}, no multiple of 8", barrier));
    shared_pointer(barrier, kBarrierBytes);
    host_cuda::block_local<HostBarriers>(host_cuda::cluster_rank())[barrier] = {arrivals, arrivals};
}

inline void barrier_init_fence() {
    for (auto& [address, barrier] : host_cuda::block_local<HostBarriers>(host_cuda::cluster_rank()))
        barrier.fenced = true;
}

inline void arrive_on(unsigned barrier, unsigned rank, long bytes) {
    HostBarrier& it = host_barrier(barrier, rank, rank != host_cuda::cluster_rank());
    it.bytes += bytes;
    --it.missing;
    it.settle();
}
inline void barrier_arrive(unsigned barrier) {
    arrive_on(barrier, host_cuda::cluster_rank(), 0);
}
inline void barrier_arrive_expect(unsigned barrier, unsigned bytes) {
    arrive_on(barrier, host_cuda::cluster_rank(), bytes);
}
inline void barrier_expect(unsigned barrier, unsigned bytes) {
    host_barrier(barrier, host_cuda::cluster_rank(), false).bytes += bytes;
}
inline void barrier_arrive_at(unsigned barrier, int rank) {
    if (!host_cuda::is_running(static_cast<unsigned>(rank)))
        host_cuda::fail(fmt::format("an arrival at block {} of the cluster, which is not there or has ended", rank));
    arrive_on(barrier, static_cast<unsigned>(rank), 0);
}
// What a bulk copy does when it has landed.
inline void complete_bytes(unsigned barrier, unsigned rank, long bytes) {
    HostBarrier& it = host_barrier(barrier, rank, true);
    it.bytes -= bytes;
    it.settle();
}

inline void barrier_wait(unsigned barrier, int parity) {
    const HostBarrier& it = host_barrier(barrier, host_cuda::cluster_rank(), false);
    host_cuda::wait_until([&it, parity] { return static_cast<int>(it.phase % 2) != parity; },
                          [&it, parity, barrier] {
                              return fmt::format(
                                  "waits for parity {} of the barrier at {} (phase {}: {} of {} arrivals and {} bytes "
                                  "are missing)",
                                  parity, barrier, it.phase, it.missing, it.wanted, it.bytes);
                          });
}

template <int kStages>
struct RingPosition {
    int stage = 0, parity = 0;

    void advance() {
        if (++stage < kStages) return;
        stage = 0;
        parity ^= 1;
    }
    void skip(int steps) {
        for (int i = 0; i < steps; ++i) advance();
    }
};

}  // namespace carat_kernel
