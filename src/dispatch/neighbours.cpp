// SPDX-License-Identifier: Apache-2.0
#include "dispatch/neighbours.hpp"

#include <algorithm>
#include <unordered_set>

namespace carat {
namespace {

// The model is within some percent of the times, so that the best tile is among its first few.
constexpr size_t kSeeds = 6;
// It tells a configuration and its neighbours apart by little or nothing: those of the best shall not take the places of other tiles,
// which are as near.
constexpr double kBehind = 1.05;

// Whether D is one line of tiles, all orders of which are the same.
bool one_line(const Problem& p, const Config& c) {
    const int64_t down = c.swapped ? p.d_cols() : p.m, across = c.swapped ? p.m : p.d_cols();
    return down <= c.bm * std::max(c.cluster_m, 1) || across <= c.bn * std::max(c.cluster_n, 1);
}

std::vector<Config> variations(const Config& config, const Problem& problem) {
    std::vector<Config> all;
    const auto vary = [&](int Config::*field, int value) {
        all.push_back(config);
        all.back().*field = value;
    };
    // Half of them: of the shared memory, so that a block of the next kernel has room beside.
    if (config.stages > 0)
        for (const int stages : {config.stages + 1, config.stages - 1, config.stages / 2, config.stages * 2})
            if (stages > 0) vary(&Config::stages, stages);
    if (config.strip != 0 && !one_line(problem, config)) {
        vary(&Config::strip, -config.strip);
        if (std::abs(config.strip) > 1) vary(&Config::strip, config.strip / 2);
        if (std::abs(config.strip) < 1 << 20) vary(&Config::strip, config.strip * 2);
    }
    return all;
}

}  // namespace

std::vector<Candidate> neighbours(const Candidate& candidate, const Problem& problem, const Target& target) {
    const Row& row = *candidate.row;
    std::vector<Candidate> found;
    if (!row.has) return found;
    for (const Config& config : variations(candidate.config, problem))
        if (row.has(problem, config, target)) found.push_back({&row, config, row.predict(problem, config, target)});
    return found;
}

Result<std::vector<Candidate>> tuning_candidates(const Problem& problem, const Target& target) {
    CARAT_ASSIGN(std::vector<Candidate> all, rank(problem, target));
    struct Ranked {
        Candidate candidate;
        double us;
    };
    std::vector<Ranked> ranked;
    std::unordered_set<Config> known;
    const auto add = [&](const Candidate& candidate, double behind) {
        if (known.insert(candidate.config).second) ranked.push_back({candidate, behind * candidate.prediction.us});
    };
    for (const Candidate& candidate : all) add(candidate, 1);
    for (size_t i = 0, seeds = std::min(all.size(), kSeeds); i < seeds; ++i)
        for (const Candidate& neighbour : neighbours(all[i], problem, target)) add(neighbour, kBehind);
    std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& x, const Ranked& y) { return x.us < y.us; });
    all.clear();
    for (Ranked& one : ranked) all.push_back(std::move(one.candidate));
    return all;
}

}  // namespace carat
