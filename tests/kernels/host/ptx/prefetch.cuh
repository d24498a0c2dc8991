// SPDX-License-Identifier: Apache-2.0
// prefetch.cuh: nothing, in the emulation.
#pragma once

namespace carat_kernel {

inline void prefetch_to_l2(const void*) {}

}  // namespace carat_kernel
