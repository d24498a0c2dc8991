// SPDX-License-Identifier: Apache-2.0
// decode_cost.hpp: what a configuration of the Hopper kernel is predicted to take where D has few columns, so that the bytes of
// A are the time: decode, with its operands swapped.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

// Of a problem as the kernel runs it: at most 256 columns of D, and far more rows.
bool is_decode(const Problem& p);

Prediction decode_predict(const Problem& p, const Config& c, const Target& target);

}  // namespace carat
