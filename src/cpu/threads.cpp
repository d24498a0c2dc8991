// SPDX-License-Identifier: Apache-2.0
// threads.cpp: the pool. The caller works too, so a call never waits for a worker that has not joined; indices are
// handed out one by one, which is fair to uneven bodies and to cores that somebody else uses.
#include "cpu/threads.hpp"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace carat::cpu {
namespace {

// Set while a thread runs a body of any pool: a nested call must not wait for a pool that waits for it.
thread_local bool t_inside_body = false;

// About 20 us: back-to-back calls (the layers of a decode step) find the workers awake, an idle pool sleeps.
constexpr int kSpins = 1000;

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void run_serially(int64_t count, const std::function<void(int64_t)>& body) {
    for (int64_t i = 0; i < count; ++i) body(i);
}

// The threads of one process, and the one job they may be working on.
class Workers {
  public:
    explicit Workers(int count) : owner(getpid()) {
        // Workers take no signals: those are for the application's threads.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            for (int i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
        } catch (const std::system_error&) {
            // The system has no more threads for us; the caller and the workers that started do the job.
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    ~Workers() {
        {
            std::lock_guard lock(mutex_);
            stop_ = true;
            epoch_.fetch_add(1, std::memory_order_release);
        }
        wake_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    void run(int64_t count, const std::function<void(int64_t)>& body) {
        std::lock_guard serialise(callers_);
        {
            std::lock_guard lock(mutex_);
            body_ = &body;
            count_ = count;
            next_.store(0, std::memory_order_relaxed);
            epoch_.fetch_add(1, std::memory_order_release);
        }
        if (count - 1 >= int64_t(threads_.size())) {
            wake_.notify_all();
        } else {
            for (int64_t i = 1; i < count; ++i) wake_.notify_one();
        }
        take_indices(count, body);
        // Nobody may join from here on; those who did are nearly done, so spin before sleeping.
        {
            std::lock_guard lock(mutex_);
            body_ = nullptr;
        }
        for (int i = 0; i < kSpins && active_.load(std::memory_order_acquire) != 0; ++i) relax();
        std::unique_lock lock(mutex_);
        done_.wait(lock, [this] { return active_.load(std::memory_order_relaxed) == 0; });
    }

    const pid_t owner;

  private:
    void take_indices(int64_t count, const std::function<void(int64_t)>& body) {
        t_inside_body = true;
        for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count;) body(i);
        t_inside_body = false;
    }

    void work() {
        uint64_t seen = 0;
        for (;;) {
            for (int i = 0; i < kSpins && epoch_.load(std::memory_order_acquire) == seen; ++i) relax();
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return epoch_.load(std::memory_order_relaxed) != seen; });
            seen = epoch_.load(std::memory_order_relaxed);
            if (stop_) return;
            if (body_ == nullptr) continue;  // the others were faster
            const std::function<void(int64_t)>& body = *body_;
            const int64_t count = count_;
            active_.fetch_add(1, std::memory_order_relaxed);
            lock.unlock();
            take_indices(count, body);
            lock.lock();
            if (active_.fetch_sub(1, std::memory_order_release) == 1) done_.notify_one();
        }
    }

    std::mutex callers_;  // one job at a time
    std::mutex mutex_;    // guards body_, count_, stop_ and joining
    std::condition_variable wake_, done_;
    std::atomic<uint64_t> epoch_{0};
    std::atomic<int64_t> next_{0};
    std::atomic<int> active_{0};
    const std::function<void(int64_t)>* body_ = nullptr;
    int64_t count_ = 0;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace

struct ThreadPool::State {
    int size = 1;
    std::atomic<Workers*> workers{nullptr};

    // Starts the workers on first use, and anew in a forked child: there the parent's threads do not exist and its
    // locks may be held for ever, so that object is left behind.
    Workers& started() {
        Workers* current = workers.load(std::memory_order_acquire);
        while (current == nullptr || current->owner != getpid()) {
            Workers* fresh = new Workers(size - 1);
            if (workers.compare_exchange_strong(current, fresh, std::memory_order_acq_rel)) return *fresh;
            delete fresh;  // another caller was first
        }
        return *current;
    }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
    state_->size = threads > 0 ? threads : usable_threads();
}

ThreadPool::~ThreadPool() {
    Workers* workers = state_->workers.load(std::memory_order_acquire);
    if (workers != nullptr && workers->owner == getpid()) delete workers;
}

int ThreadPool::size() const {
    return state_->size;
}

void ThreadPool::parallel_for(int64_t count, const std::function<void(int64_t)>& body) {
    if (count <= 1 || state_->size <= 1 || t_inside_body) return run_serially(count, body);
    state_->started().run(count, body);
}

int usable_threads() {
    // The kernel refuses a mask smaller than its own, so grow until it fits.
    for (int cpus = 1024; cpus <= (1 << 20); cpus *= 2) {
        cpu_set_t* set = CPU_ALLOC(size_t(cpus));
        if (set == nullptr) return 1;
        const size_t bytes = CPU_ALLOC_SIZE(size_t(cpus));
        CPU_ZERO_S(bytes, set);
        const bool fits = sched_getaffinity(0, bytes, set) == 0;
        const int count = fits ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (fits) return count > 0 ? count : 1;
    }
    return 1;
}

}  // namespace carat::cpu
