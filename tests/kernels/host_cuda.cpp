// SPDX-License-Identifier: Apache-2.0
// Fibers: ucontext makes one, setjmp/longjmp switches (swapcontext would make two system calls a switch).
#include "kernels/host_cuda.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace host_cuda {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kMaxThreads = 1024;
constexpr int kDone = -1;

struct Fiber {
    jmp_buf state;
    int waits_at = 0;  // kind of the barrier, or kDone
    bool started = false;
};

struct Block {
    std::unique_ptr<char[]> stacks{new char[kStackBytes * kMaxThreads]};
    std::vector<Fiber> fibers{kMaxThreads};
    unsigned slots[kMaxThreads] = {};
    jmp_buf scheduler;
    unsigned current = 0;
    const std::function<void()>* body = nullptr;
};

Block& block() {
    static Block instance;
    return instance;
}

void enter() {
    Block& b = block();
    (*b.body)();
    b.fibers[b.current].waits_at = kDone;
    _longjmp(b.scheduler, 1);
}

__attribute__((noinline)) void resume(unsigned thread) {
    Block& b = block();
    b.current = thread;
    threadIdx.x = thread;
    if (_setjmp(b.scheduler)) return;
    Fiber& fiber = b.fibers[thread];
    if (fiber.started) _longjmp(fiber.state, 1);
    fiber.started = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = b.stacks.get() + kStackBytes * thread;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, enter, 0);
    setcontext(&context);
}

std::string run_block(const std::vector<unsigned>& order) {
    Block& b = block();
    for (unsigned thread : order) b.fibers[thread] = Fiber();
    while (true) {
        for (unsigned thread : order) resume(thread);
        const int kind = b.fibers[order[0]].waits_at;
        for (unsigned thread : order)
            if (b.fibers[thread].waits_at != kind) return "not every thread of the block reached the barrier";
        if (kind == kDone) return {};
    }
}

}  // namespace

std::string launch(unsigned grid_x, unsigned threads, Order order, const std::function<void()>& body) {
    block().body = &body;
    gridDim.x = grid_x;
    std::vector<unsigned> sequence(threads);
    std::iota(sequence.begin(), sequence.end(), 0u);
    if (order == Order::backward) std::reverse(sequence.begin(), sequence.end());
    if (order == Order::shuffled) std::shuffle(sequence.begin(), sequence.end(), std::mt19937(1));
    for (unsigned i = 0; i < grid_x; ++i) {
        blockIdx.x = i;
        if (std::string error = run_block(sequence); !error.empty()) return error;
    }
    return {};
}

__attribute__((noinline)) void barrier(int kind) {
    Block& b = block();
    Fiber& fiber = b.fibers[b.current];
    fiber.waits_at = kind;
    if (_setjmp(fiber.state) == 0) _longjmp(b.scheduler, 1);
}

unsigned exchange(unsigned value, int step) {
    Block& b = block();
    const unsigned self = threadIdx.x;
    b.slots[self] = value;
    barrier(2);
    const unsigned other = b.slots[self ^ unsigned(step)];
    barrier(3);
    return other;
}

}  // namespace host_cuda
