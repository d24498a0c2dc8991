// SPDX-License-Identifier: Apache-2.0
// shared.cuh: dynamic shared memory of the emulation: a buffer for each block, and addresses that count from its begin.
// Also what threads wrote there that the copy engine and the tensor cores may not yet see (async_proxy_fence()).
#pragma once

#include <cstring>
#include <vector>

#include "core/format.hpp"

namespace carat_kernel {

inline char* dynamic_shared() {
    return host_cuda::shared_memory(host_cuda::cluster_rank());
}
inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(static_cast<const char*>(pointer) - dynamic_shared());
}
// The way back, for the twins of instructions that take an address, in another block of the cluster if asked.
inline char* shared_pointer(unsigned address, unsigned bytes, unsigned rank) {
    if (address + bytes > host_cuda::shared_bytes())
        host_cuda::fail(fmt::format("{} bytes at {} lie beyond the {} bytes of shared memory", bytes, address,
                                    host_cuda::shared_bytes()));
    return host_cuda::shared_memory(rank) + address;
}
inline char* shared_pointer(unsigned address, unsigned bytes = 1) {
    return shared_pointer(address, bytes, host_cuda::cluster_rank());
}

// For each 16 bytes of a block's shared memory the thread that wrote there since its last fence, plus 1.
struct UnfencedWrites {
    static constexpr unsigned kUnit = 16;
    std::vector<unsigned short> writer = std::vector<unsigned short>(host_cuda::shared_bytes() / kUnit + 1);
    std::vector<std::vector<unsigned>> units = std::vector<std::vector<unsigned>>(host_cuda::block_threads());

    void note(unsigned address) {
        writer[address / kUnit] = static_cast<unsigned short>(threadIdx.x + 1);
        units[threadIdx.x].push_back(address / kUnit);
    }
    void fence() {
        for (const unsigned unit : units[threadIdx.x])
            if (writer[unit] == threadIdx.x + 1) writer[unit] = 0;
        units[threadIdx.x].clear();
    }
    // what: "wgmma reads".
    void check(unsigned address, const char* what) const {
        if (const int thread = writer[address / kUnit]; thread != 0)
            host_cuda::fail(
                fmt::format("{} address {} that thread {} wrote and did not fence for it", what, address, thread - 1));
    }
};
inline UnfencedWrites& unfenced_writes(unsigned rank) {
    return host_cuda::block_local<UnfencedWrites>(rank);
}
// A thread writes 16 bytes or fewer.
inline void write_shared(unsigned address, const void* from, unsigned bytes) {
    std::memcpy(shared_pointer(address, bytes), from, bytes);
    unfenced_writes(host_cuda::cluster_rank()).note(address);
}

struct alignas(16) Chunk {
    unsigned words[4];
};
inline void store_shared(unsigned address, const Chunk& chunk) {
    if (address % 16 != 0) host_cuda::fail(fmt::format("a store of 16 bytes at {}, no multiple of 16", address));
    write_shared(address, &chunk, sizeof chunk);
}

}  // namespace carat_kernel
