// SPDX-License-Identifier: Apache-2.0
// v2_registers.cuh: rung 2 of the ladder: a thread computes kTM x kTN elements of D instead of one. It reads kTM values
// of A and kTN of B from shared memory and multiplies each with each: a value is used kTN or kTM times from a register.
//
// Against shared memory: rung 1 reads 8 bytes for 2 FLOP (0.25 FLOP/byte); here 4 (kTM + kTN) bytes serve 2 kTM kTN
// FLOP, 2 FLOP/byte at 8 x 8. In passes through shared memory: rung 1 takes two for each multiply-add of a warp; here a
// load of 16 bytes should take two, so 8 serve 64 multiply-adds, and the f32 units, which do four a clock, are busy
// twice as long as shared memory is. In instructions: 16 multiply-adds a load, where rung 1 has two loads for one.
// Against global memory: a tile of 128 x 128 makes 32 FLOP/byte, four times rung 1.
// What is left: a block that copies does not multiply, and only the other block of its SM fills that time. Rung 3 does
// both at once.
//
// - Panels of both operands lie in shared memory with K as the slow dimension, so that what a thread reads for one k is
//   contiguous and goes in loads of 16 bytes.
// - A lane's rows and columns come in squares of 4 x 4 (epilogue/squares.cuh): at a load of 16 bytes the 8 lanes across
//   read 128 contiguous bytes of B, all 32 banks once, and the 4 lanes down 64 of A; the others read what they read.
// - Copies are coalesced in every layout: threads walk the operand's contiguous dimension, 8 elements (one 32-byte
//   sector) or a whole line at a time. With a row of the panel 4 floats longer than its elements, a warp that walks 8
//   values of k and 4 rows writes to 32 different banks.
// - The end of K runs only over its real elements, so the sums are those of rung 0, bit for bit.
// Measured on an H200: 4096^3 39.6 TFLOP/s, 77 % of cuBLASLt; 8192^3 39.6 TFLOP/s, 77 % of cuBLASLt. See docs/ladder.md.
#pragma once

#include <epilogue/squares.cuh>
#include <mainloop/panels.cuh>

namespace carat_kernel {

// What one thread copies of an operand, one float an item.
template <bool kAlongK, int kLength, int kDepth, int kThreads>
struct Copy {
    using Path = Walk<kAlongK, kLength, kDepth, kThreads, 1>;
    const float* from;
    i64 ld;
    int row, k;  // of the first item
    int length;  // rows of the panel that the operand has
    float items[Path::kItems];

    __device__ explicit Copy(const Operand& operand)
        : ld(operand.ld),
          row(Path::row(static_cast<int>(threadIdx.x))),
          k(Path::k(static_cast<int>(threadIdx.x))),
          length(static_cast<int>(operand.length < kLength ? operand.length : kLength)) {
        from = operand.from + (kAlongK ? row * ld + k : k * ld + row);
    }

    // Takes the items of the next panel, of which `left` values of k exist; others are 0.
    __device__ void load(int left) {
#pragma unroll
        for (int i = 0; i < Path::kItems; ++i) {
            const int rows = Path::rows_to(i), ks = Path::k_to(i);
            const bool inside = row + rows < length && k + ks < left;
            items[i] = inside ? from[kAlongK ? rows * ld + ks : ks * ld + rows] : 0.0f;
        }
        from += kAlongK ? kDepth : kDepth * ld;
    }
    __device__ void store(Panel<kLength, kDepth>& panel) const {
#pragma unroll
        for (int i = 0; i < Path::kItems; ++i) panel.at[k + Path::k_to(i)][row + Path::rows_to(i)] = items[i];
    }
};

// A thread's elements of the block's tile.
template <class Config>
struct ThreadTile {
    static constexpr int kTM = Config::kTM, kTN = Config::kTN;
    static constexpr int kWarpsAcross = Config::kBN / (kLanesAcross * kTN);
    static constexpr int kThreads = Config::kBM / kTM * (Config::kBN / kTN);
    static_assert(kTM % 4 == 0 && kTN % 4 == 0, "a thread's elements are squares of 4 x 4");
    static_assert(Config::kBM % (kLanesDown * kTM) == 0 && Config::kBN % (kLanesAcross * kTN) == 0, "whole warps");

    int row, col;  // of its first square
    float sums[kTM][kTN] = {};

    // Lanes i and i ^ 1 share rows, i and i ^ 2 share columns: then one pass through shared memory serves a half-warp's
    // load of 16 bytes, and not just a quarter's.
    __device__ ThreadTile() {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        const int lane_row = (lane >> 1 & 1) | (lane >> 3 & 2), lane_col = (lane & 1) | (lane >> 1 & 6);
        row = warp / kWarpsAcross * kLanesDown * kTM + 4 * lane_row;
        col = warp % kWarpsAcross * kLanesAcross * kTN + 4 * lane_col;
    }
};

// What a thread needs of both panels for one k.
template <class Config>
struct alignas(16) Fragments {
    float a[Config::kTM], b[Config::kTN];

    __device__ void load(const Panels<Config>& panels, const ThreadTile<Config>& tile, int k) {
#pragma unroll
        for (int i = 0; i < Config::kTM; i += 4) load_quad(&a[i], &panels.a.at[k][tile.row + i / 4 * kSquareRows]);
#pragma unroll
        for (int j = 0; j < Config::kTN; j += 4) load_quad(&b[j], &panels.b.at[k][tile.col + j / 4 * kSquareCols]);
    }
    __device__ static void load_quad(float* to, const float* from) {
        *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    }
    __device__ void multiply(ThreadTile<Config>& tile) const {
#pragma unroll
        for (int i = 0; i < Config::kTM; ++i)
#pragma unroll
            for (int j = 0; j < Config::kTN; ++j) tile.sums[i][j] = fmaf(a[i], b[j], tile.sums[i][j]);
    }
};

// Config: a kBM x kBN tile of D and kBK of K a block, kTM x kTN a thread; kRowMajorA, kRowMajorB, kRowMajorD; the
// epilogue's constants, without a gate.
template <class Config>
__device__ void v2_registers(const GemmParams& params) {
    static_assert(Config::kGate == kGateNone, "a thread has one accumulator for each of its elements");
    constexpr int kBK = Config::kBK, kThreads = ThreadTile<Config>::kThreads;
    __shared__ Panels<Config> panels;
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 depth = depth_of(params, scalars);
    const LinearTiles<Config::kBM, Config::kBN> walk(params.m, params.n, params.batch);

    for (i64 index = blockIdx.x; index < walk.count; index += gridDim.x) {
        const Tile tile = walk.at(index);
        Copy<Config::kRowMajorA, Config::kBM, kBK, kThreads> a(operand_a<Config>(params, tile));
        Copy<!Config::kRowMajorB, Config::kBN, kBK, kThreads> b(operand_b<Config>(params, tile));
        ThreadTile<Config> mine;
        Fragments<Config> fragments;
        for (i64 k0 = 0; k0 < depth; k0 += kBK) {
            const int left = static_cast<int>(depth - k0 < kBK ? depth - k0 : kBK);
            a.load(left);
            b.load(left);
            __syncthreads();  // all have multiplied the panels that are about to be replaced
            a.store(panels.a);
            b.store(panels.b);
            __syncthreads();
            if (left == kBK) {
#pragma unroll
                for (int k = 0; k < kBK; ++k) {
                    fragments.load(panels, mine, k);
                    fragments.multiply(mine);
                }
            } else {
#pragma unroll 1
                for (int k = 0; k < left; ++k) {
                    fragments.load(panels, mine, k);
                    fragments.multiply(mine);
                }
            }
        }
        write_squares<Config>(params, scalars, tile.batch, tile.row + mine.row, tile.col + mine.col, mine.sums);
    }
}

}  // namespace carat_kernel
