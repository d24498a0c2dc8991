// SPDX-License-Identifier: Apache-2.0
#include "chain.hpp"

#include <algorithm>

namespace carat::cli {
namespace {

// Is the D of one product, as it lies in memory, the A of another?
bool is_input(const carat_problem& d, const carat_problem& a) {
    return d.d.dtype == a.a.dtype && d.d.order == a.a.order && d.m == a.m && columns_of_d(d) == a.k &&
           lay_out(d).d.bytes == lay_out(a).a.bytes;
}

Plan plan_of(const Context& context, const Job& job, const carat_plan_options& options) {
    if (const std::string why = why_no_operands(job.problem); !why.empty()) fail(kTaskFailed, "{}", why);
    return context.plan(job.problem, options);
}

}  // namespace

Chain::Chain(const Context& context, const std::vector<Job>& jobs, const carat_plan_options& options, uint64_t seed)
    : context_(context) {
    size_t workspace_bytes = 1;
    for (const Job& job : jobs) {
        links_.push_back({job, plan_of(context, job, options), nullptr});
        layers_.bytes_per_set += lay_out(job.problem).total;
        workspace_bytes = std::max(workspace_bytes, links_.back().plan.workspace_bytes());
    }
    // Two at least, so that what a layer reads is another one's result.
    layers_.sets = std::max<size_t>(cold_sets(context, layers_.bytes_per_set), 2);
    workspace_ = Buffer(context, workspace_bytes);
    for (Link& link : links_) {
        link.sets =
            std::make_unique<OperandSets>(context, link.job.problem, layers_.sets, seed, link.job.alpha, link.job.beta);
        link.sets->set_workspace(workspace_);
    }
    feed(links_.front(), links_.back(), 1);
    for (size_t i = 1; i < links_.size(); ++i) feed(links_[i], links_[i - 1], 0);
}

void Chain::feed(Link& link, const Link& before, size_t layers_back) {
    link.fed = is_input(before.job.problem, link.job.problem);
    if (!link.fed) return;
    for (size_t layer = 0; layer < layers_.sets; ++layer)
        (*link.sets)[layer].a = (*before.sets)[(layer + layers_.sets - layers_back) % layers_.sets].d;
}

void Chain::execute(size_t layer, void* stream) const {
    for (const Link& link : links_) link.plan.execute((*link.sets)[layer], stream);
}

// Results are blank before, so that a product that reads its input before that is there is found out.
std::vector<CheckReport> Chain::check(const Stream& stream) const {
    for (const Link& link : links_) blank_result(context_, *link.sets);
    execute(0, stream.get());
    stream.synchronize();
    std::vector<CheckReport> reports;
    for (const Link& link : links_) reports.push_back({true, context_.verify(link.job.problem, (*link.sets)[0])});
    return reports;
}

}  // namespace carat::cli
