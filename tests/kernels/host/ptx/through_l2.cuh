// SPDX-License-Identifier: Apache-2.0
// through_l2.cuh: words between blocks of the emulation that run together (or one after the other).
#pragma once

#include "core/format.hpp"
#include "kernels/host_cuda.hpp"

namespace carat_kernel {

inline void wait_for_word(const unsigned* word, unsigned value) {
    host_cuda::wait_until(
        [=] { return *word == value; },
        [=] { return fmt::format("waits for a word of memory to be {}, which is {}", value, *word); });
}

inline void set_word(unsigned* word, unsigned value) {
    *word = value;
}

inline float4 load_from_l2(const float4* from) {
    return *from;
}

}  // namespace carat_kernel
