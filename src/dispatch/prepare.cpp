// SPDX-License-Identifier: Apache-2.0
#include "dispatch/prepare.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "cuda/device.hpp"
#include "dispatch/runtime.hpp"
#include "jit/jit.hpp"

namespace carat {
namespace {

// Another candidate may fare better; but where there is no compiler, none can be compiled.
bool may_go_on(const Status& status, const Runtime& runtime) {
    return (status.code() == CARAT_NOT_PREPARED && runtime.may_compile) ||
           (status.code() == CARAT_COMPILE_FAILED && jit::nvrtc_info().ok());
}

// Under the policy 'never' this may be said of many: the remedy, the same for all, is in the log.
std::string reason(const Candidate& candidate, const Status& status) {
    if (status.code() != CARAT_NOT_PREPARED) return status.sentence();
    return fmt::format("kernel {}, predicted to take {:.3g} us, is not prepared", candidate.config.name(),
                       candidate.prediction.us);
}

void warn_of_a_worse(const Candidate& chosen, const std::vector<std::string>& refused, const Status& first) {
    if (refused.empty()) return;
    log::warn("{}{}: the next best predicted kernel is taken, {}", first.sentence(),
              refused.size() > 1 ? fmt::format(" (and {} more)", refused.size() - 1) : "", chosen.config.name());
}

// What the packs hold and the rows of `candidates` can run the problem with, though they predict it to be slower than any of
// these: best first. None needs a workspace, for the caller may have none.
std::vector<Candidate> packed_candidates(std::span<const Candidate> candidates, const Problem& problem,
                                         const Runtime& runtime) {
    std::vector<Candidate> packed;
    const auto is_asked = [&](const Row* row) {
        return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& c) { return c.row == row; });
    };
    for (const std::string& name : runtime.jit->packed_names(runtime.target.arch())) {
        const auto config = Config::parse(name);
        const Row* row = config.ok() ? find_row(config->family) : nullptr;
        if (row == nullptr || !is_asked(row) || row->has == nullptr || !row->has(problem, *config, runtime.target))
            continue;
        if (row->workspace_bytes != nullptr && row->workspace_bytes(problem, *config) > 0) continue;
        if (problem.numerics == CARAT_BATCH_INVARIANT && !row->batch_invariant(problem, *config)) continue;
        packed.push_back({row, *config, row->predict(problem, *config, runtime.target)});
    }
    std::stable_sort(packed.begin(), packed.end(),
                     [](const Candidate& x, const Candidate& y) { return x.prediction.us < y.prediction.us; });
    return packed;
}

// Goes through candidates, best first, and keeps what it learns of those that cannot be had.
struct Preparation {
    const Problem& problem;
    Runtime& runtime;
    Status first = {};  // of the best candidate
    std::vector<std::string> refused = {};

    // The first that can be had; the first's failure if none can, or a failure that is no reason to go on.
    Result<Prepared> take(std::span<const Candidate> candidates) {
        for (const Candidate& candidate : candidates) {
            auto executable = candidate.row->prepare(problem, candidate.config, runtime);
            if (executable.ok()) {
                warn_of_a_worse(candidate, refused, first);
                return Prepared{candidate, std::move(executable).value(), std::move(refused)};
            }
            if (refused.empty()) first = executable.status();
            if (!may_go_on(executable.status(), runtime)) return executable.status();
            refused.push_back(reason(candidate, executable.status()));
        }
        return first;
    }
};

}  // namespace

Result<Prepared> prepare_best(std::span<const Candidate> candidates, const Problem& problem, Runtime& runtime) {
    const cuda::RelaxedCapture relaxed(runtime.device.get());
    Preparation preparation{problem, runtime};
    auto prepared = preparation.take(candidates);
    // A single candidate is one that was asked for by its name; and a plan made during a capture is kept for later ones, that
    // shall have the best kernel.
    if (prepared.ok() || prepared.status().code() != CARAT_NOT_PREPARED || candidates.size() == 1 ||
        !runtime.may_compile)
        return prepared;
    return preparation.take(packed_candidates(candidates, problem, runtime));
}

}  // namespace carat
