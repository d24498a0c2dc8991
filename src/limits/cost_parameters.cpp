// SPDX-License-Identifier: Apache-2.0
#include "limits/cost_parameters.hpp"

namespace carat {
namespace {

using P = CostParameters;

constexpr CostParameter kParameters[] = {
    {"sm80_stream.speed_16kb", "share", "of its speed that memory reaches with 16 KB an SM on their way",
     &P::stream_speed_16kb, 0.1, 0.9},
    {"sm80_stream.speed_32kb", "share", "of its speed that memory reaches with 32 KB an SM on their way",
     &P::stream_speed_32kb, 0.3, 1},
    {"sm80_stream.end_us", "us", "the end of a block's last tile: sums through shared memory, epilogue",
     &P::stream_end_us, 0.01, 20},
    {"sm80_stream.tile_us", "us", "what shows of the end of the tiles before it", &P::stream_tile_us, 0.001, 5},
    {"sm80_stream.cluster_us", "us", "a cluster's launch and barriers", &P::stream_cluster_us, 0.01, 20},
    {"sm80_stream.l2_us", "us", "before what comes from L2 flows at its full speed", &P::stream_l2_us, 0.01, 20},
    {"sm90_ws.start_us", "us", "the start of a block, beside its store", &P::ws_start_us, 0.01, 20},
    {"sm90_ws.cluster_us", "us", "a cluster's launch and barriers", &P::ws_cluster_us, 0.01, 20},
    {"sm90_ws.step_clk", "clocks", "the wait for a stage, of each step of K", &P::ws_step_clk, 1, 500},
    {"sm90_ws.l2_bytes_per_us", "bytes/us", "what L2 gives all SMs together", &P::ws_l2_bytes_per_us, 5e5, 5e8},
    {"sm90_ws.boost", "ratio", "the clock of a short run over that of the sustained rate", &P::ws_boost, 0.8, 2},
    {"sm90_ws.copy_clk", "clocks", "a line of 128 bytes that threads copy", &P::ws_copy_clk, 1, 200},
    {"sm90_ws.barriers_clk", "clocks", "of a tile's store, beside its elements", &P::ws_barriers_clk, 50, 20000},
    {"sm90_ws.drain_clk", "clocks", "of a store whose last box threads write", &P::ws_drain_clk, 10, 10000},
};

}  // namespace

std::span<const CostParameter> cost_parameters() {
    return kParameters;
}

}  // namespace carat
