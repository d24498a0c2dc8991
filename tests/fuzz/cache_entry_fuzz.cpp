// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of cache entries: as given, and with the checksums made right so that the fields behind them are
// reached too. What is accepted must survive being written and read again.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../jit/reseal.hpp"
#include "jit/entry.hpp"

namespace {

void check(std::span<const std::byte> bytes) {
    const auto entry = carat::jit::parse_entry(bytes);
    if (!entry.ok()) {
        if (entry.status().sentence().empty()) std::abort();
        return;
    }
    const auto again = carat::jit::parse_entry(carat::jit::serialise(*entry));
    if (!again.ok() || again->key != entry->key || again->artifact.cubin != entry->artifact.cubin ||
        again->artifact.log != entry->artifact.log ||
        again->artifact.facts.registers != entry->artifact.facts.registers)
        std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                 reinterpret_cast<const std::byte*>(data) + size);
    check(bytes);
    carat::jit::testing::reseal(bytes);
    check(bytes);

    // The input as a payload under a right header: the three lengths come from its first bytes.
    if (size < 2) return 0;
    const size_t payload = size - 2, key = payload * data[0] / 255, facts = (payload - key) * data[1] / 255;
    carat::jit::Entry model{.key = std::string(key, 'k')};
    model.artifact.cubin.resize(1);
    std::vector<std::byte> whole = carat::jit::serialise(model);
    const uint64_t lengths[3] = {key, facts, payload - key - facts};
    std::memcpy(whole.data() + 16, lengths, sizeof lengths);
    whole.resize(carat::jit::kEntryHeaderBytes);
    whole.insert(whole.end(), bytes.begin() + 2, bytes.end());
    carat::jit::testing::reseal(whole);
    check(whole);
    return 0;
}
