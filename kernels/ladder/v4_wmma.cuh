// SPDX-License-Identifier: Apache-2.0
// v4_wmma.cuh: rung 4 of the ladder: the tensor cores, by WMMA.
// What changed from rung 3: a warp multiplies 16 x 16 x 16 fragments of 16-bit elements instead of a thread multiplying
// floats. On Hopper that is 4096 FLOP a clock of an SM (as wgmma; this instruction reaches about 0.63 of it) against 256,
// and half the bytes an element. With this much arithmetic the loads decide, hence:
// - A block of 8 warps computes 128 x 128 of D, a warp 64 x 32: for 16 of K it loads 4 fragments of A and 2 of B and
//   multiplies 8 times.
// - Two buffers in shared memory and one barrier for 64 of K: while one is multiplied, the next tile is on its way from
//   global memory into registers, from where it goes to the other buffer.
// - Lines of 128 bytes lie 144 apart: a fragment's 8 rows of 16 bytes then hit 8 different groups of banks. (WMMA takes
//   a base and a pitch, so it cannot read swizzled lines.)
// Which elements a lane holds is not defined, so the epilogue goes through shared memory: each warp stores its part
// there, in D's order, and reads it back element by element.
// Expected: several times rung 3, and still far from the instruction's own rate: fragments are loaded, then multiplied,
// and only what the two warps of a scheduler do by chance overlaps.
// Measured on an H200: 4096^3 193 TFLOP/s, 25 % of cuBLASLt; 8192^3 191 TFLOP/s, 25 % of cuBLASLt. See docs/ladder.md.
#pragma once

#include <epilogue/staged.cuh>
#include <mainloop/tile_copy.cuh>
#include <ptx/wmma.cuh>
#include <scheduler/linear_tiles.cuh>

namespace carat_kernel {

// Config: kBM x kBN a block, kBK = 64, kThreads; kTypeA, kRowMajorA, kRowMajorB, kRowMajorD; the epilogue's constants.
template <class Config>
struct V4 {
    static_assert(Config::kBK == 64, "a line of shared memory holds 64 elements");
    static constexpr int kPitch = 144, kLd = kPitch / 2;
    using CopyA = TileCopy<Config::kRowMajorA, Config::kBM, Config::kThreads, kPitch>;
    using CopyB = TileCopy<!Config::kRowMajorB, Config::kBN, Config::kThreads, kPitch>;
    static constexpr int kBufferBytes = CopyA::kBytes + CopyB::kBytes;
    static constexpr int kRows = 64, kWarpsAcross = Config::kThreads / 32 / (Config::kBM / kRows);
    static constexpr int kCols = Config::kBN / kWarpsAcross;  // a warp's part: kRows x kCols
    static constexpr int kDown = kRows / 16, kAcross = kCols / 16;
    static constexpr wmma::Layout kLayoutA = Config::kRowMajorA ? wmma::row_major : wmma::col_major;
    static constexpr wmma::Layout kLayoutB = Config::kRowMajorB ? wmma::row_major : wmma::col_major;
    static constexpr wmma::Layout kLayoutD = Config::kRowMajorD ? wmma::row_major : wmma::col_major;
    using Part = StagedPart<Config, kRows, kCols, 4>;
    static_assert(Part::kBytes * (Config::kThreads / 32) <= 2 * kBufferBytes, "the parts take the buffers' place");

    static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
    static __device__ int warp_row() { return warp() / kWarpsAcross * kRows; }
    static __device__ int warp_col() { return warp() % kWarpsAcross * kCols; }

    // The shared address of elements (mn, k) of a tile.
    template <bool kKMajor>
    static __device__ unsigned at(unsigned tile, int mn, int k) {
        const int line = kKMajor ? mn : mn / 64 * 64 + k, element = kKMajor ? k : mn % 64;
        return tile + static_cast<unsigned>(line * kPitch + element * 2);
    }

    static __device__ void multiply(unsigned buffer, wmma::accumulator_fragment (&d)[kDown][kAcross]) {
#pragma unroll
        for (int k = 0; k < Config::kBK; k += 16) {
            wmma::fragment<wmma::matrix_a, Config::kTypeA, kLayoutA> a[kDown];
            wmma::fragment<wmma::matrix_b, Config::kTypeA, kLayoutB> b[kAcross];
#pragma unroll
            for (int i = 0; i < kDown; ++i)
                load_matrix_sync(a[i], at<Config::kRowMajorA>(buffer, warp_row() + 16 * i, k), kLd);
#pragma unroll
            for (int j = 0; j < kAcross; ++j)
                load_matrix_sync(b[j], at<!Config::kRowMajorB>(buffer + CopyA::kBytes, warp_col() + 16 * j, k), kLd);
#pragma unroll
            for (int i = 0; i < kDown; ++i)
#pragma unroll
                for (int j = 0; j < kAcross; ++j) mma_sync(d[i][j], a[i], b[j]);
        }
    }

    static __device__ void accumulate(CopyA& a, CopyB& b, i64 depth, wmma::accumulator_fragment (&d)[kDown][kAcross]) {
        unsigned buffer = shared_address(dynamic_shared()), other = buffer + kBufferBytes;
        a.copy(buffer);
        b.copy(buffer + CopyA::kBytes);
        __syncthreads();
        for (i64 k = 0; k < depth; k += Config::kBK) {
            Chunk next_a[CopyA::kPasses], next_b[CopyB::kPasses];
            a.advance();
            b.advance();
#pragma unroll
            for (int pass = 0; pass < CopyA::kPasses; ++pass) next_a[pass] = a.load(pass);
#pragma unroll
            for (int pass = 0; pass < CopyB::kPasses; ++pass) next_b[pass] = b.load(pass);
            multiply(buffer, d);
#pragma unroll
            for (int pass = 0; pass < CopyA::kPasses; ++pass) a.store(pass, other, next_a[pass]);
#pragma unroll
            for (int pass = 0; pass < CopyB::kPasses; ++pass) b.store(pass, other + CopyA::kBytes, next_b[pass]);
            __syncthreads();
            const unsigned multiplied = buffer;
            buffer = other;
            other = multiplied;
        }
    }

    // The warp's part through shared memory to D. Nobody reads the buffers any more.
    static __device__ void finish(const GemmParams& params, const Scalars& scalars, const Tile& tile,
                                  const wmma::accumulator_fragment (&d)[kDown][kAcross]) {
        const float* const part = reinterpret_cast<const float*>(dynamic_shared() + warp() * Part::kBytes);
#pragma unroll
        for (int i = 0; i < kDown; ++i)
#pragma unroll
            for (int j = 0; j < kAcross; ++j)
                wmma::store_matrix_sync<kLayoutD>(shared_address(part + Part::at(16 * i, 16 * j)), d[i][j],
                                                  Part::kPitch);
        __syncwarp();
        Largest<Config> largest;
        Part::finish(params, scalars, part, tile.batch, tile.row + warp_row(), tile.col + warp_col(), largest);
        largest.publish(params);
    }
};

template <class Config>
__device__ void v4_wmma(const GemmParams& params) {
    using Kernel = V4<Config>;
    const Scalars scalars = load_scalars<Config>(params.epilogue);
    const i64 depth = depth_of(params, scalars);
    const LinearTiles<Config::kBM, Config::kBN> walk(params.m, params.n, params.batch);
    const Strided &as = params.a_strides, &bs = params.b_strides;
    const int thread = static_cast<int>(threadIdx.x);

    for (i64 index = blockIdx.x; index < walk.count; index += gridDim.x) {
        const Tile tile = walk.at(index);
        wmma::accumulator_fragment d[Kernel::kDown][Kernel::kAcross];
        for (auto& row : d)
            for (auto& fragment : row) fill_fragment(fragment, 0.0f);
        if (depth > 0) {
            typename Kernel::CopyA a(static_cast<const unsigned short*>(params.a) + tile.batch * as.batch, as.row,
                                     as.col, params.m, depth, tile.row, 0, thread);
            typename Kernel::CopyB b(static_cast<const unsigned short*>(params.b) + tile.batch * bs.batch, bs.col,
                                     bs.row, params.n, depth, tile.col, 0, thread);
            Kernel::accumulate(a, b, depth, d);
        }
        Kernel::finish(params, scalars, tile, d);
        __syncthreads();  // before the next tile's copies
    }
}

}  // namespace carat_kernel
