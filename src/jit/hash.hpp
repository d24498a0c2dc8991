// SPDX-License-Identifier: Apache-2.0
// hash.hpp: XXH3, the one hash of the JIT. It guards against accidents (torn writes, bad disks), not against attackers:
// those are kept out by who owns the cache directory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace carat::jit {

using Digest = std::array<std::byte, 16>;

Digest hash128(std::span<const std::byte> bytes);
uint64_t hash64(std::span<const std::byte> bytes);
// 32 hexadecimal digits.
std::string hash128_hex(std::string_view text);

}  // namespace carat::jit
