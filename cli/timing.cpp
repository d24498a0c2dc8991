// SPDX-License-Identifier: Apache-2.0
#include "timing.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "progress.hpp"

namespace carat::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Five times the 50 MB L2 cache of an H200.
constexpr size_t kColdBytesGpu = size_t(256) << 20;
// Beyond this many sets a pass is flushed instead: graphs of more launches take long to build.
constexpr size_t kMostSets = 1024;
// Shorter CPU samples would measure the clock.
constexpr double kLeastSampleSeconds = 50e-6;
// A graph of a few short kernels would time the launch of the graph, some microseconds.
constexpr double kLeastPassUs = 300;
constexpr size_t kMostPasses = 64;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Standard error of the median relative to it, from the quartiles, so that outliers do not keep the run going.
double noise_of(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    const double spread = (quantile(samples, 0.75) - quantile(samples, 0.25)) / 1.349;
    const double median = quantile(samples, 0.5);
    return median > 0 ? 1.2533 * spread / std::sqrt(double(samples.size())) / median : 0;
}

size_t last_level_cache() {
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? static_cast<size_t>(bytes) : size_t(32) << 20;
}

bool is_cuda(const Context& context) {
    return context.backend() == CARAT_BACKEND_CUDA;
}

}  // namespace

double quantile(const std::vector<double>& sorted, double q) {
    const double place = q * double(sorted.size() - 1);
    const size_t low = static_cast<size_t>(place), high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (place - double(low)) * (sorted[high] - sorted[low]);
}

Timing summarize(std::vector<double> samples) {
    if (samples.empty()) return {};
    std::sort(samples.begin(), samples.end());
    return {quantile(samples, 0.5), quantile(samples, 0.05), quantile(samples, 0.95), samples.size()};
}

std::vector<Timing> measure(const std::vector<Sampler>& contestants, const Budget& budget) {
    struct Racer {
        const Sampler& sampler;
        std::vector<double> samples = {};
        bool out = false;
        void run() {
            if (out) return;
            const double us = sampler();
            samples.push_back(us);
            if ((out = std::isnan(us))) samples.clear();
        }
        bool quiet(double noise) const { return out || noise_of(samples) < noise; }
    };
    std::vector<Racer> racers;
    for (const Sampler& sampler : contestants) racers.push_back({sampler});
    for (Racer& racer : racers) {
        const auto begin = Clock::now();
        do racer.run();
        while (seconds_since(begin) < budget.warm_up && !racer.out);
        racer.samples.clear();
    }
    const auto begin = Clock::now();
    for (size_t count = 1;; ++count) {
        for (Racer& racer : racers) racer.run();
        const double spent = seconds_since(begin);
        if (stop_asked() != kOk && count >= std::min<size_t>(3, budget.least)) break;
        if (spent > 4 * budget.seconds) break;
        if (count < budget.least) continue;
        const bool quiet = std::all_of(racers.begin(), racers.end(), [&](auto& r) { return r.quiet(budget.noise); });
        if (quiet || spent > budget.seconds) break;
    }
    std::vector<Timing> timings;
    for (Racer& racer : racers) timings.push_back(summarize(std::move(racer.samples)));
    return timings;
}

size_t cold_sets(const Context& context, size_t bytes_per_set) {
    const size_t cold = is_cuda(context) ? kColdBytesGpu : 2 * last_level_cache();
    if (bytes_per_set == 0 || bytes_per_set > cold) return 1;
    return std::min(cold / bytes_per_set + 1, kMostSets);
}

std::unique_ptr<OperandSets> allocate_cold(const Context& context, const carat_problem& problem, uint64_t seed,
                                           double alpha, double beta) {
    size_t sets = cold_sets(context, lay_out(problem).total);
    while (true) {
        try {
            return std::make_unique<OperandSets>(context, problem, sets, seed, alpha, beta);
        } catch (const Error& error) {
            if (error.status() != CARAT_ALLOC_FAILED || sets == 1) throw;
            sets = (sets + 1) / 2;
        }
    }
}

Repeater::Repeater(const Context& context, const Stream& stream, const OperandSets& sets, const Enqueue& enqueue)
    : Repeater(context, stream, {sets.size(), sets.bytes()},
               [&sets, enqueue](size_t set, void* s) { enqueue(sets[set], s); }) {}

Repeater::Repeater(const Context& context, const Stream& stream, const Rotation& rotation, const Launch& launch)
    : stream_(stream), rotation_(rotation), launch_(launch) {
    if (!is_cuda(context)) return;
    // Sets too small to push each other out: one pass a graph, since a second would find the first one's data in L2.
    const bool small = rotation.sets * rotation.bytes_per_set < kColdBytesGpu;
    launch_(0, stream_.get());  // whatever is done only once is done outside of the graph
    stream_.synchronize();
    capture(context, 1);
    const double pass_us = graph_->launch(stream_);
    if (pass_us < kLeastPassUs && !small)
        capture(context, std::min(size_t(kLeastPassUs / std::max(pass_us, 1.0)) + 1, kMostPasses));
    if (small) flush_ = std::make_unique<Buffer>(context, kColdBytesGpu);
}

// One graph of so many passes over the operand sets.
void Repeater::capture(const Context& context, size_t passes) {
    launches_ = passes * rotation_.sets;
    graph_ = std::make_unique<Graph>(Graph::capture(context, stream_, [&] {
        for (size_t i = 0; i < launches_; ++i) launch_(i % rotation_.sets, stream_.get());
    }));
}

double Repeater::sample() {
    if (!graph_) return sample_cpu();
    if (flush_) flush_->fill(0);
    return graph_->launch(stream_) / double(launches_);
}

double Repeater::sample_cpu() {
    const auto begin = Clock::now();
    for (size_t i = 0; i < launches_; ++i) {
        launch_(next_, nullptr);
        next_ = (next_ + 1) % rotation_.sets;
    }
    const double seconds = seconds_since(begin);
    const double us = seconds * 1e6 / double(launches_);
    if (seconds < kLeastSampleSeconds) launches_ = std::min<size_t>(launches_ * 2, 65536);
    return us;
}

}  // namespace carat::cli
