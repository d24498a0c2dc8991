// SPDX-License-Identifier: Apache-2.0
// panels.cuh: tiles of f32 operands in shared memory with K as the slow dimension, so that what a thread reads for one
// k is contiguous; and how the threads of a block walk them.
#pragma once

#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

using namespace carat_shared;

// kLength rows of A (columns of B) by kDepth of K, as they lie in shared memory: [k][row].
template <int kLength, int kDepth>
struct alignas(16) Panel {
    float at[kDepth][kLength + 4];
};

template <class Config>
struct Panels {
    Panel<Config::kBM, Config::kBK> a;
    Panel<Config::kBN, Config::kBK> b;
};

// Where an operand's panels start, for one tile of D.
struct Operand {
    const float* from;
    i64 ld;      // the stride that is not 1
    i64 length;  // rows of A (columns of B) that are left
};

template <class Config>
__device__ Operand operand_a(const GemmParams& params, const Tile& tile) {
    const Strided& s = params.a_strides;
    return {static_cast<const float*>(params.a) + tile.batch * s.batch + tile.row * s.row,
            Config::kRowMajorA ? s.row : s.col, params.m - tile.row};
}
template <class Config>
__device__ Operand operand_b(const GemmParams& params, const Tile& tile) {
    const Strided& s = params.b_strides;
    return {static_cast<const float*>(params.b) + tile.batch * s.batch + tile.col * s.col,
            Config::kRowMajorB ? s.row : s.col, params.n - tile.col};
}

// How kThreads threads walk a panel, kWidth contiguous elements each, in passes. kAlongK: the operand is contiguous
// along K, and 8 / kWidth threads take 8 elements of a row.
template <bool kAlongK, int kLength, int kDepth, int kThreads, int kWidth>
struct Walk {
    static constexpr int kLanes = (kAlongK ? 8 : kLength) / kWidth;  // threads side by side
    static constexpr int kLines = kThreads / kLanes;
    static constexpr int kPassLength = !kAlongK || kLines > kLength ? kLength : kLines;
    static constexpr int kPassDepth = kAlongK ? 8 * (kLines / kPassLength) : kLines;
    static constexpr int kPassesAcross = kLength / kPassLength;
    static constexpr int kItems = kPassesAcross * (kDepth / kPassDepth);
    static_assert(kItems * kThreads * kWidth == kLength * kDepth, "every thread copies the same number of elements");

    // Of a thread's first item in the panel.
    __device__ static int row(int thread) { return kAlongK ? thread / kLanes % kPassLength : thread % kLanes * kWidth; }
    __device__ static int k(int thread) {
        return kAlongK ? thread % kLanes * kWidth + thread / (kLanes * kPassLength) * 8 : thread / kLanes;
    }
    // From there to item i.
    __device__ static constexpr int rows_to(int i) { return i % kPassesAcross * kPassLength; }
    __device__ static constexpr int k_to(int i) { return i / kPassesAcross * kPassDepth; }
};

}  // namespace carat_kernel
