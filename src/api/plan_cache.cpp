// SPDX-License-Identifier: Apache-2.0
#include "api/plan_cache.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

namespace carat::api {

std::string plan_key(const Problem& p, const carat_plan_options& options) {
    std::string key;
    key.reserve(512);
    const auto add = [&key](const auto&... values) {
        (key.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
    };
    add(p.mode, p.group_form, p.m, p.n, p.k, p.batch, p.compute, p.sparsity, p.numerics);
    for (const carat_matrix* x : {&p.a, &p.b, &p.c, &p.d}) add(x->dtype, x->order, x->ld, x->batch_stride);
    for (const carat_scale* s : {&p.scale_a, &p.scale_b})
        add(s->recipe, s->group, s->zero_points, s->order, s->ld, s->batch_stride);
    const carat_epilogue& e = p.epilogue;
    add(e.scalars_on_device, e.bias, e.bias_dtype, e.bias_batch_stride, e.activation, e.gate, e.clamp, e.clamp_lo,
        e.clamp_hi, e.out_scale, e.amax);
    add(options.workspace_limit);
    if (options.kernel != nullptr) key += options.kernel;
    return key;
}

std::shared_ptr<const Planned> PlanCache::find(const std::string& key) const {
    const std::shared_lock lock(mutex_);
    const auto found = plans_.find(key);
    if (found == plans_.end()) return nullptr;
    const uint64_t now = now_.load(std::memory_order_relaxed);
    std::atomic<uint64_t>& used = found->second.used;
    if (used.load(std::memory_order_relaxed) != now) used.store(now, std::memory_order_relaxed);
    return found->second.planned;
}

std::shared_ptr<const Planned> PlanCache::keep(const std::string& key, std::shared_ptr<const Planned> planned) {
    const std::unique_lock lock(mutex_);
    if (plans_.size() >= most_ && !plans_.contains(key)) drop_half();
    return plans_.try_emplace(key, std::move(planned), ++now_).first->second.planned;
}

size_t PlanCache::size() const {
    const std::shared_lock lock(mutex_);
    return plans_.size();
}

void PlanCache::drop_half() {
    std::vector<uint64_t> times;
    for (const auto& [key, entry] : plans_) times.push_back(entry.used);
    const auto middle = times.begin() + int64_t(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    std::erase_if(plans_, [&](const auto& kept) { return kept.second.used < *middle; });
    // Where all are as old, none is older than the middle.
    if (plans_.size() >= most_) plans_.clear();
}

}  // namespace carat::api
