// SPDX-License-Identifier: Apache-2.0
// convert.hpp: bit-exact scalar conversions between f64/f32 and the narrow types, to nearest even. Conversions to FP8 and
// to integers saturate; NaN stays NaN in floating types and becomes 0 in integers. The GPU kernels and the fast CPU
// paths must agree with these bit for bit (tests/core/convert_test.cpp is exhaustive).
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace carat {

float f32_from_f16(uint16_t bits);
float f32_from_bf16(uint16_t bits);
float f32_from_e4m3(uint8_t bits);
float f32_from_e5m2(uint8_t bits);

// From f64 with ONE rounding (never through f32).
uint16_t f16_from_f64(double value);
uint16_t bf16_from_f64(double value);
uint8_t e4m3_from_f64(double value);
uint8_t e5m2_from_f64(double value);
inline uint16_t f16_from_f32(float value) {
    return f16_from_f64(value);
}
inline uint16_t bf16_from_f32(float value) {
    return bf16_from_f64(value);
}
inline uint8_t e4m3_from_f32(float value) {
    return e4m3_from_f64(value);
}
inline uint8_t e5m2_from_f32(float value) {
    return e5m2_from_f64(value);
}

// Element `index` of an array of any type (sub-byte types included), exactly, as f64.
double load_f64(const void* base, carat_dtype dtype, int64_t index);
// Rounds once and stores. Sub-byte stores touch only their nibble.
void store_f64(void* base, carat_dtype dtype, int64_t index, double value);
// The value `store_f64` would leave: round(value) as f64.
double round_to(carat_dtype dtype, double value);

}  // namespace carat
