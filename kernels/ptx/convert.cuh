// SPDX-License-Identifier: Apache-2.0
// convert.cuh: elements of f32, f16 and bf16 in memory as f32 in registers, and back with one rounding to nearest even; the
// 8-bit types back only, where what exceeds their range saturates. FP8 has its instruction from sm_89 on.
#pragma once

#include <shared/gemm_params.h>

namespace carat_kernel {

using namespace carat_shared;

// A pair of 16-bit elements in a register: the first in the low half, as it lies in memory.
template <int kType>
__device__ inline unsigned pack_pair(float first, float second) {
    unsigned pair;
    if constexpr (kType == kTypeBf16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

template <int kType>
__device__ inline float unpack(unsigned short bits) {
    if constexpr (kType == kTypeBf16) return __uint_as_float(static_cast<unsigned>(bits) << 16);
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

template <int kType>
__device__ float load_element(const void* from, i64 index) {
    if constexpr (kType == kTypeF32) return static_cast<const float*>(from)[index];
    return unpack<kType>(static_cast<const unsigned short*>(from)[index]);
}

// Elements index and index + 1; the address must be a multiple of their size together.
template <int kType>
__device__ inline float2 load_pair(const void* from, i64 index) {
    if constexpr (kType == kTypeF32) return *reinterpret_cast<const float2*>(static_cast<const float*>(from) + index);
    const unsigned pair = *reinterpret_cast<const unsigned*>(static_cast<const unsigned short*>(from) + index);
    return make_float2(unpack<kType>(static_cast<unsigned short>(pair)),
                       unpack<kType>(static_cast<unsigned short>(pair >> 16)));
}

// A pair of 8-bit elements, the first in the low byte. NaN stays NaN in FP8 and becomes 0 in s8.
template <int kType>
__device__ inline unsigned short pack_pair_8bit(float first, float second) {
    unsigned short pair;
    if constexpr (kType == kTypeE4m3) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    } else if constexpr (kType == kTypeE5m2) {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    } else {
        int low, high;
        asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(low) : "f"(first));
        asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(high) : "f"(second));
        pair = static_cast<unsigned short>((low & 0xff) | (high & 0xff) << 8);
    }
    return pair;
}

template <int kType>
__device__ void store_element(void* to, i64 index, float value) {
    if constexpr (kType == kTypeF32)
        static_cast<float*>(to)[index] = value;
    else if constexpr (type_bytes(kType) == 1)
        static_cast<unsigned char*>(to)[index] = static_cast<unsigned char>(pack_pair_8bit<kType>(value, 0.0f));
    else
        static_cast<unsigned short*>(to)[index] = static_cast<unsigned short>(pack_pair<kType>(value, 0.0f));
}

// Elements index and index + 1; the address must be a multiple of their size together.
template <int kType>
__device__ void store_pair(void* to, i64 index, float first, float second) {
    if constexpr (kType == kTypeF32)
        *reinterpret_cast<float2*>(static_cast<float*>(to) + index) = make_float2(first, second);
    else if constexpr (type_bytes(kType) == 1)
        *reinterpret_cast<unsigned short*>(static_cast<unsigned char*>(to) + index) =
            pack_pair_8bit<kType>(first, second);
    else
        *reinterpret_cast<unsigned*>(static_cast<unsigned short*>(to) + index) = pack_pair<kType>(first, second);
}

// Elements index to index + 3; the address must be a multiple of their size together.
template <int kType>
__device__ void store_quad(void* to, i64 index, const float (&values)[4]) {
    struct alignas(8) Words {
        unsigned words[2];
    };
    if constexpr (kType == kTypeF32)
        *reinterpret_cast<float4*>(static_cast<float*>(to) + index) =
            make_float4(values[0], values[1], values[2], values[3]);
    else if constexpr (type_bytes(kType) == 1)
        *reinterpret_cast<unsigned*>(static_cast<unsigned char*>(to) + index) =
            pack_pair_8bit<kType>(values[0], values[1]) |
            static_cast<unsigned>(pack_pair_8bit<kType>(values[2], values[3])) << 16;
    else
        *reinterpret_cast<Words*>(static_cast<unsigned short*>(to) + index) = {
            {pack_pair<kType>(values[0], values[1]), pack_pair<kType>(values[2], values[3])}};
}

// The largest finite value of an 8-bit type.
template <int kType>
__device__ constexpr float largest_finite() {
    static_assert(type_bytes(kType) == 1);
    return kType == kTypeE4m3 ? 448.0f : kType == kTypeE5m2 ? 57344.0f : 127.0f;
}

}  // namespace carat_kernel
