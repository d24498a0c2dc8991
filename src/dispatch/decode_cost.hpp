// SPDX-License-Identifier: Apache-2.0
// decode_cost.hpp: what a configuration of the Hopper kernel is predicted to take where D has few rows or few columns (tokens), and
// the bytes of the other operand (weights) are the time: decode.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

// Which operand of a problem, as the kernel runs it, has the weights: at most 256 rows, or columns, of D are far fewer than the
// others. Not of gated products, whose weights come in two.
enum class Weights { none, a, b };
Weights weights_of(const Problem& p);

Prediction decode_predict(const Problem& p, const Config& c, const Target& target);

}  // namespace carat
