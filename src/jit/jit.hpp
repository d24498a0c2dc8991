// SPDX-License-Identifier: Apache-2.0
// jit.hpp: from a configuration to a cubin: embedded sources + generated main -> NVRTC -> content-addressed cache, with packs
// of kernels compiled ahead of time before it. Needs no GPU and no CUDA header. Never called on the execution path.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dispatch/registry.hpp"  // KernelFacts

namespace carat::jit {

// The name of every kernel's entry point: extern "C", one a module.
inline constexpr const char* kEntry = "carat_kernel";

struct Request {
    std::string name;         // for logs and messages: the configuration's name
    std::string main;         // the translation unit: generated Config, #include of an embedded kernel, the entry point
    std::string arch;         // "sm_90a"
    bool may_compile = true;  // false: a kernel that is in no cache is NOT_PREPARED, as a stream is being captured
    std::vector<std::string> options;  // beyond the standard ones, one word each (--name=value); order has no meaning
};

struct Artifact {
    std::vector<std::byte> cubin;
    KernelFacts facts;
    std::string log;  // NVRTC's and ptxas's words
};

struct Options {
    carat_jit policy = CARAT_JIT_AUTO;
    const char* cache_dir = nullptr;  // as carat_context_options, and so is
    const char* pack = nullptr;
};

class Cache;
struct PreparedKernel;  // jit/key.hpp

class Jit {
  public:
    explicit Jit(const Options& options);
    ~Jit();
    carat_jit policy() const;
    // From memory, else a pack, else disk, else compiled. Concurrent requests for one kernel compile it once.
    Result<std::shared_ptr<const Artifact>> build(const Request& request);
    // Every kernel that build() has given, each once, in an order that depends on the kernels alone.
    std::vector<PreparedKernel> prepared() const;
    // The names of the packs' kernels for an architecture, each once.
    std::set<std::string> packed_names(const std::string& arch);
    Cache& cache();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// NVRTC as found, or the sentence that says where it was looked for and how to get it.
struct NvrtcInfo {
    std::string path;
    int major = 0, minor = 0;
};
Result<NvrtcInfo> nvrtc_info();

// Embedded device sources (kernels/**), by include name: "ladder/v0_naive.cuh".
struct Source {
    const char* name;
    const char* text;
};
const std::vector<Source>& sources();

}  // namespace carat::jit
