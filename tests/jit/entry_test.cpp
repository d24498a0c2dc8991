// SPDX-License-Identifier: Apache-2.0
// A cache entry survives its way to bytes and back, and no damaged one is taken.
#include "jit/entry.hpp"

#include <gtest/gtest.h>

#include "reseal.hpp"
#include "tools.hpp"

namespace carat::jit::testing {
namespace {

Entry sample_entry() {
    return {.key = "carat kernel, schema 1\narch sm_90a\n", .artifact = sample_artifact()};
}

TEST(Entry, RoundTrip) {
    const Entry entry = sample_entry();
    const auto again = parse_entry(serialise(entry));
    ASSERT_TRUE(again.ok()) << again.status().sentence();
    EXPECT_EQ(again->key, entry.key);
    EXPECT_EQ(again->artifact.cubin, entry.artifact.cubin);
    EXPECT_EQ(again->artifact.facts.registers, 72);
    EXPECT_EQ(again->artifact.facts.spill_bytes, 16);
    EXPECT_EQ(again->artifact.facts.stack_bytes, 24);
    EXPECT_EQ(again->artifact.facts.static_shared_bytes, 4096);
    EXPECT_EQ(again->artifact.facts.warnings, "(C7514) serialized");
    EXPECT_NE(again->artifact.log.find("C7510"), std::string::npos);  // its byte that is no UTF-8 is replaced
    EXPECT_EQ(serialise(*again), serialise(*parse_entry(serialise(*again))));
}

TEST(Entry, EveryTruncationIsRefused) {
    std::vector<std::byte> bytes = serialise(sample_entry());
    for (size_t length = 0; length < bytes.size(); ++length) {
        const auto entry = parse_entry(std::span(bytes).first(length));
        ASSERT_FALSE(entry.ok()) << length;
        ASSERT_EQ(entry.status().code(), CARAT_IO_ERROR);
        ASSERT_FALSE(entry.status().sentence().empty());
    }
    bytes.push_back(std::byte(0));
    EXPECT_FALSE(parse_entry(bytes).ok());
}

TEST(Entry, EveryBitFlipIsRefused) {
    std::vector<std::byte> bytes = serialise(sample_entry());
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        bytes[bit / 8] ^= std::byte(1 << bit % 8);
        ASSERT_FALSE(parse_entry(bytes).ok()) << "bit " << bit % 8 << " of byte " << bit / 8;
        bytes[bit / 8] ^= std::byte(1 << bit % 8);
    }
    EXPECT_TRUE(parse_entry(bytes).ok());
}

// Sets one 64-bit field of the header, with right checksums.
Status with_field(size_t offset, uint64_t value) {
    std::vector<std::byte> bytes = serialise(sample_entry());
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    reseal(bytes);
    return parse_entry(bytes).status();
}

TEST(Entry, HostileLengthsAreRefusedThoughTheChecksumsAreRight) {
    for (const size_t offset : {16, 24, 32})
        for (const uint64_t length :
             {uint64_t(0), uint64_t(1), uint64_t(1) << 31, uint64_t(1) << 63, ~uint64_t(0), ~uint64_t(0) - 63})
            EXPECT_FALSE(with_field(offset, length).ok()) << offset << " " << length;
    EXPECT_NE(with_field(8, 99).sentence().find("schema 99"), std::string::npos);
    EXPECT_NE(with_field(8, kEntrySchema - 1).sentence().find("schema 1"), std::string::npos);  // before the warnings
    EXPECT_FALSE(with_field(8, uint64_t(1) << 32 | kEntrySchema).ok());                         // an unknown flag
}

TEST(Entry, LengthsWhoseSumWrapsAroundAreRefused) {
    std::vector<std::byte> bytes = serialise(sample_entry());
    for (const size_t offset : {16, 32})
        bytes[offset + 7] ^= std::byte(0x80);  // 2^63 more, twice: the sum is as before
    reseal(bytes);
    EXPECT_NE(parse_entry(bytes).status().sentence().find("cut short"), std::string::npos);
}

TEST(Entry, FactsMustBeComplete) {
    const std::string text = [] {
        const auto bytes = serialise(sample_entry());
        return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }();
    const auto refused = [&](const std::string& from, const std::string& to) {
        std::string altered = text;
        EXPECT_EQ(from.size(), to.size());
        EXPECT_NE(altered.find(from), std::string::npos) << from;
        altered.replace(altered.find(from), from.size(), to);
        std::vector<std::byte> bytes(altered.size());
        std::memcpy(bytes.data(), altered.data(), altered.size());
        reseal(bytes);
        return !parse_entry(bytes).ok();
    };
    EXPECT_TRUE(refused("\"registers\":72", "\"registrars\":7"));
    EXPECT_TRUE(refused("\"registers\":72", "\"registers\":{}"));
    EXPECT_TRUE(refused("\"registers\":72", "\"registers\":.5"));
    EXPECT_TRUE(refused("\"warnings\":", "\"warmings\":"));
    EXPECT_TRUE(refused("{\"log\":", "[\"log\":"));
    EXPECT_FALSE(refused("\"registers\":72", "\"registers\":99"));
}

}  // namespace
}  // namespace carat::jit::testing
