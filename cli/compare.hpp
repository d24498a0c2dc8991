// SPDX-License-Identifier: Apache-2.0
// compare.hpp: two bench results, problem by problem: what became slower by more than a limit and by more than the
// spread of the measurements.
#pragma once

#include <string>
#include <vector>

#include "common.hpp"
#include "table.hpp"

namespace carat::cli {

enum class Verdict { same, noise, faster, slower, added, gone };
const char* verdict_name(Verdict verdict);

struct Change {
    std::string problem;
    double old_us = 0, new_us = 0;
    double percent = 0;  // > 0: slower
    Verdict verdict = Verdict::same;
};

// Both are "carat.bench/1". A problem is slower when its median rose by more than `limit` (0.03: 3 %) and even its
// fastest 5 % of samples lie above the old median; faster likewise; beyond the limit but within the spread is noise.
std::vector<Change> compare_results(const Json& before, const Json& after, double limit);
bool any_slower(const std::vector<Change>& changes);
Json changes_json(const std::vector<Change>& changes);
Table changes_table(const std::vector<Change>& changes);

// A result file; `flag` names it in messages.
Json load_results(const std::string& path, const std::string& flag);
// "3%", "3" or "0.5%" as a fraction.
double parse_percent(const std::string& text, const std::string& flag);

}  // namespace carat::cli
