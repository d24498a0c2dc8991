// SPDX-License-Identifier: Apache-2.0
// prefetch.cuh: nothing, in the emulation.
#pragma once

namespace carat_kernel {

inline void prefetch_to_l2(const void*) {}
// A load, which must be of the operand.
inline void prefetch_to_l1(const void* element) {
    [[maybe_unused]] volatile const char loaded = *static_cast<const char*>(element);
}

}  // namespace carat_kernel
