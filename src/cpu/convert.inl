// SPDX-License-Identifier: Apache-2.0
// convert.inl: runs of elements to and from f32, a vector at a time. Bit for bit what core/convert.cpp gives (NaN
// payloads aside when reading). Included by gemm.inl once for each instruction set.

// Inlined at each call, so that a constant count makes straight code.
#define CARAT_INLINE inline __attribute__((always_inline))

using U8v = uint8_t __attribute__((vector_size(kLanes)));
using S8v = int8_t __attribute__((vector_size(kLanes)));
using U16v = uint16_t __attribute__((vector_size(kLanes * 2)));
using U32v = uint32_t __attribute__((vector_size(kLanes * 4)));
using S32v = int32_t __attribute__((vector_size(kLanes * 4)));
using F32v = float __attribute__((vector_size(kLanes * 4)));

template <class V>
inline V load_vector(const void* from) {
    V value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}
template <class V>
inline void store_vector(void* to, V value) {
    __builtin_memcpy(to, &value, sizeof value);
}
template <class To, class From>
inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
inline int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// f16 codes to f32.
inline F32v widen_half(U16v codes) {
#if CARAT_VECTOR_BYTES == 64
    return bits_as<F32v>(_mm512_maskz_cvtph_ps(0xffff, bits_as<__m256i>(codes)));
#elif CARAT_VECTOR_BYTES == 32
    return bits_as<F32v>(_mm256_cvtph_ps(bits_as<__m128i>(codes)));
#else
    const U32v code = __builtin_convertvector(codes, U32v);
    // Shifted into place the exponent is off by 112; the product also makes subnormals right.
    const U32v magnitude = bits_as<U32v>(bits_as<F32v>((code & 0x7fffu) << 13) * 0x1p112f);
    const U32v special = bits_as<U32v>((code & 0x7c00u) == 0x7c00u) & 0x7f800000u;
    return bits_as<F32v>(magnitude | special | (code & 0x8000u) << 16);
#endif
}

inline F32v widen_bf16(U16v codes) {
    return bits_as<F32v>(__builtin_convertvector(codes, U32v) << 16);
}
inline F32v widen_e5m2(U8v codes) {
    return widen_half(__builtin_convertvector(codes, U16v) << 8);
}
inline F32v widen_e4m3(U8v codes) {
    const U16v code = __builtin_convertvector(codes, U16v);
    // The seven low bits one place up are an f16 whose exponent is 8 too small; only 0x7f and 0xff are NaN.
    const U16v nan = bits_as<U16v>((code & 0x7f) == 0x7f) & 0x7e00;
    return widen_half((code & 0x80) << 8 | (code & 0x7f) << 7 | nan) * 256.0f;
}
inline F32v widen_s8(S8v codes) {
    return __builtin_convertvector(__builtin_convertvector(codes, S32v), F32v);
}

// widen() over a run; the tail goes through a zeroed vector so that nothing beyond the run is read.
template <class V, class Widen>
CARAT_INLINE void widen_run(const void* from, int64_t count, float* out, Widen widen) {
    using Element = decltype(V{}[0] + 0);
    constexpr int64_t kSize = int64_t(sizeof(V)) / kLanes;
    static_assert(sizeof(Element) >= 1);
    const char* bytes = static_cast<const char*>(from);
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store_vector(out + i, widen(load_vector<V>(bytes + i * kSize)));
    if (i < count) {
        V tail = {};
        __builtin_memcpy(&tail, bytes + i * kSize, size_t((count - i) * kSize));
        const F32v values = widen(tail);
        __builtin_memcpy(out + i, &values, size_t(count - i) * 4);
    }
}

inline void widen_nibbles(const void* data, bool is_signed, int64_t index, int64_t count, float* out) {
    const uint8_t* bytes = static_cast<const uint8_t*>(data);
    const int sign = is_signed ? 8 : 0;
    for (int64_t i = 0; i < count; ++i) {
        const int code = bytes[(index + i) >> 1] >> (((index + i) & 1) * 4) & 15;
        out[i] = float((code ^ sign) - sign);
    }
}

// Elements index ... index + count - 1 as f32. (f64 has its own panels; a C of f64 or s32 goes through load_f64.)
CARAT_INLINE void load_run(const void* data, carat_dtype dtype, int64_t index, int64_t count, float* out) {
    const char* bytes = static_cast<const char*>(data);
    switch (dtype) {
        case CARAT_F32:
            __builtin_memcpy(out, bytes + index * 4, size_t(count) * 4);
            return;
        case CARAT_F16:
            return widen_run<U16v>(bytes + index * 2, count, out, widen_half);
        case CARAT_BF16:
            return widen_run<U16v>(bytes + index * 2, count, out, widen_bf16);
        case CARAT_E4M3:
            return widen_run<U8v>(bytes + index, count, out, widen_e4m3);
        case CARAT_E5M2:
            return widen_run<U8v>(bytes + index, count, out, widen_e5m2);
        case CARAT_S8:
            return widen_run<S8v>(bytes + index, count, out, widen_s8);
        case CARAT_S4:
            return widen_nibbles(data, true, index, count, out);
        case CARAT_U4:
            return widen_nibbles(data, false, index, count, out);
        default:
            for (int64_t i = 0; i < count; ++i) out[i] = float(load_f64(data, dtype, index + i));
    }
}
inline void load_run(const void* data, carat_dtype dtype, int64_t index, int64_t count, double* out) {
    if (dtype == CARAT_F64) {
        __builtin_memcpy(out, static_cast<const char*>(data) + index * 8, size_t(count) * 8);
        return;
    }
    for (int64_t i = 0; i < count; ++i) out[i] = load_f64(data, dtype, index + i);
}

// One f32 to a narrow float with kMantissa explicit bits: to nearest even, subnormals by an addition whose last bit is
// the format's quantum. Branch-free, so that loops over it become vector code.
template <int kMantissa, int kBias, uint32_t kLargest, uint32_t kOverflow, uint32_t kNan, int kSignShift>
inline uint32_t narrow(float value) {
    constexpr int kShift = 23 - kMantissa;
    constexpr uint32_t kLeastNormal = uint32_t(128 - kBias) << 23;
    const uint32_t bits = bits_as<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t rounded = (magnitude + ((1u << (kShift - 1)) - 1) + (magnitude >> kShift & 1)) >> kShift;
    uint32_t code = rounded - (uint32_t(127 - kBias) << kMantissa);
    if constexpr (kBias < 127) {
        constexpr uint32_t kMagic = uint32_t(127 + 1 - kBias - kMantissa + 23) << 23;
        const float sum = bits_as<float>(magnitude) + bits_as<float>(kMagic);
        code = magnitude < kLeastNormal ? bits_as<uint32_t>(sum) - kMagic : code;
    }
    code = int32_t(code) > int32_t(kLargest) ? kOverflow : code;
    code |= (bits >> 31) << kSignShift;
    return magnitude > 0x7f800000u ? kNan : code;
}

inline void narrow_to_half(const float* v, int64_t count, uint16_t* out) {
    int64_t i = 0;
#if CARAT_VECTOR_BYTES == 64
    for (; i + 16 <= count; i += 16) {
        const __m512 x = _mm512_loadu_ps(v + i);
        const __m256i codes = _mm512_maskz_cvtps_ph(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                            _mm256_mask_blend_epi16(nan, codes, _mm256_set1_epi16(0x7fff)));
    }
#endif
    for (; i < count; ++i) out[i] = uint16_t(narrow<10, 15, 0x7bff, 0x7c00, 0x7fff, 15>(v[i]));
}

// Rounds v once into elements index ... of `data`.
inline void store_run(void* data, carat_dtype dtype, int64_t index, int64_t count, const float* v) {
    char* bytes = static_cast<char*>(data);
    uint16_t* half = reinterpret_cast<uint16_t*>(bytes + index * 2);
    uint8_t* byte = reinterpret_cast<uint8_t*>(bytes + index);
    switch (dtype) {
        case CARAT_F32:
            __builtin_memcpy(bytes + index * 4, v, size_t(count) * 4);
            return;
        case CARAT_F16:
            return narrow_to_half(v, count, half);
        case CARAT_BF16:
            for (int64_t i = 0; i < count; ++i) half[i] = uint16_t(narrow<7, 127, 0x7f80, 0x7f80, 0x7fff, 15>(v[i]));
            return;
        case CARAT_E4M3:
            for (int64_t i = 0; i < count; ++i) byte[i] = uint8_t(narrow<3, 7, 0x7e, 0x7e, 0x7f, 7>(v[i]));
            return;
        case CARAT_E5M2:
            for (int64_t i = 0; i < count; ++i) byte[i] = uint8_t(narrow<2, 15, 0x7b, 0x7b, 0x7f, 7>(v[i]));
            return;
        default:
            for (int64_t i = 0; i < count; ++i) store_f64(data, dtype, index + i, double(v[i]));
    }
}
inline void store_run(void* data, carat_dtype dtype, int64_t index, int64_t count, const double* v) {
    if (dtype == CARAT_F64) {
        __builtin_memcpy(static_cast<char*>(data) + index * 8, v, size_t(count) * 8);
        return;
    }
    for (int64_t i = 0; i < count; ++i) store_f64(data, dtype, index + i, v[i]);
}
