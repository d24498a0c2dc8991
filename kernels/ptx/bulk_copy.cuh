// SPDX-License-Identifier: Apache-2.0
// bulk_copy.cuh: the copy engine of Hopper (TMA): one thread asks for a whole box of a tensor of rank 3 or 4. Boxes that
// reach beyond the tensor are filled with zeros on the way in, where all bytes of the box count, and clipped on the way
// out. Coordinates are in elements, the contiguous one first.
#pragma once

#include <shared/gemm_params.h>

namespace carat_kernel {

using carat_shared::BulkMap;

// Fetches the descriptor itself, which costs as much as a copy the first time.
__device__ inline void bulk_prefetch(const BulkMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// kOnce: its lines of L2 are the first to go, so that what is read again stays.
template <bool kOnce = false>
__device__ void bulk_load(unsigned to, const BulkMap& map, unsigned barrier, int x, int y, int z) {
    if constexpr (kOnce) {
        asm volatile(
            "{\n"
            ".reg .b64 policy;\n"
            "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
            " [%0], [%1, {%3, %4, %5}], [%2], policy;\n"
            "}" ::"r"(to),
            "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
            : "memory");
        return;
    }
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
        : "memory");
}

// Of a tensor of rank 4.
template <bool kOnce>
__device__ void bulk_load(unsigned to, const BulkMap& map, unsigned barrier, int x, int y, int z, int w) {
    if constexpr (kOnce) {
        asm volatile(
            "{\n"
            ".reg .b64 policy;\n"
            "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
            "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
            " [%0], [%1, {%3, %4, %5, %6}], [%2], policy;\n"
            "}" ::"r"(to),
            "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
            : "memory");
        return;
    }
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
        : "memory");
}

// Into the same place of every CTA in `mask`, counted on each one's barrier of the same address.
__device__ inline void bulk_load_multicast(unsigned to, const BulkMap& map, unsigned barrier, int x, int y, int z,
                                           unsigned short mask) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(mask)
        : "memory");
}

// What threads wrote to shared memory becomes visible to the copy engine and the tensor cores: each writing thread, then
// a barrier, then the thread that issues.
__device__ inline void async_proxy_fence() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void bulk_store(const BulkMap& map, unsigned from, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
                 "r"(from), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

// Groups of stores belong to the thread that issued them.
__device__ inline void bulk_store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until at most kPending groups have yet to read shared memory.
template <int kPending>
__device__ inline void bulk_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace carat_kernel
