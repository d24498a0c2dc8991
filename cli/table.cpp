// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace carat::cli {
namespace {

// Columns of a terminal that UTF-8 text takes, counting each code point as one.
size_t width_of(std::string_view text) {
    return std::count_if(text.begin(), text.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string padded(const Cell& cell, size_t width, bool right, bool last, bool colored) {
    const std::string space(width - std::min(width, width_of(cell.text)), ' ');
    const std::string text = toned(cell.text, cell.tone, colored);
    if (right) return space + text;
    return last ? text : text + space;
}

}  // namespace

std::string toned(std::string_view text, Tone tone, bool colored) {
    static constexpr const char* kCodes[] = {"", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31m"};
    if (!colored || tone == Tone::plain || text.empty()) return std::string(text);
    return fmt::format("{}{}\x1b[0m", kCodes[static_cast<int>(tone)], text);
}

Table::Table(std::vector<std::string> titles) : titles_(std::move(titles)) {
    for (std::string& title : titles_) {
        right_.push_back(title.starts_with('>'));
        if (right_.back()) title.erase(0, 1);
    }
}

void Table::add(std::vector<Cell> row) {
    row.resize(titles_.size(), Cell(""));
    rows_.push_back(std::move(row));
}

std::string Table::str(bool colored) const {
    std::vector<size_t> widths;
    for (const std::string& title : titles_) widths.push_back(width_of(title));
    for (const auto& row : rows_)
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i].text));

    std::string text;
    const auto line = [&](const std::vector<Cell>& cells) {
        std::string out;
        for (size_t i = 0; i < cells.size(); ++i) {
            if (i) out += "  ";
            out += padded(cells[i], widths[i], right_[i], i + 1 == cells.size(), colored);
        }
        while (!out.empty() && out.back() == ' ') out.pop_back();
        text += out + "\n";
    };
    std::vector<Cell> header;
    for (const std::string& title : titles_) header.emplace_back(title, Tone::strong);
    line(header);
    for (const auto& row : rows_) line(row);
    return text;
}

}  // namespace carat::cli
