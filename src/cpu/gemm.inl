// SPDX-License-Identifier: Apache-2.0
// gemm.inl: the one algorithm of the fast CPU backend. A tile of D is computed as: for each block of K, pack the tile's
// rows of A (they stay in the second-level cache); for each panel of B's columns, pack it and run the register-tiled
// micro-kernel down the rows; sums wait in a private buffer, so the epilogue rounds once. K is walked in the same
// blocks whatever the tile, so neither tiles nor threads change a bit of the result.
//
// Included by each isa_*.cpp, which defines CARAT_ISA, CARAT_VECTOR_BYTES, CARAT_MR, CARAT_KC and CARAT_HAS_BF16. All
// is in an unnamed namespace and nothing of the standard library is instantiated: see gemm.hpp.
#if CARAT_VECTOR_BYTES > 16 || CARAT_HAS_BF16
#include <immintrin.h>
#endif

#include <utility>

#include "cpu/gemm.hpp"

namespace carat {
// core/convert.hpp, which would bring inline functions of {fmt} along.
double load_f64(const void* base, carat_dtype dtype, int64_t index);
void store_f64(void* base, carat_dtype dtype, int64_t index, double value);
}  // namespace carat

namespace carat::cpu {
namespace {

constexpr int kLanes = CARAT_VECTOR_BYTES / 4;  // f32 in a vector

#include "cpu/convert.inl"
#include "cpu/epilogue.inl"
#include "cpu/pack.inl"

constexpr int kMr = CARAT_MR;

// A panel's element, its sums, and how K is cut. Word<...>: the unit that packing moves.
struct F32Kind {
    using Element = float;
    using Sum = float;
    using Unit = uint32_t;
    static constexpr int kNr = 2 * kLanes, kPerElement = 1;
};
struct F64Kind {
    using Element = double;
    using Sum = double;
    using Unit = uint64_t;
    static constexpr int kNr = kLanes, kPerElement = 1;
};
struct Bf16Kind {
    using Element = uint32_t;  // a pair along K
    using Sum = float;
    using Unit = uint32_t;
    static constexpr int kNr = 2 * kLanes, kPerElement = 2;
};
template <class Kind>
constexpr int kKc = CARAT_KC * 4 / int(sizeof(typename Kind::Element)) * Kind::kPerElement;

template <class Sum>
struct SumVector {
    typedef Sum Type __attribute__((vector_size(CARAT_VECTOR_BYTES)));
};

// sums[R][NR] (+)= the product of a panel of A and a panel of B, `steps` elements deep. R <= kMr rows are computed; a
// row's sums do not depend on R.
template <class Kind, int R, bool kExact>
inline void multiply(int64_t steps, const typename Kind::Element* a, const typename Kind::Element* b,
                     typename Kind::Sum* sums, bool first) {
    using Vector = typename SumVector<typename Kind::Sum>::Type;
    constexpr int kN = int(sizeof(Vector) / sizeof(typename Kind::Sum)), kNr = Kind::kNr;
    static_assert(kNr == 2 * kN);
    if (!first) {
        for (int i = 0; i < R; ++i) __builtin_prefetch(sums + i * kNr, 1);
        for (int i = 0; i < R; ++i) __builtin_prefetch(sums + i * kNr + kN, 1);
    }
    Vector acc[R][2] = {};
    for (int64_t k = 0; k < steps; ++k, a += kMr, b += kNr) {
#if CARAT_HAS_BF16
        if constexpr (Kind::kPerElement == 2) {
            if constexpr (kExact) {
                // Subnormal numbers are in these panels: the pair product would drop them.
                const U32v b0 = load_vector<U32v>(b), b1 = load_vector<U32v>(b + kN);
#pragma GCC unroll 16
                for (int i = 0; i < R; ++i) {
                    const float low = bits_as<float>(a[i] << 16), high = bits_as<float>(a[i] & 0xffff0000u);
                    acc[i][0] += low * bits_as<F32v>(b0 << 16);
                    acc[i][1] += low * bits_as<F32v>(b1 << 16);
                    acc[i][0] += high * bits_as<F32v>(b0 & 0xffff0000u);
                    acc[i][1] += high * bits_as<F32v>(b1 & 0xffff0000u);
                }
            } else {
                const __m512bh b0 = load_vector<__m512bh>(b), b1 = load_vector<__m512bh>(b + kN);
#pragma GCC unroll 16
                for (int i = 0; i < R; ++i) {
                    const __m512bh x = bits_as<__m512bh>(_mm512_set1_epi32(int(a[i])));
                    acc[i][0] = bits_as<F32v>(_mm512_dpbf16_ps(bits_as<__m512>(acc[i][0]), x, b0));
                    acc[i][1] = bits_as<F32v>(_mm512_dpbf16_ps(bits_as<__m512>(acc[i][1]), x, b1));
                }
            }
            continue;
        } else
#endif
        {
            const Vector b0 = load_vector<Vector>(b), b1 = load_vector<Vector>(b + kN);
#pragma GCC unroll 16
            for (int i = 0; i < R; ++i) {
                acc[i][0] += a[i] * b0;
                acc[i][1] += a[i] * b1;
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
        typename Kind::Sum* row = sums + i * kNr;
        store_vector(row, first ? acc[i][0] : load_vector<Vector>(row) + acc[i][0]);
        store_vector(row + kN, first ? acc[i][1] : load_vector<Vector>(row + kN) + acc[i][1]);
    }
}

// Not inlined: one copy of each unrolled body.
template <class Kind, int R, bool kExact>
__attribute__((noinline)) void micro_kernel(int64_t steps, const void* a, const void* b, void* sums, bool first) {
    using Element = typename Kind::Element;
    multiply<Kind, R, kExact>(steps, static_cast<const Element*>(a), static_cast<const Element*>(b),
                              static_cast<typename Kind::Sum*>(sums), first);
}

template <class Kind>
void micro(bool exact, int rows, int64_t steps, const void* a, const void* b, void* sums, bool first) {
    constexpr int kHalf = (kMr + 1) / 2;
    if constexpr (Kind::kPerElement == 2) {
        if (exact) return micro_kernel<Kind, kMr, true>(steps, a, b, sums, first);
    }
    (void)exact;
    if (rows <= kHalf) return micro_kernel<Kind, kHalf, false>(steps, a, b, sums, first);
    micro_kernel<Kind, kMr, false>(steps, a, b, sums, first);
}

template <class Kind, int W>
bool pack(const View& v, int64_t e0, int rows, int64_t k0, int64_t kn, typename Kind::Element* panel) {
#if CARAT_HAS_BF16
    if constexpr (Kind::kPerElement == 2) return pack_pairs<W>(v, e0, rows, k0, kn, panel);
#endif
    if constexpr (Kind::kPerElement == 1)
        pack_plain<typename Kind::Element, typename Kind::Unit, W>(v, e0, rows, k0, kn, panel);
    return false;
}

// The columns of B that a tile of D needs: one run, or two under a split gate (gates, then ups).
struct Columns {
    int64_t start[2], width[2];
    int runs;
    template <class Kind>
    int64_t panels(int run) const {
        return (width[run] + Kind::kNr - 1) / Kind::kNr;
    }
};

Columns columns_of(const Job& job, const Tile& tile) {
    const int64_t width = tile.col1 - tile.col0;
    if (job.gate == CARAT_GATE_SPLIT) return {{tile.col0, job.n / 2 + tile.col0}, {width, width}, 2};
    if (job.gate == CARAT_GATE_INTERLEAVED) return {{2 * tile.col0, 0}, {2 * width, 0}, 1};
    return {{tile.col0, 0}, {width, 0}, 1};
}

// A bump allocator over the caller's scratch; with base null it measures.
struct Arena {
    char* base;
    size_t used = 0;
    template <class T>
    T* take(int64_t count) {
        T* at = reinterpret_cast<T*>(base + used);
        used += (size_t(count) * sizeof(T) + CARAT_VECTOR_BYTES + 63) / 64 * 64;  // one vector to spill into
        return at;
    }
};

template <class Kind>
struct Buffers {
    typename Kind::Element *a, *b;
    typename Kind::Sum *sums, *row, *scratch;
    double *wide_row, *wide_scratch;  // integer sums go through f64
    typename Kind::Sum* block;        // integer sums: one micro-tile in f32
    uint8_t* exact;                   // per panel of A: it holds a subnormal
    int64_t row_panels, col_panels;

    Buffers(Arena& arena, const Job& job, const Tile& tile) {
        const Columns columns = columns_of(job, tile);
        row_panels = (tile.row1 - tile.row0 + kMr - 1) / kMr;
        col_panels = columns.panels<Kind>(0) + (columns.runs > 1 ? columns.panels<Kind>(1) : 0);
        const int64_t depth = kKc<Kind> / Kind::kPerElement;
        a = arena.take<typename Kind::Element>(row_panels * kMr * depth);
        b = arena.take<typename Kind::Element>(Kind::kNr * depth);
        sums = arena.take<typename Kind::Sum>(row_panels * col_panels * kMr * Kind::kNr);
        row = arena.take<typename Kind::Sum>(col_panels * Kind::kNr);
        scratch = arena.take<typename Kind::Sum>(col_panels * Kind::kNr);
        wide_row = arena.take<double>(col_panels * Kind::kNr);
        wide_scratch = arena.take<double>(col_panels * Kind::kNr);
        block = arena.take<typename Kind::Sum>(kMr * Kind::kNr);
        exact = arena.take<uint8_t>(row_panels);
    }
};

// Adds a block's exact small sums to the s32 sums; unsigned, so that an overflow wraps.
inline void add_integers(const float* block, int count, uint32_t* sums, bool first) {
    for (int i = 0; i < count; ++i) {
        const uint32_t value = uint32_t(int32_t(block[i]));
        sums[i] = first ? value : sums[i] + value;
    }
}

// One block of K of the tile.
template <class Kind, bool kInteger>
void add_block(const Job& job, const Tile& tile, const Columns& columns, Buffers<Kind>& w, int64_t k0, int64_t kn) {
    constexpr int kNr = Kind::kNr;
    const int64_t steps = (kn + Kind::kPerElement - 1) / Kind::kPerElement, rows = tile.row1 - tile.row0;
    for (int64_t p = 0; p < w.row_panels; ++p) {
        const int height = int(min64(kMr, rows - p * kMr));
        w.exact[p] = pack<Kind, kMr>(job.a, tile.row0 + p * kMr, height, k0, kn, w.a + p * kMr * steps);
    }
    typename Kind::Sum* sums = w.sums;
    for (int run = 0; run < columns.runs; ++run) {
        for (int64_t j = 0; j < columns.width[run]; j += kNr) {
            const int width = int(min64(kNr, columns.width[run] - j));
            const bool exact = pack<Kind, kNr>(job.b, columns.start[run] + j, width, k0, kn, w.b);
            for (int64_t p = 0; p < w.row_panels; ++p, sums += kMr * kNr) {
                const int height = int(min64(kMr, rows - p * kMr));
                const typename Kind::Element* a = w.a + p * kMr * steps;
                if constexpr (kInteger) {
                    micro<Kind>(false, height, steps, a, w.b, w.block, true);
                    add_integers(w.block, height * kNr, reinterpret_cast<uint32_t*>(sums), k0 == 0);
                } else {
                    micro<Kind>(exact || w.exact[p], height, steps, a, w.b, sums, k0 == 0);
                }
            }
        }
    }
}

// Gathers one row out of the micro-tiles and finishes it.
template <class Kind, bool kInteger>
float finish_tile(const Job& job, const Tile& tile, const Columns& columns, Buffers<Kind>& w) {
    constexpr int kNr = Kind::kNr;
    using Sum = typename Kind::Sum;
    float amax = 0;
    const int64_t up_at = columns.panels<Kind>(0) * kNr, count = tile.col1 - tile.col0;
    for (int64_t row = tile.row0; row < tile.row1; ++row) {
        const int64_t p = (row - tile.row0) / kMr, r = (row - tile.row0) % kMr;
        const Sum* from = w.sums + (p * kMr + r) * kNr;
        if constexpr (kInteger) {
            for (int64_t j = 0; j < w.col_panels; ++j, from += w.row_panels * kMr * kNr) {
                const int32_t* sums = reinterpret_cast<const int32_t*>(from);
                for (int i = 0; i < kNr; ++i) w.wide_row[j * kNr + i] = double(sums[i]);
            }
            amax = join_amax(amax, finish_row(job, row, tile.col0, count, w.wide_row, up_at, w.wide_scratch));
        } else {
            for (int64_t j = 0; j < w.col_panels; ++j, from += w.row_panels * kMr * kNr)
                __builtin_memcpy(w.row + j * kNr, from, kNr * sizeof(Sum));
            amax = join_amax(amax, finish_row(job, row, tile.col0, count, w.row, up_at, w.scratch));
        }
    }
    return amax;
}

#include "cpu/gemv.inl"

template <class Kind, bool kInteger>
float run_tile_as(const Job& job, const Tile& tile, void* scratch) {
    if constexpr (!kInteger && Kind::kPerElement == 1 && sizeof(typename Kind::Sum) == 4) {
        if (job.few_rows) return run_few_rows(job, tile, scratch);
    }
    Arena arena{static_cast<char*>(scratch)};
    Buffers<Kind> buffers(arena, job, tile);
    const Columns columns = columns_of(job, tile);
    if (job.k == 0)
        __builtin_memset(
            buffers.sums, 0,
            size_t(buffers.row_panels * buffers.col_panels * kMr * Kind::kNr) * sizeof(typename Kind::Sum));
    for (int64_t k = 0; k < job.k; k += kKc<Kind>)
        add_block<Kind, kInteger>(job, tile, columns, buffers, k, min64(kKc<Kind>, job.k - k));
    return finish_tile<Kind, kInteger>(job, tile, columns, buffers);
}

float run_tile(const Job& job, const Tile& tile, void* scratch) {
    switch (job.panel) {
        case Panel::f32:
            return run_tile_as<F32Kind, false>(job, tile, scratch);
        case Panel::f64:
            return run_tile_as<F64Kind, false>(job, tile, scratch);
        case Panel::s8:
            return run_tile_as<F32Kind, true>(job, tile, scratch);
#if CARAT_HAS_BF16
        case Panel::bf16:
            return run_tile_as<Bf16Kind, false>(job, tile, scratch);
        case Panel::s8_bf16:
            return run_tile_as<Bf16Kind, true>(job, tile, scratch);
#endif
        default:
            return 0;
    }
}

template <class Kind>
size_t bytes_for(const Job& job, const Tile& tile) {
    Arena arena{nullptr};
    Buffers<Kind> buffers(arena, job, tile);
    return arena.used;
}

size_t scratch_bytes(const Job& job, const Tile& tile) {
    switch (job.panel) {
        case Panel::f64:
            return bytes_for<F64Kind>(job, tile);
        case Panel::bf16:
        case Panel::s8_bf16:
            return bytes_for<Bf16Kind>(job, tile);
        case Panel::f32:
            if (job.few_rows) return few_rows_bytes(job, tile);
            [[fallthrough]];
        default:
            return bytes_for<F32Kind>(job, tile);
    }
}

template <class Kind>
int64_t spin_as(int64_t rounds, void* scratch) {
    using Element = typename Kind::Element;
    constexpr int kSteps = 64;
    Arena arena{static_cast<char*>(scratch)};
    Element* a = arena.take<Element>(kSteps * kMr);
    Element* b = arena.take<Element>(kSteps * Kind::kNr);
    auto* sums = arena.take<typename Kind::Sum>(kMr * Kind::kNr);
    __builtin_memset(scratch, 0, arena.used);
    for (int64_t i = 0; i < rounds; ++i) micro<Kind>(false, kMr, kSteps, a, b, sums, true);
    return rounds * kSteps * Kind::kPerElement * kMr * Kind::kNr;
}

int64_t spin(Panel panel, int64_t rounds, void* scratch) {
    if (panel == Panel::f64) return spin_as<F64Kind>(rounds, scratch);
#if CARAT_HAS_BF16
    if (panel == Panel::bf16) return spin_as<Bf16Kind>(rounds, scratch);
#endif
    return spin_as<F32Kind>(rounds, scratch);
}

template <class Kind>
constexpr Geometry kGeometry = {kMr, Kind::kNr, kKc<Kind>};

Geometry geometry(Panel panel) {
    if (panel == Panel::f64) return kGeometry<F64Kind>;
    return panel == Panel::bf16 || panel == Panel::s8_bf16 ? kGeometry<Bf16Kind> : kGeometry<F32Kind>;
}

constexpr IsaKernels kKernels = {geometry, scratch_bytes, run_tile, spin};

}  // namespace

#define CARAT_JOIN_(a, b) a##b
#define CARAT_JOIN(a, b) CARAT_JOIN_(a, b)
const IsaKernels* CARAT_JOIN(CARAT_ISA, _kernels)() {
    return &kKernels;
}

}  // namespace carat::cpu
