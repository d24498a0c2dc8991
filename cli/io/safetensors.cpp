// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "io/file.hpp"

namespace carat::cli {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr size_t kMostDimensions = 32;

struct Type {
    const char* name;
    int bits;
    carat_dtype dtype;  // CARAT_NONE: known, but nothing that a GEMM takes
};
constexpr Type kTypes[] = {
    {"F64", 64, CARAT_F64},     {"F32", 32, CARAT_F32},     {"F16", 16, CARAT_F16},  {"BF16", 16, CARAT_BF16},
    {"F8_E4M3", 8, CARAT_E4M3}, {"F8_E5M2", 8, CARAT_E5M2}, {"I8", 8, CARAT_S8},     {"I32", 32, CARAT_S32},
    {"U8", 8, CARAT_NONE},      {"BOOL", 8, CARAT_NONE},    {"I16", 16, CARAT_NONE}, {"U16", 16, CARAT_NONE},
    {"U32", 32, CARAT_NONE},    {"I64", 64, CARAT_NONE},    {"U64", 64, CARAT_NONE}, {"F8_E8M0", 8, CARAT_NONE},
};

const Type* find_type(const std::string& name) {
    const auto* found =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return name == t.name; });
    return found == std::end(kTypes) ? nullptr : found;
}

Status broken(const std::string& path, const std::string& what) {
    return fail(CARAT_IO_ERROR, "'{}' is a broken .safetensors file: {}; download or save it again", printable(path),
                what);
}

// Parses without exceptions, and refuses a key that occurs twice in an object: which of the two is meant is anybody's
// guess, and readers differ.
Status parse_header(std::string_view text, const std::string& path, Json* header) {
    std::vector<std::set<std::string>> keys;
    std::string twice;
    const auto watch = [&](int, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::object_start) keys.emplace_back();
        if (event == Json::parse_event_t::object_end) keys.pop_back();
        if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second &&
            twice.empty()) {
            twice = value.get<std::string>();
        }
        return true;
    };
    *header = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
    if (!twice.empty()) return broken(path, fmt::format("its header has the key '{}' twice", printable(twice)));
    if (!header->is_object()) return broken(path, "its header is not a JSON object");
    return {};
}

bool read_size(const Json& value, int64_t* out) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t(INT64_MAX)) return false;
    *out = int64_t(value.get<uint64_t>());
    return true;
}

Status read_entry(const std::string& path, const std::string& name, const Json& value, Safetensors::Entry* entry) {
    const auto wrong = [&](const std::string& what) {
        return broken(path, fmt::format("tensor '{}' {}", printable(name), what));
    };
    entry->name = name;
    if (!value.is_object()) return wrong("is not described by an object");
    const auto dtype = value.find("dtype"), shape = value.find("shape"), offsets = value.find("data_offsets");
    if (dtype == value.end() || !dtype->is_string()) return wrong("has no dtype string");
    entry->dtype = dtype->get<std::string>();
    if (shape == value.end() || !shape->is_array() || shape->size() > kMostDimensions) {
        return wrong("has no shape list of at most 32 dimensions");
    }
    for (const Json& extent : *shape) {
        if (!read_size(extent, &entry->shape.emplace_back())) return wrong("has a dimension that is no size");
    }
    if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2 ||
        !read_size((*offsets)[0], &entry->begin) || !read_size((*offsets)[1], &entry->end)) {
        return wrong("has no data_offsets pair of sizes");
    }
    return {};
}

Status check_entry(const std::string& path, const Safetensors::Entry& entry, size_t data_size) {
    const auto wrong = [&](const std::string& what) {
        return broken(path, fmt::format("tensor '{}' {}", printable(entry.name), what));
    };
    if (entry.begin > entry.end)
        return wrong(fmt::format("has data_offsets [{}, {}] that run backwards", entry.begin, entry.end));
    if (uint64_t(entry.end) > data_size) {
        return wrong(
            fmt::format("ends at byte {} of the data, which has {}: the file is cut short", entry.end, data_size));
    }
    int64_t elements = 0, bytes = 0;
    if (!count_elements(entry.shape, &elements)) {
        return wrong(fmt::format("claims the impossible shape {}", shape_text(entry.shape)));
    }
    const Type* type = find_type(entry.dtype);
    if (!type) return {};  // a type newer than this reader: its size is unknown, and it cannot be asked for
    if (!count_bytes(elements, type->bits, &bytes) || bytes != entry.end - entry.begin) {
        return wrong(fmt::format("has {} bytes, not what shape {} of {} takes", entry.end - entry.begin,
                                 shape_text(entry.shape), entry.dtype));
    }
    return {};
}

// The format wants the tensors to fill the data exactly: no byte belongs to two, none to nobody.
Status check_layout(const std::string& path, const std::vector<Safetensors::Entry>& entries, size_t data_size) {
    std::vector<size_t> order(entries.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::sort(order.begin(), order.end(), [&](size_t x, size_t y) {
        return std::pair(entries[x].begin, entries[x].end) < std::pair(entries[y].begin, entries[y].end);
    });
    int64_t end = 0;
    for (size_t i : order) {
        const Safetensors::Entry& entry = entries[i];
        if (entry.begin < end) return broken(path, fmt::format("tensor '{}' overlaps another", printable(entry.name)));
        if (entry.begin > end) {
            return broken(path, fmt::format("{} bytes before tensor '{}' belong to no tensor", entry.begin - end,
                                            printable(entry.name)));
        }
        end = entry.end;
    }
    if (uint64_t(end) != data_size) {
        return broken(path, fmt::format("its last {} bytes belong to no tensor", data_size - uint64_t(end)));
    }
    return {};
}

size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t(0));
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = std::exchange(row[0], i);
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substituted}));
        }
    }
    return row.back();
}

Result<carat_dtype> readable_type(const Safetensors::Entry& entry, const std::string& path, carat_dtype raw) {
    const Type* type = find_type(entry.dtype);
    if (type && type->dtype != CARAT_NONE) return type->dtype;
    const bool bytes = entry.dtype == "U8";
    if (bytes && raw != CARAT_NONE && dtype_bits(raw) <= 8) return raw;
    return fail(CARAT_IO_ERROR,
                "tensor '{}' of '{}' is {}, and F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I8 or I32 is wanted: {}",
                printable(entry.name), printable(path), printable(entry.dtype),
                bytes ? "say what its bytes are with --dtype (e4m3, e5m2, s8, s4 or u4)" : "name another tensor");
}

}  // namespace

Result<Safetensors> Safetensors::parse(std::span<const std::byte> file, std::shared_ptr<const void> owner,
                                       const std::string& path) {
    if (file.size() < 8)
        return broken(path, fmt::format("it has {} bytes and the header length alone takes 8", file.size()));
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | std::to_integer<uint64_t>(file[size_t(i)]);
    if (length > kLongestHeader || length > file.size() - 8) {
        return broken(path, fmt::format("it claims a header of {} bytes, and {} are there (at most {} are allowed)",
                                        length, file.size() - 8, kLongestHeader));
    }
    Json header;
    CARAT_TRY(parse_header({reinterpret_cast<const char*>(file.data()) + 8, size_t(length)}, path, &header));
    Safetensors out;
    out.path_ = path;
    out.data_ = file.subspan(8 + size_t(length));
    out.owner_ = std::move(owner);
    for (const auto& [name, value] : header.items()) {
        if (name == "__metadata__") continue;
        CARAT_TRY(read_entry(path, name, value, &out.entries_.emplace_back()));
        CARAT_TRY(check_entry(path, out.entries_.back(), out.data_.size()));
    }
    CARAT_TRY(check_layout(path, out.entries_, out.data_.size()));
    return out;
}

Result<Safetensors> Safetensors::open(const std::string& path) {
    CARAT_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
    return parse(file->bytes(), file, path);
}

std::string Safetensors::near_names(const std::string& name) const {
    // The distance takes time by the product of the lengths; these limits keep a hostile file under a second.
    constexpr size_t kShown = 3, kLongestName = 128, kMostRanked = 20000;
    std::vector<std::pair<size_t, const std::string*>> ranked;
    for (const Entry& entry : std::span(entries_).first(std::min(entries_.size(), kMostRanked))) {
        ranked.emplace_back(edit_distance(std::string_view(name).substr(0, kLongestName),
                                          std::string_view(entry.name).substr(0, kLongestName)),
                            &entry.name);
    }
    const size_t shown = std::min(kShown, ranked.size());
    std::partial_sort(
        ranked.begin(), ranked.begin() + std::ptrdiff_t(shown), ranked.end(),
        [](const auto& x, const auto& y) { return std::pair(x.first, *x.second) < std::pair(y.first, *y.second); });
    std::string text;
    for (size_t i = 0; i < shown; ++i) text += fmt::format("{}'{}'", i ? ", " : "", printable(*ranked[i].second));
    return text;
}

Result<Tensor> Safetensors::tensor(const std::string& name, carat_dtype raw_dtype) const {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
    if (found == entries_.end()) {
        if (entries_.empty()) return fail(CARAT_IO_ERROR, "'{}' holds no tensors: name another file", printable(path_));
        return fail(CARAT_IO_ERROR, "'{}' has no tensor '{}' among its {}: the nearest names are {}", printable(path_),
                    printable(name), entries_.size(), near_names(name));
    }
    Tensor tensor;
    CARAT_ASSIGN(tensor.dtype, readable_type(*found, path_, raw_dtype));
    tensor.shape = found->shape;
    if (dtype_bits(tensor.dtype) == 4) {
        if (tensor.shape.empty()) {
            return fail(CARAT_IO_ERROR,
                        "tensor '{}' of '{}' is a scalar, and packed {} needs a dimension: name another tensor",
                        printable(name), printable(path_), dtype_text(tensor.dtype));
        }
        tensor.shape.back() *= 2;
    }
    set_aligned_bytes(tensor, data_.subspan(size_t(found->begin), size_t(found->end - found->begin)), owner_);
    return tensor;
}

Status write_safetensors(const std::string& path, const std::string& name, const Tensor& tensor) {
    const bool packed = dtype_bits(tensor.dtype) == 4;
    std::vector<int64_t> shape = tensor.shape;
    if (packed && (shape.empty() || shape.back() % 2 != 0)) {
        return fail(CARAT_INVALID_VALUE, "cannot write '{}': packed {} of shape {} has an odd last dimension; pad it",
                    printable(path), dtype_text(tensor.dtype), tensor.shape_text());
    }
    if (packed) shape.back() /= 2;
    const auto* type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return t.dtype == tensor.dtype; });
    Json header;
    header[name] = {
        {"dtype", packed ? "U8" : type->name}, {"shape", shape}, {"data_offsets", {0, tensor.bytes.size()}}};
    std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
    text.append((8 - text.size() % 8) % 8, ' ');  // so that the data is aligned
    std::string start;
    for (int i = 0; i < 8; ++i) start += char(uint64_t(text.size()) >> (8 * i) & 0xff);
    start += text;
    const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(start)), tensor.bytes};
    return write_file(path, parts);
}

}  // namespace carat::cli
