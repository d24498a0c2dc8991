// SPDX-License-Identifier: Apache-2.0
// tools.hpp: what the tests of the JIT share: a scratch directory, variables set for one scope, captured log lines, a
// forked child, and a small kernel.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "jit/cache.hpp"
#include "jit/entry.hpp"

namespace carat::jit::testing {

namespace fs = std::filesystem;

class Scratch {
  public:
    Scratch() {
        std::string name = ::testing::TempDir() + "carat-jit-XXXXXX";
        if (mkdtemp(name.data())) path_ = fs::canonical(name);
    }
    ~Scratch() {
        std::error_code error;
        if (!path_.empty()) fs::remove_all(path_, error);
    }
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    std::string path() const { return path_.string(); }

  private:
    fs::path path_;
};

// Null: unset.
class Variable {
  public:
    Variable(const char* name, const char* value) : name_(name) {
        if (const char* old = std::getenv(name)) old_ = old, had_ = true;
        value ? setenv(name, value, 1) : unsetenv(name);
    }
    Variable(const char* name, const std::string& value) : Variable(name, value.c_str()) {}
    Variable(const Variable&) = delete;
    ~Variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

  private:
    const char* name_;
    std::string old_;
    bool had_ = false;
};

class LogCapture {
  public:
    LogCapture() { log::set_callback(&LogCapture::receive, this, CARAT_LOG_DEBUG); }
    LogCapture(const LogCapture&) = delete;
    ~LogCapture() { log::set_callback(nullptr, nullptr, CARAT_LOG_OFF); }
    int count(const std::string& part) const {
        std::lock_guard lock(mutex_);
        int found = 0;
        for (const std::string& line : lines_) found += line.find(part) != std::string::npos;
        return found;
    }

  private:
    static void receive(carat_log_level, const char* message, void* user) {
        auto& self = *static_cast<LogCapture*>(user);
        std::lock_guard lock(self.mutex_);
        self.lines_.push_back(message);
    }
    mutable std::mutex mutex_;
    std::vector<std::string> lines_;
};

// Runs `body` in a forked child; its return value, or -1 if the child died otherwise.
template <class Body>
int in_child(Body body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

inline std::string read_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_text(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}
inline int files_below(const std::string& directory) {
    int count = 0;
    std::error_code error;
    for (const auto& it : fs::recursive_directory_iterator(directory, error)) count += it.is_regular_file();
    return count;
}

inline Artifact sample_artifact(size_t bytes = 40, unsigned seed = 1) {
    Artifact artifact;
    for (size_t i = 0; i < bytes; ++i) artifact.cubin.push_back(std::byte((i * 37 + seed * 101) & 255));
    artifact.facts.registers = 72;
    artifact.facts.spill_bytes = 16;
    artifact.facts.stack_bytes = 24;
    artifact.facts.static_shared_bytes = 4096;
    artifact.facts.warnings = "(C7514) serialized";
    artifact.log = "ptxas info    : \"C7510\" \xff done\n";
    return artifact;
}

// A complete kernel that needs no header. `factor` makes different kernels of it.
inline Request sample_request(int factor = 3) {
    return {.name = "sample_" + std::to_string(factor),
            .main =
                "extern \"C\" __global__ void __launch_bounds__(64) carat_kernel(float* x, int n) {\n"
                "    __shared__ float tile[64];\n"
                "    const int i = blockIdx.x * 64 + threadIdx.x;\n"
                "    tile[threadIdx.x] = i < n ? x[i] : 0.0f;\n"
                "    __syncthreads();\n"
                "    if (i < n) x[i] = tile[63 - threadIdx.x] * " +
                std::to_string(factor) +
                ";\n"
                "}\n",
            .arch = "sm_90a"};
}

// Two products of tensor cores into the same sums; `between` comes between them.
inline Request wgmma_request(const std::string& between, const std::string& name) {
    const std::string product = "        Wgmma<64, kTypeBf16, true, true>::multiply(sums, a, b);\n";
    return {.name = name,
            .main =
                "#include <ptx/wgmma.cuh>\n"
                "using namespace carat_kernel;\n"
                "namespace entry {\n"
                "extern \"C\" __global__ void __launch_bounds__(128) carat_kernel(float* d, u64 a, u64 b, int n) {\n"
                "    float sums[32] = {};\n"
                "    for (int k = 0; k < n; ++k) {\n"
                "        wgmma_fence();\n" +
                product + between + product +
                "        wgmma_commit();\n"
                "        wgmma_wait<0>();\n"
                "    }\n"
                "    for (int i = 0; i < 32; ++i) d[i * 128 + threadIdx.x] = sums[i];\n"
                "}\n"
                "}\n",
            .arch = "sm_90a"};
}

}  // namespace carat::jit::testing
