// SPDX-License-Identifier: Apache-2.0
// cp_async.cuh: asynchronous copies of the emulation: nothing is read or written before the thread waits for the group,
// so that a missing wait shows. There is no device that would be later than that.
#pragma once

#include <ptx/shared.cuh>

#include <deque>
#include <vector>

namespace carat_kernel {

struct PendingCopy {
    unsigned to;
    const void* from;
    bool inside;
};
// The groups of a thread, oldest first; the last is open.
struct PendingCopies {
    std::deque<std::vector<PendingCopy>> groups{1};
};
inline PendingCopies pending_copies[1024];

inline PendingCopies& my_copies() {
    return pending_copies[threadIdx.x];
}

inline void cp_async_16(unsigned to, const void* from, bool inside) {
    if (to % 16 != 0 || (inside && reinterpret_cast<std::uintptr_t>(from) % 16 != 0))
        host_cuda::fail("a copy of 16 bytes at an address that is no multiple of 16");
    my_copies().groups.back().push_back({to, from, inside});
}
inline void cp_async_16_once(unsigned to, const void* from, bool inside) {
    cp_async_16(to, from, inside);
}
inline void cp_async_16_cached(unsigned to, const void* from, bool inside) {
    cp_async_16(to, from, inside);
}
inline void cp_async_commit_group() {
    my_copies().groups.emplace_back();
}
template <int kPending>
void cp_async_wait_group() {
    auto& groups = my_copies().groups;
    for (; groups.size() > kPending + 1; groups.pop_front())
        for (const PendingCopy& copy : groups.front()) {
            const Chunk zeros = {};
            write_shared(copy.to, copy.inside ? copy.from : &zeros, 16);
        }
}
// Whether some thread left without waiting for its copies; forgets them.
inline bool copies_left_behind() {
    bool left = false;
    for (PendingCopies& copies : pending_copies) {
        left = left || copies.groups.size() > 1 || !copies.groups.back().empty();
        copies = {};
    }
    return left;
}

}  // namespace carat_kernel
