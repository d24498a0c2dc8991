// SPDX-License-Identifier: Apache-2.0
// workbench.hpp: the kernels of one problem, compiled, checked and timed side by side: the Ring that `carat tune` and `carat calibrate`
// measure in.
#pragma once

#include <map>
#include <memory>

#include "jobs.hpp"
#include "timing.hpp"
#include "tuner.hpp"

namespace carat::cli {

// What a tuner may measure, the best predicted first, and in `own` what the model chooses.
std::vector<Contender> all_contenders(const Context& context, const carat_problem& problem, std::string& own);

class Workbench : public Ring {
  public:
    Workbench(const Context& context, const Stream& stream, const Job& job, uint64_t seed)
        : context_(context), stream_(stream), job_(job), seed_(seed) {}

    // On all cores; what the compiler refuses is marked.
    void compile(std::vector<Contender>& contenders);
    void admit(Contender& contender) override;
    double sample(const Contender& contender) override { return timers_.at(contender.kernel)->sample(); }

  private:
    std::unique_ptr<Plan> plan(Contender& contender) const;

    const Context& context_;
    const Stream& stream_;
    const Job& job_;
    const uint64_t seed_;
    std::map<std::string, std::unique_ptr<Plan>> plans_;
    std::unique_ptr<OperandSets> sets_;
    Buffer workspace_;
    std::map<std::string, std::unique_ptr<Repeater>> timers_;
};

}  // namespace carat::cli
