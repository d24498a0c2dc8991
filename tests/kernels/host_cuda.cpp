// SPDX-License-Identifier: Apache-2.0
// Fibers: ucontext makes one, setjmp/longjmp switches (swapcontext would make two system calls a switch).
#include "kernels/host_cuda.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "core/format.hpp"

namespace host_cuda {
namespace {

constexpr size_t kStackBytes = 64 << 10, kSharedAlignment = 1024;
constexpr int kBarriers = 16;
constexpr unsigned kWarp = 32;

struct Fiber {
    jmp_buf state;
    bool started = false, done = false;
    std::function<bool()> ready;  // none: it can go on
    std::function<std::string()> waits;
    unsigned shares = 0;
};

struct CountBarrier {
    unsigned arrived = 0, wanted = 0;
    unsigned long turn = 0;

    void release() {
        arrived = 0;
        ++turn;
    }
};

struct Warp {
    CountBarrier barrier;
    const char* kind = "";  // of the instruction that lanes wait at
    Slots slots[2] = {};    // two, so that one barrier a share is enough
};

struct Free {
    void operator()(char* memory) const { std::free(memory); }
};

struct Block {
    unsigned index = 0, alive = 0;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    CountBarrier barriers[kBarriers];
    std::unique_ptr<char, Free> shared;
    std::vector<std::shared_ptr<void>> locals;
};

struct Failed {};  // thrown by fail() up to the begin of a fiber or an operation

struct Operation {
    std::function<void()> run;
    std::string what;
    bool patient;
};

struct Turn {  // of the threads of a warp
    unsigned rank;
    std::vector<unsigned> threads;
};

#ifdef __SANITIZE_ADDRESS__
extern "C" void __asan_unpoison_memory_region(const volatile void* begin, size_t bytes);
#else
void __asan_unpoison_memory_region(const volatile void*, size_t) {}
#endif

struct Machine {
    Launch launch;
    const std::function<void()>* body = nullptr;
    std::vector<Block> blocks{1};  // of the cluster
    std::vector<std::unique_ptr<char[]>> stacks;
    std::vector<Operation> operations;
    CountBarrier cluster_barrier;
    std::mt19937 random;
    jmp_buf scheduler;
    unsigned rank = 0;  // of the running thread's block
    std::string error;

    Block& block() { return blocks[rank]; }
    Fiber& fiber() { return block().fibers[threadIdx.x]; }
    unsigned alive() const {
        unsigned count = 0;
        for (const Block& block : blocks) count += block.alive;
        return count;
    }
};

Machine& machine() {
    static Machine instance;
    return instance;
}

// ---------------------------------------------------------------- fibers

void enter() {
    Machine& m = machine();
    try {
        (*m.body)();
    } catch (const Failed&) {
    }
    m.fiber().done = true;
    --m.block().alive;
    _longjmp(m.scheduler, 1);
}

__attribute__((noinline)) void resume(unsigned rank, unsigned thread) {
    Machine& m = machine();
    m.rank = rank;
    threadIdx.x = thread;
    blockIdx.x = m.blocks[rank].index;
    if (_setjmp(m.scheduler)) return;
    Fiber& fiber = m.fiber();
    fiber.ready = nullptr;
    if (fiber.started) _longjmp(fiber.state, 1);
    fiber.started = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = m.stacks[rank * m.launch.threads + thread].get();
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, enter, 0);
    setcontext(&context);
}

// Whether some thread of the warp went on.
bool run_warp(const Turn& turn) {
    Machine& m = machine();
    bool progress = false;
    for (const unsigned thread : turn.threads) {
        const Fiber& fiber = m.blocks[turn.rank].fibers[thread];
        if (fiber.done || (fiber.ready && !fiber.ready())) continue;
        resume(turn.rank, thread);
        if (!m.error.empty()) return false;
        progress = true;
    }
    return progress;
}

// Any of them; late: patient ones after all others.
void run_operation() {
    Machine& m = machine();
    const auto first_patient =
        std::partition(m.operations.begin(), m.operations.end(), [](const Operation& o) { return !o.patient; });
    size_t choice = size_t(first_patient - m.operations.begin());
    if (m.launch.copies != Copies::late || choice == 0) choice = m.operations.size();
    std::swap(m.operations[m.random() % choice], m.operations.back());
    const Operation operation = std::move(m.operations.back());
    m.operations.pop_back();
    try {
        operation.run();
    } catch (const Failed&) {
    }
}

// Who waits for what: the first threads of each kind of wait, and how many they are.
std::string deadlock() {
    std::map<std::string, std::pair<std::string, unsigned>> waits;
    unsigned ended = 0;
    for (const Block& block : machine().blocks)
        for (size_t thread = 0; thread < block.fibers.size(); ++thread) {
            const Fiber& fiber = block.fibers[thread];
            if (fiber.done && ++ended) continue;
            const std::string what = fmt::format("block {} {}", block.index, fiber.waits());
            auto& [who, count] = waits[what];
            if (count++ == 0) who = fmt::format("thread {}", thread);
        }
    std::string text = fmt::format("deadlock, {} threads have ended", ended);
    for (const auto& [what, who] : waits)
        text += fmt::format("; {} and {} others of {}", who.first, who.second - 1, what);
    return text;
}

std::vector<Turn> all_turns(const Launch& launch) {
    std::vector<Turn> turns;
    for (unsigned rank = 0; rank < launch.cluster; ++rank)
        for (unsigned first = 0; first < launch.threads; first += kWarp) {
            Turn turn = {rank, {}};
            for (unsigned t = first; t < std::min(first + kWarp, launch.threads); ++t) turn.threads.push_back(t);
            if (launch.order == Order::backward) std::reverse(turn.threads.begin(), turn.threads.end());
            turns.push_back(turn);
        }
    if (launch.order == Order::backward) std::reverse(turns.begin(), turns.end());
    return turns;
}

void shuffle(std::vector<Turn>& turns) {
    Machine& m = machine();
    std::shuffle(turns.begin(), turns.end(), m.random);
    for (Turn& turn : turns) std::shuffle(turn.threads.begin(), turn.threads.end(), m.random);
}

void start_cluster(unsigned first_block) {
    Machine& m = machine();
    const unsigned threads = m.launch.threads;
    m.blocks = std::vector<Block>(m.launch.cluster);
    m.operations.clear();
    m.cluster_barrier = {};
    while (m.stacks.size() < m.launch.cluster * threads) m.stacks.emplace_back(new char[kStackBytes]);
    for (unsigned rank = 0; rank < m.launch.cluster; ++rank) {
        Block& block = m.blocks[rank];
        block.index = first_block + rank;
        block.alive = threads;
        block.fibers.resize(threads);
        block.warps.resize((threads + kWarp - 1) / kWarp);
        const size_t bytes = (m.launch.shared_bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
        block.shared.reset(static_cast<char*>(std::aligned_alloc(kSharedAlignment, bytes)));
        std::memset(block.shared.get(), 0xff, m.launch.shared_bytes);
    }
}

std::string run_cluster() {
    Machine& m = machine();
    std::vector<Turn> turns = all_turns(m.launch);
    while (m.alive() > 0) {
        bool progress = false;
        if (m.launch.order == Order::shuffled) shuffle(turns);
        for (const Turn& turn : turns) {
            while (run_warp(turn)) progress = true;
            if (!m.error.empty()) return m.error;
            if (m.launch.copies != Copies::random || m.operations.empty() || m.random() % 4 != 0) continue;
            run_operation();
            progress = true;
        }
        if (!m.error.empty()) return m.error;
        if (progress) continue;
        if (m.operations.empty()) return deadlock();
        run_operation();
    }
    if (!m.error.empty()) return m.error;
    if (!m.operations.empty()) return "the block ended before " + m.operations[0].what;
    return {};
}

// Waits until as many threads as wanted have come since the last time.
void arrive(CountBarrier& barrier, unsigned wanted, std::function<std::string()> what) {
    if (++barrier.arrived == wanted) return barrier.release();
    const unsigned long turn = barrier.turn;
    wait_until([&barrier, turn] { return barrier.turn != turn; }, std::move(what));
}

}  // namespace

// ---------------------------------------------------------------- interface

std::string launch(const Launch& launch, const std::function<void()>& body) {
    Machine& m = machine();
    m.launch = launch;
    m.body = &body;
    m.error.clear();
    m.random.seed(launch.seed);
    gridDim.x = launch.blocks;
    if (launch.blocks % launch.cluster != 0)
        return fmt::format("{} blocks are no multiple of the cluster's {}", launch.blocks, launch.cluster);
    std::string error;
    for (unsigned first = 0; first < launch.blocks && error.empty(); first += launch.cluster) {
        start_cluster(first);
        error = run_cluster();
    }
    m.rank = 0;
    if (!error.empty()) m.stacks.clear();  // the address sanitizer remembers the frames of fibers that did not end
    return error;
}

__attribute__((noinline)) void wait_until(std::function<bool()> ready, std::function<std::string()> what) {
    if (ready()) return;
    Machine& m = machine();
    Fiber& fiber = m.fiber();
    fiber.ready = std::move(ready);
    fiber.waits = std::move(what);
    if (_setjmp(fiber.state) == 0) _longjmp(m.scheduler, 1);
}

void fail(const std::string& sentence) {
    Machine& m = machine();
    if (m.error.empty()) m.error = fmt::format("{} (block {}, thread {})", sentence, blockIdx.x, threadIdx.x);
    // The address sanitizer's marks of frames that were further down this stack would trip its own part in unwinding.
    if (const size_t at = m.rank * m.launch.threads + threadIdx.x; at < m.stacks.size())
        __asan_unpoison_memory_region(m.stacks[at].get(), kStackBytes);
    throw Failed();
}

void defer(std::function<void()> operation, std::string what, bool patient) {
    if (machine().launch.copies == Copies::early) return operation();
    machine().operations.push_back({std::move(operation), std::move(what), patient});
}

void barrier(int number, unsigned threads) {
    Block& block = machine().block();
    const unsigned wanted = threads ? threads : unsigned(block.fibers.size());
    if (number < 0 || number >= kBarriers) fail(fmt::format("barrier {} is none of the {}", number, kBarriers));
    CountBarrier& barrier = block.barriers[number];
    if (barrier.arrived == 0) barrier.wanted = wanted;
    if (barrier.wanted != wanted)
        fail(fmt::format("barrier {} is for {} threads, but others wait there for {}", number, wanted, barrier.wanted));
    arrive(barrier, wanted, [&barrier, number, wanted] {
        return fmt::format("waits at barrier {}, where {} of {} threads are", number, barrier.arrived, wanted);
    });
}

void warp_barrier(const char* kind) {
    Block& block = machine().block();
    Warp& warp = block.warps[threadIdx.x / kWarp];
    const unsigned first = threadIdx.x / kWarp * kWarp;
    const unsigned wanted = std::min(kWarp, unsigned(block.fibers.size()) - first);
    if (warp.barrier.arrived > 0 && std::strcmp(warp.kind, kind) != 0)
        fail(fmt::format("a lane is at {}, but others of its warp are at {}", kind, warp.kind));
    warp.kind = kind;
    arrive(warp.barrier, wanted, [&warp] {
        return fmt::format("waits at {}, where {} lanes of its warp are", warp.kind, warp.barrier.arrived);
    });
}

void cluster_barrier() {
    Machine& m = machine();
    CountBarrier& barrier = m.cluster_barrier;
    ++barrier.arrived;
    wait_until(
        [&m, &barrier, turn = barrier.turn] {
            if (barrier.turn == turn && barrier.arrived >= m.alive()) barrier.release();
            return barrier.turn != turn;
        },
        [&m, &barrier] {
            return fmt::format("waits for the cluster, of which {} of {} threads are there", barrier.arrived,
                               m.alive());
        });
}

const Slots& share(const unsigned* words, int count) {
    Machine& m = machine();
    Slots& slots = m.block().warps[threadIdx.x / kWarp].slots[m.fiber().shares++ % 2];
    std::copy_n(words, count, slots[threadIdx.x % kWarp]);
    warp_barrier("an exchange of its warp");
    return slots;
}

unsigned cluster_rank() {
    return machine().rank;
}
unsigned cluster_blocks() {
    return unsigned(machine().blocks.size());
}
unsigned block_threads() {
    return machine().launch.threads;
}
bool is_running(unsigned rank) {
    return rank < cluster_blocks() && machine().blocks[rank].alive > 0;
}
char* shared_memory(unsigned rank) {
    return machine().blocks[rank].shared.get();
}
unsigned shared_bytes() {
    return machine().launch.shared_bytes;
}

std::shared_ptr<void>& block_slot(unsigned rank, size_t type) {
    std::vector<std::shared_ptr<void>>& locals = machine().blocks[rank].locals;
    if (locals.size() <= type) locals.resize(type + 1);
    return locals[type];
}
size_t next_type() {
    static size_t count = 0;
    return count++;
}

}  // namespace host_cuda
