// SPDX-License-Identifier: Apache-2.0
// measure.cpp: the limits of this machine as a Target: the rate of the micro-kernels out of the first-level cache, and
// how long it takes to stream so many bytes. Best of a few short runs: other processes only ever make it slower.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>

#include "cpu/fast.hpp"
#include "cpu/gemm.hpp"

namespace carat::cpu {
namespace {

constexpr size_t kSpinBytes = 1 << 20;  // panels of 64 steps and a tile of sums, with room
// Many short runs: on a busy machine one of them gets the core to itself.
constexpr double kSpinSeconds = 0.001;
constexpr int kSpinRepeats = 16, kReadRepeats = 3;

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class F>
double best_seconds(int repeats, F run) {
    double best = 1e30;
    for (int i = 0; i < repeats; ++i) {
        const auto start = std::chrono::steady_clock::now();
        run();
        best = std::min(best, seconds_since(start));
    }
    return best;
}

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

double peak_tflops(Isa isa, Panel panel, ThreadPool& threads) {
    const IsaKernels& kernels = kernels_of(isa);
    const size_t count = size_t(threads.size());
    std::unique_ptr<char, Free> memory(static_cast<char*>(std::aligned_alloc(4096, kSpinBytes * count)));
    if (!memory) return 0;
    std::vector<int64_t> done(count);
    const auto spin = [&](int64_t rounds) {
        threads.parallel_for(int64_t(count), [&](int64_t i) {
            done[size_t(i)] = kernels.spin(panel, rounds, memory.get() + size_t(i) * kSpinBytes);
        });
    };
    spin(100);  // wakes the cores and gives a first estimate
    const double once = best_seconds(2, [&] { spin(100); }) / 100;
    const int64_t rounds = std::max<int64_t>(100, int64_t(kSpinSeconds / std::max(once, 1e-9)));
    const double seconds = best_seconds(kSpinRepeats, [&] { spin(rounds); });
    double total = 0;
    for (const int64_t multiply_adds : done) total += 2 * double(multiply_adds);
    return total / seconds * 1e-12;
}

// Reads all of a range; four sums keep several loads in flight.
uint64_t read_range(const uint64_t* from, int64_t count) {
    uint64_t sums[32] = {};
    for (int64_t i = 0; i + 32 <= count; i += 32) {
        for (int j = 0; j < 32; ++j) sums[j] += from[i + j];
    }
    uint64_t total = 0;
    for (const uint64_t sum : sums) total += sum;
    return total;
}

int64_t available_bytes() {
    std::ifstream file("/proc/meminfo");
    std::string key;
    for (int64_t kilobytes; file >> key;) {
        if (key == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
    }
    return int64_t(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

std::vector<ReadPoint> read_curve(ThreadPool& threads) {
    int64_t largest = int64_t{128} << 20;  // beyond the caches a core can fill in the time we take
    while (largest > (int64_t{1} << 20) && largest > available_bytes() / 4) largest /= 2;
    void* memory = mmap(nullptr, size_t(largest), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return {};
    madvise(memory, size_t(largest), MADV_HUGEPAGE);
    auto* words = static_cast<uint64_t*>(memory);
    const int64_t parts = threads.size();
    std::vector<uint64_t> sink(static_cast<size_t>(parts));
    const auto sweep = [&](int64_t bytes, auto body) {
        const int64_t share = bytes / 8 / parts;
        threads.parallel_for(parts, [&](int64_t i) { body(words + i * share, share, i); });
    };
    const auto read = [&](const uint64_t* from, int64_t count, int64_t i) {
        sink[size_t(i)] += read_range(from, count);
    };
    sweep(largest, [](uint64_t* from, int64_t count, int64_t) { std::fill(from, from + count, 1); });
    std::vector<ReadPoint> curve;
    for (int64_t bytes = 256 << 10; bytes <= largest; bytes *= 8) {
        const int sweeps = int(std::max<int64_t>(1, (int64_t{8} << 20) / bytes));
        sweep(bytes, read);
        const double seconds = best_seconds(kReadRepeats, [&] {
            for (int i = 0; i < sweeps; ++i) sweep(bytes, read);
        });
        curve.push_back({double(bytes), seconds / sweeps * 1e6});
    }
    munmap(memory, size_t(largest));
    for (size_t i = 1; i < curve.size(); ++i) curve[i].us = std::max(curve[i].us, curve[i - 1].us);
    return curve;
}

std::string cpu_model() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
    }
    return "unknown CPU";
}

Target measure(ThreadPool& threads) {
    const Isa best = supported_isas().front();
    const bool pairs = best == Isa::avx512_bf16;
    Target target;
    target.backend = CARAT_BACKEND_CPU;
    target.name = "cpu";
    target.full_name = cpu_model();
    target.units = threads.size();
    target.l2_bytes = std::max<int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
    if (target.l2_bytes == 0) target.l2_bytes = std::max<int64_t>(0, sysconf(_SC_LEVEL2_CACHE_SIZE));
    target.memory_bytes = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    target.f32_tflops = target.tf32_tflops = peak_tflops(best, Panel::f32, threads);
    target.f64_tflops = peak_tflops(best, Panel::f64, threads);
    // Without pair products the narrow types are multiplied as f32.
    target.f16_tflops = pairs ? peak_tflops(best, Panel::bf16, threads) : target.f32_tflops;
    target.fp8_tflops = target.s8_tflops = target.f16_tflops;
    target.read_curve = read_curve(threads);
    target.launch_us = best_seconds(50, [&] { threads.parallel_for(target.units, [](int64_t) {}); }) * 1e6;
    target.source = fmt::format("measured on this machine with {} and {} thread{}", name(best), target.units,
                                target.units == 1 ? "" : "s");
    return target;
}

}  // namespace

Target measure_cpu(ThreadPool& threads) {
    static std::mutex mutex;
    static std::vector<Target> measured;  // one for each number of threads asked for
    std::lock_guard lock(mutex);
    for (const Target& target : measured) {
        if (target.units == threads.size()) return target;
    }
    measured.push_back(measure(threads));
    return measured.back();
}

}  // namespace carat::cpu
