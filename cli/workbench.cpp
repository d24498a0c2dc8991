// SPDX-License-Identifier: Apache-2.0
#include "workbench.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "report.hpp"

namespace carat::cli {

using State = Contender::State;

std::vector<Contender> all_contenders(const Context& context, const carat_problem& problem, std::string& own) {
    const Json report = parse_json(context.tuning_candidates(problem), "the candidates");
    own = text_at(report, "chosen");
    std::vector<Contender> all;
    for (const Json& candidate : member(report, "candidates"))
        all.push_back({text_at(candidate, "kernel"), number_at(candidate, "predicted_us", NAN)});
    return all;
}

void Workbench::compile(std::vector<Contender>& contenders) {
    std::vector<std::unique_ptr<Plan>> plans(contenders.size());
    std::atomic<size_t> next{0};
    const auto work = [&] {
        for (size_t i = next++; i < plans.size(); i = next++) plans[i] = plan(contenders[i]);
    };
    const size_t workers = std::min<size_t>(plans.size(), std::max(1u, std::thread::hardware_concurrency()));
    std::vector<std::thread> threads;
    for (size_t i = 1; i < workers; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    size_t workspace = 1;
    for (size_t i = 0; i < plans.size(); ++i) {
        if (!plans[i]) continue;
        workspace = std::max(workspace, plans[i]->workspace_bytes());
        plans_[contenders[i].kernel] = std::move(plans[i]);
    }
    if (plans_.empty()) return;
    sets_ = allocate_cold(context_, job_.problem, seed_, job_.alpha, job_.beta);
    workspace_ = Buffer(context_, workspace);
    sets_->set_workspace(workspace_);
}

void Workbench::admit(Contender& contender) {
    if (contender.state == State::refused) return;
    const Plan& plan = *plans_.at(contender.kernel);
    try {
        blank_result(context_, *sets_);
        const CheckReport check = check_once(context_, stream_, plan, job_.problem, (*sets_)[0]);
        contender.state = check.ok() ? State::ready : State::wrong;
        if (!check.ok()) contender.reason = describe_failure(check);
        if (check.ok())
            timers_[contender.kernel] = std::make_unique<Repeater>(
                context_, stream_, *sets_, [&plan](const Operands& o, void* s) { plan.execute(o, s); });
    } catch (const Error& error) {
        contender.state = State::refused;
        contender.reason = one_line(error.what());
    }
}

std::unique_ptr<Plan> Workbench::plan(Contender& contender) const {
    try {
        return std::make_unique<Plan>(context_.plan(job_.problem, contender.kernel));
    } catch (const std::exception& error) {
        contender.state = State::refused;
        contender.reason = one_line(error.what());
        return nullptr;
    }
}

}  // namespace carat::cli
