// SPDX-License-Identifier: Apache-2.0
// stages.cuh: the ring of stages in shared memory between the copies and the tensor cores: where its parts lie, how a
// stage is filled, and the products of a tile over it.
// A stage is kBK of K: one or more panels, each as deep as one line of a tile. The tensor cores wait for a stage, and release it, as a
// whole.
// Layout of dynamic shared memory: kStages x (kPanels of A, kPanels of B), kBeyondBytes, what the stores of each consumer take, then for each stage a barrier
// `full` and a barrier `empty`; then what only some kernels have. The host computes the same size (dispatch/wgmma_kernel.cpp).
#pragma once

#include <epilogue/ops.cuh>
#include <mainloop/granule_copy.cuh>
#include <mainloop/operand_tile.cuh>
#include <mainloop/tile_copy.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shared.cuh>
#include <ptx/wgmma.cuh>
#include <scheduler/cluster_place.cuh>
#include <scheduler/linear_tiles.cuh>
#include <store/box_layout.cuh>

namespace carat_kernel {

// B's tile under a split gate is two pieces: the columns of the gate and, N / 2 further on, what they multiply.
template <class Config>
constexpr int kPiecesOfB = Config::kGate == kGateSplit ? 2 : 1;

// kStoreBytes: what a consumer's stores take. All in addresses of the shared window.
template <class Config, int kStoreBytes>
struct Stages {
    using TileA = OperandTile<Config::kRowMajorA, Config::kBM>;
    using TileB = OperandTile<!Config::kRowMajorB, Config::kBN>;
    static constexpr int kPanels = Config::kBK / kTileDepth, kPanelBytes = TileA::kBytes + TileB::kBytes;
    static_assert(Config::kBK % kTileDepth == 0, "a stage is whole panels");
    static constexpr int kBulkBytes = (Config::kBulkA ? TileA::kBytes : 0) + (Config::kBulkB ? TileB::kBytes : 0);
    static constexpr bool kByThreads = kBulkBytes < kPanelBytes;
    // What the products of a tile's last rows read beyond the tile of A, and beyond the last stage: nothing of use, but no
    // store's business either.
    static constexpr int kRowsOfProducts = (Config::kBM + 64 * Config::kTM - 1) / (64 * Config::kTM) * 64 * Config::kTM;
    static constexpr int kBeyondA = (kRowsOfProducts - Config::kBM) * kLineBytes - TileB::kBytes;
    static constexpr int kBeyondBytes = kBeyondA > 0 ? kBeyondA : 0;
    static_assert(Config::kRowMajorA || Config::kBM % 64 == 0, "MN-major tiles are whole boxes");

    unsigned memory = shared_address(dynamic_shared());

    __device__ unsigned a(int stage, int panel) const {
        return memory + stage * kPanels * kPanelBytes + panel * TileA::kBytes;
    }
    __device__ unsigned b(int stage, int panel) const { return a(stage, kPanels) + panel * TileB::kBytes; }
    // Where the consumers' stores begin, from the begin of the block's shared memory on.
    static constexpr int kStores = Config::kStages * kPanels * kPanelBytes + kBeyondBytes;
    __device__ unsigned full(int stage) const {
        return memory + kStores + Config::kConsumers * kStoreBytes + stage * 2 * kBarrierBytes;
    }
    __device__ unsigned empty(int stage) const { return full(stage) + kBarrierBytes; }
    // Of consumers that multiply in turn: that it is this one's.
    __device__ unsigned turn(int consumer) const { return full(Config::kStages) + consumer * kBarrierBytes; }
    // Of each box of a consumer, one after the other: that C has come into it.
    __device__ unsigned coming_c(int consumer) const {
        return turn(Config::kPingPong ? Config::kConsumers : 0) + consumer * kStoreBoxes * kBarrierBytes;
    }

    // Of a consumer whose tile's parts of K lie in several blocks (mainloop/cluster_split.cuh): two.
    __device__ unsigned sums(int consumer) const {
        return turn(Config::kPingPong ? Config::kConsumers : 0) + consumer * 2 * kBarrierBytes;
    }

    // One thread. releases: how many arrivals empty a stage.
    __device__ void init_barriers(int releases) const {
        for (int stage = 0; stage < Config::kStages; ++stage) {
            barrier_init(full(stage), kByThreads ? Config::kFillThreads : 1);
            barrier_init(empty(stage), releases);
        }
        barrier_init_fence();
    }
};

// One thread asks the copy engine for this block's parts of those operands whose pitch and address suit it, of the `step`th kBK of K.
template <class Config, class Ring, class Tile>
__device__ void ask_for_stage(const BulkGemmParams& params, const Ring& stages, int stage, const Tile& tile, int step,
                              const ClusterPlace<Config>& place) {
    const unsigned full = stages.full(stage);
    const int depth = step * Config::kBK;
    // A batch stride of 0 is a map of one matrix.
    if constexpr (Config::kBulkA) {
        const int rows[] = {static_cast<int>(tile.row)};
        Ring::TileA::template load<Config::kClusterN, Ring::kPanels, Config::kStageBoxA>(
            stages.a(stage, 0), params.a_maps, full, rows, static_cast<int>(params.m), depth,
            params.a_strides.batch ? static_cast<int>(tile.batch) : 0, place.col, place.same_row(), params.once_a);
    }
    if constexpr (Config::kBulkB) {
        int cols[kPiecesOfB<Config>];
        for (int piece = 0; piece < kPiecesOfB<Config>; ++piece)
            cols[piece] = static_cast<int>(source_column<Config>(params, tile.col, piece));
        Ring::TileB::template load<Config::kClusterM, Ring::kPanels, Config::kStageBoxB>(
            stages.b(stage, 0), params.b_maps, full, cols, static_cast<int>(params.n), depth,
            params.b_strides.batch ? static_cast<int>(tile.batch) : 0, place.row, place.same_col(), params.once_b);
    }
}

// What the copy engine brings into a stage of a tile.
template <class Config, class Ring, class Tile>
__device__ unsigned bulk_bytes(const BulkGemmParams& params, const Tile& tile) {
    int bytes = 0;
    if constexpr (Config::kBulkA)
        bytes +=
            Ring::TileA::template bytes<Config::kClusterN, 1>(static_cast<int>(tile.row), static_cast<int>(params.m));
    if constexpr (Config::kBulkB)
        bytes += Ring::TileB::template bytes<Config::kClusterM, kPiecesOfB<Config>>(
            static_cast<int>(source_column<Config>(params, tile.col, 0)), static_cast<int>(params.n));
    return static_cast<unsigned>(Ring::kPanels * bytes);
}

// kFillThreads threads copy kRows of an operand from mn and k on. stride: from one line to the next.
template <class Config, bool kKMajor, int kRows>
__device__ void copy_rows(const void* base, i64 stride, i64 mn_extent, i64 k_extent, i64 mn, i64 k, unsigned to) {
    using Granules = GranuleCopy<kKMajor, kRows, Config::kFillThreads>;
    const int thread = static_cast<int>(threadIdx.x);
    if (Granules::smooth(base, stride, mn_extent, k_extent, mn, k))
        Granules::copy(base, stride, mn_extent, k_extent, mn, k, thread, to);
    else
        TileCopy<kKMajor, kRows, Config::kFillThreads>(base, kKMajor ? stride : 1, kKMajor ? 1 : stride, mn_extent,
                                                       k_extent, mn, k, thread)
            .copy(to);
}

// The operands that are not copied in bulk.
template <class Config, class Ring, class Tile>
__device__ void copy_panel(const GemmParams& params, const Ring& stages, int stage, int panel, const Tile& tile,
                           i64 k) {
    if constexpr (!Config::kBulkA) {
        const Strided& s = params.a_strides;
        copy_rows<Config, Config::kRowMajorA, Ring::TileA::kLines>(
            static_cast<const unsigned short*>(params.a) + tile.batch * s.batch, Config::kRowMajorA ? s.row : s.col,
            params.m, params.k, tile.row, k, stages.a(stage, panel));
    }
    if constexpr (!Config::kBulkB) {
        constexpr int kPieces = kPiecesOfB<Config>, kPieceLines = Ring::TileB::kLines / kPieces;
        const Strided& s = params.b_strides;
        for (int piece = 0; piece < kPieces; ++piece)
            copy_rows<Config, !Config::kRowMajorB, kPieceLines>(
                static_cast<const unsigned short*>(params.b) + tile.batch * s.batch, Config::kRowMajorB ? s.row : s.col,
                params.n, params.k, source_column<Config>(params, tile.col, piece), k,
                stages.b(stage, panel) + piece * kPieceLines * kLineBytes);
    }
}

// Fills a stage with A's and B's tiles of the `step`th kBK of K. All kFillThreads threads call it if any operand is copied by threads
// (Ring::kByThreads), else one.
template <class Config, class Ring, class Tile>
__device__ void fill_stage(const BulkGemmParams& params, const Ring& stages, int stage, const Tile& tile, int step,
                           const ClusterPlace<Config>& place = {}) {
    const unsigned full = stages.full(stage);
    if constexpr (!Ring::kByThreads) {
        barrier_arrive_expect(full, bulk_bytes<Config, Ring>(params, tile));
        ask_for_stage<Config>(params, stages, stage, tile, step, place);
    } else {
        if (Ring::kBulkBytes > 0 && threadIdx.x == 0) {
            barrier_expect(full, bulk_bytes<Config, Ring>(params, tile));
            ask_for_stage<Config>(params, stages, stage, tile, step, place);
        }
        for (int panel = 0; panel < Ring::kPanels; ++panel)
            copy_panel<Config>(params, stages, stage, panel, tile, i64(step) * Config::kBK + panel * kTileDepth);
        async_proxy_fence();
        barrier_arrive(full);
    }
}

// Each warp of a consumer, once it does not read a stage any more: one arrival at every block that has a part in it.
template <class Config, class Ring>
__device__ void release_stage(const Ring& stages, int stage, const ClusterPlace<Config>& place) {
    using Place = ClusterPlace<Config>;
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    if constexpr (Place::kReaders == 1) {
        if (lane == 0) barrier_arrive(stages.empty(stage));
    } else {
        if (lane < Place::kReaders) barrier_arrive_at(stages.empty(stage), place.reader(lane));
    }
}

// Stages of a tile.
template <class Config>
__device__ int step_count(const GemmParams& params, const Scalars& scalars) {
    return static_cast<int>((depth_of(params, scalars) + Config::kBK - 1) / Config::kBK);
}

template <int kBlocks, int kElements>
__device__ void clear(float (&accumulators)[kBlocks][kElements]) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
        for (int i = 0; i < kElements; ++i) accumulators[block][i] = 0.0f;
}

// A warpgroup multiplies one stage: kBlocks x 64 rows of A from `row` on by all columns of B. Asynchronous.
template <class Config, int kBlocks, class Ring>
__device__ void multiply_stage(float (&accumulators)[kBlocks][Config::kBN / 2], const Ring& stages, int stage,
                               int row) {
    wgmma_fence();
#pragma unroll
    for (int panel = 0; panel < Ring::kPanels; ++panel)
#pragma unroll
        for (int step = 0; step < kTileDepth / kStepDepth; ++step)
#pragma unroll
            for (int block = 0; block < kBlocks; ++block)
                Wgmma<Config::kBN, Config::kTypeA, Config::kRowMajorA, !Config::kRowMajorB>::multiply(
                    accumulators[block], Ring::TileA::descriptor(stages.a(stage, panel), row + block * 64, step),
                    Ring::TileB::descriptor(stages.b(stage, panel), 0, step));
    wgmma_commit();
}

// A warpgroup's products of a tile, over `steps` stages of the ring. One step stays in flight, so that the tensor cores
// have work while the warpgroup waits for the next stage; begun() is called once the first are asked for, issued() once all
// are, release(stage) once nothing reads it any more.
template <class Config, int kBlocks, class Ring, class Release, class Begun, class Issued>
__device__ void multiply_tile(float (&accumulators)[kBlocks][Config::kBN / 2], const Ring& stages,
                              RingPosition<Config::kStages>& at, int steps, int row, Release release, Begun begun,
                              Issued issued) {
    clear(accumulators);
    int left = steps;
    for (; left > 0; --left, at.advance()) {
        barrier_wait(stages.full(at.stage), at.parity);
        multiply_stage<Config>(accumulators, stages, at.stage, row);
        wgmma_wait<1>();
        left < steps ? release(at.stage_before()) : begun();
    }
    issued();
    wgmma_wait<0>();
    steps > 0 ? release(at.stage_before()) : begun();
}

}  // namespace carat_kernel
