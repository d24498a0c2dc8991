// SPDX-License-Identifier: Apache-2.0
// aligned.hpp: operands whose pitch the copy engine does not take (no multiple of 16 bytes), copied into the caller's
// workspace with one that it does, before the product. Where a product is large that costs a tenth of it; threads that copy
// within the kernel cannot keep up with the tensor cores and take 2 to 4 times as long.
#pragma once

#include <memory>

#include "dispatch/registry.hpp"

namespace carat {

// Whether A or B has such a pitch; single and batched problems of 16-bit operands.
bool can_align(const Problem& problem);

// The problem that runs on the copies.
Problem align_operands(const Problem& problem);

// What the copies take: both, one after the other.
size_t align_workspace_bytes(const Problem& problem);

// Microseconds for the copies on a target.
double align_us(const Problem& problem, const Target& target);

// Runs a problem by an executable for its aligned form.
Result<std::unique_ptr<Executable>> align_operands(const Problem& problem, std::unique_ptr<Executable> executable,
                                                   Runtime& runtime);

}  // namespace carat
