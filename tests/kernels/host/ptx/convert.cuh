// SPDX-License-Identifier: Apache-2.0
// convert.cuh: what kernels/ptx/convert.cuh says in PTX, for kernels that g++ compiles: this folder comes before kernels/
// on the include path of the emulation.
#pragma once

#include <shared/gemm_params.h>

#include "core/convert.hpp"

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

template <int kType>
void store_element(void* to, i64 index, float value) {
    if constexpr (kType == kTypeF32)
        static_cast<float*>(to)[index] = value;
    else
        static_cast<unsigned short*>(to)[index] = to_bits(kType, value);
}

template <int kType>
void store_pair(void* to, i64 index, float first, float second) {
    store_element<kType>(to, index, first);
    store_element<kType>(to, index + 1, second);
}

}  // namespace carat_kernel
