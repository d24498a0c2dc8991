// SPDX-License-Identifier: Apache-2.0
// fragment_box.cuh: the epilogue of as much of a tile as leaves in one box of stores (store/boxes.cuh): 64 rows of D, 16 a
// warp, by 128 bytes of columns, in the registers where wgmma left the accumulators. d[4b + 2h + e] of a lane is column
// 8b + 2 (lane % 4) + e of B and row lane / 4 + 8h.
// Under an interleaved gate a lane has both columns of a pair; under a split gate the tile's right half holds what the
// left one is multiplied by. So no lane needs another's accumulators, but for a computed scale: four lanes share a row.
#pragma once

#include <epilogue/ops.cuh>
#include <store/box_layout.cuh>

namespace carat_kernel {

template <class Config>
struct FragmentBox {
    static constexpr bool kInterleaved = Config::kGate == kGateInterleaved, kSplit = Config::kGate == kGateSplit;
    static constexpr int kCols = 128 / type_bytes(Config::kTypeD);      // of D
    static constexpr int kBlocks = (kInterleaved ? 2 : 1) * kCols / 8;  // of 8 columns of B
    static constexpr int kAccumulators = 4 * kBlocks;                   // of a lane, from each half of the tile
    static constexpr int kTileCols = Config::kBN / (kInterleaved || kSplit ? 2 : 1);  // of D in a tile
    static constexpr int kCount = (kTileCols + kCols - 1) / kCols;                    // boxes across a tile
    static constexpr int kLastCols = kTileCols - (kCount - 1) * kCols;                // of the last one
    // Few instructions an element, none of which waits for memory of its own. C in bulk and SiLU fit beside 192 accumulators
    // so; with all of them moved up after each box they did not (84 bytes spilled).
    static constexpr bool kFewSteps = Config::kActivation != kActGeluErf && (!Config::kHasC || Config::kBulkC);
    static constexpr bool kShort = kFewSteps && Config::kGate == kGateNone && kCols <= 64;
    static constexpr bool kWhole = kLastCols == kCols;
    static_assert(kTileCols % 16 == 0, "the turns of activate_all() are whole");
    static_assert(Config::kOutScale != kOutScaleComputed || (kCols == 128 && kWhole), "a scale is of 128 columns");

    const GemmParams& params;
    const Scalars& scalars;
    int lane;
    int batch;
    int row;            // of D, of this lane's first
    int row_end;        // of D's rows that are the tile's
    int col;            // of D, the box's first
    const char* box;    // where C has come to, if it comes in bulk
    const float* bias;  // in shared memory: of the first row or column of B that this lane has in the box
    unsigned thread;    // of the warpgroup

    // blocks: that the tile has for this box. d: the accumulators of the box, up: what its gates are multiplied by (split
    // gate), else unused. Afterwards d holds what D is to hold: for an interleaved gate, column 4b + lane % 4 of D in d[4b + 2h].
    __device__ void finish(float* d, float* up, int blocks, Largest<Config>& largest) const {
        linear(d, blocks, 0);
        if constexpr (kSplit) linear(up, blocks, 1);
        activate_all(d, up, blocks, largest);
        if constexpr (Config::kOutScale == kOutScaleTensor)
            scale(d, blocks, params.epilogue.out_scale[0], params.epilogue.out_scale[0]);
        if constexpr (Config::kOutScale == kOutScaleRow) {
            const float* scales = params.epilogue.out_scale + i64(batch) * params.m;
            scale(d, blocks, scales[clamped(row, params.m)], scales[clamped(row + 8, params.m)]);
        }
        if constexpr (Config::kOutScale == kOutScaleComputed) divide_by_computed(d, blocks);
    }

  private:
    static __device__ int clamped(int at, i64 extent) { return at < extent ? at : static_cast<int>(extent) - 1; }
    __device__ int d_cols() const { return static_cast<int>(Config::kGate == kGateNone ? params.n : params.n / 2); }
    // Whether accumulator i belongs to an element of D.
    __device__ bool inside(int i) const {
        const int right = kInterleaved ? i / 4 * 4 + lane % 4 : i / 4 * 8 + lane % 4 * 2 + i % 2;
        return row + i / 2 % 2 * 8 < row_end && col + right < d_cols();
    }

    // alpha acc + beta C + bias, at B's columns. Beyond the extents what is at their end is read again.
    __device__ void linear(float* d, int blocks, int part) const {
        const int first = static_cast<int>(source_column<Config>(params, col, part)) + lane % 4 * 2;
        const bool whole = row - lane / 4 + 16 <= params.m && first - lane % 4 * 2 + 8 * blocks <= params.n;
        // Blocks whose C and bias are on their way together: fewer where the accumulators leave few registers.
        constexpr int kTogether = Config::kTM * Config::kBN / 2 > 160 ? 2 : 8;
        const float* const part_bias = bias + (Config::kBias == kBiasN ? part * (Config::kBN / 2) : 0);
#pragma unroll
        for (int begin = 0; begin < kBlocks; begin += kTogether) {
            if (begin >= blocks) continue;
            const int count = blocks - begin < kTogether ? blocks - begin : kTogether;
            linear_blocks<kTogether>(d + 4 * begin, begin, count, first + 8 * begin, whole,
                                     part_bias + (Config::kBias == kBiasN ? 8 * begin : 0));
        }
    }

    template <int kMost>
    __device__ void linear_blocks(float* d, int begin, int blocks, int j, bool whole, const float* from) const {
        float c[4 * kMost], biases[2 * kMost];
        if constexpr (Config::kHasC)
            if (scalars.beta != 0.0f) load_c<kMost>(c, begin, blocks, j, whole);
        if constexpr (Config::kBias != kBiasNone) load_bias<kMost>(biases, blocks, from);
#pragma unroll
        for (int i = 0; i < 4 * kMost; ++i) {
            if (i >= 4 * blocks) continue;
            const int at = Config::kBias == kBiasM ? i / 2 % 2 : i / 4 * 2 + i % 2;
            d[i] = linear_value<Config>(scalars, d[i], Config::kHasC ? c[i] : 0.0f,
                                        Config::kBias != kBiasNone ? biases[at] : 0.0f);
        }
    }

    template <int kMost>
    __device__ void load_c(float (&c)[4 * kMost], int begin, int blocks, int j, bool whole) const {
        if constexpr (Config::kBulkC) return read_box<Config, kMost>(c, begin, blocks, box, thread);
        const Strided& s = params.c_strides;
        const i64 place = i64(batch) * s.batch;
        const i64 rows[2] = {place + clamped(row, params.m) * s.row, place + clamped(row + 8, params.m) * s.row};
        constexpr int kPairBytes = 2 * type_bytes(Config::kTypeC);
        // The up half of a split gate may begin at an odd column.
        const i64 steps = s.row | s.batch | j;
        const bool pairs = Config::kRowMajorD && whole &&
                           (reinterpret_cast<u64>(params.c) | steps * (kPairBytes / 2)) % kPairBytes == 0;
        if (pairs) {
#pragma unroll
            for (int pair = 0; pair < 2 * kMost; ++pair) {
                if (pair >= 2 * blocks) continue;
                const float2 both = load_pair<Config::kTypeC>(params.c, rows[pair % 2] + j + pair / 2 * 8);
                c[2 * pair] = both.x, c[2 * pair + 1] = both.y;
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < 4 * kMost; ++i)
            if (i < 4 * blocks)
                c[i] = load_element<Config::kTypeC>(params.c,
                                                    rows[i / 2 % 2] + clamped(j + i / 4 * 8 + i % 2, params.n) * s.col);
    }

    template <int kMost>
    __device__ static void load_bias(float (&biases)[2 * kMost], int blocks, const float* from) {
        if constexpr (Config::kBias == kBiasM) {
            biases[0] = from[0], biases[1] = from[8];
        } else {
#pragma unroll
            for (int block = 0; block < kMost; ++block) {
                if (block >= blocks) continue;
                const float2 both = load_pair<kTypeF32>(from, 8 * block);
                biases[2 * block] = both.x, biases[2 * block + 1] = both.y;
            }
        }
    }

    // GELU in turns: left alone, the compiler works on so many erfc at once that it spills (68 bytes for tiles of 256 x 128). A
    // turn takes the first accumulators, and all move up by as many, for registers cannot be indexed.
    __device__ void activate_all(float* d, float* up, int blocks, Largest<Config>& largest) const {
        constexpr int kMost = Config::kActivation == kActGeluErf ? 8 : kAccumulators;
        const int count = 4 * blocks, turn = kMost < count ? kMost : count;
#pragma unroll 1
        for (int first = 0; first < count; first += turn) {
            float done[kMost];
#pragma unroll
            for (int i = 0; i < kMost; ++i) {
                if (i >= turn || (kInterleaved && i % 2 == 1)) continue;
                done[i] = activated_value<Config>(params, d[i], kInterleaved ? d[i + 1] : kSplit ? up[i] : 0.0f);
                if (Config::kAmax && inside(first + i)) largest.note(done[i]);
            }
#pragma unroll
            for (int i = 0; i < kAccumulators; ++i) {
                if (i >= count) continue;
                const bool left = i + turn < count;
                if (left || !(kInterleaved && i % 2 == 1)) d[i] = left ? d[i + turn] : done[i + turn - count];
                if (kSplit && left) up[i] = up[i + turn];
            }
        }
    }

    __device__ static void scale(float* d, int blocks, float upper, float lower) {
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i)
            if (i < 4 * blocks) d[i] *= i / 2 % 2 ? lower : upper;
    }

    // The box is the 128 columns of one scale. NaN takes no part in the maximum.
    __device__ void divide_by_computed(float* d, int blocks) const {
        const int scales_of_row = (d_cols() + 127) / 128;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float largest = 0.0f;
#pragma unroll
            for (int i = 2 * half; i < kAccumulators; i += i % 2 ? 3 : 1)
                if (i < 4 * blocks && !(kInterleaved && i % 2) && inside(i)) largest = fmaxf(largest, fabsf(d[i]));
            for (int step = 1; step < 4; step *= 2)
                largest = fmaxf(largest, __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(largest), step)));
            const float scale = computed_scale<Config::kTypeD>(largest);
            const int i_row = row + 8 * half;
            if (lane % 4 == 0 && i_row < row_end && col < d_cols())
                params.epilogue.d_scales[(i64(batch) * params.m + i_row) * scales_of_row + col / 128] = scale;
#pragma unroll
            for (int i = 2 * half; i < kAccumulators; i += i % 2 ? 3 : 1)
                if (i < 4 * blocks) d[i] = d[i] / scale;
        }
    }
};

}  // namespace carat_kernel
