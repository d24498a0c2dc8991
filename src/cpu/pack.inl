// SPDX-License-Identifier: Apache-2.0
// pack.inl: a piece of A or B becomes a panel: for each k, W neighbouring rows (of A) or columns (of B), zero beyond
// the edge. Types are converted and block scales applied on the way. Included by gemm.inl.

constexpr int kChunk = 128;  // elements of K (in words of the panel) fetched before they are transposed

template <class U>
struct Word {
    static constexpr int kCount = CARAT_VECTOR_BYTES / int(sizeof(U));
    typedef U Vector __attribute__((vector_size(CARAT_VECTOR_BYTES)));
};

// One stage of a transposition in registers: rows i and i + S exchange the lanes whose bit S differs.
template <class U, int S, size_t... L>
inline void exchange(typename Word<U>::Vector& low, typename Word<U>::Vector& high, std::index_sequence<L...>) {
    using Vector = typename Word<U>::Vector;
    constexpr U kN = sizeof...(L);
    const Vector a = low, b = high;
    low = __builtin_shuffle(a, b, Vector{(L & S ? kN + U(L) - S : U(L))...});
    high = __builtin_shuffle(a, b, Vector{(L & S ? kN + U(L) : U(L) + S)...});
}

template <class U, int S = 1>
inline void transpose(typename Word<U>::Vector* rows) {
    constexpr int kN = Word<U>::kCount;
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) {
        if (!(i & S)) exchange<U, S>(rows[i], rows[i | S], std::make_index_sequence<kN>{});
    }
    if constexpr (S * 2 < kN) transpose<U, S * 2>(rows);
}

// rows[r][0 .. words) -> panel[w * W + r]. Every row is readable up to a whole vector beyond `words`' last full one,
// and the panel is writable one vector beyond its end: where W is no multiple of the vector, stores overlap the next k,
// which is written after.
template <class U, int W>
inline void transpose_rows(const U* const* rows, int words, U* panel) {
    using Vector = typename Word<U>::Vector;
    constexpr int kN = Word<U>::kCount;
    for (int w = 0; w < words; w += kN) {
        for (int g = (W - 1) / kN * kN; g >= 0; g -= kN) {
            Vector block[kN];
#pragma GCC unroll 16
            for (int i = 0; i < kN; ++i) block[i] = load_vector<Vector>(rows[g + i] + w);
            transpose<U>(block);
            const int stored = words - w < kN ? words - w : kN;
            U* to = panel + int64_t(w) * W + g;
            if (stored == kN) {
#pragma GCC unroll 16
                for (int i = 0; i < kN; ++i) store_vector(to + int64_t(i) * W, block[i]);
            } else {
                for (int i = 0; i < stored; ++i) store_vector(to + int64_t(i) * W, block[i]);
            }
        }
    }
}

// Multiplies a run along K of row e by its block scales (and subtracts its zero points).
template <class T>
inline void scale_along_k(const View& v, int64_t e, int64_t k0, int64_t count, T* x) {
    if (v.scale == nullptr) return;
    const int64_t row = (e + v.ext_origin) / v.ext_block * v.scale_ext_stride;
    for (int64_t k = k0; k < k0 + count;) {
        const int64_t block = k / v.k_block, end = min64((block + 1) * v.k_block, k0 + count);
        const T scale = T(v.scale[row + block * v.scale_k_stride]);
        const T zero = v.zero ? T(v.zero[row + block * v.scale_k_stride]) : T(0);
        for (int64_t i = k - k0; i < end - k0; ++i) x[i] = (x[i] - zero) * scale;
        k = end;
    }
}

// The same for rows e0 ... at one k.
template <class T>
inline void scale_along_extent(const View& v, int64_t e0, int64_t count, int64_t k, T* x) {
    if (v.scale == nullptr) return;
    const int64_t column = k / v.k_block * v.scale_k_stride;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t at = (e0 + i + v.ext_origin) / v.ext_block * v.scale_ext_stride + column;
        x[i] = (x[i] - (v.zero ? T(v.zero[at]) : T(0))) * T(v.scale[at]);
    }
}

// A panel of T (float or double), from operands of any type.
template <class T, class U, int W>
inline void pack_plain(const View& v, int64_t e0, int rows, int64_t k0, int64_t kn, T* panel) {
    constexpr int kN = Word<U>::kCount, kRows = (W + kN - 1) / kN * kN;
    if (v.k_stride != 1) {
        // W rows lie together at each k. Whole vectors are read where the operand has them; the surplus is overwritten.
        const int wide = int(min64(kRows, v.extent - e0));
        const int take = rows < W ? rows : wide;
        for (int64_t k = 0; k < kn; ++k) {
            T* to = panel + k * W;
            const int64_t index = v.offset + e0 * v.ext_stride + (k0 + k) * v.k_stride;
            if (take == kRows) {
                load_run(v.data, v.dtype, index, kRows, to);  // a constant count becomes straight vector code
            } else {
                load_run(v.data, v.dtype, index, take, to);
            }
            scale_along_extent(v, e0, rows, k0 + k, to);
            for (int r = rows; r < W; ++r) to[r] = 0;
        }
        return;
    }
    alignas(64) T fetched[kRows][kChunk];
    alignas(64) T zeros[kChunk] = {};
    const U* from[kRows];
    const bool direct = v.scale == nullptr && v.dtype == (sizeof(T) == 8 ? CARAT_F64 : CARAT_F32);
    for (int64_t k = 0; k < kn; k += kChunk) {
        const int count = int(min64(kChunk, kn - k)), padded = (count + kN - 1) / kN * kN;
        for (int r = 0; r < kRows; ++r) {
            const T* row = zeros;
            if (r < rows) {
                const int64_t index = v.offset + (e0 + r) * v.ext_stride + k0 + k;
                row = fetched[r];
                if (direct && padded == count) {
                    row = static_cast<const T*>(v.data) + index;
                } else {
                    load_run(v.data, v.dtype, index, count, fetched[r]);
                    scale_along_k(v, e0 + r, k0 + k, count, fetched[r]);
                    for (int i = count; i < padded; ++i) fetched[r][i] = 0;
                }
            }
            from[r] = reinterpret_cast<const U*>(row);
        }
        transpose_rows<U, W>(from, count, reinterpret_cast<U*>(panel + k * W));
    }
}

#if CARAT_HAS_BF16
// Types that are exact in bf16, as bf16 codes.
CARAT_INLINE void load_run_bf16(const View& v, int64_t index, int64_t count, uint16_t* out) {
    if (v.dtype == CARAT_BF16) {
        __builtin_memcpy(out, static_cast<const uint16_t*>(v.data) + index, size_t(count) * 2);
        return;
    }
    float wide[kChunk * 2];
    load_run(v.data, v.dtype, index, count, wide);
    for (int64_t i = 0; i < count; ++i) out[i] = uint16_t(bits_as<uint32_t>(wide[i]) >> 16);
}

CARAT_INLINE bool has_subnormal(const uint16_t* codes, int64_t count) {
    uint16_t found = 0;
    for (int64_t i = 0; i < count; ++i) found |= uint16_t(uint16_t((codes[i] & 0x7fff) - 1) < 0x7f);
    return found != 0;
}

// Rows at k and k + 1 of an operand, interleaved.
template <int W>
CARAT_INLINE bool load_pairs(const View& v, int64_t index, int rows, bool has_second, uint32_t* to) {
    alignas(64) uint16_t first[W], second[W] = {};
    load_run_bf16(v, index, rows, first);
    if (has_second) load_run_bf16(v, index + v.k_stride, rows, second);
    for (int r = 0; r < rows; ++r) to[r] = uint32_t(first[r]) | uint32_t(second[r]) << 16;
    return v.dtype == CARAT_BF16 && (has_subnormal(first, rows) || has_subnormal(second, rows));
}

// A panel of pairs (k, k + 1) of bf16, an odd K ends in a zero. True if it holds a subnormal number, which the pair
// product of the hardware would take as zero.
template <int W>
inline bool pack_pairs(const View& v, int64_t e0, int rows, int64_t k0, int64_t kn, uint32_t* panel) {
    constexpr int kN = Word<uint32_t>::kCount, kRows = (W + kN - 1) / kN * kN;
    bool subnormal = false;
    if (v.k_stride != 1) {
        for (int64_t k = 0; k < kn; k += 2) {
            const int64_t index = v.offset + e0 * v.ext_stride + (k0 + k) * v.k_stride;
            uint32_t* to = panel + k / 2 * W;
            if (rows == W) {
                subnormal |= load_pairs<W>(v, index, W, k + 1 < kn, to);
            } else {
                subnormal |= load_pairs<W>(v, index, rows, k + 1 < kn, to);
            }
            for (int r = rows; r < W; ++r) to[r] = 0;
        }
        return subnormal;
    }
    alignas(64) uint16_t fetched[kRows][kChunk * 2];
    alignas(64) uint16_t zeros[kChunk * 2] = {};
    const uint32_t* from[kRows];
    for (int64_t k = 0; k < kn; k += kChunk * 2) {
        const int count = int(min64(kChunk * 2, kn - k)), padded = (count + 2 * kN - 1) / (2 * kN) * (2 * kN);
        for (int r = 0; r < kRows; ++r) {
            const uint16_t* row = zeros;
            if (r < rows) {
                const int64_t index = v.offset + (e0 + r) * v.ext_stride + k0 + k;
                row = fetched[r];
                if (v.dtype == CARAT_BF16 && padded == count) {
                    row = static_cast<const uint16_t*>(v.data) + index;
                } else {
                    load_run_bf16(v, index, count, fetched[r]);
                    for (int i = count; i < padded; ++i) fetched[r][i] = 0;
                }
                if (v.dtype == CARAT_BF16) subnormal |= has_subnormal(row, count);
            }
            from[r] = reinterpret_cast<const uint32_t*>(row);
        }
        transpose_rows<uint32_t, W>(from, (count + 1) / 2, panel + k / 2 * W);
    }
    return subnormal;
}
#endif
