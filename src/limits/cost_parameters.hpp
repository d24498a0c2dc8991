// SPDX-License-Identifier: Apache-2.0
// cost_parameters.hpp: what the cost models of src/dispatch/ know of a GPU beyond its limits: times, clocks and shares that are
// fitted to measurements. A number becomes one that `carat calibrate` fits by a member here and a row of the table; the
// values of each GPU lie in data/devices/.
#pragma once

#include <span>

namespace carat {

// Raised when a model changes so that parameters fitted before say nothing to it: device files with another number are stale.
inline constexpr int kCostModels = 2;

struct CostParameters {
    double stream_speed_16kb = 0, stream_speed_32kb = 0;
    double stream_rows_8 = 0, stream_rows_16 = 0;
    double stream_end_us = 0, stream_tile_us = 0, stream_cluster_us = 0, stream_l2_us = 0;
    double ws_start_us = 0, ws_cluster_us = 0, ws_step_clk = 0, ws_l2_bytes_per_us = 0, ws_boost = 0;
    double ws_copy_clk = 0, ws_barriers_clk = 0, ws_drain_clk = 0;
    double decode_floor_start_us = 0, decode_start_us = 0, decode_cluster_us = 0, decode_shared_b_us = 0;
    double decode_tile_us = 0, decode_box_clk = 0, decode_latency_clk = 0, decode_math = 0, decode_bytes_per_clk = 0,
           decode_uneven = 0;
    double decode_again = 0, decode_exchange_us = 0, decode_drain_us = 0, decode_beside_us = 0, decode_clock = 0;

    bool operator==(const CostParameters&) const = default;
};

struct CostParameter {
    const char* name;  // the kernel's row and the member: "sm80_stream.end_us"
    const char* unit;
    const char* summary;
    double CostParameters::*value;
    double least, most;  // what a file may say and a fit may find
};
std::span<const CostParameter> cost_parameters();

}  // namespace carat
