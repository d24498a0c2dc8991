// SPDX-License-Identifier: Apache-2.0
// workers.hpp: a loop over indices on all cores, for what the tests do on the host around a GPU: expectations and
// compilation.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace carat::test {

template <class Function>
void for_each_index(int64_t count, bool parallel, const Function& function) {
    const int64_t cores = parallel ? std::max(1u, std::thread::hardware_concurrency()) : 1;
    std::atomic<int64_t> next = 0;
    const auto work = [&] {
        for (int64_t i = next++; i < count; i = next++) function(i);
    };
    std::vector<std::thread> helpers;
    for (int64_t t = 1; t < std::min(cores, count); ++t) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
}

}  // namespace carat::test
