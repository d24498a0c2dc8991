// SPDX-License-Identifier: Apache-2.0
// reference.hpp: the definition of the library: f64 accumulation, three loops, every type, layout, epilogue, scale
// recipe, batch, group and 2:4 form of the contract. Slow on purpose; everything else is checked against it.
#pragma once

#include "core/problem.hpp"
#include "cpu/threads.hpp"

namespace carat::cpu {

Status reference_execute(const Problem& problem, const carat_operands& operands, ThreadPool& threads);

// One accumulator entry, and the sum of |a||b| that error bounds need. `batch`: the batch entry or group; `row`, `col`
// count within it (for the packed grouped forms, `row` is the row of A). Scales are applied.
struct Accumulated {
    double value = 0, magnitude = 0;
};
Accumulated reference_accumulate(const Problem& problem, const carat_operands& operands, int64_t batch, int64_t row,
                                 int64_t col);

}  // namespace carat::cpu
