// SPDX-License-Identifier: Apache-2.0
// Which directory the cache gets.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/env.hpp"
#include "core/log.hpp"
#include "jit/cache.hpp"
#include "jit/files.hpp"

namespace carat::jit {
namespace {

CacheRoot memory_only(const std::string& directory, const std::string& reason) {
    CacheRoot root{
        "", fmt::format("kernels are kept in memory only, and compiled again by the next process, since {}", reason)};
    log::warn_once("cache root " + directory, root.why);
    return root;
}

// The one directory that was asked for, by an argument or by CARAT_CACHE_DIR.
CacheRoot only(const std::string& directory) {
    std::error_code error;
    std::string path = std::filesystem::absolute(directory, error).lexically_normal().string();
    if (error) path = directory;
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    Status status = make_directories(path);
    if (status.ok()) status = check_private(path);
    return status.ok() ? CacheRoot{path, ""} : memory_only(path, status.sentence());
}

std::vector<std::string> usual_places() {
    std::vector<std::string> places;
    const auto add = [&](const std::optional<std::string>& base, const std::string& rest) {
        if (base && base->starts_with('/')) places.push_back(*base + rest);  // XDG: a relative path counts as unset
    };
    add(env::get("XDG_CACHE_HOME"), "/carat");
    add(env::get("HOME"), "/.cache/carat");
    add(env::get("TMPDIR").value_or("/tmp"), fmt::format("/carat-{}", geteuid()));
    return places;
}

}  // namespace

CacheRoot find_cache_root(const char* cache_dir) {
    if (cache_dir)
        return *cache_dir ? only(cache_dir) : CacheRoot{"", "kernels are kept in memory only, as the caller asked"};
    if (const auto directory = env::get("CARAT_CACHE_DIR")) return only(*directory);
    std::string reasons;
    for (const std::string& place : usual_places()) {
        const Status made = make_directories(place);
        if (made.ok()) {
            const Status safe = check_private(place);
            return safe.ok() ? CacheRoot{place, ""} : memory_only(place, safe.sentence());
        }
        reasons += (reasons.empty() ? "" : "; ") + made.sentence();
    }
    return memory_only("", reasons + "; set CARAT_CACHE_DIR to a directory of yours");
}

}  // namespace carat::jit
