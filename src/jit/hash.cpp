// SPDX-License-Identifier: Apache-2.0
// The only translation unit that compiles xxhash.
#define XXH_INLINE_ALL
#include "jit/hash.hpp"

#include <xxhash.h>

#include <cstring>

#include "core/format.hpp"

namespace carat::jit {

Digest hash128(std::span<const std::byte> bytes) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
    Digest digest;
    static_assert(sizeof canonical == sizeof digest);
    std::memcpy(digest.data(), &canonical, sizeof digest);
    return digest;
}

uint64_t hash64(std::span<const std::byte> bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hash128_hex(std::string_view text) {
    std::string hex;
    for (const std::byte byte : hash128(std::as_bytes(std::span(text)))) hex += fmt::format("{:02x}", unsigned(byte));
    return hex;
}

}  // namespace carat::jit
