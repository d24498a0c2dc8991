// SPDX-License-Identifier: Apache-2.0
// timing.hpp: how a problem is timed. On a GPU: operands rotated through more than the L2 cache, launches inside CUDA
// graphs, one device time a graph. On the CPU: operands rotated through more than the last-level cache. In both:
// warm-up, then samples of all contestants in turn until the median is known to 0.5 % or the budget is spent.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "operands.hpp"

namespace carat::cli {

struct Timing {
    double us = 0, p05_us = 0, p95_us = 0;
    size_t samples = 0;
};

// One sample: microseconds of one execution, as the mean over however many executions the sampler makes. NaN: it can no
// more, and is not asked again.
using Sampler = std::function<double()>;

struct Budget {
    double seconds = 1.5;   // for all contestants of a problem
    size_t least = 10;      // samples of each, unless they take more than four budgets
    double noise = 0.005;   // relative standard error of the median to stop at
    double warm_up = 0.02;  // seconds
};

// In turn: ours, peer, ours, peer, ... so that a drift of the clocks meets all of them alike. Who gave up has no samples.
std::vector<Timing> measure(const std::vector<Sampler>& contestants, const Budget& budget);
// `sorted`: at least one; between two of them where q says so.
double quantile(const std::vector<double>& sorted, double q);
Timing summarize(std::vector<double> samples);

// Operand sets that one pass must go through so that nothing of a set is left in cache when its turn comes again.
size_t cold_sets(const Context& context, size_t bytes_per_set);
// The sets, fewer of them if memory is short.
std::unique_ptr<OperandSets> allocate_cold(const Context& context, const carat_problem& problem, uint64_t seed,
                                           double alpha, double beta);

// What a Repeater goes through in turn.
struct Rotation {
    size_t sets = 0, bytes_per_set = 0;
};

// Executes what `launch` enqueues for each operand set and times it: a CUDA graph of one pass over the sets, or direct
// calls on the CPU.
class Repeater {
  public:
    using Launch = std::function<void(size_t set, void* stream)>;
    Repeater(const Context& context, const Stream& stream, const Rotation& rotation, const Launch& launch);
    using Enqueue = std::function<void(const Operands& operands, void* stream)>;
    Repeater(const Context& context, const Stream& stream, const OperandSets& sets, const Enqueue& enqueue);
    double sample();
    size_t launches() const { return launches_; }

  private:
    double sample_cpu();
    void capture(const Context& context, size_t passes);
    const Stream& stream_;
    Rotation rotation_;
    Launch launch_;
    std::unique_ptr<Graph> graph_;
    std::unique_ptr<Buffer> flush_;  // where one pass is too small to push the former one out of the L2 cache
    size_t launches_ = 1, next_ = 0;
};

}  // namespace carat::cli
