// SPDX-License-Identifier: Apache-2.0
#include "jit/key.hpp"

#include "core/env.hpp"
#include "jit/entry.hpp"
#include "jit/hash.hpp"
#include "jit/nvrtc.hpp"

namespace carat::jit {
namespace {

// Every part with its length, so that no two lists of parts give one text.
std::string join_parts(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += fmt::format("{}:{}\n", part.size(), part);
    return text;
}

}  // namespace

Key make_key(std::string text, std::string arch) {
    std::string hex = hash128_hex(text);
    return {std::move(text), std::move(hex), std::move(arch)};
}

std::string hash_sources(const Request& request, std::span<const Include> includes) {
    std::vector<std::string> texts{request.main};
    for (const Include& include : includes) {
        texts.push_back(include.name);
        texts.push_back(include.text);
    }
    return hash128_hex(join_parts(texts));
}

std::string identity_of(const Request& request) {
    std::vector<std::string> parts{request.arch, request.main};
    parts.insert(parts.end(), request.options.begin(), request.options.end());
    return join_parts(parts);
}

Key key_of(const Request& request, const std::string& sources, const Compiler& compiler) {
    std::string environment;  // variables that change what NVRTC makes
    for (const char* name : {"NVRTC_PREPEND_FLAGS", "NVRTC_APPEND_FLAGS"})
        if (const auto value = env::get(name)) environment += fmt::format("{}={}\n", name, *value);
    return make_key(
        fmt::format("carat kernel, schema {}\nabi {}\nsources {}\narch {}\nnvrtc {}\noptions\n{}environment\n{}",
                    kEntrySchema, kKernelAbi, sources, request.arch, compiler.identity,
                    join_parts(compile_options(compiler, request)), environment),
        request.arch);
}

}  // namespace carat::jit
