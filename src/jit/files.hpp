// SPDX-License-Identifier: Apache-2.0
// files.hpp: the few file operations of the cache and the packs, each returning a Status that names the path and the system's reason.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace carat::jit {

class File {
  public:
    explicit File(int descriptor) : descriptor_(descriptor) {}
    File(const File&) = delete;
    ~File();
    int get() const { return descriptor_; }
    explicit operator bool() const { return descriptor_ >= 0; }

  private:
    int descriptor_;
};

// IO_ERROR "cannot <action> <path>: <errno's words>".
Status system_failure(const char* action, const std::string& path);
// The directory and its missing parents, mode 0700; one that is there already is fine.
Status make_directories(const std::string& path);
// IO_ERROR unless the directory is ours (also the link that leads to it) and nobody else may write to it.
Status check_private(const std::string& path);
// Whole, then fsync; the file must have been opened for writing.
Status write_all(const File& file, std::span<const std::byte> bytes, const std::string& path);
// A file that appears whole or not at all: written as `temporary`, which ends with XXXXXX and lies on the same disk, then
// renamed to `path`.
Status publish(std::string temporary, const std::string& path, std::span<const std::byte> bytes, mode_t mode = 0600);
// A regular file of at most `limit` bytes, not through a link. mark_used: counts as a use for the eviction.
Result<std::vector<std::byte>> read_file(const std::string& path, size_t limit, bool mark_used);
// That many bytes from there; a file that ends before is a failure.
Result<std::vector<std::byte>> read_at(const File& file, uint64_t offset, uint64_t bytes, const std::string& path);
// Removes the file if it belongs to this user.
bool remove_if_ours(const std::string& path);

}  // namespace carat::jit
