// SPDX-License-Identifier: Apache-2.0
// entry.hpp: one compiled kernel as a file of the cache. Everything in it is covered by a checksum, and nothing read
// from a file is trusted before the checksum and every length have been checked.
//
//   64-byte header: magic, schema, flags, three lengths, XXH3-128 of the payload, XXH3-64 of the header
//   payload: key text, facts and log as JSON, cubin
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "jit/jit.hpp"

namespace carat::jit {

inline constexpr size_t kEntryHeaderBytes = 64;
inline constexpr unsigned kEntrySchema = 2;

struct Entry {
    std::string key;  // the full text that the file's name is the hash of
    Artifact artifact;
};

std::vector<std::byte> serialise(const Entry& entry);
// IO_ERROR with the reason for anything but an intact entry.
Result<Entry> parse_entry(std::span<const std::byte> bytes);

}  // namespace carat::jit
