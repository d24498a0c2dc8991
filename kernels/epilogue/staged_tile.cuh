// SPDX-License-Identifier: Apache-2.0
// staged_tile.cuh: the epilogue of a block's tile that stands in shared memory as f32. Every thread sees all of it, so that
// an element of D may need two accumulators that lie anywhere in the tile (a gate), or the largest of 128 columns
// (computed scales); and consecutive lanes take consecutive elements of D, in runs of 4 where D's lines allow it.
// Config: kBM x kBN of D, kThreads, the epilogue's constants.
#pragma once

#include <epilogue/ops.cuh>
#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

// The first row and column of D that are not a tile's any more.
struct TileEnd {
    i64 row, col;
};

template <class Config>
struct StagedTile {
    static constexpr bool kRows = Config::kRowMajorD;  // lines, contiguous in memory, are rows of D; else columns
    static constexpr bool kScaled = Config::kOutScale == kOutScaleComputed;
    static constexpr int kParts = Config::kGate == kGateNone ? 1 : 2;  // accumulators of an element of D
    static constexpr int kCols = kParts * Config::kBN;                 // of accumulators
    static constexpr int kLine = kRows ? Config::kBN : Config::kBM, kLines = kRows ? Config::kBM : Config::kBN;
    // The padding lets the 8 rows (or 8 columns) of a fragment that are written at once meet different banks.
    static constexpr int kPitch = kRows ? kCols + 8 : Config::kBM + 4;
    static constexpr int kBytes = 4 * kPitch * (kRows ? Config::kBM : kCols);

    // Floats from the begin of the tile to an accumulator.
    static __device__ int at(int row, int col) { return kRows ? row * kPitch + col : col * kPitch + row; }
    // The column of accumulators for column j of D.
    static __device__ int source(int j, int part) {
        return Config::kGate == kGateInterleaved ? 2 * j + part : j + part * Config::kBN;
    }

    // A strip of 16 x 8 kBlocks accumulators of a warp, laid out as fragment.cuh says.
    template <int kBlocks>
    static __device__ void put_strip(float* tile, const float (&d)[4 * kBlocks], int row, int col) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
        for (int e = 0; e < 4 * kBlocks; ++e)
            tile[at(row + lane / 4 + e % 4 / 2 * 8, col + e / 4 * 8 + lane % 4 * 2 + e % 2)] = d[e];
    }

    // All threads, after a barrier. `where`: the tile's place in D.
    static __device__ void finish(const GemmParams& params, const Scalars& scalars, float* tile, const Tile& where,
                                  Largest<Config>& largest) {
        finish(params, scalars, tile, where, largest, {params.m, cols(params)});
    }
    // What lies before a row and a column of D.
    static __device__ void finish(const GemmParams& params, const Scalars& scalars, float* tile, const Tile& where,
                                  Largest<Config>& largest, const TileEnd& end) {
        if constexpr (kScaled) {
            scale_rows(params, scalars, tile, where, largest, end);
            __syncthreads();
        }
        const Strided& s = params.d_strides;
        const i64 first = where.row * s.row + where.col * s.col + where.batch * s.batch;
        const unsigned long long address = reinterpret_cast<unsigned long long>(params.d) + first * kElement;
        const bool aligned = address % (4 * kElement) == 0 && (kRows ? s.row : s.col) % 4 == 0;
        aligned ? store<4>(params, scalars, tile, where, first, end, largest)
                : store<1>(params, scalars, tile, where, first, end, largest);
    }

  private:
    static constexpr int kElement = type_bytes(Config::kTypeD), kScaleCols = 128;

    static __device__ i64 cols(const GemmParams& params) {
        return params.n / kParts;
    }

    // kRun: 1 or 4.
    template <int kRun>
    static __device__ void read(float* to, const float* from) {
        if constexpr (kRun == 4) {
            const float4 quad = *reinterpret_cast<const float4*>(from);
            to[0] = quad.x, to[1] = quad.y, to[2] = quad.z, to[3] = quad.w;
        } else {
            to[0] = *from;
        }
    }

    // The accumulators of kRun elements of a line of D from (row, col) of the tile on.
    template <int kRun>
    static __device__ void read_sums(float (&sums)[kRun][2], const float* tile, int row, int col) {
        constexpr bool kPairs = kRows && Config::kGate == kGateInterleaved;  // side by side in a line
        float run[kParts * kRun];
#pragma unroll
        for (int part = 0; part < kParts; ++part)
            read<kRun>(run + part * kRun,
                       tile + (kPairs ? at(row, source(col, 0)) + part * kRun : at(row, source(col, part))));
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
            sums[e][0] = run[kPairs ? 2 * e : e];
            sums[e][1] = kParts == 1 ? 0.0f : run[kPairs ? 2 * e + 1 : kRun + e];
        }
    }

    // Works the values of D out, the scale of each 128 columns of a row, and leaves the values divided by it in place of the
    // (first) accumulators. A warp takes 128 columns at a time, 4 a lane.
    static __device__ void scale_rows(const GemmParams& params, const Scalars& scalars, float* tile, const Tile& where,
                                      Largest<Config>& largest, const TileEnd& end) {
        constexpr int kPerRow = Config::kBN / kScaleCols, kEach = kScaleCols / 32;
        static_assert(Config::kBN % kScaleCols == 0, "a tile has whole blocks of columns under one scale");
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
        for (int block = warp; block < Config::kBM * kPerRow; block += Config::kThreads / 32) {
            const int row = block / kPerRow, first = block % kPerRow * kScaleCols;
            const i64 i = where.row + row;
            if (i >= end.row || where.col + first >= cols(params)) continue;
            float values[kEach] = {}, top = 0.0f;
#pragma unroll
            for (int e = 0; e < kEach; ++e) {
                const int col = first + lane + 32 * e;
                if (where.col + col >= cols(params)) continue;
                float sums[1][2];
                read_sums<1>(sums, tile, row, col);
                values[e] = epilogue_value<Config>(params, scalars, sums[0], where.batch, i, where.col + col);
                largest.note(values[e]);
                top = fmaxf(top, fabsf(values[e]));  // of a number and NaN, the number
            }
            const float scale = computed_scale<Config::kTypeD>(__uint_as_float(warp_max(__float_as_uint(top))));
#pragma unroll
            for (int e = 0; e < kEach; ++e) tile[at(row, source(first + lane + 32 * e, 0))] = values[e] / scale;
            const i64 per_row = (cols(params) + kScaleCols - 1) / kScaleCols;
            if (lane == 0)
                params.epilogue.d_scales[(i + where.batch * params.m) * per_row + (where.col + first) / kScaleCols] =
                    scale;
        }
    }

    // Those of kRun elements of D that are among the `left` that the line has.
    template <int kRun>
    static __device__ void write(void* d, i64 index, const float (&values)[kRun], i64 left) {
        if constexpr (kRun == 4) {
            if (left >= 4) return store_quad<Config::kTypeD>(d, index, values);
        }
#pragma unroll
        for (int e = 0; e < kRun; ++e)
            if (e < left) store_element<Config::kTypeD>(d, index + e, values[e]);
    }

    // `first`: elements from D's begin to the tile's.
    template <int kRun>
    static __device__ void store(const GemmParams& params, const Scalars& scalars, const float* tile, const Tile& where,
                                 i64 first, const TileEnd& end, Largest<Config>& largest) {
        constexpr int kRuns = kLine / kRun;  // of a line
        const i64 line_step = kRows ? params.d_strides.row : params.d_strides.col;
        const i64 lines = kRows ? end.row - where.row : end.col - where.col;
        const i64 length = kRows ? end.col - where.col : end.row - where.row;
#pragma unroll 1
        for (int run = static_cast<int>(threadIdx.x); run < kLines * kRuns; run += Config::kThreads) {
            const int line = run / kRuns, along = run % kRuns * kRun;
            if (line >= lines || along >= length) continue;
            const int row = kRows ? line : along, col = kRows ? along : line;
            float sums[kRun][2], values[kRun] = {};
            read_sums<kRun>(sums, tile, row, col);
#pragma unroll
            for (int e = 0; e < kRun; ++e) {
                if (along + e >= length) continue;
                const i64 i = where.row + row + (kRows ? 0 : e), j = where.col + col + (kRows ? e : 0);
                values[e] = kScaled ? sums[e][0] : epilogue_value<Config>(params, scalars, sums[e], where.batch, i, j);
                if (!kScaled) largest.note(values[e]);
                values[e] = output_value<Config>(params, values[e], where.batch, i);
            }
            write<kRun>(params.d, first + line * line_step + along, values, length - along);
        }
    }
};

}  // namespace carat_kernel
