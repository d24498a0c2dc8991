// SPDX-License-Identifier: Apache-2.0
// table.hpp: a table for people: columns as wide as their widest cell, numbers to the right, a tone where colour helps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carat::cli {

enum class Tone { plain, strong, faint, good, warning, bad };

// The text with the escape codes of its tone, or as it is without colour.
std::string toned(std::string_view text, Tone tone, bool colored);

struct Cell {
    std::string text;
    Tone tone = Tone::plain;
    Cell(std::string value, Tone how = Tone::plain) : text(std::move(value)), tone(how) {}
    Cell(const char* value, Tone how = Tone::plain) : text(value), tone(how) {}
};

class Table {
  public:
    // "kernel" is aligned to the left, ">us" to the right.
    explicit Table(std::vector<std::string> titles);
    void add(std::vector<Cell> row);
    bool empty() const { return rows_.empty(); }
    std::string str(bool colored) const;

  private:
    std::vector<std::string> titles_;
    std::vector<bool> right_;
    std::vector<std::vector<Cell>> rows_;
};

}  // namespace carat::cli
