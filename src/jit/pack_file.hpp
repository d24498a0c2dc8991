// SPDX-License-Identifier: Apache-2.0
// pack_file.hpp: the head of a kernel pack, many compiled kernels in one file, between bytes and values. As of an entry,
// nothing of it is trusted before its checksums and every place in it have been checked.
//
//   64-byte header: magic, schema, flags, bytes of the index and of the file, XXH3-128 of the index, XXH3-64 of the header
//   index: JSON, "carat.pack/1": who made it, and each kernel's key, name, architecture and place
//   kernels, one after the other: entries as the cache keeps them (entry.hpp), each with checksums of its own
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "jit/key.hpp"

namespace carat::jit {

inline constexpr size_t kPackHeaderBytes = 64;
inline constexpr unsigned kPackSchema = 1;

struct PackedKernel {
    std::string key;  // Key::hex
    std::string name, arch;
    uint64_t offset = 0, bytes = 0;  // of its entry, in the file
};

struct PackIndex {
    Compiler compiler;    // of every kernel
    std::string library;  // "carat 0.1.0, kernels 0123...": what made it; see pack_maker()
    std::vector<PackedKernel> kernels;
};

// Header and index of a file whose entries, of the sizes that `index` says, follow in the index's order. Sets their offsets.
std::vector<std::byte> serialise_head(PackIndex& index);

// From the first 64 bytes of a file of `file_bytes`: bytes of header and index together.
Result<uint64_t> head_bytes(std::span<const std::byte> header, uint64_t file_bytes);
// From that many; IO_ERROR with the reason for anything but an intact head.
Result<PackIndex> parse_head(std::span<const std::byte> head, uint64_t file_bytes);

}  // namespace carat::jit
