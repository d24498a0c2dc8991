// SPDX-License-Identifier: Apache-2.0
// threads.hpp: a small fixed pool for the CPU backend. Threads start on first use; a pool of 1 runs in the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace carat::cpu {

class ThreadPool {
  public:
    explicit ThreadPool(int threads);  // 0: as many as the process may use (affinity mask)
    ~ThreadPool();
    int size() const;
    // Runs body(0) ... body(count-1) on the pool and the caller, returns when all are done. Safe from many threads at
    // once (calls are serialised) and from inside a body (then it runs in the caller).
    void parallel_for(int64_t count, const std::function<void(int64_t)>& body);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// CPUs in this process's affinity mask.
int usable_threads();

}  // namespace carat::cpu
