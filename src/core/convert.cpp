// SPDX-License-Identifier: Apache-2.0
// convert.cpp: the scalar conversions, all through one routine that rounds the 53-bit significand of an f64 once.
#include "core/convert.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace carat {
namespace {

// A small IEEE-like format: sign, exponent with bias, `mantissa` explicit bits.
struct Format {
    int mantissa;
    int bias;
    uint32_t largest;   // code of the largest finite value
    uint32_t overflow;  // code of what exceeds it: infinity, or `largest` where the format saturates
    uint32_t nan;
    int sign_shift;
};

// NaN codes are the GPU's canonical ones. FP8 saturates, infinities included.
constexpr Format kF16 = {10, 15, 0x7bff, 0x7c00, 0x7fff, 15};
constexpr Format kBf16 = {7, 127, 0x7f7f, 0x7f80, 0x7fff, 15};
constexpr Format kE4m3 = {3, 7, 0x7e, 0x7e, 0x7f, 7};
constexpr Format kE5m2 = {2, 15, 0x7b, 0x7b, 0x7f, 7};

uint32_t encode(double value, const Format& format) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    const uint32_t sign = uint32_t(bits >> 63) << format.sign_shift;
    const int exponent = int(bits >> 52 & 0x7ff) - 1023;
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    if (exponent == 1024) return fraction ? format.nan : sign | format.overflow;
    const int least = 1 - format.bias;  // exponent of the smallest normal number
    const int shift = 52 - format.mantissa + std::max(0, least - exponent);
    if (shift > 54) return sign;  // below half of the smallest subnormal (f64 subnormals among them)
    const uint64_t significand = fraction | uint64_t{1} << 52;
    const uint64_t rest = significand & ((uint64_t{1} << shift) - 1), half = uint64_t{1} << (shift - 1);
    uint64_t kept = significand >> shift;
    if (rest > half || (rest == half && (kept & 1))) ++kept;
    // A carry out of the mantissa runs into the exponent field by itself, from subnormal to normal too.
    const int64_t field = exponent >= least ? int64_t(exponent - least) << format.mantissa : 0;
    const uint64_t code = uint64_t(field) + kept;
    return sign | (code > format.largest ? format.overflow : uint32_t(code));
}

// `ieee`: the top exponent holds infinity and NaN; else (e4m3) only the all-ones code is NaN.
float decode(uint32_t code, const Format& format, bool ieee) {
    const uint32_t magnitude = code & ((1u << format.sign_shift) - 1);
    const bool negative = code >> format.sign_shift & 1;
    const uint32_t mantissa = magnitude & ((1u << format.mantissa) - 1);
    const uint32_t exponent = magnitude >> format.mantissa;
    uint32_t bits;
    if (ieee ? magnitude > format.overflow : magnitude == format.nan) {
        bits = 0x7fc00000u | mantissa << (23 - format.mantissa);
    } else if (ieee && magnitude == format.overflow) {
        bits = 0x7f800000u;
    } else if (exponent == 0) {
        bits = std::bit_cast<uint32_t>(std::ldexp(float(mantissa), 1 - format.bias - format.mantissa));
    } else {
        bits = (exponent + uint32_t(127 - format.bias)) << 23 | mantissa << (23 - format.mantissa);
    }
    return std::bit_cast<float>(bits | uint32_t(negative) << 31);
}

std::array<float, 256> fp8_table(const Format& format, bool ieee) {
    std::array<float, 256> table{};
    for (uint32_t code = 0; code < 256; ++code) table[code] = decode(code, format, ieee);
    return table;
}

// e5m2 has an infinity (0x7c) to read, though conversions to it saturate.
constexpr Format kE5m2Read = {2, 15, 0x7b, 0x7c, 0x7f, 7};

template <class T>
T read(const void* base, int64_t index) {
    T value;
    std::memcpy(&value, static_cast<const char*>(base) + index * int64_t(sizeof(T)), sizeof(T));
    return value;
}

template <class T>
void write(void* base, int64_t index, T value) {
    std::memcpy(static_cast<char*>(base) + index * int64_t(sizeof(T)), &value, sizeof(T));
}

int nibble(const void* base, int64_t index) {
    return read<uint8_t>(base, index / 2) >> (index % 2 * 4) & 15;
}

void set_nibble(void* base, int64_t index, int value) {
    const int shift = int(index % 2) * 4;
    const uint8_t old = read<uint8_t>(base, index / 2);
    write<uint8_t>(base, index / 2, uint8_t((old & ~(15 << shift)) | (value & 15) << shift));
}

// Saturates first, so that the conversion to an integer is defined for every input.
int64_t to_integer(double value, double least, double largest) {
    if (std::isnan(value)) return 0;
    return int64_t(std::nearbyint(std::clamp(value, least, largest)));
}

}  // namespace

float f32_from_f16(uint16_t bits) {
    const uint32_t magnitude = bits & 0x7fffu, sign = uint32_t(bits & 0x8000u) << 16;
    if (magnitude - 0x0400u < 0x7800u)  // normal: only the bias changes
        return std::bit_cast<float>(sign | ((magnitude << 13) + (uint32_t(127 - 15) << 23)));
    return decode(bits, kF16, true);
}

float f32_from_bf16(uint16_t bits) {
    return std::bit_cast<float>(uint32_t(bits) << 16);
}

float f32_from_e4m3(uint8_t bits) {
    static const std::array<float, 256> table = fp8_table(kE4m3, false);
    return table[bits];
}

float f32_from_e5m2(uint8_t bits) {
    static const std::array<float, 256> table = fp8_table(kE5m2Read, true);
    return table[bits];
}

uint16_t f16_from_f64(double value) {
    return uint16_t(encode(value, kF16));
}
uint16_t bf16_from_f64(double value) {
    return uint16_t(encode(value, kBf16));
}
uint8_t e4m3_from_f64(double value) {
    return uint8_t(encode(value, kE4m3));
}
uint8_t e5m2_from_f64(double value) {
    return uint8_t(encode(value, kE5m2));
}

double load_f64(const void* base, carat_dtype dtype, int64_t index) {
    switch (dtype) {
        case CARAT_F64:
            return read<double>(base, index);
        case CARAT_F32:
            return read<float>(base, index);
        case CARAT_F16:
            return f32_from_f16(read<uint16_t>(base, index));
        case CARAT_BF16:
            return f32_from_bf16(read<uint16_t>(base, index));
        case CARAT_E4M3:
            return f32_from_e4m3(read<uint8_t>(base, index));
        case CARAT_E5M2:
            return f32_from_e5m2(read<uint8_t>(base, index));
        case CARAT_S8:
            return read<int8_t>(base, index);
        case CARAT_S32:
            return read<int32_t>(base, index);
        case CARAT_S4:
            return (nibble(base, index) ^ 8) - 8;
        case CARAT_U4:
            return nibble(base, index);
        case CARAT_NONE:
            break;
    }
    return 0;
}

void store_f64(void* base, carat_dtype dtype, int64_t index, double value) {
    switch (dtype) {
        case CARAT_F64:
            return write<double>(base, index, value);
        case CARAT_F32:
            return write<float>(base, index, float(value));
        case CARAT_F16:
            return write<uint16_t>(base, index, f16_from_f64(value));
        case CARAT_BF16:
            return write<uint16_t>(base, index, bf16_from_f64(value));
        case CARAT_E4M3:
            return write<uint8_t>(base, index, e4m3_from_f64(value));
        case CARAT_E5M2:
            return write<uint8_t>(base, index, e5m2_from_f64(value));
        case CARAT_S8:
            return write<int8_t>(base, index, int8_t(to_integer(value, -128, 127)));
        case CARAT_S32:
            return write<int32_t>(base, index, int32_t(to_integer(value, -2147483648.0, 2147483647.0)));
        case CARAT_S4:
            return set_nibble(base, index, int(to_integer(value, -8, 7)));
        case CARAT_U4:
            return set_nibble(base, index, int(to_integer(value, 0, 15)));
        case CARAT_NONE:
            break;
    }
}

double round_to(carat_dtype dtype, double value) {
    unsigned char scratch[8] = {};
    store_f64(scratch, dtype, 0, value);
    return load_f64(scratch, dtype, 0);
}

}  // namespace carat
