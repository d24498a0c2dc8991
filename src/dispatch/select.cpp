// SPDX-License-Identifier: Apache-2.0
#include "dispatch/select.hpp"

#include <algorithm>
#include <iterator>

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

// Why a row is not asked at all; "" if it is.
std::string refusal_of(const Row& row, const Problem& problem, const Target& target, std::string_view kernel) {
    if (!wanted_row(row, kernel)) return fmt::format("the kernel '{}' was asked for", kernel);
    if (row.by_name && kernel.empty()) return "it is there to be learned from, and runs only by name";
    Requirements requirements;
    row.require(problem, target, requirements);
    requirements.require(problem.numerics != CARAT_BATCH_INVARIANT || row.batch_invariant != nullptr,
                         "it does not promise that the bits of a row of D are the same whatever M is, as numerics "
                         "batch_invariant asks");
    return requirements.refusal();
}

// Why a candidate may not be taken; "" if it may.
std::string rule_out(const Candidate& candidate, const Problem& problem, size_t workspace_limit) {
    if (const size_t bytes = workspace_bytes(candidate, problem); bytes > workspace_limit)
        return fmt::format("it needs {} bytes of workspace, but workspace_limit is {}", bytes, workspace_limit);
    if (problem.numerics == CARAT_BATCH_INVARIANT && !candidate.row->batch_invariant(problem, candidate.config))
        return "the bits of a row of D would depend on M, which numerics batch_invariant forbids";
    return "";
}

// What a row offers of what is wanted: its candidates, or the configuration that was asked for by its full name.
std::vector<Config> offers(const Row& row, const Problem& problem, const Target& target, std::string_view kernel) {
    std::vector<Config> wanted = row.candidates(problem, target);
    std::erase_if(wanted, [&](const Config& config) { return !wanted_config(config, row, kernel); });
    if (!wanted.empty() || row.has == nullptr) return wanted;
    auto named = Config::parse(kernel);
    if (named.ok() && row.has(problem, *named, target)) wanted.push_back(std::move(named).value());
    return wanted;
}

// Why a row has no configuration of that full name.
std::string why_not(const Row& row, const Problem& problem, const Config& config) {
    const char* const words = row.why_not != nullptr ? row.why_not(problem, config) : nullptr;
    if (words != nullptr) return fmt::format("it has no configuration {}, which {}", config.name(), words);
    return fmt::format(
        "it has no configuration {} for this problem: see what it has with `carat explain --kernel {} --candidates`",
        config.name(), row.name);
}

Considered consider_row(const Row& row, const Problem& problem, const Target& target, std::string_view kernel,
                        size_t workspace_limit) {
    Considered result{&row, refusal_of(row, problem, target, kernel), {}, {}};
    if (!result.refusal.empty()) return result;
    for (Config& config : offers(row, problem, target, kernel)) {
        const Prediction prediction = row.predict(problem, config, target);
        Candidate candidate{&row, std::move(config), prediction};
        std::string reason = rule_out(candidate, problem, workspace_limit);
        if (reason.empty())
            result.candidates.push_back(std::move(candidate));
        else
            result.ruled_out.push_back({std::move(candidate), std::move(reason)});
    }
    if (!result.candidates.empty()) return result;
    if (!result.ruled_out.empty())
        result.refusal = fmt::format("none of its {} configurations may be taken; of {}: {}", result.ruled_out.size(),
                                     result.ruled_out[0].candidate.config.name(), result.ruled_out[0].reason);
    else if (const auto named = Config::parse(kernel); named.ok())
        result.refusal = why_not(row, problem, *named);
    else
        result.refusal = "it has no tile for this shape";
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
    for (const Considered& entry : selection.considered)
        if (!entry.ruled_out.empty())
            return fail(CARAT_INVALID_VALUE,
                        "no kernel for {} may be taken: raise workspace_limit, or name no kernel{}", describe(problem),
                        reasons);
    return fail(CARAT_NOT_SUPPORTED, "no kernel for {} takes {}{}", target.full_name, describe(problem), reasons);
}

// The configuration of a tuned choice, if a row has it for this problem.
std::optional<Candidate> find_tuned(const TunedChoice& choice, const Problem& problem, const Target& target,
                                    const std::vector<Considered>& considered) {
    for (const Considered& entry : considered) {
        if (choice.config.family != entry.row->name || !entry.refusal.empty()) continue;
        const auto is_it = [&](const Candidate& candidate) { return candidate.config == choice.config; };
        const bool offered = std::any_of(entry.candidates.begin(), entry.candidates.end(), is_it) ||
                             std::any_of(entry.ruled_out.begin(), entry.ruled_out.end(),
                                         [&](const RuledOut& one) { return is_it(one.candidate); });
        if (offered || (entry.row->has && entry.row->has(problem, choice.config, target)))
            return Candidate{entry.row, choice.config, entry.row->predict(problem, choice.config, target), &choice};
    }
    return std::nullopt;
}

}  // namespace

size_t workspace_bytes(const Candidate& candidate, const Problem& problem) {
    const auto bytes = candidate.row->workspace_bytes;
    return bytes != nullptr ? bytes(problem, candidate.config) : 0;
}

Selection consider(const Problem& problem, const Target& target, std::string_view kernel, size_t workspace_limit,
                   const TuningDb* tuning) {
    Selection selection;
    // Two rows need not give the same bits, so that batch-invariant results come from the first that takes the problem.
    const Row* only = nullptr;
    for (const Row& row : registry()) {
        if (only != nullptr) {
            selection.considered.push_back({&row, fmt::format("all batch-invariant results come from {}", only->name)});
            continue;
        }
        selection.considered.push_back(consider_row(row, problem, target, kernel, workspace_limit));
        if (problem.numerics == CARAT_BATCH_INVARIANT && !selection.considered.back().candidates.empty()) only = &row;
    }
    for (const Considered& entry : selection.considered)
        for (const Candidate& candidate : entry.candidates)
            if (!selection.winner || candidate.prediction.us < selection.winner->prediction.us)
                selection.winner = &candidate;
    const TunedChoice* choice = tuning && kernel.empty() ? tuning->find(problem) : nullptr;
    if (!choice) return selection;
    selection.tuned = find_tuned(*choice, problem, target, selection.considered);
    const bool of_problem = choice->m == problem.m && !choice->of_other_type;  // another's kernel need not be there
    if (!selection.tuned && only == nullptr && of_problem) warn_stale(*choice, problem);
    if (selection.tuned && !rule_out(*selection.tuned, problem, workspace_limit).empty()) selection.tuned.reset();
    return selection;
}

Result<std::vector<Candidate>> rank(const Problem& problem, const Target& target, std::string_view kernel,
                                    size_t workspace_limit, const TuningDb* tuning) {
    if (!kernel.empty() && !find_row(kernel)) {
        const auto config = Config::parse(kernel);
        if (!config.ok() || !find_row(config->family))
            return fail(
                CARAT_INVALID_VALUE,
                "there is no kernel '{}': use a row ({}) or a full configuration name as `carat explain` prints it",
                kernel, row_names());
    }
    Selection selection = consider(problem, target, kernel, workspace_limit, tuning);
    if (!selection.winner) return refuse(problem, target, selection);
    std::vector<Candidate> all;
    for (Considered& entry : selection.considered)
        std::move(entry.candidates.begin(), entry.candidates.end(), std::back_inserter(all));
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
    CARAT_ASSIGN(std::vector<Candidate> all, rank(problem, target, kernel, SIZE_MAX, tuning));
    return std::move(all.front());
}

}  // namespace carat
