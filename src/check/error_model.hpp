// SPDX-License-Identifier: Apache-2.0
// error_model.hpp: how far a correct kernel may stray from the exact result before the last rounding. docs/numerics.md
// says it in words; the notation is u = 2^-24 for f32 and m = sum |a||b| of an entry.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "cpu/reference_parts.hpp"
#include "cpu/threads.hpp"

namespace carat::check {

struct ErrorModel {
    // Unit round-off of the arithmetic outside of the tensor cores: f32, or f64 for f64 operands.
    double unit = 0x1p-24;
    // Error of the operands as the compute mode rounds them, worst case, times m.
    double operands = 0;
    // Summation, times m: what K roundings of random sign amount to.
    double summation = 0;
    // Summation, times the sum over k of |partial sum|: what roundings of equal sign amount to.
    double growth = 0;
    // The epilogue: at most eight roundings (two scales, alpha, beta, C, bias, two sums), times |alpha| m + |beta C| +
    // |bias|.
    double epilogue = 0;
    // Operations below the normal range of f32 err by up to half a subnormal each instead.
    double absolute = 0;
    bool exact = false;  // integer operands straight into s32: no error at all

    // Bound of |error| of alpha * acc + beta * C + bias.
    double bound(double alpha, double m, double grown, double magnitude) const;
};

// `trivial_scalars`: alpha is 1 and beta is 0.
ErrorModel error_model(const Problem& problem, bool trivial_scalars);

// Freivalds' product test of one part where D is linear in the accumulator: the largest |D x - R x| over the rows, in
// units of its own bound. Below 1 passes.
struct FreivaldsResult {
    double ratio = 0;
    int64_t row = -1;
};
bool freivalds_applies(const Problem& problem);
FreivaldsResult freivalds(const Problem& problem, const cpu::Part& part, cpu::Scalars scalars, const ErrorModel& model,
                          uint64_t seed, cpu::ScratchPool& scratches, cpu::ThreadPool& threads);

// A well-mixed 64-bit value for (seed, index): the tests' choices do not depend on the order of work.
inline uint64_t mix(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

}  // namespace carat::check
