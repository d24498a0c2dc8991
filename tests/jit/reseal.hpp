// SPDX-License-Identifier: Apache-2.0
// reseal.hpp: recomputes the checksums of an altered cache entry, so that tests and the fuzzer get past them.
#pragma once

#include <cstring>
#include <span>

#include "jit/entry.hpp"
#include "jit/hash.hpp"

namespace carat::jit::testing {

inline void reseal(std::span<std::byte> bytes) {
    constexpr size_t kPayloadDigest = 40, kHeaderDigest = 56;  // offsets within the header
    if (bytes.size() < kEntryHeaderBytes) return;
    const Digest payload = hash128(bytes.subspan(kEntryHeaderBytes));
    std::memcpy(bytes.data() + kPayloadDigest, payload.data(), payload.size());
    const uint64_t header = hash64(bytes.first(kHeaderDigest));
    std::memcpy(bytes.data() + kHeaderDigest, &header, sizeof header);
}

}  // namespace carat::jit::testing
