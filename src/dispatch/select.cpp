// SPDX-License-Identifier: Apache-2.0
#include "dispatch/select.hpp"

#include <algorithm>

namespace carat {
namespace {

// Does a forced kernel name (a row or a full configuration) let this through?
bool wanted_row(const Row& row, std::string_view kernel) {
    if (kernel.empty() || kernel == row.name) return true;
    const auto config = Config::parse(kernel);
    return config.ok() && config->family == row.name;
}
bool wanted_config(const Config& config, const Row& row, std::string_view kernel) {
    return kernel.empty() || kernel == row.name || kernel == config.name();
}

Considered consider_row(const Row& row, const Problem& problem, const Target& target, std::string_view kernel) {
    Considered result{&row, "", {}};
    if (!wanted_row(row, kernel)) {
        result.refusal = fmt::format("the kernel '{}' was asked for", kernel);
        return result;
    }
    if (row.by_name && kernel.empty()) {
        result.refusal = "it is there to be learned from, and runs only by name";
        return result;
    }
    Requirements requirements;
    row.require(problem, target, requirements);
    result.refusal = requirements.refusal();
    if (!requirements.ok()) return result;
    for (const Config& config : row.candidates(problem, target))
        if (wanted_config(config, row, kernel))
            result.candidates.push_back({&row, config, row.predict(problem, config, target)});
    if (!result.candidates.empty()) return result;
    const auto named = Config::parse(kernel);
    if (!named.ok())
        result.refusal = "it has no tile for this shape";
    else if (row.has != nullptr && row.has(problem, *named, target))
        result.candidates.push_back({&row, *named, row.predict(problem, *named, target)});
    else
        result.refusal = fmt::format(
            "it has no configuration {} for this problem: see what it has with `carat explain --kernel {} "
            "--candidates`",
            kernel, row.name);
    return result;
}

std::string row_names() {
    std::string names;
    for (const Row& row : registry()) names += (names.empty() ? "" : ", ") + std::string(row.name);
    return names;
}

Status refuse(const Problem& problem, const Target& target, const Selection& selection) {
    std::string reasons;
    for (const Considered& entry : selection.considered)
        if (entry.row->backend == target.backend) reasons += fmt::format("; {}: {}", entry.row->name, entry.refusal);
    return fail(CARAT_NOT_SUPPORTED, "no kernel for {} takes {}{}", target.full_name, describe(problem), reasons);
}

// The configuration of a tuned choice, if a row has it for this problem.
std::optional<Candidate> find_tuned(const TunedChoice& choice, const Problem& problem, const Target& target,
                                    const std::vector<Considered>& considered) {
    for (const Considered& entry : considered) {
        if (choice.config.family != entry.row->name || !entry.refusal.empty()) continue;
        for (const Candidate& candidate : entry.candidates)
            if (candidate.config == choice.config)
                return Candidate{entry.row, choice.config, candidate.prediction, &choice};
        if (entry.row->has && entry.row->has(problem, choice.config, target))
            return Candidate{entry.row, choice.config, entry.row->predict(problem, choice.config, target), &choice};
    }
    return std::nullopt;
}

}  // namespace

Selection consider(const Problem& problem, const Target& target, std::string_view kernel, const TuningDb* tuning) {
    Selection selection;
    for (const Row& row : registry()) selection.considered.push_back(consider_row(row, problem, target, kernel));
    for (const Considered& entry : selection.considered)
        for (const Candidate& candidate : entry.candidates)
            if (!selection.winner || candidate.prediction.us < selection.winner->prediction.us)
                selection.winner = &candidate;
    const TunedChoice* choice = tuning && kernel.empty() ? tuning->find(problem) : nullptr;
    if (!choice) return selection;
    selection.tuned = find_tuned(*choice, problem, target, selection.considered);
    if (!selection.tuned) warn_stale(*choice, problem);
    return selection;
}

Result<std::vector<Candidate>> rank(const Problem& problem, const Target& target, std::string_view kernel,
                                    const TuningDb* tuning) {
    if (!kernel.empty() && !find_row(kernel)) {
        const auto config = Config::parse(kernel);
        if (!config.ok() || !find_row(config->family))
            return fail(
                CARAT_INVALID_VALUE,
                "there is no kernel '{}': use a row ({}) or a full configuration name as `carat explain` prints it",
                kernel, row_names());
    }
    const Selection selection = consider(problem, target, kernel, tuning);
    if (!selection.winner) return refuse(problem, target, selection);
    std::vector<Candidate> all;
    for (const Considered& entry : selection.considered)
        all.insert(all.end(), entry.candidates.begin(), entry.candidates.end());
    std::stable_sort(all.begin(), all.end(),
                     [](const Candidate& x, const Candidate& y) { return x.prediction.us < y.prediction.us; });
    if (selection.tuned) {
        std::erase_if(all, [&](const Candidate& one) { return one.config == selection.tuned->config; });
        all.insert(all.begin(), *selection.tuned);
    }
    return all;
}

Result<Candidate> select(const Problem& problem, const Target& target, std::string_view kernel,
                         const TuningDb* tuning) {
    CARAT_ASSIGN(std::vector<Candidate> all, rank(problem, target, kernel, tuning));
    return std::move(all.front());
}

}  // namespace carat
