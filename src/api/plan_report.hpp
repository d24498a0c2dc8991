// SPDX-License-Identifier: Apache-2.0
// plan_report.hpp: what explain and the report of a plan say alike of a kernel before it is compiled.
#pragma once

#include <nlohmann/json.hpp>

#include "dispatch/select.hpp"

namespace carat::api {

// {"bm", "bn", ...}: the numbers of a configuration, null for those it does not use.
nlohmann::ordered_json tile_json(const Config& config);
// FLOP per byte asked of memory; null for kernels of the CPU.
nlohmann::ordered_json intensity_json(const Candidate& candidate, const Problem& problem);

}  // namespace carat::api
