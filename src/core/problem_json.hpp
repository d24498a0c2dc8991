// SPDX-License-Identifier: Apache-2.0
// problem_json.hpp: a problem as JSON and back, "carat.problem": what the tuning database and traces hold. Fields at their
// defaults are left out, so that equal problems give equal text and a plain one is short.
#pragma once

#include <nlohmann/json.hpp>

#include "core/problem.hpp"

namespace carat {

// {"m": 64, "n": 6144, "k": 4096, "a": {"dtype": "bf16", "order": "row", "ld": "packed"}, "b": ..., "d": ...}, then what is not
// as usual: mode, batch, c, compute, scale_a, scale_b, sparsity, epilogue.
nlohmann::ordered_json problem_json(const Problem& problem);

// The inverse, still to be validated; INVALID_VALUE names the field that is missing, of a wrong type or not known.
Result<carat_problem> parse_problem(const nlohmann::ordered_json& json);

}  // namespace carat
