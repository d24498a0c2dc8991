// SPDX-License-Identifier: Apache-2.0
// The thread pool: every index once, nested and concurrent calls, fork, overhead.
#include "cpu/threads.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

namespace carat::cpu {
namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
    for (int threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.size(), threads);
        for (int64_t count : {0, 1, 2, 7, 64, 1000}) {
            std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
            pool.parallel_for(count, [&](int64_t i) { hits[size_t(i)].fetch_add(1); });
            for (auto& hit : hits) EXPECT_EQ(hit.load(), 1) << threads << " threads, " << count << " indices";
        }
    }
}

TEST(ThreadPool, ZeroMeansTheAffinityMask) {
    cpu_set_t before, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    EXPECT_EQ(ThreadPool(0).size(), CPU_COUNT(&before));
    EXPECT_EQ(usable_threads(), CPU_COUNT(&before));
    int first = 0;
    while (!CPU_ISSET(first, &before)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_threads(), 1);
    EXPECT_EQ(ThreadPool(0).size(), 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(ThreadPool, WritesAreVisibleAfterTheCall) {
    ThreadPool pool(4);
    for (int round = 0; round < 2000; ++round) {
        int64_t values[16] = {};  // plain memory: only the pool's synchronisation makes this right
        pool.parallel_for(16, [&](int64_t i) { values[i] = i + round; });
        EXPECT_EQ(std::accumulate(values, values + 16, int64_t{0}), 120 + 16 * round);
    }
}

TEST(ThreadPool, UsesSeveralThreads) {
    ThreadPool pool(2);
    std::atomic<int> arrived{0};
    // Each body waits for the other, which one thread alone could not finish.
    pool.parallel_for(2, [&](int64_t) {
        arrived.fetch_add(1);
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (arrived.load() < 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
}

TEST(ThreadPool, NestedCallRunsInTheCaller) {
    ThreadPool pool(3), other(3);
    std::atomic<int> total{0};
    pool.parallel_for(5, [&](int64_t) {
        const auto self = std::this_thread::get_id();
        pool.parallel_for(7, [&](int64_t) { total += std::this_thread::get_id() == self; });
        other.parallel_for(7, [&](int64_t) { total += std::this_thread::get_id() == self; });
    });
    EXPECT_EQ(total.load(), 5 * 14);
}

TEST(ThreadPool, ConcurrentCallersEachGetTheirOwn) {
    ThreadPool pool(3);
    std::vector<std::thread> callers;
    std::atomic<int64_t> wrong{0};
    for (int caller = 0; caller < 6; ++caller) {
        callers.emplace_back([&] {
            for (int round = 0; round < 200; ++round) {
                std::atomic<int64_t> sum{0};
                pool.parallel_for(50, [&](int64_t i) { sum += i; });
                wrong += sum.load() != 1225;
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(wrong.load(), 0);
}

TEST(ThreadPool, WorksInAForkedChild) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer allows no threads after a multi-threaded fork";
#endif
    ThreadPool pool(3);
    pool.parallel_for(10, [](int64_t) {});  // the workers are running now
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(20);  // a hang becomes a failure
        std::atomic<int64_t> sum{0};
        for (int round = 0; round < 10; ++round) pool.parallel_for(100, [&](int64_t i) { sum += i; });
        _exit(sum.load() == 49500 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    std::atomic<int64_t> sum{0};
    pool.parallel_for(100, [&](int64_t i) { sum += i; });
    EXPECT_EQ(sum.load(), 4950);
}

TEST(ThreadPool, StartsAndStopsManyTimes) {
    for (int round = 0; round < 100; ++round) {
        ThreadPool pool(3);
        std::atomic<int> hits{0};
        if (round % 2) pool.parallel_for(4, [&](int64_t) { ++hits; });
        EXPECT_EQ(hits.load(), round % 2 ? 4 : 0);
    }
}

TEST(ThreadPool, OverheadIsSmall) {
    ThreadPool pool(2);
    std::atomic<int> hits{0};
    pool.parallel_for(2, [&](int64_t) { ++hits; });
    double best = 1e9;
    for (int round = 0; round < 50; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 100; ++i) pool.parallel_for(2, [&](int64_t) { ++hits; });
        best = std::min(
            best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 100);
    }
    RecordProperty("best_us", std::to_string(best));
    EXPECT_EQ(hits.load(), 2 + 2 * 5000);
    EXPECT_LT(best, 50.0);  // 10 us is the aim; the rest is for busy test machines and sanitizers
}

}  // namespace
}  // namespace carat::cpu
