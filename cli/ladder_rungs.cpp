// SPDX-License-Identifier: Apache-2.0
#include "ladder_rungs.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace carat::cli {
namespace {

// "v3" of "v3_double_buffer"; empty for a row that is no rung.
std::string rung_name(const std::string& row) {
    size_t end = 1;
    while (end < row.size() && std::isdigit(static_cast<unsigned char>(row[end]))) ++end;
    return row.starts_with('v') && end > 1 && end < row.size() && row[end] == '_' ? row.substr(0, end) : "";
}

bool takes(const Json& row, const std::string& dtype) {
    for (const Json& types : member(row, "supports"))
        if (text_at(types, "a") == dtype && text_at(types, "b") == dtype && text_at(types, "d") == dtype) return true;
    return false;
}

std::vector<Rung> every_rung(const RungFlags& flags) {
    const Json list = parse_json(carat::list(), "the list");
    std::vector<Rung> rungs;
    for (const Json& row : member(list, "rows")) {
        Rung rung = {.name = rung_name(text_at(row, "name")),
                     .row = text_at(row, "name"),
                     .summary = text_at(row, "summary"),
                     .source = text_at(row, "source")};
        if (rung.name.empty() || text_at(row, "backend") != "cuda") continue;
        rung.number = std::atoi(rung.name.c_str() + 1);
        const bool f32 = takes(row, "f32");
        rung.dtype = f32 ? "f32" : flags.dtype;
        // As the ladder is usually told: plain row-major matrices in f32, a linear layer's X W^T on tensor cores.
        rung.layout = !flags.layout.empty() ? flags.layout : f32 ? "nn" : "nt";
        rungs.push_back(std::move(rung));
    }
    std::sort(rungs.begin(), rungs.end(), [](const Rung& x, const Rung& y) { return x.number < y.number; });
    return rungs;
}

}  // namespace

std::vector<Rung> find_rungs(const RungFlags& flags) {
    const std::vector<Rung> all = every_rung(flags);
    if (flags.rungs.empty()) return all;
    const std::vector<std::string> wanted = split(flags.rungs, ',');
    for (const std::string& name : wanted) {
        if (std::any_of(all.begin(), all.end(), [&](const Rung& r) { return name == r.name || name == r.row; }))
            continue;
        std::vector<std::string> rows;
        for (const Rung& rung : all) rows.push_back(rung.row);
        fail(kUsage, "--rungs got \"{}\": it takes names such as v0,v1 of {}", one_line(name), join(rows, ", "));
    }
    std::vector<Rung> chosen;
    for (const Rung& rung : all)
        if (std::any_of(wanted.begin(), wanted.end(), [&](const auto& w) { return w == rung.name || w == rung.row; }))
            chosen.push_back(rung);
    return chosen;
}

}  // namespace carat::cli
