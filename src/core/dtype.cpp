// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.hpp"

#include <array>

namespace carat {
namespace {

// unit_roundoff = 2^-(mantissa bits + 1).
constexpr std::array<DtypeInfo, 11> kTable = {{
    {CARAT_NONE, "none", 0, 0, 0, 0, false},
    {CARAT_F64, "f64", 64, 0x1p-53, 1.7976931348623157e308, 0x1p-1074, true},
    {CARAT_F32, "f32", 32, 0x1p-24, 3.4028234663852886e38, 0x1p-149, true},
    {CARAT_F16, "f16", 16, 0x1p-11, 65504, 0x1p-24, true},
    {CARAT_BF16, "bf16", 16, 0x1p-8, 3.3895313892515355e38, 0x1p-133, true},
    {CARAT_E4M3, "e4m3", 8, 0x1p-4, 448, 0x1p-9, true},
    {CARAT_E5M2, "e5m2", 8, 0x1p-3, 57344, 0x1p-16, true},
    {CARAT_S8, "s8", 8, 0, 127, 1, false},
    {CARAT_S32, "s32", 32, 0, 2147483647, 1, false},
    {CARAT_S4, "s4", 4, 0, 7, 1, false},
    {CARAT_U4, "u4", 4, 0, 15, 1, false},
}};

}  // namespace

std::span<const DtypeInfo> dtypes() {
    return std::span(kTable).subspan(1);
}

bool is_valid(carat_dtype dtype) {
    return int(dtype) >= 0 && size_t(dtype) < kTable.size();
}

const DtypeInfo& info(carat_dtype dtype) {
    return kTable[is_valid(dtype) ? size_t(dtype) : 0];
}

Result<carat_dtype> parse_dtype(std::string_view name) {
    std::string known;
    for (const DtypeInfo& row : dtypes()) {
        if (name == row.name) return row.dtype;
        known += known.empty() ? row.name : std::string(", ") + row.name;
    }
    return fail(CARAT_INVALID_VALUE, "unknown element type '{}': use one of {}", name, known);
}

}  // namespace carat
