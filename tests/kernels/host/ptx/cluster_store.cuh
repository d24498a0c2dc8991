// SPDX-License-Identifier: Apache-2.0
// cluster_store.cuh: stores into other blocks of the emulation; they land when the launch says (host_cuda::Copies).
#pragma once

#include <ptx/mbarrier.cuh>

namespace carat_kernel {

inline void store_at(unsigned to, unsigned barrier, int rank, float4 value) {
    const unsigned block = static_cast<unsigned>(rank);
    if (!host_cuda::is_running(block))
        host_cuda::fail(fmt::format("a store into block {} of the cluster, which is not there or has ended", rank));
    if (to % 16 != 0) host_cuda::fail(fmt::format("a store of 16 bytes at {}", to));
    host_barrier(barrier, block, true);
    host_cuda::defer(
        [=] {
            std::memcpy(shared_pointer(to, 16, block), &value, sizeof value);
            complete_bytes(barrier, block, 16);
        },
        fmt::format("the store at {} of block {}", to, rank));
}

inline void barrier_arrive_release_at(unsigned barrier, int rank) {
    barrier_arrive_at(barrier, rank);
}
inline void barrier_wait_cluster(unsigned barrier, int parity) {
    barrier_wait(barrier, parity);
}

}  // namespace carat_kernel
