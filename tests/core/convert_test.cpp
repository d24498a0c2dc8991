// SPDX-License-Identifier: Apache-2.0
// convert_test.cpp: the scalar conversions against an oracle made of ldexp and neighbour search, exhaustively where the
// format has at most 2^16 codes: every code, every midpoint between neighbours, and the f64 values beside each
// midpoint.
#include "core/convert.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace carat {
namespace {

struct Narrow {
    carat_dtype dtype;
    int exponent_bits, mantissa_bits;
    bool saturates;
    uint32_t (*encode)(double);
    float (*decode)(uint32_t);
    int bits() const { return 1 + exponent_bits + mantissa_bits; }
    uint32_t sign() const { return 1u << (bits() - 1); }
};

const Narrow kNarrow[] = {
    {CARAT_F16, 5, 10, false, [](double v) { return uint32_t(f16_from_f64(v)); },
     [](uint32_t c) { return f32_from_f16(uint16_t(c)); }},
    {CARAT_BF16, 8, 7, false, [](double v) { return uint32_t(bf16_from_f64(v)); },
     [](uint32_t c) { return f32_from_bf16(uint16_t(c)); }},
    {CARAT_E4M3, 4, 3, true, [](double v) { return uint32_t(e4m3_from_f64(v)); },
     [](uint32_t c) { return f32_from_e4m3(uint8_t(c)); }},
    {CARAT_E5M2, 5, 2, true, [](double v) { return uint32_t(e5m2_from_f64(v)); },
     [](uint32_t c) { return f32_from_e5m2(uint8_t(c)); }},
};

// The value of a code, from the definition of the format.
double oracle_value(const Narrow& f, uint32_t code) {
    const uint32_t magnitude = code & (f.sign() - 1);
    const int exponent = int(magnitude >> f.mantissa_bits), top = (1 << f.exponent_bits) - 1;
    const uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    double value;
    if (f.dtype == CARAT_E4M3 && magnitude == 0x7f)
        value = NAN;
    else if (f.dtype != CARAT_E4M3 && exponent == top)
        value = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        value = std::ldexp(double(mantissa), 1 - bias - f.mantissa_bits);
    else
        value = std::ldexp(1 + std::ldexp(double(mantissa), -f.mantissa_bits), exponent - bias);
    return code & f.sign() ? -value : value;
}

// Finite non-negative values, ascending; the code of values[i] is i.
std::vector<double> finite_values(const Narrow& f) {
    std::vector<double> values;
    for (uint32_t code = 0; code < f.sign() && std::isfinite(oracle_value(f, code)); ++code)
        values.push_back(oracle_value(f, code));
    return values;
}

// Nearest code by comparing distances to the two neighbours; exact in f64 for neighbours of a narrow format.
uint32_t oracle_code(const Narrow& f, const std::vector<double>& values, double value) {
    const double v = std::fabs(value);
    const uint32_t sign = std::signbit(value) ? f.sign() : 0;
    const uint32_t last = uint32_t(values.size() - 1);
    const double step = values[last] - values[last - 1], overflow = values[last] + step / 2;
    if (v >= values[last]) return sign | (v < overflow || f.saturates ? last : last + 1);
    const uint32_t above = uint32_t(std::upper_bound(values.begin(), values.end(), v) - values.begin());
    const double down = v - values[above - 1], up = values[above] - v;
    const bool take_up = up < down || (up == down && above % 2 == 0);
    return sign | (take_up ? above : above - 1);
}

TEST(Convert, EveryCodeDecodesToItsDefinition) {
    for (const Narrow& f : kNarrow) {
        for (uint32_t code = 0; code < 1u << f.bits(); ++code) {
            const double want = oracle_value(f, code), got = f.decode(code);
            if (std::isnan(want)) {
                EXPECT_TRUE(std::isnan(got)) << name(f.dtype) << " code " << code;
                EXPECT_TRUE(std::isnan(f.decode(f.encode(got)))) << name(f.dtype) << " code " << code;
                continue;
            }
            ASSERT_EQ(std::bit_cast<uint64_t>(want), std::bit_cast<uint64_t>(got)) << name(f.dtype) << " " << code;
            if (std::isinf(want) && f.saturates) continue;
            ASSERT_EQ(code, f.encode(got)) << name(f.dtype) << " code " << code << " does not survive the round trip";
        }
    }
}

// One ulp of f64 beside the midpoint decides; rounding through f32 first would land on the midpoint and go wrong.
TEST(Convert, EveryMidpointRoundsToEvenAndItsNeighboursDoNot) {
    for (const Narrow& f : kNarrow) {
        const std::vector<double> values = finite_values(f);
        EXPECT_EQ(values.back(), info(f.dtype).largest);
        EXPECT_EQ(values[1], info(f.dtype).smallest);
        for (uint32_t low = 0; low + 1 < values.size(); ++low) {
            const double middle = (values[low] + values[low + 1]) / 2;
            const uint32_t even = low % 2 ? low + 1 : low;
            for (const double sign : {1.0, -1.0}) {
                const uint32_t bit = sign < 0 ? f.sign() : 0;
                ASSERT_EQ(bit | even, f.encode(sign * middle)) << name(f.dtype) << " " << low;
                ASSERT_EQ(bit | low, f.encode(sign * std::nextafter(middle, 0))) << name(f.dtype) << " " << low;
                ASSERT_EQ(bit | (low + 1), f.encode(sign * std::nextafter(middle, 1e300))) << name(f.dtype) << low;
                ASSERT_EQ(bit | low, f.encode(sign * middle * (1 - 0x1p-40))) << name(f.dtype) << " " << low;
                ASSERT_EQ(bit | (low + 1), f.encode(sign * middle * (1 + 0x1p-40))) << name(f.dtype) << " " << low;
            }
        }
    }
}

TEST(Convert, OverflowSaturatesForFp8AndIsInfiniteForF16AndBf16) {
    for (const Narrow& f : kNarrow) {
        const std::vector<double> values = finite_values(f);
        const uint32_t last = uint32_t(values.size() - 1);
        const double edge = values[last] + (values[last] - values[last - 1]) / 2;
        const uint32_t beyond = f.saturates ? last : last + 1;
        EXPECT_EQ(f.encode(std::nextafter(edge, 0)), last) << name(f.dtype);
        EXPECT_EQ(f.encode(edge), beyond) << name(f.dtype);  // a tie goes to even, which is the overflow
        for (const double v : {edge * 2, 1e300, std::numeric_limits<double>::max(), double(INFINITY)}) {
            EXPECT_EQ(f.encode(v), beyond) << name(f.dtype) << " " << v;
            EXPECT_EQ(f.encode(-v), f.sign() | beyond) << name(f.dtype) << " " << v;
        }
        for (const double v : {0x1p-1074, 0x1p-1022, 1e-300}) EXPECT_EQ(f.encode(-v), f.sign()) << name(f.dtype);
        EXPECT_TRUE(std::isnan(f.decode(f.encode(NAN)))) << name(f.dtype);
        EXPECT_TRUE(std::isnan(f.decode(f.encode(-NAN)))) << name(f.dtype);
    }
}

TEST(Convert, RandomAndBoundaryF32AgreeWithTheNeighbourOracle) {
    std::mt19937_64 random(7);
    for (const Narrow& f : kNarrow) {
        const std::vector<double> values = finite_values(f);
        const auto check = [&](uint32_t bits) {
            const float v = std::bit_cast<float>(bits);
            if (std::isnan(v)) return true;
            return oracle_code(f, values, v) == f.encode(v);
        };
        for (int i = 0; i < 1'000'000; ++i) {
            const uint32_t bits = uint32_t(random());
            ASSERT_TRUE(check(bits)) << name(f.dtype) << " f32 bits " << bits;
        }
        // Every sign and exponent with the mantissas next to each rounding boundary of the format.
        const uint32_t half = 1u << (22 - f.mantissa_bits);
        for (uint32_t top = 0; top < 512; ++top)
            for (uint32_t m = 0; m < 1u << 23; m += half)
                for (const uint32_t near : {m, m + 1, m - 1})
                    ASSERT_TRUE(check(top << 23 | (near & 0x7fffff))) << name(f.dtype) << " " << top << " " << m;
    }
}

TEST(Convert, AgreesWithTheCompilersHalfType) {
#if defined(__FLT16_MAX__)
    std::mt19937_64 random(11);
    for (int i = 0; i < 2'000'000; ++i) {
        const float v = std::bit_cast<float>(uint32_t(random()));
        if (std::isnan(v)) continue;
        ASSERT_EQ(std::bit_cast<uint16_t>(static_cast<_Float16>(v)), f16_from_f32(v)) << v;
        const double d = double(v) * (1 + 0x1p-50 * double(int64_t(random() % 5) - 2));
        ASSERT_EQ(std::bit_cast<uint16_t>(static_cast<_Float16>(d)), f16_from_f64(d)) << d;
    }
#else
    GTEST_SKIP() << "this compiler has no _Float16";
#endif
}

TEST(Convert, IntegersRoundToEvenSaturateAndTurnNanToZero) {
    const struct {
        carat_dtype dtype;
        double least, largest;
    } kTypes[] = {
        {CARAT_S8, -128, 127}, {CARAT_S32, -2147483648.0, 2147483647.0}, {CARAT_S4, -8, 7}, {CARAT_U4, 0, 15}};
    for (const auto& type : kTypes) {
        EXPECT_EQ(round_to(type.dtype, NAN), 0);
        EXPECT_EQ(round_to(type.dtype, INFINITY), type.largest);
        EXPECT_EQ(round_to(type.dtype, -INFINITY), type.least);
        EXPECT_EQ(round_to(type.dtype, type.largest + 0.4), type.largest);
        EXPECT_EQ(round_to(type.dtype, type.largest + 1e12), type.largest);
        EXPECT_EQ(round_to(type.dtype, type.least - 1e12), type.least);
        const double pairs[][2] = {{0.5, 0},        {1.5, 2},       {2.5, 2},  {3.5, 4},   {0.49999999999999994, 0},
                                   {2.4999999, 2},  {2.5000001, 3}, {-0.5, 0}, {-1.5, -2}, {-2.5, -2},
                                   {-2.5000001, -3}};
        for (const auto& [value, want] : pairs)
            EXPECT_EQ(round_to(type.dtype, value), std::max(want, type.least)) << value;
    }
}

TEST(Convert, NibblesLieEvenElementLowAndStoresTouchNothingElse) {
    uint8_t bytes[4] = {0xaa, 0xaa, 0xaa, 0xaa};
    store_f64(bytes, CARAT_S4, 2, -3);
    EXPECT_EQ(bytes[0], 0xaa);
    EXPECT_EQ(bytes[1], 0xad);
    store_f64(bytes, CARAT_U4, 3, 15);
    EXPECT_EQ(bytes[1], 0xfd);
    EXPECT_EQ(bytes[2], 0xaa);
    EXPECT_EQ(load_f64(bytes, CARAT_S4, 2), -3);
    EXPECT_EQ(load_f64(bytes, CARAT_U4, 2), 13);
    EXPECT_EQ(load_f64(bytes, CARAT_S4, 3), -1);
    EXPECT_EQ(load_f64(bytes, CARAT_U4, 3), 15);
    for (int code = 0; code < 16; ++code) {
        const uint8_t byte = uint8_t(code);
        EXPECT_EQ(load_f64(&byte, CARAT_U4, 0), code);
        EXPECT_EQ(load_f64(&byte, CARAT_S4, 0), code < 8 ? code : code - 16);
    }
}

TEST(Convert, LoadStoreAndRoundAgreeForEveryType) {
    for (const DtypeInfo& type : dtypes()) {
        unsigned char array[64];
        std::memset(array, 0x5a, sizeof array);
        const double values[] = {1, type.dtype == CARAT_U4 ? 2.0 : -2.0, 3.25, type.largest};
        for (int i = 0; i < 4; ++i) store_f64(array, type.dtype, i + 1, values[i]);
        for (int i = 0; i < 4; ++i)
            EXPECT_EQ(load_f64(array, type.dtype, i + 1), round_to(type.dtype, values[i])) << type.name << " " << i;
        const size_t begin = size_t(bytes_of(type.dtype, 5));
        for (size_t i = begin; i < sizeof array; ++i) EXPECT_EQ(array[i], 0x5a) << type.name << " byte " << i;
        EXPECT_EQ(round_to(type.dtype, type.largest), type.largest) << type.name;
        if (type.is_float) {
            EXPECT_TRUE(std::isnan(round_to(type.dtype, NAN))) << type.name;
            EXPECT_EQ(round_to(type.dtype, type.smallest), type.smallest) << type.name;
            // unit_roundoff is half an ulp of 1: the tie just above 1 goes to even, anything more goes up.
            EXPECT_EQ(round_to(type.dtype, 1 + type.unit_roundoff), 1) << type.name;
            if (type.dtype != CARAT_F64) {
                EXPECT_EQ(round_to(type.dtype, 1 + type.unit_roundoff * 1.001), 1 + 2 * type.unit_roundoff);
            }
        }
    }
}

}  // namespace
}  // namespace carat
