// SPDX-License-Identifier: Apache-2.0
#include "jit/includes.hpp"

#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "core/env.hpp"
#include "jit/jit.hpp"

namespace carat::jit {
namespace {

std::optional<std::string> embedded(const std::string& name) {
    for (const Source& source : sources())
        if (name == source.name) return source.text;
    return std::nullopt;
}

std::optional<std::string> on_disk(const std::string& directory, const std::string& name) {
    std::ifstream file(directory + "/" + name, std::ios::binary);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string_view skip_blanks(std::string_view text) {
    const size_t at = text.find_first_not_of(" \t");
    return at == text.npos ? std::string_view() : text.substr(at);
}

// "x/y.cuh" from a line such as `#include <x/y.cuh>`, else "".
std::string_view included_name(std::string_view line) {
    line = skip_blanks(line);
    if (!line.starts_with('#')) return {};
    line = skip_blanks(line.substr(1));
    if (!line.starts_with("include")) return {};
    line = skip_blanks(line.substr(7));
    if (line.empty() || (line[0] != '<' && line[0] != '"')) return {};
    const size_t end = line.find(line[0] == '<' ? '>' : '"', 1);
    return end == line.npos ? std::string_view() : line.substr(1, end - 1);
}

}  // namespace

std::vector<Include> reachable(std::string_view main) {
    const auto directory = env::get("CARAT_KERNEL_DIR");
    std::map<std::string, std::string> found;
    std::vector<std::string> pending{std::string(main)};
    while (!pending.empty()) {
        const std::string text = std::move(pending.back());
        pending.pop_back();
        for (size_t begin = 0; begin < text.size();) {
            const size_t end = std::min(text.find('\n', begin), text.size());
            const std::string name(included_name(std::string_view(text).substr(begin, end - begin)));
            begin = end + 1;
            if (name.empty() || found.contains(name)) continue;
            auto source = directory ? on_disk(*directory, name) : embedded(name);
            if (!source) continue;
            pending.push_back(*source);
            found.emplace(name, std::move(*source));
        }
    }
    std::vector<Include> includes;
    for (auto& [name, text] : found) includes.push_back({name, std::move(text)});
    return includes;
}

}  // namespace carat::jit
