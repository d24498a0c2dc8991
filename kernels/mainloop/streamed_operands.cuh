// SPDX-License-Identifier: Apache-2.0
// streamed_operands.cuh: operands of 16 bits on their way to the fragments of mma.sync, each lane on its own: it copies
// what its registers will hold into a ring of its own in shared memory, and nobody else reads or writes there. So a lane
// waits for its own copies alone, and as much is on its way as the ring holds. (Loads into registers need no ring, but the
// assembler moves them behind the products of a whole round of steps, by when everything has arrived and nothing is on its
// way.)
// A (at most 16 rows: tokens) is the instruction's A; B (weights) comes in blocks of 8 columns. A step is 32 of K. A product
// does not mind the order of K as long as both operands have the same, so lane q of each four takes the 8 consecutive k from
// 8q on, in two instructions of 16: a chunk of 16 bytes, whose words lie as the instruction wants them of its B. (With the
// weights as its A, each instruction costs four moves. That 8 of A's rows are idle for 8 tokens costs no time.)
// - B column-major: K is contiguous. Chunk c of a lane is 8 k of row 8c + lane / 4 of the warp's strip: block c.
// - B row-major: N is contiguous. Chunk c is 8 rows, from 8 (lane / 4) on, of k = 8q + c; block b has row b of each lane, and
//   pairs along K are put together of the halves of two chunks. The strip has 64 rows then.
// All elements beyond K are zeros in both operands; rows beyond a tile are not read or come to nothing.
// Two ways: whole chunks at multiples of 16 bytes, or (kCut) chunks cut out of the two granules of 16 aligned bytes that they
// lie in; where those reach beyond the operand, or K ends, elements are read one at a time.
#pragma once

#include <shared/gemm_params.h>
#include <mainloop/cut_chunk.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/prefetch.cuh>
#include <scheduler/column_runs.cuh>

namespace carat_kernel {

using namespace carat_shared;

constexpr int kStreamStep = 32;  // of K

// A step of a warp in a tile, seen from a lane: its first row and its first k.
struct StreamPlace {
    const unsigned short *weights, *tokens;
    int k_left;     // from there on; none or less: nothing is read
    int rows_left;  // of the tile, from there on
    int step;       // of the tile
    RunTile tile;
};

// Config: kTN rows of B a warp, kBM = 8 or 16 rows of A at most, kStages of the ring for whole chunks, kThreads,
// kRowMajorA, kRowMajorB, kGate; kWholeChunks: extents, pitches and strides are multiples of 8 elements.
template <class Config, bool kCut>
struct StreamedOperands {
    static constexpr int kRows = Config::kTN, kBlocks = kRows / 8, kTokenChunks = Config::kBM / 8;
    static constexpr int kRuns = Config::kGate == kGateSplit ? 2 : 1;  // of rows of B that lie side by side
    static constexpr int kRunRows = kRows / kRuns;
    static constexpr int kPair = Config::kGate == kGateInterleaved ? 2 : 1;  // of them side by side for a column of D
    static constexpr bool kKMajor = !Config::kRowMajorB;
    static_assert(kRows % (8 * kRuns) == 0 && (kKMajor || kRows == 64));

    // Of a step of a lane: chunks, or granules, of which two make one. A column-major A is gathered into chunks.
    static constexpr int kGranules = kCut ? 2 : 1, kTokenGranules = kCut && Config::kRowMajorA ? 2 : 1;
    static constexpr int kSlots = kBlocks * kGranules + kTokenChunks * kTokenGranules;
    static constexpr int kSlotBytes = 16 * Config::kThreads;
    static constexpr int kRingBytes = Config::kStages * (kBlocks + kTokenChunks) * kSlotBytes;
    // Steps that fit; of one, where few are cut, none is ahead.
    static constexpr int kDepth = kRingBytes / (kSlots * kSlotBytes);
    static_assert(kDepth >= 1);

    // Elements from one k, one row of A and one column of B to the next: those that are 1 are known to the compiler.
    static __device__ i64 a_k(const GemmParams& params) { return Config::kRowMajorA ? 1 : params.a_strides.col; }
    static __device__ i64 a_m(const GemmParams& params) { return Config::kRowMajorA ? params.a_strides.row : 1; }
    static __device__ i64 b_k(const GemmParams& params) { return kKMajor ? 1 : params.b_strides.row; }
    static __device__ i64 b_n(const GemmParams& params) { return kKMajor ? params.b_strides.col : 1; }

    // Where column `col` of a block lies among the accumulators of a tile, of which `run_cols` belong to each run of B.
    static __device__ int column(int block, int col, int strip, int run_cols) {
        const int row = kKMajor ? 8 * block + col : 8 * col + block;
        return row / kRunRows * run_cols + strip * kRunRows + row % kRunRows;
    }

    // Step 0 of a tile. depth: of K; strip, k: the warp's.
    static __device__ StreamPlace first(const GemmParams& params, const RunTile& tile, i64 depth, int strip, int k,
                                        int lane) {
        const int row = kKMajor ? lane / 4 : lane / 4 * 8, of_run = strip * kRunRows + row % kRunRows;
        const i64 col = kPair * tile.col + of_run + row / kRunRows * (params.n / 2);
        k += 8 * (lane % 4);
        StreamPlace at;
        at.weights = weights(params, tile) + col * b_n(params) + k * b_k(params);
        at.tokens = tokens(params, tile) + lane / 4 * a_m(params) + k * a_k(params);
        at.k_left = tile.cols == 0 ? 0 : static_cast<int>(depth) - k;
        at.rows_left = kPair * tile.cols - of_run;
        at.step = 0;
        at.tile = tile;
        return at;
    }

    static __device__ void advance(const GemmParams& params, StreamPlace& at, int k) {
        at.weights += k * b_k(params);
        at.tokens += k * a_k(params);
        at.k_left -= k;
        ++at.step;
    }

    // Asks for a step. ring: shared address of this lane's first slot of it.
    static __device__ void ask(const GemmParams& params, const StreamPlace& at, unsigned ring, int lane) {
#pragma unroll
        for (int c = 0; c < kBlocks; ++c) {
            const unsigned short* const from = at.weights + to_chunk(params, c);
            const unsigned to = ring + c * kGranules * kSlotBytes;
            const bool inside =
                kKMajor ? 0 < at.k_left && 8 * c % kRunRows < at.rows_left : c < at.k_left && 0 < at.rows_left;
            if constexpr (!kCut)
                cp_async_16_once(to, from, inside);
            else
                ask_granules(to, from, inside ? up_to_8(kKMajor ? at.k_left : at.rows_left) : 0,
                             weights(params, at.tile), weights_end(params, at.tile));
        }
#pragma unroll
        for (int c = 0; c < kTokenChunks; ++c) {
            const unsigned short* const from = at.tokens + 8 * c * a_m(params);
            const unsigned to = ring + (kBlocks * kGranules + c * kTokenGranules) * kSlotBytes;
            const bool inside = 0 < at.k_left && lane / 4 + 8 * c < params.m;
            if constexpr (!Config::kRowMajorA)
                gather(to, from, a_k(params), inside ? up_to_8(at.k_left) : 0);
            else if constexpr (!kCut)
                cp_async_16_cached(to, from, inside);
            else
                ask_granules(to, from, inside ? up_to_8(at.k_left) : 0, tokens(params, at.tile),
                             tokens_end(params, at.tile));
        }
    }

    // Rows of B of a tile on their way to L2, from their begin on, `k` elements of each. Whole chunks of a column-major B
    // only. Of a strip's kWarps warps each asks for a few rows, a lane for each, since the lanes take turns.
    template <int kWarps>
    static __device__ void fetch_rows(const GemmParams& params, const RunTile& tile, int k, int strip, int warp,
                                      int lane) {
        if constexpr (kKMajor && !kCut) {
            constexpr int kEach = (kRows + kWarps - 1) / kWarps;
            static_assert(kEach <= 32);
            const int row = warp * kEach + lane, of_run = strip * kRunRows + row % kRunRows;
            if (lane >= kEach || row >= kRows || k == 0 || of_run >= kPair * tile.cols) return;
            const i64 col = kPair * tile.col + of_run + row / kRunRows * (params.n / 2);
            prefetch_run_to_l2(weights(params, tile) + col * b_n(params), 2u * static_cast<unsigned>(k));
        }
    }

    // A step that has come. `begin`: of its tile, from where a chunk's place within its granules is known.
    struct Step {
        Chunk weights[kBlocks], tokens[kTokenChunks];

        __device__ Step(const GemmParams& params, const StreamPlace& begin, const char* ring) {
#pragma unroll
            for (int c = 0; c < kBlocks; ++c)
                weights[c] = take<kGranules>(ring + c * kGranules * kSlotBytes, begin.weights + to_chunk(params, c));
#pragma unroll
            for (int c = 0; c < kTokenChunks; ++c)
                tokens[c] = take<kTokenGranules>(ring + (kBlocks * kGranules + c * kTokenGranules) * kSlotBytes,
                                                 begin.tokens + 8 * c * a_m(params));
        }

        // What instruction `part` (0, 1) of the step takes of a block of B, and of A.
        __device__ void fragment_b(unsigned (&b)[2], int block, int part) const {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int word = 2 * part + i;
                if constexpr (kKMajor) {
                    b[i] = weights[block].words[word];
                } else {
                    const unsigned first = weights[2 * word].words[block / 2],
                                   second = weights[2 * word + 1].words[block / 2];
                    b[i] = block % 2 ? first >> 16 | (second & 0xffff0000u) : (first & 0xffffu) | second << 16;
                }
            }
        }
        __device__ void fragment_a(unsigned (&a)[4], int part) const {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                a[i] = i % 2 < kTokenChunks ? tokens[i % 2 % kTokenChunks].words[2 * part + i / 2] : 0;
        }
    };

  private:
    static __device__ const unsigned short* weights(const GemmParams& params, const RunTile& tile) {
        return static_cast<const unsigned short*>(params.b) + tile.batch * params.b_strides.batch;
    }
    static __device__ const unsigned short* weights_end(const GemmParams& params, const RunTile& tile) {
        return weights(params, tile) + (params.k - 1) * b_k(params) + (params.n - 1) * b_n(params) + 1;
    }
    static __device__ const unsigned short* tokens(const GemmParams& params, const RunTile& tile) {
        return static_cast<const unsigned short*>(params.a) + tile.batch * params.a_strides.batch;
    }
    static __device__ const unsigned short* tokens_end(const GemmParams& params, const RunTile& tile) {
        return tokens(params, tile) + (params.m - 1) * a_m(params) + (params.k - 1) * a_k(params) + 1;
    }

    // Elements from a lane's first chunk of B to chunk c.
    static __device__ i64 to_chunk(const GemmParams& params, int c) {
        if constexpr (kKMajor) return (8 * c % kRunRows + 8 * c / kRunRows * (params.n / 2)) * b_n(params);
        return c * b_k(params);
    }

    static __device__ int up_to_8(int count) {
        return count < 8 ? count : 8;
    }
    static __device__ int shift_of(const unsigned short* from) {
        return static_cast<int>(reinterpret_cast<u64>(from) % 16) / 2;
    }

    // The two granules of 8 elements, of which `count` are wanted. Whatever else is in them is cut away, and read only where
    // it lies between the operand's begin and end.
    static __device__ void ask_granules(unsigned to, const unsigned short* from, int count, const unsigned short* begin,
                                        const unsigned short* end) {
        const int shift = shift_of(from);
        const unsigned short* const low = from - shift;
        const bool whole = count == 8 && low >= begin && low + 16 <= end;
        if (whole || count <= 0) {
            cp_async_16_once(to, low, whole);
            cp_async_16_once(to + kSlotBytes, low + 8, whole);
            return;
        }
        Chunk granules[2] = {};
#pragma unroll
        for (int i = 0; i < 16; ++i)
            if (i >= shift && i < shift + count)
                granules[i / 8].words[i % 8 / 2] |= static_cast<unsigned>(low[i]) << i % 2 * 16;
        store_shared(to, granules[0]);
        store_shared(to + kSlotBytes, granules[1]);
    }

    static __device__ void gather(unsigned to, const unsigned short* from, i64 step, int count) {
        Chunk chunk = {};
#pragma unroll
        for (int e = 0; e < 8; ++e)
            if (e < count) chunk.words[e / 2] |= static_cast<unsigned>(from[e * step]) << e % 2 * 16;
        store_shared(to, chunk);
    }

    template <int kOf>
    static __device__ Chunk take(const char* slot, const unsigned short* from) {
        const Chunk low = *reinterpret_cast<const Chunk*>(slot);
        if constexpr (kOf == 1) return low;
        return cut_chunk(low, *reinterpret_cast<const Chunk*>(slot + kSlotBytes), shift_of(from));
    }
};

}  // namespace carat_kernel
