// SPDX-License-Identifier: Apache-2.0
// convert.cuh: what kernels/ptx/convert.cuh says in PTX, for kernels that g++ compiles: this folder comes before kernels/
// on the include path of the emulation.
#pragma once

#include <shared/gemm_params.h>

#include "core/convert.hpp"
#include "core/format.hpp"

namespace carat_kernel {

using namespace carat_shared;

inline unsigned short to_bits(int type, float value) {
    return type == kTypeBf16 ? carat::bf16_from_f32(value) : carat::f16_from_f32(value);
}

template <int kType>
unsigned pack_pair(float first, float second) {
    return to_bits(kType, first) | unsigned(to_bits(kType, second)) << 16;
}

template <int kType>
float unpack(unsigned short bits) {
    return kType == kTypeBf16 ? carat::f32_from_bf16(bits) : carat::f32_from_f16(bits);
}

template <int kType>
float load_element(const void* from, i64 index) {
    if constexpr (kType == kTypeF32) return static_cast<const float*>(from)[index];
    return unpack<kType>(static_cast<const unsigned short*>(from)[index]);
}

// A GPU stops at a pair that is not aligned to its size.
template <int kType>
void expect_aligned_pair(const void* base, i64 index) {
    const auto address = reinterpret_cast<u64>(base) + index * type_bytes(kType);
    if (address % (2 * type_bytes(kType)) != 0) host_cuda::fail("a pair of elements at an address that is not aligned");
}

template <int kType>
float2 load_pair(const void* from, i64 index) {
    expect_aligned_pair<kType>(from, index);
    return make_float2(load_element<kType>(from, index), load_element<kType>(from, index + 1));
}

template <int kType>
unsigned short pack_pair_8bit(float first, float second) {
    unsigned char pair[2];
    carat::store_f64(pair, carat_dtype(kType), 0, first);
    carat::store_f64(pair, carat_dtype(kType), 1, second);
    return static_cast<unsigned short>(pair[0] | pair[1] << 8);
}

template <int kType>
void store_element(void* to, i64 index, float value) {
    if constexpr (kType == kTypeF32)
        static_cast<float*>(to)[index] = value;
    else if constexpr (type_bytes(kType) == 1)
        static_cast<unsigned char*>(to)[index] = static_cast<unsigned char>(pack_pair_8bit<kType>(value, 0.0f));
    else
        static_cast<unsigned short*>(to)[index] = to_bits(kType, value);
}

template <int kType>
void store_pair(void* to, i64 index, float first, float second) {
    expect_aligned_pair<kType>(to, index);
    store_element<kType>(to, index, first);
    store_element<kType>(to, index + 1, second);
}

template <int kType>
void store_quad(void* to, i64 index, const float (&values)[4]) {
    const i64 bytes = type_bytes(kType), address = reinterpret_cast<i64>(to) + index * bytes;
    if (address % (4 * bytes) != 0)
        host_cuda::fail(fmt::format("a store of {} bytes at {}, no multiple of that", 4 * bytes, address));
    for (int e = 0; e < 4; ++e) store_element<kType>(to, index + e, values[e]);
}

template <int kType>
constexpr float largest_finite() {
    static_assert(type_bytes(kType) == 1);
    return kType == kTypeE4m3 ? 448.0f : kType == kTypeE5m2 ? 57344.0f : 127.0f;
}

}  // namespace carat_kernel
