// SPDX-License-Identifier: Apache-2.0
// prefetch.cuh: nothing, in the emulation.
#pragma once

namespace carat_kernel {

inline void prefetch_to_l2(const void*) {}
// Of the operand, from its first byte to its last.
inline void prefetch_run_to_l2(const void* run, unsigned bytes) {
    const char* const from = static_cast<const char*>(run);
    if (bytes == 0) return;
    [[maybe_unused]] volatile const char first = from[0], last = from[bytes - 1];
}
// A load, which must be of the operand.
inline void prefetch_to_l1(const void* element) {
    [[maybe_unused]] volatile const char loaded = *static_cast<const char*>(element);
}

}  // namespace carat_kernel
