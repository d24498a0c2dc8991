// SPDX-License-Identifier: Apache-2.0
#include "jit/cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <limits>
#include <thread>

#include "core/env.hpp"
#include "core/log.hpp"
#include "jit/files.hpp"
#include "jit/hash.hpp"

namespace carat::jit {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDefaultLimitMb = 1024;
constexpr size_t kLargestEntry = size_t(256) << 20;  // a cubin is 20 KB to 1 MB: more is not ours to allocate

int64_t limit_from_env() {
    const auto text = env::get("CARAT_CACHE_SIZE_MB");
    if (!text) return kDefaultLimitMb << 20;
    int64_t megabytes = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), megabytes);
    if (error == std::errc() && end == text->data() + text->size() && megabytes >= 0 && megabytes <= (int64_t(1) << 40))
        return megabytes << 20;
    log::warn_once("CARAT_CACHE_SIZE_MB",
                   fmt::format("CARAT_CACHE_SIZE_MB is '{}', but a number of megabytes is wanted: {} is used.", *text,
                               kDefaultLimitMb));
    return kDefaultLimitMb << 20;
}

struct Listed {
    std::string path;
    int64_t bytes;
    int64_t created, used;  // seconds
};

// Regular files under `directory` whose name ends with `suffix`; what disappears meanwhile is left out.
std::vector<Listed> list_files(const std::string& directory, std::string_view suffix) {
    std::vector<Listed> files;
    std::error_code error;
    fs::recursive_directory_iterator it(directory, fs::directory_options::skip_permission_denied, error);
    for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
        const std::string path = it->path().string();
        struct stat facts {};
        if (!path.ends_with(suffix) || lstat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
        files.push_back(
            {path, int64_t(facts.st_size), int64_t(facts.st_mtime), std::max<int64_t>(facts.st_atime, facts.st_mtime)});
    }
    return files;
}

bool exists(const std::string& path) {
    struct stat facts {};
    return lstat(path.c_str(), &facts) == 0;
}

std::string file_hex(const std::string& path) {
    return fs::path(path).stem().string();
}

void remove_created_until(const std::string& directory, int64_t second) {
    for (const Listed& file : list_files(directory, ""))
        if (file.created <= second) remove_if_ours(file.path);
}

}  // namespace

Cache::Cache(const char* cache_dir) : root_(find_cache_root(cache_dir)), limit_bytes_(limit_from_env()) {}

std::string Cache::entry_path(const Key& key) const {
    return fmt::format("{}/v1/{}/{}/{}.cubin", root_.path, key.arch, key.hex.substr(0, 2), key.hex);
}

std::optional<Entry> Cache::find(const Key& key) const {
    if (!on_disk()) return std::nullopt;
    const std::string path = entry_path(key);
    const auto bytes = read_file(path, kLargestEntry, true);
    if (!bytes.ok()) return std::nullopt;
    auto entry = parse_entry(*bytes);
    if (entry.ok() && entry->key == key.text) return std::move(entry).value();
    const std::string reason = entry.ok() ? "it belongs to another kernel" : entry.status().sentence();
    log::info("cache entry {} is not used: {}", path, reason);
    remove_if_ours(path);
    return std::nullopt;
}

Status Cache::write(const Key& key, const Artifact& artifact) const {
    const std::string target = entry_path(key), target_directory = fs::path(target).parent_path().string();
    const std::string staging = directory("staging");
    CARAT_TRY(make_directories(target_directory));
    CARAT_TRY(make_directories(staging));
    return publish(fmt::format("{}/{}.XXXXXX", staging, key.hex), target, serialise({key.text, artifact}));
}

void Cache::store(const Key& key, const Artifact& artifact) {
    if (!on_disk()) return;
    if (const Status status = write(key, artifact); !status.ok()) {
        log::warn_once("cache write " + root_.path,
                       fmt::format("compiled kernels are not kept on disk, only in memory: {}", status.sentence()));
        return;
    }
    if ((writes_.fetch_add(1) + 1) % kWritesPerPrune == 0) prune();
}

Cache::Lock::~Lock() {
    if (file_ >= 0) close(file_);
}

Cache::Lock Cache::lock(const Key& key, std::chrono::milliseconds wait) const {
    if (!on_disk() || !make_directories(directory("locks")).ok()) return Lock(-1);
    const std::string path = directory("locks") + "/" + key.hex + ".lock";
    Lock file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.held()) return Lock(-1);
    const int descriptor = file.descriptor();
    const auto deadline = std::chrono::steady_clock::now() + wait;
    for (auto pause = std::chrono::milliseconds(2);; pause = std::min(pause * 2, std::chrono::milliseconds(50))) {
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return file;
        if (errno != EWOULDBLOCK && errno != EINTR) return Lock(-1);  // a file system without locks
        if (std::chrono::steady_clock::now() >= deadline) return Lock(-1);
        std::this_thread::sleep_for(pause);
    }
}

CacheStats Cache::stats() const {
    CacheStats stats{.path = root_.path, .memory_only = root_.why, .limit_bytes = limit_bytes_};
    if (!on_disk()) return stats;
    for (const Listed& file : list_files(root_.path + "/v1", ".cubin")) {
        ++stats.entries;
        stats.bytes += file.bytes;
    }
    return stats;
}

CacheVerified Cache::verify() {
    CacheVerified result;
    if (!on_disk()) return result;
    for (const Listed& file : list_files(root_.path + "/v1", ".cubin")) {
        const auto bytes = read_file(file.path, kLargestEntry, false);
        if (!bytes.ok() && !exists(file.path)) continue;  // evicted meanwhile
        const auto entry = bytes.ok() ? parse_entry(*bytes) : Result<Entry>(bytes.status());
        const bool ok = entry.ok() && hash128_hex(entry->key) == file_hex(file.path);
        ++(ok ? result.ok : result.bad);
        if (ok) continue;
        log::warn("cache entry {} is bad and removed: {}", file.path,
                  entry.ok() ? "its name is not that of its key" : entry.status().sentence());
        remove_if_ours(file.path);
    }
    return result;
}

CacheRemoved Cache::prune(bool force) {
    CacheRemoved result;
    if (!on_disk()) return result;
    std::vector<Listed> files = list_files(root_.path + "/v1", ".cubin");
    std::sort(files.begin(), files.end(), [](const Listed& a, const Listed& b) { return a.used < b.used; });
    for (const Listed& file : files) result.left_bytes += file.bytes;
    result.left_entries = int64_t(files.size());
    const int64_t now = std::time(nullptr);
    for (const Listed& file : files) {
        if (result.left_bytes <= limit_bytes_) break;
        if (!force && now - file.created < kMinimumAge.count()) continue;
        const bool removed = remove_if_ours(file.path);
        if (!removed && exists(file.path)) continue;
        --result.left_entries, result.left_bytes -= file.bytes;  // by us, or by another process that prunes now
        if (removed) ++result.entries, result.bytes += file.bytes;
    }
    for (const char* leftovers : {"staging", "locks"})
        remove_created_until(directory(leftovers), now - kMinimumAge.count());
    return result;
}

CacheRemoved Cache::clear() {
    CacheRemoved result;
    if (!on_disk()) return result;
    for (const Listed& file : list_files(root_.path + "/v1", ".cubin")) {
        if (remove_if_ours(file.path)) {
            ++result.entries, result.bytes += file.bytes;
        } else {
            ++result.left_entries, result.left_bytes += file.bytes;
        }
    }
    // All of them: a file's time may lie a tick ahead of ours.
    for (const char* leftovers : {"staging", "locks"})
        remove_created_until(directory(leftovers), std::numeric_limits<int64_t>::max());
    return result;
}

}  // namespace carat::jit
