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

// Whether a kernel is so short that it gains where the next one's blocks find room beside its own (16 x 7168 x 2048: 8.8 us for 9.3). With
// 128 tiles for 132 SMs some SMs then get two blocks of the next kernel, which longer ones pay for (1 x 6144 x 4096: 18 us for 13.7),
// and so do clusters (16 x 2112 x 7168: 13 us for 10.5).
bool gains_from_room_beside(const Problem& p, const Config& c);

Prediction decode_predict(const Problem& p, const Config& c, const Target& target);

}  // namespace carat
