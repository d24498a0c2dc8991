// SPDX-License-Identifier: Apache-2.0
// align_lines.cuh: operands whose pitch or address is no multiple of 16 bytes, copied to one that is, for the copy engine:
// every address that it reads, a box's included, must be such a multiple, so that no descriptor helps.
// A warp takes a line, each lane chunks of 16 bytes of the new one, cut out of the two that they lie in. Several loads of a
// lane are on their way together: where each waited for the one before, 34 MB of bf16 took some 30 us.
#pragma once

#include <shared/gemm_params.h>
#include <mainloop/cut_chunk.cuh>
#include <ptx/block.cuh>
#include <ptx/dependent_launch.cuh>

namespace carat_kernel {

using namespace carat_shared;

// A line of `length` elements by one warp. begin, end: what may be read around it. All of a line's chunks lie equally far off
// the granules of 16 bytes; the first and the last may not have both of theirs within the operand, and are read by elements.
__device__ inline void align_line(const unsigned short* from, Chunk* to, int length, const unsigned short* begin,
                                  const unsigned short* end) {
    constexpr int kTogether = 4, kStep = kWarpThreads * kTogether;
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads, chunks = (length + 7) / 8;
    const int shift = static_cast<int>(reinterpret_cast<u64>(from) % 16) / 2;  // elements
    const Chunk* const granules = reinterpret_cast<const Chunk*>(from - shift);
    const i64 readable = (end - (from - shift)) / 8 - (shift ? 1 : 0);
    const int first_whole = from - shift < begin ? 1 : 0,
              end_whole = readable < length / 8 ? static_cast<int>(readable) : length / 8;
    for (int first = lane; first < chunks; first += kStep) {
        Chunk low[kTogether], high[kTogether];
        // No branch but around the loads: they leave together.
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            const int at = first + i * kWarpThreads;
            if (at < first_whole || at >= end_whole) continue;
            low[i] = granules[at];
            high[i] = granules[shift ? at + 1 : at];
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            const int at = first + i * kWarpThreads, left = length - at * 8;
            if (at >= first_whole && at < end_whole)
                to[at] = cut_chunk(low[i], high[i], shift);
            else if (at < chunks)
                to[at] = load_chunk(from + at * 8, left < 8 ? left : 8, begin, end);
        }
    }
}

// Config: kThreads.
template <class Config>
__device__ void align_lines(const AlignParams& params) {
    wait_for_kernels_before();  // of which one may still read the copies of the last call
    if (params.alpha_device != nullptr && *params.alpha_device == 0.0f) return;  // A and B are not read
    constexpr int kWarps = Config::kThreads / kWarpThreads;
    const i64 warp = i64(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads, warps = i64(gridDim.x) * kWarps;
    for (int operand = 0; operand < params.count; ++operand) {
        const LinesToAlign& x = params.operands[operand];
        const unsigned short* const begin = static_cast<const unsigned short*>(x.from);
        const unsigned short* const end = begin + (x.batch - 1) * x.batch_stride + (x.lines - 1) * x.pitch + x.length;
        for (i64 line = warp; line < x.lines * x.batch; line += warps) {
            const i64 z = line / x.lines;
            align_line(begin + z * x.batch_stride + (line - z * x.lines) * x.pitch,
                       static_cast<Chunk*>(x.to) + line * (x.to_pitch / 8), static_cast<int>(x.length), begin, end);
        }
    }
}

}  // namespace carat_kernel
