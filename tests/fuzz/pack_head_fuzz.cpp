// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of a kernel pack's head: as given, and as an index under a right header so that the fields behind the
// checksums are reached too. What is accepted must lie within the file, and survive being written and read again.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "jit/hash.hpp"
#include "jit/pack_file.hpp"

namespace {

using namespace carat::jit;

void check(std::span<const std::byte> head, uint64_t file_bytes) {
    auto index = parse_head(head, file_bytes);
    if (!index.ok()) {
        if (index.status().sentence().empty()) std::abort();
        return;
    }
    uint64_t sum = 0;
    for (const PackedKernel& kernel : index->kernels) {
        if (kernel.offset < head.size() || kernel.offset > file_bytes || kernel.bytes > file_bytes - kernel.offset)
            std::abort();
        sum += kernel.bytes;
    }
    const auto again = serialise_head(*index);
    const auto parsed = parse_head(again, again.size() + sum);
    if (!parsed.ok() || parsed->kernels.size() != index->kernels.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    if (const auto head = head_bytes(bytes.first(std::min(size, kPackHeaderBytes)), size); head.ok())
        check(bytes.first(*head), size);

    constexpr uint64_t kEntries = 1000;  // bytes that follow the index
    PackIndex empty;
    std::vector<std::byte> head = serialise_head(empty);
    head.resize(kPackHeaderBytes);
    head.insert(head.end(), bytes.begin(), bytes.end());
    const uint64_t lengths[2] = {size, head.size() + kEntries};
    const Digest index = hash128(bytes);
    std::memcpy(head.data() + 16, lengths, sizeof lengths);
    std::memcpy(head.data() + 40, &index, sizeof index);
    const uint64_t header = hash64(std::span(head).first(56));
    std::memcpy(head.data() + 56, &header, sizeof header);
    check(head, lengths[1]);
    return 0;
}
