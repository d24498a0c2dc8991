// SPDX-License-Identifier: Apache-2.0
// measure.cpp: the limits of this machine as a Target: the rate of the micro-kernels out of the first-level cache, and
// how long it takes to stream so many bytes. Best of a few short runs: other processes only ever make it slower.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
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
// Pieces a thread: a worker that wakes late then costs a run a part of its work, not half the machine.
constexpr size_t kSpinPieces = 4;

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
    const size_t count = size_t(threads.size()) * kSpinPieces;
    std::unique_ptr<char, Free> memory(static_cast<char*>(std::aligned_alloc(4096, kSpinBytes * count)));
    if (!memory) return 0;
    std::vector<int64_t> done(count);
    const auto spin = [&](int64_t rounds) {
        threads.parallel_for(int64_t(count), [&](int64_t i) {
            done[size_t(i)] = kernels.spin(panel, rounds, memory.get() + size_t(i) * kSpinBytes);
        });
    };
    // Doubled until a run is long: an estimate from the first short ones would hold the waking of the threads.
    int64_t rounds = 100;
    while (best_seconds(1, [&] { spin(rounds); }) < kSpinSeconds) rounds *= 2;
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

// As large a range as takes part in the measurement: four times the last-level cache, so that what was read a round ago
// is gone from it.
int64_t range_bytes(int64_t cache_bytes) {
    int64_t bytes = std::clamp(int64_t(std::bit_ceil(uint64_t(4 * cache_bytes))), int64_t{128} << 20, int64_t{1} << 30);
    while (bytes > (int64_t{1} << 20) && bytes > available_bytes() / 4) bytes /= 2;
    return bytes;
}

// Times reads of so many bytes out of memory, never out of a cache: each read is of the next window of a large range.
class ColdReader {
  public:
    ColdReader(ThreadPool& threads, uint64_t* words, int64_t bytes)
        : threads_(threads), words_(words), bytes_(bytes), sink_(size_t(threads.size())) {}

    double us(int64_t window) {
        const int reads = int(std::max<int64_t>(1, (int64_t{16} << 20) / window));
        return best_seconds(kReadRepeats,
                            [&] {
                                for (int i = 0; i < reads; ++i) read(window);
                            }) /
               reads * 1e6;
    }

  private:
    void read(int64_t window) {
        if (offset_ + window > bytes_) offset_ = 0;
        const uint64_t* from = words_ + offset_ / 8;
        const int64_t share = window / 8 / threads_.size();
        threads_.parallel_for(threads_.size(),
                              [&](int64_t i) { sink_[size_t(i)] += read_range(from + i * share, share); });
        offset_ += window;
    }

    ThreadPool& threads_;
    const uint64_t* words_;
    int64_t bytes_, offset_ = 0;
    std::vector<uint64_t> sink_;
};

std::vector<ReadPoint> read_curve(ThreadPool& threads, int64_t cache_bytes) {
    const int64_t largest = range_bytes(cache_bytes);
    void* memory = mmap(nullptr, size_t(largest), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return {};
    madvise(memory, size_t(largest), MADV_HUGEPAGE);
    auto* words = static_cast<uint64_t*>(memory);
    const int64_t share = largest / 8 / threads.size();
    threads.parallel_for(threads.size(), [&](int64_t i) { std::fill_n(words + i * share, share, 1); });
    ColdReader reader(threads, words, largest);
    std::vector<ReadPoint> curve;
    for (int64_t bytes = 256 << 10; bytes <= largest; bytes *= 8) curve.push_back({double(bytes), reader.us(bytes)});
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
    target.read_curve = read_curve(threads, target.l2_bytes);
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
