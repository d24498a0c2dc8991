// SPDX-License-Identifier: Apache-2.0
// npy_header.cpp: the header of a .npy file is a Python dictionary literal: {'descr': '<f4', 'fortran_order': False,
// 'shape': (3, 4), }. This reads exactly that and nothing else of Python.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "io/npy.hpp"

namespace carat::cli {
namespace {

constexpr size_t kLongestHeader = 65536;  // numpy itself trusts 10000
constexpr size_t kMostDimensions = 32;    // numpy's own limit up to version 1

class Parser {
  public:
    Parser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

    Status parse(NpyHeader* header) {
        bool descr = false, order = false, shape = false;
        if (!take('{')) return bad("'{' at its start");
        while (!take('}')) {
            std::string key;
            CARAT_TRY(string(&key));
            if (!take(':')) return bad("':' after a key");
            bool* seen = key == "descr" ? &descr : key == "fortran_order" ? &order : key == "shape" ? &shape : nullptr;
            if (!seen) return bad("only the keys descr, fortran_order and shape");
            if (*seen) return bad("each key once");
            *seen = true;
            CARAT_TRY(seen == &descr ? string(&header->descr) : seen == &order ? boolean(header) : tuple(header));
            if (!take(',') && peek() != '}') return bad("',' or '}' after a value");
        }
        skip_space();
        if (at_ != text_.size()) return bad("nothing after the dictionary");
        if (!descr || !order || !shape) return bad("the keys descr, fortran_order and shape");
        return {};
    }

  private:
    Status bad(const char* wanted) const {
        return fail(CARAT_IO_ERROR,
                    "'{}' has a broken .npy header at character {} (wanted {}): save the array again with numpy.save",
                    printable(path_), at_, wanted);
    }
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    }
    char peek() {
        skip_space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool take(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    bool take_word(std::string_view word) {
        skip_space();
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }

    Status string(std::string* out) {
        const char quote = peek();
        if (quote == '[') {
            return fail(CARAT_IO_ERROR, "'{}' holds records of several fields: save one plain array of numbers",
                        printable(path_));
        }
        if (quote != '\'' && quote != '"') return bad("a quoted string");
        const size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) return bad("the closing quote of a string");
        *out = std::string(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return {};
    }

    Status boolean(NpyHeader* header) {
        header->fortran_order = take_word("True");
        if (!header->fortran_order && !take_word("False")) return bad("True or False for fortran_order");
        return {};
    }

    Status tuple(NpyHeader* header) {
        if (!take('(')) return bad("'(' before the shape");
        while (!take(')')) {
            int64_t extent = 0;
            CARAT_TRY(extent_value(&extent));
            if (header->shape.size() == kMostDimensions) return bad("at most 32 dimensions");
            header->shape.push_back(extent);
            if (!take(',') && peek() != ')') return bad("',' or ')' in the shape");
        }
        return {};
    }

    Status extent_value(int64_t* extent) {
        skip_space();
        const char* first = text_.data() + at_;
        const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), *extent);
        if (error != std::errc() || *extent < 0) return bad("a dimension from 0 to 2^63-1");
        at_ += size_t(end - first);
        if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
        return {};
    }

    std::string_view text_;
    const std::string& path_;
    size_t at_ = 0;
};

size_t little_endian(const std::byte* bytes, int count) {
    size_t value = 0;
    for (int i = count - 1; i >= 0; --i) value = value << 8 | std::to_integer<size_t>(bytes[i]);
    return value;
}

Status truncated(const std::string& path, size_t got, size_t wanted) {
    return fail(CARAT_IO_ERROR, "'{}' is cut short: it has {} bytes and its header needs {}; copy or save it again",
                printable(path), got, wanted);
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> file, const std::string& path) {
    static constexpr char kMagic[] = "\x93NUMPY";
    constexpr size_t kMagicSize = 6;
    if (file.size() < kMagicSize || std::memcmp(file.data(), kMagic, kMagicSize) != 0) {
        return fail(CARAT_IO_ERROR,
                    "'{}' is not a .npy file (it does not begin with \\x93NUMPY): save it with numpy.save",
                    printable(path));
    }
    if (file.size() < 10) return truncated(path, file.size(), 10);
    const int major = std::to_integer<int>(file[6]), minor = std::to_integer<int>(file[7]);
    if (major < 1 || major > 3 || minor != 0) {
        return fail(CARAT_IO_ERROR,
                    "'{}' is .npy version {}.{}, and versions 1.0 to 3.0 are known: save it with numpy.save",
                    printable(path), major, minor);
    }
    const size_t start = major == 1 ? 10 : 12;
    if (file.size() < start) return truncated(path, file.size(), start);
    const size_t length = little_endian(file.data() + 8, major == 1 ? 2 : 4);
    if (length > kLongestHeader) {
        return fail(CARAT_IO_ERROR, "'{}' claims a .npy header of {} bytes, and at most {} are accepted: save it again",
                    printable(path), length, kLongestHeader);
    }
    if (file.size() - start < length) return truncated(path, file.size(), start + length);
    NpyHeader header;
    header.data_offset = start + length;
    Parser parser({reinterpret_cast<const char*>(file.data()) + start, length}, path);
    CARAT_TRY(parser.parse(&header));
    return header;
}

}  // namespace carat::cli
