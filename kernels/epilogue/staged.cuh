// SPDX-License-Identifier: Apache-2.0
// staged.cuh: the epilogue of a part of D that a warp has put into shared memory as f32, in D's order: consecutive lanes
// take consecutive elements of D, so C is read and D is written in whole sectors in either order, and the epilogue is
// compiled once, in a loop. (Inlined for each of 128 accumulators, GELU made 25000 instructions and 20 s of compilation.)
#pragma once

#include <epilogue/ops.cuh>

namespace carat_kernel {

// Which epilogues are better staged than unrolled over a thread's accumulators: those that read C, write D's columns, or
// have many instructions. The host asks the same (dispatch/rows_wgmma.cpp), to set shared memory aside.
template <class Config>
__device__ constexpr bool wants_staging() {
    return !Config::kRowMajorD || Config::kHasC || Config::kActivation > kActRelu;
}

// kPad: floats between two lines, against bank conflicts.
template <class Config, int kRows, int kCols, int kPad>
struct StagedPart {
    static constexpr int kLine = Config::kRowMajorD ? kCols : kRows, kLines = Config::kRowMajorD ? kRows : kCols;
    static constexpr int kPitch = kLine + kPad, kBytes = 4 * kPitch * kLines;

    // Floats from the begin of the part to an element.
    static __device__ int at(int row, int col) { return Config::kRowMajorD ? row * kPitch + col : col * kPitch + row; }

    // (i, j): the part's first element in D. All lanes of the warp call it, after __syncwarp().
    static __device__ void finish(const GemmParams& params, const Scalars& scalars, const float* part, i64 batch, i64 i,
                                  i64 j, Largest<Config>& largest) {
        constexpr int kLanes = kLine < 32 ? kLine : 32;  // along a line
        const Strided& s = params.d_strides;
        const i64 left = Config::kRowMajorD ? params.m - i : params.n - j;
        const int lane = static_cast<int>(threadIdx.x) % 32, lines = left < kLines ? static_cast<int>(left) : kLines;
        for (int along = lane % kLanes; along < kLine; along += kLanes) {
            if (Config::kRowMajorD ? j + along >= params.n : i + along >= params.m) continue;
            for (int line = lane / kLanes; line < lines; line += 32 / kLanes) {
                const i64 row = i + (Config::kRowMajorD ? line : along), col = j + (Config::kRowMajorD ? along : line);
                const float accumulators[2] = {part[line * kPitch + along], 0.0f};
                const float v = epilogue_value<Config>(params, scalars, accumulators, batch, row, col);
                largest.note(v);
                store_element<Config::kTypeD>(params.d, row * s.row + col * s.col + batch * s.batch,
                                              output_value<Config>(params, v, batch, row));
            }
        }
    }
};

// A strip of 16 x kCols accumulators, laid out as fragment.cuh says, through `part`, which belongs to the warp.
template <class Config, int kCols>
struct StagedStrip : StagedPart<Config, 16, kCols, Config::kRowMajorD ? 8 : 4> {
    using Part = StagedPart<Config, 16, kCols, Config::kRowMajorD ? 8 : 4>;

    static __device__ void finish(const GemmParams& params, const Scalars& scalars, const float* d, float* part,
                                  i64 batch, i64 i, i64 j, Largest<Config>& largest) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        __syncwarp();  // what was there is read
#pragma unroll
        for (int e = 0; e < kCols / 2; ++e)
            part[Part::at(lane / 4 + e % 4 / 2 * 8, e / 4 * 8 + lane % 4 * 2 + e % 2)] = d[e];
        __syncwarp();
        Part::finish(params, scalars, part, batch, i, j, largest);
    }
};

}  // namespace carat_kernel
