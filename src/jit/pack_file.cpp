// SPDX-License-Identifier: Apache-2.0
#include "jit/pack_file.hpp"

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "jit/hash.hpp"

namespace carat::jit {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMagic[8] = {'C', 'A', 'R', 'A', 'T', 'P', 'A', 'K'};
constexpr const char* kIndexSchema = "carat.pack/1";

struct Header {
    char magic[8];
    uint32_t schema;
    uint32_t flags;  // none yet: 0
    uint64_t index_bytes, file_bytes;
    uint64_t unused;  // 0
    Digest index_digest;
    uint64_t header_digest;  // of all bytes before it
};
static_assert(sizeof(Header) == kPackHeaderBytes);

uint64_t digest_of(const Header& header) {
    return hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_digest)));
}

// Offsets count from the end of the index here, so that its own size does not change them.
std::string index_text(const PackIndex& index) {
    Json kernels = Json::array();
    uint64_t offset = 0;
    for (const PackedKernel& kernel : index.kernels) {
        kernels.push_back({{"key", kernel.key},
                           {"name", kernel.name},
                           {"arch", kernel.arch},
                           {"offset", offset},
                           {"bytes", kernel.bytes}});
        offset += kernel.bytes;
    }
    const Json json = {
        {"schema", kIndexSchema},
        {"library", index.library},
        {"compiler",
         {{"major", index.compiler.major}, {"minor", index.compiler.minor}, {"identity", index.compiler.identity}}},
        {"kernels", std::move(kernels)}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Reads members of one JSON object; the first that is not there, or not of its type, is remembered.
class Members {
  public:
    explicit Members(const Json& json) : json_(json) {}
    void read(const char* name, std::string& into) {
        if (const Json* it = find(name, &Json::is_string)) into = it->get<std::string>();
    }
    void read(const char* name, uint64_t& into) {
        if (const Json* it = find(name, &Json::is_number_unsigned)) into = it->get<uint64_t>();
    }
    void read(const char* name, int& into) {
        uint64_t number = 0;
        read(name, number);
        if (number > uint64_t(std::numeric_limits<int>::max())) return lacks(name);
        into = int(number);
    }
    Status status() const {
        return bad_.empty() ? Status() : fail(CARAT_IO_ERROR, "its index lacks a right '{}'", bad_);
    }

  private:
    const Json* find(const char* name, bool (Json::*is_right)() const noexcept) {
        const auto it = json_.is_object() ? json_.find(name) : json_.end();
        if (it != json_.end() && ((*it).*is_right)()) return &*it;
        lacks(name);
        return nullptr;
    }
    void lacks(const char* name) {
        if (bad_.empty()) bad_ = name;
    }
    const Json& json_;
    std::string bad_;
};

Result<PackedKernel> read_kernel(const Json& json, uint64_t data_begin, uint64_t data_bytes) {
    PackedKernel kernel;
    Members members(json);
    members.read("key", kernel.key);
    members.read("name", kernel.name);
    members.read("arch", kernel.arch);
    members.read("offset", kernel.offset);
    members.read("bytes", kernel.bytes);
    CARAT_TRY(members.status());
    if (kernel.offset > data_bytes || kernel.bytes > data_bytes - kernel.offset)
        return fail(CARAT_IO_ERROR, "its kernel {} lies outside of the file", kernel.name);
    kernel.offset += data_begin;
    return kernel;
}

Result<PackIndex> read_index(std::string_view text, uint64_t data_begin, uint64_t data_bytes) {
    const Json json = Json::parse(text, nullptr, false);
    PackIndex index;
    std::string schema;
    Members members(json);
    members.read("schema", schema);
    members.read("library", index.library);
    CARAT_TRY(members.status());
    if (schema != kIndexSchema)
        return fail(CARAT_IO_ERROR, "its index has schema '{}', but '{}' is wanted", schema, kIndexSchema);
    const Json compiler = json.value("compiler", Json()), kernels = json.value("kernels", Json());
    Members of_compiler(compiler);
    of_compiler.read("major", index.compiler.major);
    of_compiler.read("minor", index.compiler.minor);
    of_compiler.read("identity", index.compiler.identity);
    CARAT_TRY(of_compiler.status());
    if (!kernels.is_array()) return fail(CARAT_IO_ERROR, "its index lacks a right 'kernels'");
    for (const Json& one : kernels) {
        CARAT_ASSIGN(PackedKernel kernel, read_kernel(one, data_begin, data_bytes));
        index.kernels.push_back(std::move(kernel));
    }
    return index;
}

Result<Header> read_header(std::span<const std::byte> bytes, uint64_t file_bytes) {
    Header header;
    if (bytes.size() < sizeof header) return fail(CARAT_IO_ERROR, "it has {} bytes, fewer than a header", bytes.size());
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return fail(CARAT_IO_ERROR, "it is not a kernel pack");
    if (header.header_digest != digest_of(header)) return fail(CARAT_IO_ERROR, "its header is damaged");
    if (header.schema != kPackSchema || header.flags != 0)
        return fail(CARAT_IO_ERROR, "it has schema {} and flags {}, but {} and 0 are wanted", header.schema,
                    header.flags, kPackSchema);
    if (header.file_bytes != file_bytes || header.index_bytes > file_bytes - sizeof header)
        return fail(CARAT_IO_ERROR, "it has {} bytes, but its header says {}", file_bytes, header.file_bytes);
    return header;
}

}  // namespace

std::vector<std::byte> serialise_head(PackIndex& index) {
    const std::string text = index_text(index);
    uint64_t at = sizeof(Header) + text.size();
    for (PackedKernel& kernel : index.kernels) kernel.offset = std::exchange(at, at + kernel.bytes);
    Header header{.schema = kPackSchema, .index_bytes = text.size(), .file_bytes = at};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.index_digest = hash128(std::as_bytes(std::span(text)));
    header.header_digest = digest_of(header);
    std::vector<std::byte> bytes(sizeof header + text.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, text.data(), text.size());
    return bytes;
}

Result<uint64_t> head_bytes(std::span<const std::byte> bytes, uint64_t file_bytes) {
    CARAT_ASSIGN(const Header header, read_header(bytes, file_bytes));
    return sizeof header + header.index_bytes;
}

Result<PackIndex> parse_head(std::span<const std::byte> head, uint64_t file_bytes) {
    CARAT_ASSIGN(const Header header, read_header(head, file_bytes));
    const auto text = head.subspan(sizeof header);
    if (text.size() != header.index_bytes || hash128(text) != header.index_digest)
        return fail(CARAT_IO_ERROR, "its index is damaged");
    return read_index({reinterpret_cast<const char*>(text.data()), text.size()}, head.size(), file_bytes - head.size());
}

}  // namespace carat::jit
