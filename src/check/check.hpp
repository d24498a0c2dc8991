// SPDX-License-Identifier: Apache-2.0
// check.hpp: is a result right? Compares D with the f64 reference, in full or by samples and Freivalds' product test,
// with a bound computed from the types, K and the operands' magnitudes. carat_operands lie in host memory.
#pragma once

#include "core/problem.hpp"
#include "cpu/threads.hpp"

namespace carat {

// Relative error allowed in one entry, as a multiple of |alpha| sum|a||b| + |beta C| + |bias|.
double error_bound(const Problem& problem);

// c_before: C's content before the execution if D overwrote it (D == C), else nullptr.
Result<carat_check_result> check_result(const Problem& problem, const carat_operands& operands, const void* c_before,
                                        const carat_check_options& options, cpu::ThreadPool& threads);

}  // namespace carat
