// SPDX-License-Identifier: Apache-2.0
// validate.hpp: every check of what a user passes, and nowhere else. What comes out needs no further check: leading
// dimensions and strides are resolved, enumerators are in range, types fit together.
#pragma once

#include "core/problem.hpp"

namespace carat::api {

// The resolved problem, or INVALID_VALUE with a sentence that names the field, what it was and what it must be.
Result<Problem> validate_problem(const carat_problem* problem);

// Checks the pointers of one execution against a validated problem: presence, alignment, aliasing, workspace.
Status validate_operands(const Problem& problem, const carat_operands* operands, size_t workspace_bytes);

// A struct from a caller: its size must be one this version knows.
Status check_struct_size(size_t got, size_t wanted, const char* type);

}  // namespace carat::api
