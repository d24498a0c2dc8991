// SPDX-License-Identifier: Apache-2.0
#include "dispatch/prepare.hpp"

#include "core/log.hpp"
#include "jit/jit.hpp"

namespace carat {
namespace {

// Another candidate may fare better; but where there is no compiler, none can be compiled.
bool may_go_on(const Status& status) {
    return status.code() == CARAT_NOT_PREPARED || (status.code() == CARAT_COMPILE_FAILED && jit::nvrtc_info().ok());
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

}  // namespace

Result<Prepared> prepare_best(std::span<const Candidate> candidates, const Problem& problem, Runtime& runtime) {
    Status first;
    std::vector<std::string> refused;
    for (const Candidate& candidate : candidates) {
        auto executable = candidate.row->prepare(problem, candidate.config, runtime);
        if (executable.ok()) {
            warn_of_a_worse(candidate, refused, first);
            return Prepared{candidate, std::move(executable).value(), std::move(refused)};
        }
        if (refused.empty()) first = executable.status();
        if (!may_go_on(executable.status())) return executable.status();
        refused.push_back(reason(candidate, executable.status()));
    }
    return first;
}

}  // namespace carat
