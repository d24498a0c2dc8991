// SPDX-License-Identifier: Apache-2.0
// bulk_copy.cuh: the copy engine of the emulation. A BulkMap of the host holds the description itself. Copies happen when
// the launch says (host_cuda::Copies); stores read shared memory no sooner.
#pragma once

#include <shared/gemm_params.h>
#include <ptx/mbarrier.cuh>

#include <deque>

#include "cuda/tensor_map.hpp"

namespace carat_kernel {

using carat_shared::BulkMap;
using BulkDesc = carat::cuda::TensorMapDesc;

static_assert(sizeof(BulkDesc) <= sizeof(BulkMap));
inline BulkMap make_bulk_map(const BulkDesc& desc) {
    BulkMap map = {};
    std::memcpy(map.bytes, &desc, sizeof desc);
    return map;
}

struct Box {
    BulkDesc map;
    unsigned address;  // in shared memory
    int x, y, z, w;

    Box(const BulkMap& from, unsigned address_, int x_, int y_, int z_) : Box(from, address_, x_, y_, z_, 0, 3) {}
    Box(const BulkMap& from, unsigned address_, int x_, int y_, int z_, int w_, int rank)
        : address(address_), x(x_), y(y_), z(z_), w(w_) {
        std::memcpy(&map, from.bytes, sizeof map);
        const carat::Status status = check_tensor_map(map);
        if (!status.ok()) host_cuda::fail("a bulk copy by a map that is none: " + status.sentence());
        if (map.rank != rank)
            host_cuda::fail(fmt::format("a bulk copy of {} coordinates by a map of {}", rank, map.rank));
        if (rank == 4 && map.box[3] != 1) host_cuda::fail("a box of several matrices");
        if (address % 128 != 0) host_cuda::fail(fmt::format("a bulk copy at {}, no multiple of 128", address));
        // Seen on an H200: an illegal instruction.
        if (x * int(element()) % 16 != 0)
            host_cuda::fail(fmt::format("a bulk copy from element {} of a line, no multiple of 16 bytes", x));
    }

    unsigned element() const { return static_cast<unsigned>(carat::bits(map.dtype)) / 8; }
    unsigned bytes() const { return map.box[0] * map.box[1] * map.box[2] * element(); }
    std::string text(const char* what) const {
        return fmt::format("{} of the box at ({}, {}, {}), shared address {}", what, x, y, z, address);
    }

    // f(shared address, global pointer or null where it is outside) for each element of the box.
    template <class Function>
    void for_each(const Function& f) const {
        unsigned at = address;
        for (unsigned dz = 0; dz < map.box[2]; ++dz)
            for (unsigned dy = 0; dy < map.box[1]; ++dy)
                for (unsigned dx = 0; dx < map.box[0]; ++dx, at += element())
                    f(swizzled(at), global(x + int(dx), y + int(dy), z + int(dz)));
    }

  private:
    // Bits of the address itself, whatever the box.
    unsigned swizzled(unsigned at) const {
        switch (map.swizzle) {
            case carat::cuda::Swizzle::none:
                return at;
            case carat::cuda::Swizzle::bytes_32:
                return at ^ (at >> 7 & 1) << 4;
            case carat::cuda::Swizzle::bytes_64:
                return at ^ (at >> 7 & 3) << 4;
            case carat::cuda::Swizzle::bytes_128:
                return at ^ (at >> 7 & 7) << 4;
        }
        return at;
    }
    char* global(long i, long j, long k) const {
        const auto inside = [](long at, uint64_t extent) { return at >= 0 && uint64_t(at) < extent; };
        if (!inside(i, map.dims[0]) || !inside(j, map.dims[1]) || !inside(k, map.dims[2])) return nullptr;
        if (map.rank == 4 && !inside(w, map.dims[3])) return nullptr;
        const uint64_t offset = uint64_t(i) * element() + uint64_t(j) * map.strides_bytes[1] +
                                uint64_t(k) * map.strides_bytes[2] + uint64_t(w) * map.strides_bytes[3];
        return const_cast<char*>(static_cast<const char*>(map.address)) + offset;
    }
};

inline void bulk_prefetch(const BulkMap&) {}

// Into block `rank` of the cluster.
inline void load_box(const Box& box, unsigned barrier, unsigned rank) {
    if (!host_cuda::is_running(rank)) host_cuda::fail(box.text("the copy") + " goes to a block that is not there");
    shared_pointer(box.address, box.bytes(), rank);
    UnfencedWrites& writes = unfenced_writes(rank);
    box.for_each([&](unsigned to, const char* from) {
        char* shared = host_cuda::shared_memory(rank) + to;
        from ? std::memcpy(shared, from, box.element()) : std::memset(shared, 0, box.element());
        writes.writer[to / UnfencedWrites::kUnit] = 0;
    });
    complete_bytes(barrier, rank, box.bytes());
}

inline void bulk_load(const Box& box, unsigned barrier) {
    const unsigned rank = host_cuda::cluster_rank();
    host_barrier(barrier, rank, true);
    host_cuda::defer([=] { load_box(box, barrier, rank); }, box.text("the copy"));
}
template <bool kOnce = false>
void bulk_load(unsigned to, const BulkMap& map, unsigned barrier, int x, int y, int z) {
    bulk_load(Box(map, to, x, y, z), barrier);
}
template <bool kOnce>
void bulk_load(unsigned to, const BulkMap& map, unsigned barrier, int x, int y, int z, int w) {
    bulk_load(Box(map, to, x, y, z, w, 4), barrier);
}

// Each block has its copy when it comes.
inline void bulk_load_multicast(unsigned to, const BulkMap& map, unsigned barrier, int x, int y, int z,
                                unsigned short mask) {
    const Box box(map, to, x, y, z);
    for (unsigned rank = 0; rank < 16; ++rank)
        if (mask >> rank & 1) host_cuda::defer([=] { load_box(box, barrier, rank); }, box.text("the multicast copy"));
}

inline void async_proxy_fence() {
    unfenced_writes(host_cuda::cluster_rank()).fence();
}

// The stores of a thread: of those not committed yet, then of each group, how many have yet to read shared memory.
struct HostStores {
    using Count = std::shared_ptr<int>;
    struct Thread {
        Count open = std::make_shared<int>(0);
        std::deque<Count> groups;
    };
    std::vector<Thread> threads = std::vector<Thread>(host_cuda::block_threads());
};
inline HostStores::Thread& my_stores() {
    return host_cuda::block_local<HostStores>(host_cuda::cluster_rank()).threads[threadIdx.x];
}

inline void bulk_store(const BulkMap& map, unsigned from, int x, int y, int z) {
    const Box box(map, from, x, y, z);
    const unsigned rank = host_cuda::cluster_rank();
    // Seen on an H200: elements of D's padding within the last 16 bytes of a row were written.
    if (box.map.dims[0] * box.element() % 16 != 0)
        host_cuda::fail(fmt::format("{} clips in pieces of 16 bytes, but a row has {}", box.text("a bulk store"),
                                    box.map.dims[0] * box.element()));
    shared_pointer(box.address, box.bytes());
    box.for_each([&](unsigned at, const char*) { unfenced_writes(rank).check(at, "a bulk store reads"); });
    const HostStores::Count count = my_stores().open;
    ++*count;
    const auto store = [=] {
        box.for_each([&](unsigned at, char* to) {
            if (to) std::memcpy(to, host_cuda::shared_memory(rank) + at, box.element());
        });
        --*count;
    };
    host_cuda::defer(store, box.text("the store"), true);
}

inline void bulk_store_commit() {
    HostStores::Thread& mine = my_stores();
    mine.groups.push_back(mine.open);
    mine.open = std::make_shared<int>(0);
}

template <int kPending>
void bulk_store_wait_read() {
    HostStores::Thread& mine = my_stores();
    host_cuda::wait_until(
        [&mine] {
            while (!mine.groups.empty() && *mine.groups.front() == 0) mine.groups.pop_front();
            return mine.groups.size() <= kPending;
        },
        [&mine] { return fmt::format("waits for {} groups of bulk stores", mine.groups.size() - kPending); });
}

}  // namespace carat_kernel
