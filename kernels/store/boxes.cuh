// SPDX-License-Identifier: Apache-2.0
// boxes.cuh: from the accumulators of a warpgroup to D, in boxes of 64 rows by 128 bytes of columns. A box is finished in
// registers (epilogue/fragment_box.cuh), laid into shared memory in D's own order and under the 128-byte swizzle, and leaves
// - in bulk, by the copy engine: whole lines, no addresses, edges clipped; for a 16-byte address and pitch of D, or
// - by the warpgroup's threads, in the widest words that D's address and pitch allow, consecutive threads side by side.
// Each warpgroup has boxes of its own and waits for no other: while one stores, the others multiply.
// C comes the same way (kBulkC): the copy engine brings it into the box that D's values are to take its place in, the first two
// boxes of a tile before its products, the next one into a box once that is stored.
#pragma once

#include <epilogue/fragment_box.cuh>
#include <epilogue/tile_bias.cuh>
#include <ptx/block.cuh>
#include <ptx/bulk_copy.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shared.cuh>
#include <store/box_layout.cuh>
#include <store/drain.cuh>

namespace carat_kernel {

// Lays the values of FragmentBox into a box: this warp's 16 rows.
template <class Config>
__device__ void fill_box(const float* d, int blocks, char* box, unsigned thread) {
    using Values = FragmentBox<Config>;
    using Layout = BoxLayout<Config>;
    if constexpr (Layout::kElement == 2 && !Values::kInterleaved) {
        const unsigned to = shared_address(box);
        const LineOfMatrices<Config> line = {thread};
#pragma unroll
        for (int block = 0; block < Values::kBlocks; block += 2) {
            if (block >= blocks) continue;
            unsigned packed[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                packed[i] = pack_pair<Config::kTypeD>(d[4 * block + 2 * i], d[4 * block + 2 * i + 1]);
            stmatrix_x4<!Config::kRowMajorD>(to + line.at(block), packed);
        }
    } else {
        const unsigned lane = thread % kWarpThreads, row = thread / kWarpThreads * 16 + lane / 4;
#pragma unroll
        for (int pair = 0; pair < 2 * Values::kBlocks; ++pair) {
            if (pair >= 2 * blocks) continue;
            const unsigned at_row = row + pair % 2 * 8;
            if constexpr (Values::kInterleaved) {
                store_element<Config::kTypeD>(box + Layout::at(at_row, pair / 2 * 4 + lane % 4), 0, d[2 * pair]);
            } else {
                const unsigned col = pair / 2 * 8 + lane % 4 * 2;
                if constexpr (Config::kRowMajorD) {
                    store_pair<Config::kTypeD>(box + Layout::at(at_row, col), 0, d[2 * pair], d[2 * pair + 1]);
                } else {
                    store_element<Config::kTypeD>(box + Layout::at(at_row, col), 0, d[2 * pair]);
                    store_element<Config::kTypeD>(box + Layout::at(at_row, col + 1), 0, d[2 * pair + 1]);
                }
            }
        }
    }
}

// What a consumer has to know to wait for C: its two barriers, one a box, and how many tiles it has had.
struct ComingC {
    unsigned barriers = 0;
    int tiles = 0;
};

// All boxes of a tile, in their order. Where blocks share a tile (mainloop/cluster_split.cuh), each has some.
struct AllBoxes {
    __device__ bool owns(int, int) const { return true; }
    __device__ static int turn_of(int box) { return box; }
};
template <class Split>
struct OwnedBoxes {
    const typename Split::Place& place;
    __device__ bool owns(int consumer, int box) const { return Split::owns(place, consumer, box); }
    __device__ static int turn_of(int box) { return Split::turn_of(box); }
};
template <class Split>
__device__ OwnedBoxes<Split> owned_boxes(const typename Split::Place& place) {
    return {place};
}

// What the stores of a consumer take of shared memory.
template <class Config>
constexpr int kConsumerStoreBytes = kStoreBytes + TileBias<Config>::kBytes;

// The boxes of the consumers, which follow each other in shared memory from kBegin on, kStoreBytes each, and then their biases.
// Consumer c, which is warpgroup c + 1, uses the named barrier c + 1.
template <class Config, int kBegin>
class StoreBoxes {
    using Values = FragmentBox<Config>;
    static constexpr int kBoxes = Config::kTM * Values::kCount;  // of a consumer in a tile

  public:
    // C of a tile into the first boxes: as early as it may be, once all threads have stored the tile before.
    template <class Tile>
    __device__ static void ask_for_c(const BulkGemmParams& params, const Scalars& scalars, const Tile& tile, int row,
                                     const ComingC& c) {
        if (!brings_c(scalars) || threadIdx.x % kWarpgroupThreads != 0) return;
        bulk_store_wait_read<0>();
        for (int index = 0; index < kStoreBoxes && index < kBoxes; ++index) ask_for_box(params, tile, row, index, c);
    }

    // A tile's bias, which came while its products began.
    __device__ static void lay_down(const TileBias<Config>& bias) {
        const unsigned consumer = threadIdx.x / kWarpgroupThreads - 1;
        bias.lay_down(bias_of(consumer), static_cast<int>(consumer) + 1);
    }

    // `tile`: of the whole block; `row`: the first of this warpgroup's kStrips x 64 rows in it. Destroys the accumulators.
    // A short epilogue is unrolled over all boxes. A long one is not (four copies of erfc are tens of kilobytes of code): its
    // loops always take the first accumulators and move the others up, for registers cannot be indexed, which
    // costs a tile some 1000 clocks. `mine`: the boxes that this block stores.
    template <int kStrips, class Tile, class Mine = AllBoxes>
    __device__ static void store_tile(const BulkGemmParams& params, const Scalars& scalars,
                                      float (&accumulators)[kStrips][Config::kBN / 2], const Tile& tile, int row,
                                      const ComingC& c = {}, const Mine& mine = {}) {
        static_assert(kStrips == Config::kTM);
        constexpr int kStrip = Config::kBN / 2, kBox = Values::kAccumulators, kCount = Values::kCount;
        constexpr bool kMoves = !Values::kShort && Values::kWhole;
        [[maybe_unused]] constexpr int kUnrollStrips = Values::kShort ? kStrips : 1;
        [[maybe_unused]] constexpr int kUnroll = kMoves ? 1 : kCount;
        float* const all = accumulators[0];
        Largest<Config> largest;
        const unsigned thread = fresh_thread();
#pragma unroll kUnrollStrips
        for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll kUnroll
            for (int across = 0; across < kCount; ++across) {
                const int cols = Values::kWhole || across < kCount - 1 ? Values::kCols : Values::kLastCols;
                const int rows = Config::kBM % 64 == 0 ? 64 : Config::kBM - row - strip * 64;  // that are the tile's
                const BoxPlace place = {static_cast<int>(tile.row) + row + strip * 64,
                                        static_cast<int>(tile.col) + across * Values::kCols,
                                        static_cast<int>(tile.batch), rows < 64 ? rows : 64, cols};
                const int at = (Values::kShort ? strip * kStrip : 0) + (kMoves ? 0 : across * kBox);
                const int index = strip * kCount + across;
                if (rows > 0 && mine.owns(static_cast<int>(thread / kWarpgroupThreads) - 1, index))
                    store_box(params, scalars, largest, all + at, place, index, mine.turn_of(index), thread, c);
                if (brings_c(scalars) && index + kStoreBoxes < kBoxes && thread % kWarpgroupThreads == 0) {
                    bulk_store_wait_read<0>();
                    ask_for_box(params, tile, row, index + kStoreBoxes, c);
                }
                if constexpr (kMoves) move_up<kBox, kStrips * kStrip>(all);
            }
            if constexpr (!Values::kShort) move_up<kMoves ? kStrip - kCount * kBox : kStrip, kStrips * kStrip>(all);
        }
        largest.publish(params);
    }

    // Before a consumer ends: its boxes must not go away while the copy engine reads them.
    __device__ static void finish() {
        if constexpr (Config::kBulkStore)
            if (threadIdx.x % kWarpgroupThreads == 0) bulk_store_wait_read<0>();
    }

  private:
    template <int kBy, int kAll>
    __device__ static void move_up(float* all) {
        if constexpr (kBy > 0) {
#pragma unroll
            for (int i = 0; i + kBy < kAll; ++i) all[i] = all[i + kBy];
        }
    }

    // Where beta is 0, C is not read.
    __device__ static bool brings_c(const Scalars& scalars) {
        return Config::kBulkC && scalars.beta != 0.0f;
    }

    __device__ static char* box_at(unsigned consumer, int index) {
        return dynamic_shared() + kBegin + consumer * kStoreBytes + index % kStoreBoxes * kStoreBoxBytes;
    }

    __device__ static float* bias_of(unsigned consumer) {
        return reinterpret_cast<float*>(dynamic_shared() + kBegin + Config::kConsumers * kStoreBytes +
                                        consumer * TileBias<Config>::kBytes);
    }

    // Where a lane's part of the bias of a box begins.
    __device__ static const float* bias_at(unsigned consumer, int index, unsigned thread) {
        const unsigned lane = thread % kWarpThreads, strip = index / Values::kCount, across = index % Values::kCount;
        return bias_of(consumer) + (Config::kBias == kBiasM ? strip * 64 + thread / kWarpThreads * 16 + lane / 4
                                                            : across * (8 * Values::kBlocks) + lane % 4 * 2);
    }

    // One thread asks for C's part of a whole box, also where the tile or C has only some of it.
    template <class Tile>
    __device__ static void ask_for_box(const BulkGemmParams& params, const Tile& tile, int row, int index,
                                       const ComingC& c) {
        const unsigned barrier = c.barriers + index % kStoreBoxes * kBarrierBytes;
        const int at_row = static_cast<int>(tile.row) + row + index / Values::kCount * 64;
        const int at_col = static_cast<int>(tile.col) + index % Values::kCount * Values::kCols;
        barrier_arrive_expect(barrier, kStoreBoxBytes);
        bulk_load(shared_address(box_at(fresh_thread() / kWarpgroupThreads - 1, index)), params.c_map, barrier,
                  Config::kRowMajorD ? at_col : at_row, Config::kRowMajorD ? at_row : at_col,
                  params.c_strides.batch ? static_cast<int>(tile.batch) : 0);
    }

    // Until C is in the box. Before it came as often as that box has had C in this tile and all tiles before.
    __device__ static void wait_for_c(int index, const ComingC& c) {
        const int box = index % kStoreBoxes, a_tile = (kBoxes + kStoreBoxes - 1 - box) / kStoreBoxes;
        barrier_wait(c.barriers + box * kBarrierBytes, (c.tiles * a_tile + index / kStoreBoxes) % 2);
    }

    __device__ static int end_of(const GemmParams& params, const BoxPlace& place) {
        return place.row + place.rows < params.m ? place.row + place.rows : static_cast<int>(params.m);
    }

    // d: the box's accumulators; index: of the box in the tile; turn: among those of the tile that this block stores.
    __device__ static void store_box(const BulkGemmParams& params, const Scalars& scalars, Largest<Config>& largest,
                                     float* d, BoxPlace place, int index, int turn, unsigned thread_of_block,
                                     const ComingC& c) {
        const unsigned consumer = thread_of_block / kWarpgroupThreads - 1;
        const unsigned thread = thread_of_block % kWarpgroupThreads, lane = thread % kWarpThreads;
        const bool leader = thread == 0, whole = place.cols == Values::kCols && place.rows == 64;
        char* const box = box_at(consumer, turn);
        const int blocks = place.cols * Values::kBlocks / Values::kCols;
        const FragmentBox<Config> values = {params,
                                            scalars,
                                            static_cast<int>(lane),
                                            place.batch,
                                            place.row + static_cast<int>(thread / kWarpThreads * 16 + lane / 4),
                                            Config::kBM % 64 == 0 ? static_cast<int>(params.m) : end_of(params, place),
                                            place.col,
                                            box,
                                            bias_at(consumer, index, thread),
                                            thread};
        const bool with_c = brings_c(scalars);
        if (with_c) wait_for_c(index, c);
        values.finish(d, d + Config::kBN / 4, blocks, largest);
        if (with_c) {
            __syncwarp();  // has read its rows of C, which no other warp's values are laid into
        } else {
            // At a tile's begin all boxes: how many the tile before had may be odd.
            if (Config::kBulkStore && leader)
                turn == 0 ? bulk_store_wait_read<0>() : bulk_store_wait_read<kStoreBoxes - 1>();
            named_barrier<kWarpgroupThreads>(static_cast<int>(consumer) + 1);  // the box is free
        }
        fill_box<Config>(d, blocks, box, thread);
        if (Config::kBulkStore) async_proxy_fence();
        named_barrier<kWarpgroupThreads>(static_cast<int>(consumer) + 1);  // the box is full
        if (Config::kBulkStore && whole) {
            if (leader)
                bulk_store(params.d_map, shared_address(box), Config::kRowMajorD ? place.col : place.row,
                           Config::kRowMajorD ? place.row : place.col, place.batch);
        } else {
            drain_box<Config>(params, box, within_d<Config>(params, place), thread);
            if (with_c) named_barrier<kWarpgroupThreads>(static_cast<int>(consumer) + 1);  // C may come into the box
        }
        if (Config::kBulkStore && leader) bulk_store_commit();  // an empty group counts, too
    }
};

}  // namespace carat_kernel
