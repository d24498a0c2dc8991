// SPDX-License-Identifier: Apache-2.0
// tuner.hpp: which of a problem's kernels is the fastest: those that are predicted to be slow are left out, the others are checked,
// timed in turn and halved until a few are left, and another than the library's own choice wins only by more than the noise.
// What compiles, checks and times them is a Ring, so that all of this is tested without a kernel.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace carat::cli {

struct Contender {
    enum class State { waiting, ready, refused, wrong };
    std::string kernel;
    double predicted_us = 0;
    State state = State::waiting;
    std::string reason = {};           // why it is refused or wrong
    std::vector<double> samples = {};  // us

    bool timed() const { return state == State::ready && !samples.empty(); }
    double us() const;      // their median
    double spread() const;  // of their middle half, relative to the median
};

class Ring {
  public:
    virtual ~Ring() = default;
    // Sets the state of one contender: ready once its result is known to be right.
    virtual void admit(Contender& contender) = 0;
    // Microseconds of one execution.
    virtual double sample(const Contender& contender) = 0;
};

struct Effort {
    double seconds = 1.5;                               // for a problem
    double within = 1.5;                                // of the best prediction
    size_t least = 8, most = 32;                        // contenders
    std::function<bool()> stop = [] { return false; };  // asked between samples
};

// `all`, the best predicted first, without those that are predicted to be slow; `own` always stays.
std::vector<Contender> prune(std::vector<Contender> all, const std::string& own, const Effort& effort);

struct Verdict {
    std::vector<Contender> contenders;
    const Contender* best = nullptr;  // null: none is ready, or the work was stopped
    const Contender* own = nullptr;   // the library's own choice, null if it is not ready
};

Verdict find_best(std::vector<Contender> contenders, const std::string& own, Ring& ring, const Effort& effort);

}  // namespace carat::cli
