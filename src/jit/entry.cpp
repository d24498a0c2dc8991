// SPDX-License-Identifier: Apache-2.0
#include "jit/entry.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "jit/hash.hpp"

namespace carat::jit {
namespace {

static_assert(std::endian::native == std::endian::little,
              "entries are little-endian and written as they lie in memory");

constexpr char kMagic[8] = {'C', 'A', 'R', 'A', 'T', 'K', 'R', 'N'};

struct Header {
    char magic[8];
    uint32_t schema;
    uint32_t flags;  // none yet: 0
    uint64_t key_bytes, facts_bytes, cubin_bytes;
    Digest payload_digest;
    uint64_t header_digest;  // of all bytes before it
};
static_assert(sizeof(Header) == kEntryHeaderBytes);

uint64_t digest_of(const Header& header) {
    return hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_digest)));
}

std::string facts_text(const Artifact& artifact) {
    const KernelFacts& f = artifact.facts;
    const nlohmann::json json = {{"registers", f.registers},     {"spill_bytes", f.spill_bytes},
                                 {"stack_bytes", f.stack_bytes}, {"static_shared_bytes", f.static_shared_bytes},
                                 {"warnings", f.warnings},       {"log", artifact.log}};
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // a log need not be valid UTF-8
}

Status read_facts(std::string_view text, Artifact& artifact) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) return fail(CARAT_IO_ERROR, "its facts are not a JSON object");
    const auto number = [&](const char* name, auto& into) {
        const auto it = json.find(name);
        if (it == json.end() || !it->is_number_integer()) return false;
        into = it->get<std::remove_reference_t<decltype(into)>>();
        return true;
    };
    KernelFacts& f = artifact.facts;
    const bool numbers = number("registers", f.registers) && number("spill_bytes", f.spill_bytes) &&
                         number("stack_bytes", f.stack_bytes) && number("static_shared_bytes", f.static_shared_bytes);
    const auto words = [&](const char* name, std::string& into) {
        const auto it = json.find(name);
        if (it == json.end() || !it->is_string()) return false;
        into = it->get<std::string>();
        return true;
    };
    if (!numbers || !words("warnings", f.warnings) || !words("log", artifact.log))
        return fail(CARAT_IO_ERROR, "its facts lack a field");
    return {};
}

// The header, if it and the lengths in it are right.
Result<Header> read_header(std::span<const std::byte> bytes) {
    Header header;
    if (bytes.size() < sizeof header) return fail(CARAT_IO_ERROR, "it has {} bytes, fewer than a header", bytes.size());
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
        return fail(CARAT_IO_ERROR, "it is not a kernel cache entry");
    if (header.header_digest != digest_of(header)) return fail(CARAT_IO_ERROR, "its header is damaged");
    if (header.schema != kEntrySchema || header.flags != 0)
        return fail(CARAT_IO_ERROR, "it has schema {} and flags {}, but {} and 0 are wanted", header.schema,
                    header.flags, kEntrySchema);
    uint64_t left = bytes.size() - sizeof header;
    for (const uint64_t length : {header.key_bytes, header.facts_bytes, header.cubin_bytes}) {
        if (length > left) return fail(CARAT_IO_ERROR, "it is cut short");
        left -= length;
    }
    if (left != 0) return fail(CARAT_IO_ERROR, "it has {} bytes too many", left);
    return header;
}

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::byte> serialise(const Entry& entry) {
    const std::string facts = facts_text(entry.artifact);
    const auto& cubin = entry.artifact.cubin;
    std::vector<std::byte> bytes(sizeof(Header) + entry.key.size() + facts.size() + cubin.size());
    std::byte* at = bytes.data() + sizeof(Header);
    for (const auto part :
         {std::as_bytes(std::span(entry.key)), std::as_bytes(std::span(facts)), std::as_bytes(std::span(cubin))})
        at = std::copy(part.begin(), part.end(), at);

    Header header{.schema = kEntrySchema,
                  .key_bytes = entry.key.size(),
                  .facts_bytes = facts.size(),
                  .cubin_bytes = cubin.size()};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.payload_digest = hash128(std::span(bytes).subspan(sizeof header));
    header.header_digest = digest_of(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

Result<Entry> parse_entry(std::span<const std::byte> bytes) {
    CARAT_ASSIGN(const Header header, read_header(bytes));
    const auto payload = bytes.subspan(sizeof header);
    if (header.payload_digest != hash128(payload)) return fail(CARAT_IO_ERROR, "its checksum does not match");
    Entry entry;
    entry.key = as_text(payload.first(header.key_bytes));
    CARAT_TRY(read_facts(as_text(payload.subspan(header.key_bytes, header.facts_bytes)), entry.artifact));
    const auto cubin = payload.last(header.cubin_bytes);
    if (cubin.empty()) return fail(CARAT_IO_ERROR, "it holds no kernel");
    entry.artifact.cubin.assign(cubin.begin(), cubin.end());
    return entry;
}

}  // namespace carat::jit
