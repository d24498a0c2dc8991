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
    {"sm80_stream.rows_8", "ratio", "of the stream's time to a read of B, with 8 rows of A", &P::stream_rows_8, 0.8, 3},
    {"sm80_stream.rows_16", "ratio", "of the stream's time to a read of B, with 16 rows of A", &P::stream_rows_16, 0.8,
     3},
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
    {"sm90_ws.decode_floor_start_us", "us", "of a floor's time before its stream runs", &P::decode_floor_start_us, 0.01,
     20},
    {"sm90_ws.decode_start_us", "us", "the start and the end of a block", &P::decode_start_us, 0.01, 20},
    {"sm90_ws.decode_cluster_us", "us", "a cluster's launch and barriers", &P::decode_cluster_us, 0.01, 20},
    {"sm90_ws.decode_shared_b_us", "us", "where blocks share columns of B", &P::decode_shared_b_us, 0.001, 5},
    {"sm90_ws.decode_tile_us", "us", "of a block's each further tile", &P::decode_tile_us, 0.01, 20},
    {"sm90_ws.decode_box_clk", "clocks", "of a box of the copy engine, however small", &P::decode_box_clk, 10, 5000},
    {"sm90_ws.decode_latency_clk", "clocks", "from asking for a stage to its release", &P::decode_latency_clk, 10,
     50000},
    {"sm90_ws.decode_math", "ratio", "of wgmma's clocks beside a stream from memory", &P::decode_math, 0.5, 5},
    {"sm90_ws.decode_bytes_per_clk", "bytes", "into shared memory and out of it", &P::decode_bytes_per_clk, 5, 1000},
    {"sm90_ws.decode_uneven", "exponent",
     "how much of an uneven share of the rows shows: others use what a block leaves", &P::decode_uneven, 0.01, 1},
    {"sm90_ws.decode_again", "share", "of the time of A's bytes, for each further time that they are read",
     &P::decode_again, 0.001, 1},
    {"sm90_ws.decode_exchange_us", "us", "of the partial sums of 64 x 64 of a consumer, all but the block's own",
     &P::decode_exchange_us, 0.01, 50},
    {"sm90_ws.decode_drain_us", "us", "of 64 columns of a box that is not whole and leaves by threads",
     &P::decode_drain_us, 0.001, 10},
    {"sm90_ws.decode_beside_us", "us", "less, where the next kernel's blocks find room beside", &P::decode_beside_us,
     0.001, 10},
    {"sm90_ws.decode_clock", "ratio", "of a stream from memory over that of the sustained rate", &P::decode_clock, 0.8,
     2},
};

}  // namespace

std::span<const CostParameter> cost_parameters() {
    return kParameters;
}

}  // namespace carat
