// SPDX-License-Identifier: Apache-2.0
#include "dispatch/prepare.hpp"

#include "core/log.hpp"
#include "cuda/device.hpp"
#include "dispatch/runtime.hpp"
#include "jit/jit.hpp"

namespace carat {
namespace {

// Another candidate may fare better; but where there is no compiler, none does.
bool may_go_on(const Status& status) {
    return status.code() == CARAT_COMPILE_FAILED && jit::nvrtc_info().ok();
}

}  // namespace

Result<Prepared> prepare_best(std::span<const Candidate> candidates, const Problem& problem, Runtime& runtime) {
    const cuda::RelaxedCapture relaxed(runtime.device.get());
    Status first;
    std::vector<std::string> refused;
    for (const Candidate& candidate : candidates) {
        auto executable = candidate.row->prepare(problem, candidate.config, runtime);
        if (executable.ok()) return Prepared{candidate, std::move(executable).value(), std::move(refused)};
        if (refused.empty()) first = executable.status();
        if (!may_go_on(executable.status())) return executable.status();
        refused.push_back(executable.status().sentence());
        if (refused.size() < candidates.size())
            log::warn("{}: the next best predicted kernel is taken, {}", refused.back(),
                      candidates[refused.size()].config.name());
    }
    return first;
}

}  // namespace carat
