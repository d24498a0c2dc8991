// SPDX-License-Identifier: Apache-2.0
// key.hpp: all that decides a cubin's bytes, as a text. The cache and the packs find a kernel by the text's hash and compare
// the text itself.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "jit/includes.hpp"
#include "jit/jit.hpp"

namespace carat::jit {

// Raised when kernels of an older library must not be used though their sources look the same.
inline constexpr int kKernelAbi = 1;

// What a cubin depends on of the NVRTC that made it.
struct Compiler {
    int major = 0, minor = 0;
    std::string identity;  // version, and size and time of the file, never its path
    bool operator==(const Compiler&) const = default;
};

struct Key {
    std::string text;  // all that decides the cubin's bytes
    std::string hex;   // XXH3-128 of the text
    std::string arch;
};
Key make_key(std::string text, std::string arch);

// The hash of a translation unit with every source that it reaches.
std::string hash_sources(const Request& request, std::span<const Include> includes);
// What makes two requests of one process the same.
std::string identity_of(const Request& request);
// A kernel that a Jit has, with what a pack needs to know of it.
struct PreparedKernel {
    std::string name;  // of the first request for it
    Key key;
    Compiler compiler;
    std::string source;     // where it came from at first: "compiled", "disk cache", "pack"
    double compile_ms = 0;  // 0 unless compiled
    std::shared_ptr<const Artifact> artifact;
};

// `sources`: hash_sources() of the request.
Key key_of(const Request& request, const std::string& sources, const Compiler& compiler);

}  // namespace carat::jit
