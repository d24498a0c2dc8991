// SPDX-License-Identifier: Apache-2.0
// file.hpp: whole files: mapped for reading, and written so that a failure leaves the old content in place.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/status.hpp"

namespace carat::cli {

// A regular file, mapped read-only.
class MappedFile {
  public:
    static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return {data_, size_}; }

  private:
    MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
    const std::byte* data_;
    size_t size_;
};

// Writes the parts one after another to a temporary file beside `path`, then renames it over `path`: readers see the
// old file or the new one, and a failure (a full disk) removes only the temporary. A symbolic link stays a link to the
// new content. Devices and pipes are written to directly, because a rename would replace them.
Status write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);

}  // namespace carat::cli
