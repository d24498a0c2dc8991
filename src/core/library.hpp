// SPDX-License-Identifier: Apache-2.0
// library.hpp: a shared library opened at run time (driver, NVRTC), RAII over dlopen.
#pragma once

#include <string>
#include <vector>

#include "core/status.hpp"

namespace carat {

class SharedLibrary {
  public:
    SharedLibrary() = default;
    SharedLibrary(SharedLibrary&& other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}
    SharedLibrary& operator=(SharedLibrary&& other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(path_, other.path_);
        return *this;
    }
    ~SharedLibrary();

    // The first of `candidates` (paths or sonames) that opens; the failure lists what was tried. A candidate that starts
    // with "loaded:" is taken only if the process has it already (torch has loaded it, say).
    static Result<SharedLibrary> open_first(const std::vector<std::string>& candidates);

    void* symbol(const char* name) const;              // nullptr if absent
    const std::string& path() const { return path_; }  // the real path where the loader knows it
    explicit operator bool() const { return handle_ != nullptr; }

  private:
    void* handle_ = nullptr;
    std::string path_;
};

// The directory of the file that holds this code: the shared library, or the program that it is linked into. "" where
// that is not known.
std::string own_directory();

}  // namespace carat
