// SPDX-License-Identifier: Apache-2.0
#include "core/text_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace carat {

Result<std::string> read_text_file(const std::string& path, size_t most_bytes, const char* what) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file)
        return fail(errno == ENOENT ? CARAT_NOT_INITIALIZED : CARAT_IO_ERROR, "{} cannot be read: {}", path,
                    std::strerror(errno));
    std::string text;
    char block[65536];
    size_t got = 0;
    while (text.size() <= most_bytes && (got = std::fread(block, 1, sizeof block, file.get())) > 0)
        text.append(block, got);
    if (std::ferror(file.get())) return fail(CARAT_IO_ERROR, "{} cannot be read: {}", path, std::strerror(errno));
    if (text.size() > most_bytes)
        return fail(CARAT_IO_ERROR, "{} has more than {} bytes: it is no {}", path, most_bytes, what);
    return text;
}

}  // namespace carat
