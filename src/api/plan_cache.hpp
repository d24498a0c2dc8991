// SPDX-License-Identifier: Apache-2.0
// plan_cache.hpp: the plans that a context keeps, so that a problem planned before costs a look-up. Readers share the lock.
// There are kMost at most, some 2 KB each: a server whose problems never repeat must not grow without end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "core/problem.hpp"

namespace carat::api {

struct Planned;

// Every field that tells plans apart, as bytes.
std::string plan_key(const Problem& problem, const carat_plan_options& options);

class PlanCache {
  public:
    static constexpr size_t kMost = 4096;
    explicit PlanCache(size_t most = kMost) : most_(most) {}

    // Null where there is none.
    std::shared_ptr<const Planned> find(const std::string& key) const;
    // The plan that is kept now: `planned`, or that of another thread which was faster. Of too many the half that was used
    // least recently goes.
    std::shared_ptr<const Planned> keep(const std::string& key, std::shared_ptr<const Planned> planned);
    size_t size() const;

  private:
    struct Entry {
        std::shared_ptr<const Planned> planned;
        mutable std::atomic<uint64_t> used;  // the time of the last use
    };
    void drop_half();

    size_t most_;
    mutable std::shared_mutex mutex_;
    std::unordered_map<std::string, Entry> plans_;
    std::atomic<uint64_t> now_{0};  // counts plans made, so that uses between two of them write nothing
};

}  // namespace carat::api
