// SPDX-License-Identifier: Apache-2.0
// drain.cuh: a box of shared memory (store/box_layout.cuh) written to D by the warpgroup's threads, where the copy engine does
// not take D's address or pitch, or the box is not whole: in the widest words that these allow, consecutive threads side by side.
#pragma once

#include <epilogue/ops.cuh>
#include <store/box_layout.cuh>

namespace carat_kernel {

// Where a box goes: its first element of D, and how much of it is to be stored.
struct BoxPlace {
    int row, col, batch;
    int rows, cols;
};

// One word of kBytes.
template <int kBytes>
struct WordOf;
template <>
struct WordOf<16> {
    using type = Chunk;
};
template <>
struct WordOf<8> {
    using type = u64;
};
template <>
struct WordOf<4> {
    using type = unsigned;
};
template <>
struct WordOf<2> {
    using type = unsigned short;
};
template <>
struct WordOf<1> {
    using type = unsigned char;
};

// The warpgroup writes a box to D in words of kWidth bytes; a word that D ends in, element by element.
template <class Config, int kWidth>
__device__ void drain_words(const GemmParams& params, const char* box, const BoxPlace& place, unsigned thread) {
    using Layout = BoxLayout<Config>;
    using Word = typename WordOf<kWidth>::type;
    using Element = typename WordOf<Layout::kElement>::type;
    constexpr unsigned kLineOf = Config::kRowMajorD ? kLineBytes : Layout::kColumnBytes;
    constexpr int kElements = kWidth / Layout::kElement;
    const Strided& s = params.d_strides;
    const i64 pitch = Config::kRowMajorD ? s.row : s.col;
    const int lines = Config::kRowMajorD ? place.rows : place.cols,
              length = Config::kRowMajorD ? place.cols : place.rows;
    Element* const d = static_cast<Element*>(params.d) + place.row * s.row + place.col * s.col + place.batch * s.batch;
    for (unsigned byte = thread * kWidth; byte < kStoreBoxBytes; byte += kWarpgroupThreads * kWidth) {
        const int line = static_cast<int>(byte / kLineOf), along = static_cast<int>(byte % kLineOf / Layout::kElement);
        if (line >= lines) break;
        const char* from = box + Layout::swizzled(byte);
        Element* const to = d + line * pitch + along;
        if (along + kElements <= length)
            *reinterpret_cast<Word*>(to) = *reinterpret_cast<const Word*>(from);
        else
            for (int e = 0; e < length - along; ++e) to[e] = reinterpret_cast<const Element*>(from)[e];
    }
}

// The part of a box that is D's.
template <class Config>
__device__ BoxPlace within_d(const GemmParams& params, BoxPlace place) {
    const i64 rows = params.m - place.row, cols = params.n / (Config::kGate == kGateNone ? 1 : 2) - place.col;
    if (rows < place.rows) place.rows = static_cast<int>(rows);
    if (cols < place.cols) place.cols = static_cast<int>(cols);
    return place;
}

template <class Config>
__device__ void drain_box(const GemmParams& params, const char* box, const BoxPlace& place, unsigned thread) {
    const Strided& s = params.d_strides;
    const u64 steps = (Config::kRowMajorD ? s.row : s.col) | s.batch;
    const u64 bits = reinterpret_cast<u64>(params.d) | steps * BoxLayout<Config>::kElement;
    constexpr int kLeast = BoxLayout<Config>::kElement;
    if (bits % 16 == 0) return drain_words<Config, 16>(params, box, place, thread);
    if (bits % 8 == 0) return drain_words<Config, 8>(params, box, place, thread);
    if (kLeast <= 4 && bits % 4 == 0) return drain_words<Config, 4>(params, box, place, thread);
    if constexpr (kLeast == 2) return drain_words<Config, 2>(params, box, place, thread);
    if constexpr (kLeast == 1)
        return bits % 2 == 0 ? drain_words<Config, 2>(params, box, place, thread)
                             : drain_words<Config, 1>(params, box, place, thread);
}

}  // namespace carat_kernel
