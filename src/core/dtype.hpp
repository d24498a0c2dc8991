// SPDX-License-Identifier: Apache-2.0
// dtype.hpp: facts about element types: names, sizes, unit round-off, largest value. Conversions are in convert.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/status.hpp"

namespace carat {

struct DtypeInfo {
    carat_dtype dtype;
    const char* name;
    int bits;
    double unit_roundoff;  // half a unit in the last place of 1.0; 0 for integers
    double largest;        // largest finite value
    double smallest;       // smallest positive subnormal; 1 for integers
    bool is_float;
};

// All real types, in the order of the enum.
std::span<const DtypeInfo> dtypes();
// dtype must be a valid enumerator; CARAT_NONE gives {"none", 0 bits}.
const DtypeInfo& info(carat_dtype dtype);
inline const char* name(carat_dtype dtype) {
    return info(dtype).name;
}
inline int bits(carat_dtype dtype) {
    return info(dtype).bits;
}
Result<carat_dtype> parse_dtype(std::string_view name);
bool is_valid(carat_dtype dtype);

// Bytes that `elements` contiguous elements take (sub-byte types round up).
inline int64_t bytes_of(carat_dtype dtype, int64_t elements) {
    return (elements * bits(dtype) + 7) / 8;
}

}  // namespace carat
