// SPDX-License-Identifier: Apache-2.0
// cache.hpp: compiled kernels on disk, by content. Correct without any lock: an entry appears whole by rename, is
// verified on every read, and a bad one is a miss. Whatever the disk does (full, read-only, gone), a caller keeps its
// kernel.
//
//   <root>/v1/<arch>/<2 hex>/<32 hex>.cubin   entries (entry.hpp), named by XXH3-128 of their key text
//   <root>/v1/staging/                         files being written
//   <root>/v1/locks/<32 hex>.lock              advisory, only to avoid compiling one kernel twice
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "jit/entry.hpp"
#include "jit/key.hpp"

namespace carat::jit {

struct CacheStats {
    std::string path;         // "" when in memory only
    std::string memory_only;  // why, as a sentence; "" when there is a path
    int64_t entries = 0, bytes = 0, limit_bytes = 0;
};
struct CacheVerified {
    int64_t ok = 0, bad = 0;  // bad ones were removed (where the file is ours)
};
struct CacheRemoved {
    int64_t entries = 0, bytes = 0;
    int64_t left_entries = 0, left_bytes = 0;
};

// Where the cache lies; path is "" for memory only, and `why` then says why.
struct CacheRoot {
    std::string path, why;
};
// cache_dir as in carat_context_options: "" is memory only; a directory is used or nothing is; null searches
// CARAT_CACHE_DIR (used or nothing is), $XDG_CACHE_HOME/carat, ~/.cache/carat, ${TMPDIR:-/tmp}/carat-UID. Creates it
// with mode 0700. As code is loaded from it, one that is not ours or that others can write to is refused, with one
// warning, for memory only.
CacheRoot find_cache_root(const char* cache_dir);

class Cache {
  public:
    // A holder that has been compiling for longer than this is not waited for: a kernel takes about 0.3 s, 3 s on a
    // machine with ten times more compilers than cores.
    static constexpr std::chrono::milliseconds kLockWait{20000};
    // An entry younger than this is in use by somebody's start-up and never evicted (unless forced).
    static constexpr std::chrono::seconds kMinimumAge{3600};
    static constexpr int kWritesPerPrune = 64;

    explicit Cache(const char* cache_dir);

    // The intact entry with exactly this key, else nothing; a bad file is removed if it is ours.
    std::optional<Entry> find(const Key& key) const;
    // Never fails: what cannot be written is warned of once and stays in its caller's memory.
    void store(const Key& key, const Artifact& artifact);

    // Held while a kernel is compiled, so that others wait for it; released by the destructor or the process's end.
    // Empty if there is no directory, locks do not work there, or the wait was over.
    class Lock {
      public:
        explicit Lock(int file) : file_(file) {}
        Lock(Lock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
        ~Lock();
        bool held() const { return file_ >= 0; }
        int descriptor() const { return file_; }

      private:
        int file_;
    };
    Lock lock(const Key& key, std::chrono::milliseconds wait = kLockWait) const;

    CacheStats stats() const;
    CacheVerified verify();
    // Removes the least recently used entries until the size limit holds, and leftovers of dead processes.
    CacheRemoved prune(bool force = false);
    CacheRemoved clear();

    const std::string& path() const { return root_.path; }
    std::string entry_path(const Key& key) const;

  private:
    bool on_disk() const { return !root_.path.empty(); }
    std::string directory(const char* name) const { return root_.path + "/v1/" + name; }
    Status write(const Key& key, const Artifact& artifact) const;

    CacheRoot root_;
    int64_t limit_bytes_;
    std::atomic<int> writes_{0};
};

}  // namespace carat::jit
