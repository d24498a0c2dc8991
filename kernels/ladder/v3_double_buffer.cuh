// SPDX-License-Identifier: Apache-2.0
// v3_double_buffer.cuh: rung 3 of the ladder: a block copies the next panels while it multiplies the current ones, and
// copies 16 bytes at a time.
//
// A block of rung 2 waits from asking global memory until it has the values, at every step of K. Here
// - the loads of the next panels are issued before the multiplications of the current, into registers, and the values
//   go to the other of two buffers after them: they have the whole step to arrive, and one barrier a step is enough;
// - a thread's values for the next k are read from shared memory before those of the current are multiplied, across the
//   barrier, too;
// - a load of 16 bytes replaces four, which leaves their issue slots to multiply-adds.
// A thread has 8 x 16 elements, so 6 loads from shared memory serve 128 multiply-adds (8 x 8: 4 serve 64). With a
// step's copies that leaves 89 % of the issued instructions to multiply-adds at kBK = 8 and 91 % at 16 (counted in the
// machine code), which bounds what the rung can reach.
//
// An operand whose address or leading dimension is not a multiple of 16 bytes is loaded float by float, and so is what
// crosses its edge; the rest of the kernel does not change.
// Measured on an H200: 4096^3 47.3 TFLOP/s, 92 % of cuBLASLt; 8192^3 47.6 TFLOP/s, 92 % of cuBLASLt. See docs/ladder.md.
#pragma once

#include <ladder/v2_registers.cuh>

namespace carat_kernel {

// What one thread copies of an operand, four floats an item.
template <bool kAlongK, int kLength, int kDepth, int kThreads>
struct WideCopy {
    using Path = Walk<kAlongK, kLength, kDepth, kThreads, 4>;
    const float* from;
    i64 ld;
    int rows;             // that the operand has, from this thread's first item on
    int k, spot;          // of the first item: value of k, and float of the panel
    bool aligned, whole;  // whole: no edge of the operand in its panels but the end of K
    float4 items[Path::kItems];

    __device__ explicit WideCopy(const Operand& operand)
        : ld(operand.ld),
          k(Path::k(static_cast<int>(threadIdx.x))),
          aligned(reinterpret_cast<unsigned long long>(operand.from) % 16 == 0 && operand.ld % 4 == 0) {
        const int row = Path::row(static_cast<int>(threadIdx.x));
        from = operand.from + (kAlongK ? row * ld + k : k * ld + row);
        whole = aligned && operand.length >= kLength;
        rows = static_cast<int>(operand.length < kLength ? operand.length : kLength) - row;
        spot = k * (kLength + 4) + row;
    }

    __device__ const float* address(int i) const {
        return from + (kAlongK ? Path::rows_to(i) * ld + Path::k_to(i) : Path::k_to(i) * ld + Path::rows_to(i));
    }

    // Asks for the items of the next panel, of which `left` values of k exist; others are 0.
    __device__ void load(int left) {
        if (whole && left >= kDepth) {
#pragma unroll
            for (int i = 0; i < Path::kItems; ++i) items[i] = *reinterpret_cast<const float4*>(address(i));
        } else {
#pragma unroll
            for (int i = 0; i < Path::kItems; ++i) load_edge(i, left);
        }
        from += kAlongK ? kDepth : kDepth * ld;
    }
    __device__ void load_edge(int i, int left) {
        const int rs = rows - Path::rows_to(i), ks = left - k - Path::k_to(i);
        const int count = kAlongK ? (rs > 0 ? ks : 0) : (ks > 0 ? rs : 0);
        const float* at = address(i);
        items[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (aligned && count >= 4) {
            items[i] = *reinterpret_cast<const float4*>(at);
        } else {
            if (count > 0) items[i].x = at[0];
            if (count > 1) items[i].y = at[1];
            if (count > 2) items[i].z = at[2];
            if (count > 3) items[i].w = at[3];
        }
    }

    __device__ void store(Panel<kLength, kDepth>& panel) const {
#pragma unroll
        for (int i = 0; i < Path::kItems; ++i) {
            float* to = &panel.at[0][0] + spot + Path::k_to(i) * (kLength + 4) + Path::rows_to(i);
            if constexpr (kAlongK) {
                constexpr int kPitch = sizeof panel.at[0] / sizeof(float);
                to[0] = items[i].x;
                to[kPitch] = items[i].y;
                to[2 * kPitch] = items[i].z;
                to[3 * kPitch] = items[i].w;
            } else {
                *reinterpret_cast<float4*>(to) = items[i];
            }
        }
    }
};

// Config: as rung 2, and kStages, 2.
template <class Config>
__device__ void v3_double_buffer(const GemmParams& params) {
    static_assert(Config::kGate == kGateNone, "a thread has one accumulator for each of its elements");
    static_assert(Config::kStages == 2, "what is on its way lies in registers, so a third buffer would stay empty");
    static_assert(Config::kBK % 2 == 0, "a step starts with fragment 0");
    constexpr int kBK = Config::kBK, kThreads = ThreadTile<Config>::kThreads;
    __shared__ Panels<Config> buffers[Config::kStages];
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 depth = depth_of(params, scalars);
    const LinearTiles<Config::kBM, Config::kBN> walk(params.m, params.n, params.batch);

    for (i64 index = blockIdx.x; index < walk.count; index += gridDim.x) {
        const Tile tile = walk.at(index);
        WideCopy<Config::kRowMajorA, Config::kBM, kBK, kThreads> a(operand_a<Config>(params, tile));
        WideCopy<!Config::kRowMajorB, Config::kBN, kBK, kThreads> b(operand_b<Config>(params, tile));
        ThreadTile<Config> mine;
        Fragments<Config> fragments[2];
        const auto load = [&](i64 left) {
            const int within = static_cast<int>(left < kBK ? left : kBK);
            a.load(within);
            b.load(within);
        };
        const auto store = [&](Panels<Config>& panels) {
            a.store(panels.a);
            b.store(panels.b);
            __syncthreads();
        };

        int current = 0;
        if (depth > 0) {
            load(depth);
            store(buffers[current]);
            fragments[0].load(buffers[current], mine, 0);
        }
        i64 left = depth;
        for (; left >= kBK; left -= kBK) {
            load(left - kBK);  // after the last whole step nothing, so zeros go to the other buffer
#pragma unroll
            for (int k = 0; k < kBK; ++k) {
                if (k + 1 == kBK) store(buffers[current ^= 1]);
                fragments[(k + 1) % 2].load(buffers[current], mine, (k + 1) % kBK);
                fragments[k % 2].multiply(mine);
            }
        }
#pragma unroll 1
        for (int k = 0; k < left; ++k) {
            fragments[0].load(buffers[current], mine, k);
            fragments[0].multiply(mine);
        }
        __syncthreads();  // the next tile starts with buffer 0
        write_squares<Config>(params, scalars, tile.batch, tile.row + mine.row, tile.col + mine.col, mine.sums);
    }
}

}  // namespace carat_kernel
