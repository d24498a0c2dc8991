// SPDX-License-Identifier: Apache-2.0
// audition.hpp: the candidates of a peer that runs in this process, each timed briefly on the operands of the problem; the fastest
// becomes the contestant.
#pragma once

#include <cmath>

#include "peers/peer.hpp"

namespace carat::cli {

class Audition {
  public:
    Audition(const Arena& arena, const carat_problem& problem, const OperandSets& sets);
    ~Audition();
    // Microseconds; infinite for a candidate that cannot run: it is none.
    double hear(const std::string& name, const Repeater::Enqueue& enqueue);
    // True when an early end of the run was asked for and there is a winner.
    bool over() const;
    // The fastest so far, "name (best of so many)"; null if none could run.
    std::unique_ptr<Contestant> winner();

  private:
    class Winner;
    const Arena& arena_;
    const carat_problem& problem_;
    const OperandSets& sets_;
    std::unique_ptr<Winner> best_;
    double best_us_ = INFINITY;
    size_t heard_ = 0;
};

}  // namespace carat::cli
