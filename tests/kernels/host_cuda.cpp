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
    bool with_warp = false;
    bool started = false;
    unsigned shares = 0;
};

struct Block {
    std::unique_ptr<char[]> stacks{new char[kStackBytes * kMaxThreads]};
    std::vector<Fiber> fibers{kMaxThreads};
    Slots slots[2][kMaxThreads / 32] = {};  // two, so that one barrier a share is enough
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
    b.fibers[b.current].with_warp = false;
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

using Warp = std::vector<unsigned>;

// Whether all threads of the warp wait at what the first waits at.
bool together(const Warp& warp) {
    const std::vector<Fiber>& fibers = block().fibers;
    return std::all_of(warp.begin(), warp.end(), [&](unsigned thread) {
        return fibers[thread].waits_at == fibers[warp[0]].waits_at &&
               fibers[thread].with_warp == fibers[warp[0]].with_warp;
    });
}

std::string run_block(const std::vector<Warp>& warps) {
    Block& b = block();
    for (const Warp& warp : warps)
        for (unsigned thread : warp) b.fibers[thread] = Fiber();
    const Fiber& first = b.fibers[warps[0][0]];
    while (true) {
        for (const Warp& warp : warps) do {
                for (unsigned thread : warp) resume(thread);
                if (!together(warp)) return "not every thread of the block reached the barrier";
            } while (b.fibers[warp[0]].with_warp);
        for (const Warp& warp : warps)
            if (b.fibers[warp[0]].waits_at != first.waits_at)
                return "not every thread of the block reached the barrier";
        if (first.waits_at == kDone) return {};
    }
}

// The threads in the order in which they run, warp by warp.
std::vector<Warp> in_order(unsigned threads, Order order) {
    std::vector<unsigned> sequence(threads);
    std::iota(sequence.begin(), sequence.end(), 0u);
    if (order == Order::backward) std::reverse(sequence.begin(), sequence.end());
    if (order == Order::shuffled) std::shuffle(sequence.begin(), sequence.end(), std::mt19937(1));
    std::vector<Warp> warps;
    std::vector<size_t> place((threads + 31) / 32, SIZE_MAX);
    for (unsigned thread : sequence) {
        if (place[thread / 32] == SIZE_MAX) {
            place[thread / 32] = warps.size();
            warps.emplace_back();
        }
        warps[place[thread / 32]].push_back(thread);
    }
    return warps;
}

void suspend(int kind, bool with_warp) {
    Block& b = block();
    Fiber& fiber = b.fibers[b.current];
    fiber.waits_at = kind;
    fiber.with_warp = with_warp;
    if (_setjmp(fiber.state) == 0) _longjmp(b.scheduler, 1);
}

}  // namespace

std::string launch(unsigned grid_x, unsigned threads, Order order, const std::function<void()>& body) {
    block().body = &body;
    gridDim.x = grid_x;
    const std::vector<Warp> warps = in_order(threads, order);
    for (unsigned i = 0; i < grid_x; ++i) {
        blockIdx.x = i;
        if (std::string error = run_block(warps); !error.empty()) return error;
    }
    return {};
}

__attribute__((noinline)) void barrier(int kind) {
    suspend(kind, false);
}

__attribute__((noinline)) void warp_barrier(int kind) {
    suspend(kind, true);
}

const Slots& share(const unsigned* words, int count) {
    Block& b = block();
    Slots& slots = b.slots[b.fibers[b.current].shares++ % 2][b.current / 32];
    std::copy_n(words, count, slots[b.current % 32]);
    warp_barrier(2);
    return slots;
}

unsigned exchange(unsigned value, int step) {
    const unsigned lane = threadIdx.x % 32;
    return share(&value, 1)[lane ^ unsigned(step)][0];
}

}  // namespace host_cuda
