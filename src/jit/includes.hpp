// SPDX-License-Identifier: Apache-2.0
// includes.hpp: which device sources a translation unit reaches. Only those are handed to NVRTC and only those are in
// the cache key, so that an edit of another kernel's file costs nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carat::jit {

struct Include {
    std::string name, text;
};

// The files that `main` includes, directly or not, by name ("ladder/v0_naive.cuh", always relative to kernels/),
// sorted. #include lines are followed as text, also in code that is switched off. Names that do not exist are left out:
// NVRTC says so where it matters. CARAT_KERNEL_DIR replaces the embedded sources as a whole.
std::vector<Include> reachable(std::string_view main);

}  // namespace carat::jit
