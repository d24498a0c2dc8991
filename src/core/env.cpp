// SPDX-License-Identifier: Apache-2.0
#include "core/env.hpp"

#include <unistd.h>

#include <array>
#include <cassert>
#include <cstdlib>
#include <string_view>

extern char** environ;

namespace carat::env {
namespace {

constexpr std::array kVariables = {
    Variable{"CARAT_BACKEND", "auto, cpu, cuda", "auto", "Which backend a context with backend AUTO gets."},
    Variable{
        "CARAT_CACHE_DIR", "a directory",
        "$XDG_CACHE_HOME/carat, ~/.cache/carat, a private temporary directory, memory",
        "Where compiled kernels are kept. It must be yours and not writable by others, since code is loaded from it."},
    Variable{"CARAT_CACHE_SIZE_MB", "megabytes", "1024",
             "Size limit of the kernel cache; the least recently used entries go first."},
    Variable{"CARAT_CPU_ISA", "portable, avx2, avx512, avx512_bf16", "the best the CPU has",
             "Allows the CPU backend no better instruction set than this."},
    Variable{"CARAT_DEVICE_FILE", "off, a file",
             "$XDG_DATA_HOME/carat/device-GPU.json, ~/.local/share/carat/device-GPU.json",
             "What `carat calibrate` measured of this GPU, over the numbers shipped with the library "
             "(docs/calibration.md); off: only these."},
    Variable{
        "CARAT_JIT", "auto, never, force", "auto",
        "auto compiles what no pack and no cache holds; never takes the best kernel that is there, or fails; force "
        "recompiles and refreshes the cache."},
    Variable{"CARAT_KERNEL_DIR", "a directory", "the sources inside the library",
             "For kernel development: reads device sources from there instead."},
    Variable{"CARAT_LOG_FILE", "a file, %p is the process id", "none", "Appends the library's log there."},
    Variable{"CARAT_LOG_LEVEL", "off, error, warn, info, debug", "info for a file, the callback's own level else",
             "How much is logged."},
    Variable{"CARAT_NVRTC_PATH", "a file", "the documented search",
             "The NVRTC library to use, before all other places."},
    Variable{"CARAT_PACK", "a file, a directory, none", "carat/*.pack in the library directory",
             "The kernel pack to use, or a directory of them: kernels compiled ahead of time."},
    Variable{"CARAT_CUDA_PATH", "a file", "the documented search",
             "The CUDA driver library to use, before all other places."},
    Variable{"CARAT_CUBLASLT_PATH", "a file", "the documented search",
             "The cuBLASLt library that `carat bench --peer cublaslt` times."},
    Variable{"CARAT_CUTLASS_PLUGIN", "a file", "libcarat_cutlass.so beside the program",
             "The plugin of `carat bench --peer cutlass`, as tools/build_peers.sh builds it."},
    Variable{"CARAT_DEEPGEMM_PYTHON", "a program", "python3",
             "The Python with torch and DeepGEMM that `carat bench --peer deepgemm` starts."},
    Variable{
        "CARAT_TUNING", "off, a file", "$XDG_DATA_HOME/carat/tuning.json, ~/.local/share/carat/tuning.json",
        "The tuning database over the one shipped with the library (docs/tuning.md); off: the model alone chooses."},
    Variable{"CARAT_TRACE", "a file", "none",
             "Appends the problems that were planned, and how often each was executed (docs/tuning.md)."},
    Variable{"CARAT_THREADS", "a number", "the CPUs this process may use", "Threads of the CPU backend."},
};

}  // namespace

std::span<const Variable> variables() {
    return kVariables;
}

std::optional<std::string> get(const char* name) {
#ifndef NDEBUG
    if (std::string_view(name).starts_with("CARAT_")) {
        bool known = false;
        for (const Variable& variable : kVariables) known |= std::string_view(variable.name) == name;
        assert(known && "add the variable to the table");
    }
#endif
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
}

std::string data_file(const std::string& name) {
    const auto data = get("XDG_DATA_HOME"), home = get("HOME");
    if (data && data->starts_with('/')) return *data + "/carat/" + name;  // a relative one counts as unset
    if (home && home->starts_with('/')) return *home + "/.local/share/carat/" + name;
    return "";
}

std::vector<std::string> unknown() {
    std::vector<std::string> names;
    for (char** entry = environ; entry && *entry; ++entry) {
        const std::string_view text = *entry;
        if (!text.starts_with("CARAT_")) continue;
        const std::string_view name = text.substr(0, text.find('='));
        bool known = false;
        for (const Variable& variable : kVariables) known |= name == variable.name;
        if (!known) names.emplace_back(name);
    }
    return names;
}

}  // namespace carat::env
