// SPDX-License-Identifier: Apache-2.0
// ladder_charts.hpp: the two drawings of a ladder: the speed of each rung beside cuBLAS, and the roofline.
#pragma once

#include <string>

#include "ladder_view.hpp"

namespace carat::cli {

// TFLOP/s of each rung as bars, a panel for each type of operands, with lines for cuBLAS and the hardware's rate. `id`
// must be unique in the page.
std::string bar_charts(const Json& report, const LadderSize& size, const std::string& id);
// TFLOP/s over FLOP per byte, both logarithmic: a roof for each bandwidth and rate, a point for each rung.
std::string roofline_chart(const Json& report, const LadderSize& size, const std::string& id);
// Is a point above the highest bandwidth's roof, because a nearer cache serves it?
bool any_above_roofs(const Json& report, const LadderSize& size);

}  // namespace carat::cli
