// SPDX-License-Identifier: Apache-2.0
// runtime.hpp: what a context owns and lends to a row that prepares a kernel: the target, the CPU threads, the device,
// the JIT.
#pragma once

#include <memory>

#include "limits/target.hpp"

namespace carat {
namespace cpu {
class ThreadPool;
}
namespace cuda {
class Device;
}
namespace jit {
class Jit;
}

class Runtime {
  public:
    Target target;
    std::shared_ptr<cpu::ThreadPool> threads;  // never null
    std::shared_ptr<cuda::Device> device;      // null on a CPU context and on a planning-only one
    std::shared_ptr<jit::Jit> jit;             // null on a CPU context
    bool may_compile = true;                   // false while the stream of a plan is being captured
    bool can_execute() const { return target.backend == CARAT_BACKEND_CPU || device != nullptr; }
};

}  // namespace carat
