// SPDX-License-Identifier: Apache-2.0
#include "peers/audition.hpp"

#include <algorithm>
#include <cmath>

#include "progress.hpp"
#include "report.hpp"

namespace carat::cli {

class Audition::Winner : public Contestant {
  public:
    Winner(const Arena& arena, const carat_problem& problem, const OperandSets& sets, const Repeater::Enqueue& enqueue)
        : arena_(arena),
          problem_(problem),
          sets_(sets),
          enqueue_(enqueue),
          repeater_(arena.context, arena.stream, sets, enqueue) {}

    double sample() override { return repeater_.sample(); }
    Repeater::Enqueue enqueue() const override { return enqueue_; }

    bool verify(std::string* why_not) override {
        blank_result(arena_.context, sets_);
        enqueue_(sets_[0], arena_.stream.get());
        arena_.stream.synchronize();
        CheckReport check;
        check.result = arena_.context.verify(problem_, sets_[0]);
        check.ran = true;
        if (check.ok()) return true;
        return *why_not = fmt::format("its result differs from the reference: {}", describe_failure(check)), false;
    }

  private:
    const Arena& arena_;
    const carat_problem& problem_;
    const OperandSets& sets_;
    Repeater::Enqueue enqueue_;
    Repeater repeater_;
};

Audition::Audition(const Arena& arena, const carat_problem& problem, const OperandSets& sets)
    : arena_(arena), problem_(problem), sets_(sets) {}
Audition::~Audition() = default;

double Audition::hear(const std::string& name, const Repeater::Enqueue& enqueue) {
    ++heard_;
    try {
        auto candidate = std::make_unique<Winner>(arena_, problem_, sets_, enqueue);
        double us = candidate->sample();  // warm-up
        if (us < 3 * best_us_)
            for (int i = 0; i < 3; ++i) us = std::min(us, candidate->sample());
        if (us >= best_us_) return us;
        best_us_ = us;
        best_ = std::move(candidate);
        best_->choice = name;
        return us;
    } catch (const Failure&) {
    } catch (const Error&) {
    }
    return INFINITY;
}

bool Audition::over() const {
    return best_ && stop_asked() != kOk;
}

std::unique_ptr<Contestant> Audition::winner() {
    if (best_) best_->choice += fmt::format(" (best of {})", heard_);
    return std::move(best_);
}

}  // namespace carat::cli
