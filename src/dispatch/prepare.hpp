// SPDX-License-Identifier: Apache-2.0
// prepare.hpp: from ranked candidates to one that is ready to run: the best of which the compiler makes what it was
// predicted to be, and where nothing may be compiled, the best that is in a pack or a cache.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dispatch/select.hpp"

namespace carat {

struct Prepared {
    Candidate chosen;
    std::unique_ptr<Executable> executable;
    std::vector<std::string> refused;  // why each better predicted candidate is not it
};

// Prepares the first candidate, or where the compiler refuses it (COMPILE_FAILED) or may not compile it (NOT_PREPARED), the
// next, and at last what else a pack holds for their rows, with a warning in the log. Any other failure is returned, and that of the first candidate where none can be had.
// `candidates`: at least one, best first.
Result<Prepared> prepare_best(std::span<const Candidate> candidates, const Problem& problem, Runtime& runtime);

}  // namespace carat
