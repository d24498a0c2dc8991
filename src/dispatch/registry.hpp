// SPDX-License-Identifier: Apache-2.0
// registry.hpp: THE table of kernels: ordered, ending in the reference. Dispatch, explain, the tests, the bench, `carat
// list` and the support table of the docs all read it. A new kernel is one .cuh (or one CPU function) and one row.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "dispatch/config.hpp"
#include "limits/target.hpp"

namespace carat {

class Runtime;  // dispatch/runtime.hpp: what prepare() may use: device, compiler, cache, thread pool

// Collects why a row does not take a problem. Only the first failure is kept, and only then is its sentence formatted.
class Requirements {
  public:
    template <class... Args>
    void require(bool condition, fmt::format_string<Args...> sentence, Args&&... args) {
        if (!condition && refusal_.empty()) refusal_ = fmt::format(sentence, std::forward<Args>(args)...);
    }
    bool ok() const { return refusal_.empty(); }
    const std::string& refusal() const { return refusal_; }

  private:
    std::string refusal_;
};

struct Prediction {
    double us = 0;
    const char* bound = "";  // "memory", "compute", "launch", ...
};

// What the compiler said of a kernel; all 0 for CPU rows.
struct KernelFacts {
    int registers = 0;
    int spill_bytes = 0;
    int stack_bytes = 0;
    int64_t static_shared_bytes = 0, dynamic_shared_bytes = 0;
    int threads = 0;
    double compile_ms = 0;  // 0 when it came from a cache
    std::string source;     // "compiled", "disk cache", "memory", "pack", "built in"
    std::string warnings;   // of what makes it slow: instructions serialised or ignored; "" if there is none
};

// A kernel ready to run for one problem. Immutable after prepare(); execute() may be called from many threads.
class Executable {
  public:
    virtual ~Executable() = default;
    virtual size_t workspace_bytes() const { return 0; }
    virtual KernelFacts facts() const { return {}; }
    // `operands` passed the border. Never allocates device memory, compiles, synchronises or reads the environment.
    virtual Status execute(const carat_operands& operands, void* stream) const = 0;
};

struct Row {
    const char* name;     // the family: "v1_shared"
    const char* summary;  // one sentence for lists and docs
    const char* source;   // the file that holds it: "kernels/ladder/v1_shared.cuh"
    carat_backend backend;
    void (*require)(const Problem&, const Target&, Requirements&);
    std::vector<Config> (*candidates)(const Problem&, const Target&);
    Prediction (*predict)(const Problem&, const Config&, const Target&);
    Result<std::unique_ptr<Executable>> (*prepare)(const Problem&, const Config&, Runtime&);
    // Whether a configuration that candidates() does not offer can be had where it is asked for by its full name; null: no.
    bool (*has)(const Problem&, const Config&, const Target&) = nullptr;
    bool by_name = false;  // a rung of the ladder that another row does better: never the library's own choice
    // Bytes that a configuration needs of the caller's workspace; null: none does.
    size_t (*workspace_bytes)(const Problem&, const Config&) = nullptr;
    // Whether all configurations of which this holds give a row of D the same bits, whatever M and the other rows are; null: no.
    bool (*batch_invariant)(const Problem&, const Config&) = nullptr;
    int64_t most_rows = 0;  // of D, that the row takes whatever the epilogue; 0: any number
    // Why it does not have a configuration that was asked for by its full name, in words that follow on "which"; null: nothing to add.
    const char* (*why_not)(const Problem&, const Config&) = nullptr;
};

// In priority order: at equal predicted time the earlier row wins; the last one is the reference.
std::span<const Row> registry();
const Row* find_row(std::string_view name);

}  // namespace carat
