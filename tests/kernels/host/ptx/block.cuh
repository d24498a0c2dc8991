// SPDX-License-Identifier: Apache-2.0
// block.cuh: warpgroups, named barriers, register shares and clusters of the emulation.
#pragma once

#include "core/format.hpp"

namespace carat_kernel {

constexpr int kWarpThreads = 32, kWarpgroupThreads = 128;

inline unsigned fresh_thread() {
    return threadIdx.x;
}
inline int warpgroup_index() {
    return static_cast<int>(threadIdx.x) / kWarpgroupThreads;
}

template <int kThreads>
void named_barrier(int number) {
    static_assert(kThreads % kWarpThreads == 0);
    host_cuda::barrier(number, kThreads);
}

// Of a block: what every thread has at the start, and what was given back, each for one thread.
struct HostRegisters {
    int start = 65536 / static_cast<int>(host_cuda::block_threads()) / 8 * 8;
    long returned = 0;
};
inline HostRegisters& host_registers() {
    return host_cuda::block_local<HostRegisters>(host_cuda::cluster_rank());
}

template <int kRegisters>
void shrink_registers() {
    static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
    HostRegisters& registers = host_registers();
    if (kRegisters > registers.start)
        host_cuda::fail(fmt::format("{} registers are no fewer than the {} of the start", kRegisters, registers.start));
    registers.returned += registers.start - kRegisters;
}
template <int kRegisters>
void grow_registers() {
    static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
    HostRegisters& registers = host_registers();
    const long more = kRegisters - registers.start;
    host_cuda::wait_until([&registers, more] { return registers.returned >= more; },
                          [&registers, more] {
                              return fmt::format("waits for {} registers, of which {} were given back", more,
                                                 registers.returned);
                          });
    registers.returned -= more;
}

inline int cluster_rank() {
    return static_cast<int>(host_cuda::cluster_rank());
}
inline float load_of_block(const float* own, int rank) {
    const char* const begin = host_cuda::shared_memory(host_cuda::cluster_rank());
    float value;
    std::memcpy(&value, host_cuda::shared_memory(unsigned(rank)) + (reinterpret_cast<const char*>(own) - begin),
                sizeof value);
    return value;
}
inline void cluster_barrier() {
    host_cuda::cluster_barrier();
}

}  // namespace carat_kernel
