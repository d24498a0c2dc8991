// SPDX-License-Identifier: Apache-2.0
// The cache alone, without a compiler: round trips, every kind of damage, disks that refuse, eviction.
#include "jit/cache.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "tools.hpp"

namespace carat::jit::testing {
namespace {

Key sample_key(int number = 0) {
    return make_key("carat kernel " + std::to_string(number), "sm_90a");
}

bool holds(const Cache& cache, const Key& key) {
    return cache.find(key).has_value();
}

void set_age(const std::string& path, long seconds) {
    const timespec time{.tv_sec = std::time(nullptr) - seconds, .tv_nsec = 0};
    const timespec times[2] = {time, time};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0) << path;
}

TEST(Cache, RoundTripAndLayout) {
    const Scratch scratch;
    Cache cache((scratch / "a/b/cache").c_str());
    const Key key = sample_key();
    EXPECT_FALSE(holds(cache, key));
    cache.store(key, sample_artifact());
    const auto entry = cache.find(key);
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->artifact.cubin, sample_artifact().cubin);
    EXPECT_EQ(entry->key, key.text);
    EXPECT_EQ(cache.entry_path(key),
              scratch / ("a/b/cache/v1/sm_90a/" + key.hex.substr(0, 2) + "/" + key.hex + ".cubin"));
    for (const char* directory : {"a", "a/b/cache", "a/b/cache/v1/sm_90a", "a/b/cache/v1/staging"}) {
        struct stat facts {};
        ASSERT_EQ(stat((scratch / directory).c_str(), &facts), 0);
        EXPECT_EQ(facts.st_mode & 0777, 0700u) << directory;
    }
    const CacheStats stats = cache.stats();
    EXPECT_EQ(stats.path, scratch / "a/b/cache");
    EXPECT_EQ(stats.entries, 1);
    EXPECT_EQ(stats.bytes, int64_t(fs::file_size(cache.entry_path(key))));
    EXPECT_EQ(stats.memory_only, "");
    EXPECT_TRUE(holds(Cache((scratch / "a/b/cache").c_str()), key));  // another process would see the same
    EXPECT_EQ(files_below(scratch.path()), 1);                        // nothing is left in staging
}

TEST(Cache, KeyTextIsComparedNotOnlyItsHash) {
    const Scratch scratch;
    Cache cache(scratch.path().c_str());
    const Key one = sample_key(1);
    Key other = sample_key(2);
    cache.store(other, sample_artifact());
    fs::create_directories(fs::path(cache.entry_path(one)).parent_path());
    fs::copy_file(cache.entry_path(other), cache.entry_path(one));
    EXPECT_FALSE(holds(cache, one));
    EXPECT_FALSE(fs::exists(cache.entry_path(one)));
    EXPECT_TRUE(holds(cache, other));
}

TEST(Cache, DamagedEntriesAreMissesAndAreReplaced) {
    const Scratch scratch;
    Cache cache(scratch.path().c_str());
    const Key key = sample_key();
    cache.store(key, sample_artifact());
    const std::string path = cache.entry_path(key), good = read_text(path);
    std::vector<std::string> damaged = {"", "C", std::string(4096, '\0'), good + "x"};
    for (const size_t length :
         {size_t(63), size_t(64), size_t(70), size_t(64) + key.text.size() + 5, good.size() - 20, good.size() - 1})
        damaged.push_back(good.substr(0, length));
    for (const size_t byte : {size_t(3), size_t(8), size_t(20), size_t(50), size_t(66),
                              size_t(64) + key.text.size() + 5, good.size() - 3}) {
        damaged.push_back(good);
        damaged.back()[byte] = char(damaged.back()[byte] ^ 0x10);
    }
    for (const std::string& text : damaged) {
        write_text(path, text);
        EXPECT_FALSE(holds(cache, key));
        EXPECT_FALSE(fs::exists(path)) << "a bad entry of ours is removed";
        cache.store(key, sample_artifact());
        ASSERT_TRUE(holds(cache, key));
    }
}

TEST(Cache, OddFilesInTheEntrysPlaceAreMisses) {
    const Scratch scratch;
    Cache cache((scratch / "cache").c_str());
    const Key key = sample_key();
    cache.store(key, sample_artifact());
    const std::string path = cache.entry_path(key);
    fs::rename(path, scratch / "elsewhere");
    fs::create_symlink(scratch / "elsewhere", path);  // a link is not followed, though what it points to is intact
    EXPECT_FALSE(holds(cache, key));
    cache.store(key, sample_artifact());
    EXPECT_TRUE(holds(cache, key));
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // must not block
    EXPECT_FALSE(holds(cache, key));
    fs::remove(path);
    fs::create_directories(path);
    LogCapture capture;
    EXPECT_FALSE(holds(cache, key));
    cache.store(key, sample_artifact());  // cannot replace a directory
    EXPECT_EQ(capture.count("only in memory"), 1);
    EXPECT_EQ(files_below(scratch / "cache/v1/staging"), 0);
}

TEST(Cache, VerifyCountsAndRemovesBadEntries) {
    const Scratch scratch;
    Cache cache(scratch.path().c_str());
    for (int i = 0; i < 5; ++i) cache.store(sample_key(i), sample_artifact());
    write_text(cache.entry_path(sample_key(1)), "damaged");
    fs::rename(cache.entry_path(sample_key(2)), scratch / "v1/sm_90a/00000000000000000000000000000000.cubin");
    const CacheVerified first = cache.verify();
    EXPECT_EQ(first.ok, 3);
    EXPECT_EQ(first.bad, 2);
    const CacheVerified second = cache.verify();
    EXPECT_EQ(second.ok, 3);
    EXPECT_EQ(second.bad, 0);
}

TEST(Cache, MemoryOnlyWorksAndSaysWhy) {
    Cache cache("");
    cache.store(sample_key(), sample_artifact());
    EXPECT_FALSE(holds(cache, sample_key()));
    EXPECT_FALSE(cache.lock(sample_key()).held());
    EXPECT_EQ(cache.path(), "");
    EXPECT_NE(cache.stats().memory_only.find("as the caller asked"), std::string::npos);
    EXPECT_EQ(cache.verify().ok + cache.prune(true).entries + cache.clear().entries, 0);
}

TEST(CacheRoot, PlacesThatCannotExistAreMemoryOnlyWithOneWarning) {
    const Scratch scratch;
    write_text(scratch / "file", "x");
    for (const std::string& place :
         {std::string("/proc/carat-cache"), std::string("/dev/null/cache"), scratch / "file", scratch / "file/below"}) {
        LogCapture capture;
        const CacheRoot root = find_cache_root(place.c_str());
        EXPECT_EQ(root.path, "") << place;
        EXPECT_NE(root.why.find("memory only"), std::string::npos);
        EXPECT_NE(root.why.find(place), std::string::npos);
        (void)find_cache_root(place.c_str());
        EXPECT_EQ(capture.count("memory only"), 1) << place;
    }
}

TEST(CacheRoot, DirectoriesThatOthersCanWriteToAreRefused) {
    const Scratch scratch;
    for (const mode_t mode : {0777, 0707, 0770, 01777}) {
        const std::string place = scratch / std::to_string(mode);
        fs::create_directory(place);
        ASSERT_EQ(chmod(place.c_str(), mode), 0);
        LogCapture capture;
        const CacheRoot root = find_cache_root(place.c_str());
        EXPECT_EQ(root.path, "");
        EXPECT_NE(root.why.find("can be written to by others"), std::string::npos) << root.why;
        EXPECT_EQ(capture.count("chmod go-w"), 1);
        ASSERT_EQ(chmod(place.c_str(), 0755), 0);
        EXPECT_EQ(find_cache_root(place.c_str()).path, place);
    }
}

TEST(CacheRoot, SomebodyElsesDirectoryIsRefused) {
    const Scratch scratch;
    // As root, one that belongs to user 12345; else the system's own.
    std::string place = "/usr", link = "/proc/self";
    if (geteuid() == 0) {
        place = scratch / "foreign", link = scratch / "link";
        fs::create_directory(place);
        fs::create_directory(scratch / "mine");
        fs::create_symlink(scratch / "mine", link);
        ASSERT_EQ(chown(place.c_str(), 12345, 12345), 0);
        ASSERT_EQ(lchown(link.c_str(), 12345, 12345), 0);
        const CacheRoot linked =
            find_cache_root(link.c_str());  // our directory, but by a link that somebody else can turn
        EXPECT_EQ(linked.path, "");
        EXPECT_NE(linked.why.find("belongs to user 12345"), std::string::npos) << linked.why;
    }
    LogCapture capture;
    const CacheRoot root = find_cache_root(place.c_str());
    EXPECT_EQ(root.path, "");
    EXPECT_NE(root.why.find("belongs to user"), std::string::npos) << root.why;
    EXPECT_EQ(capture.count("belongs to user"), 1);
}

TEST(CacheRoot, TheUsualPlacesInOrder) {
    const Scratch scratch;
    const Variable none("CARAT_CACHE_DIR", nullptr), home("HOME", scratch / "home"),
        xdg("XDG_CACHE_HOME", scratch / "xdg"), temp("TMPDIR", scratch / "tmp");
    const std::string in_temp = scratch / ("tmp/carat-" + std::to_string(geteuid()));
    EXPECT_EQ(find_cache_root(nullptr).path, scratch / "xdg/carat");
    {
        const Variable relative("XDG_CACHE_HOME", "relative");
        EXPECT_EQ(find_cache_root(nullptr).path, scratch / "home/.cache/carat");
    }
    const Variable no_xdg("XDG_CACHE_HOME", nullptr);
    EXPECT_EQ(find_cache_root(nullptr).path, scratch / "home/.cache/carat");
    const Variable no_home("HOME", "/dev/null");  // a home that cannot be written, as in many containers
    EXPECT_EQ(find_cache_root(nullptr).path, in_temp);
    {
        const Variable no_temp("TMPDIR", "/dev/null");
        const CacheRoot nowhere = find_cache_root(nullptr);
        EXPECT_EQ(nowhere.path, "");
        EXPECT_NE(nowhere.why.find("CARAT_CACHE_DIR"), std::string::npos);
    }
    const Variable directory("CARAT_CACHE_DIR", scratch / "own/");
    EXPECT_EQ(find_cache_root(nullptr).path, scratch / "own");
    EXPECT_EQ(find_cache_root((scratch / "argument").c_str()).path, scratch / "argument");
    EXPECT_EQ(find_cache_root("").path, "");
}

// Gives up root where the tests have it, as root is refused nothing.
bool become_ordinary(const std::string& directory) {
    if (geteuid() != 0) return true;
    for (const auto& it : fs::recursive_directory_iterator(directory))
        if (chown(it.path().c_str(), 12345, 12345) != 0) return false;
    return chown(directory.c_str(), 12345, 12345) == 0 && setgid(12345) == 0 && setuid(12345) == 0;
}

TEST(Cache, ReadOnlyDirectoryIsReadAndWarnedOfOnce) {
    const Scratch scratch;
    const int result = in_child([&] {
        { Cache(scratch.path().c_str()).store(sample_key(1), sample_artifact()); }
        if (!become_ordinary(scratch.path())) return 1;
        for (const auto& it : fs::recursive_directory_iterator(scratch.path()))
            if (it.is_directory()) chmod(it.path().c_str(), 0500);
        chmod(scratch.path().c_str(), 0500);
        LogCapture capture;
        Cache cache(scratch.path().c_str());
        const bool reads = holds(cache, sample_key(1));
        cache.store(sample_key(2), sample_artifact());
        cache.store(sample_key(3), sample_artifact());
        const bool lock = cache.lock(sample_key(2)).held();
        const bool warned = capture.count("only in memory") == 1 && capture.count("Permission denied") == 1;
        for (const auto& it : fs::recursive_directory_iterator(scratch.path()))
            if (it.is_directory()) chmod(it.path().c_str(), 0700);
        return !reads ? 2 : holds(cache, sample_key(2)) ? 3 : lock ? 4 : !warned ? 5 : 0;
    });
    EXPECT_EQ(result, 0) << "1: cannot set up, 2: does not read, 3: wrote, 4: locked, 5: warnings";
}

TEST(Cache, FullDiskLosesNothing) {
    const Scratch scratch;
    const int result = in_child([&] {
        Cache cache(scratch.path().c_str());
        cache.store(sample_key(1), sample_artifact(100));
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{10000, 10000};  // the write of 20000 bytes stops half-way, as on a full disk
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
        LogCapture capture;
        cache.store(sample_key(1), sample_artifact(20000));
        cache.store(sample_key(2), sample_artifact(20000));
        if (capture.count("only in memory") != 1) return 2;
        if (!holds(cache, sample_key(1)) || cache.find(sample_key(1))->artifact.cubin.size() != 100) return 3;
        if (holds(cache, sample_key(2))) return 4;
        if (files_below(scratch.path()) != 1) return 5;
        cache.store(sample_key(3), sample_artifact(100));  // and there is room again
        return holds(cache, sample_key(3)) ? 0 : 6;
    });
    EXPECT_EQ(result, 0)
        << "1: cannot set up, 2: warnings, 3: old entry lost, 4: torn entry, 5: leftovers, 6: does not recover";
}

TEST(Cache, PruneRemovesTheLeastRecentlyUsed) {
    const Scratch scratch;
    const Variable limit("CARAT_CACHE_SIZE_MB", "1");
    Cache cache(scratch.path().c_str());
    constexpr int kEntries = 15, kBytes = 100000;  // 1.5 MB against a limit of 1.048 MB: 5 must go
    for (int i = 0; i < kEntries; ++i) {
        cache.store(sample_key(i), sample_artifact(kBytes, unsigned(i)));
        set_age(cache.entry_path(sample_key(i)), 100000 - i * 1000);
    }
    ASSERT_TRUE(holds(cache, sample_key(0)));  // used just now, so no longer the oldest
    const CacheRemoved removed = cache.prune();
    EXPECT_EQ(removed.entries, 5);
    EXPECT_EQ(removed.left_entries, 10);
    EXPECT_LE(removed.left_bytes, 1 << 20);
    EXPECT_EQ(removed.left_bytes, cache.stats().bytes);
    for (int i = 0; i < kEntries; ++i) EXPECT_EQ(fs::exists(cache.entry_path(sample_key(i))), i == 0 || i > 5) << i;
    EXPECT_EQ(cache.prune().entries, 0);
}

TEST(Cache, PruneSparesTheYoungUnlessForced) {
    const Scratch scratch;
    const Variable limit("CARAT_CACHE_SIZE_MB", "0");
    Cache cache(scratch.path().c_str());
    for (int i = 0; i < 3; ++i) cache.store(sample_key(i), sample_artifact());
    set_age(cache.entry_path(sample_key(2)), 3500);
    EXPECT_EQ(cache.prune().entries, 0);
    set_age(cache.entry_path(sample_key(2)), 3700);
    EXPECT_EQ(cache.prune().entries, 1);
    EXPECT_EQ(cache.prune(true).entries, 2);
    EXPECT_EQ(cache.stats().entries, 0);
}

TEST(Cache, EveryManyWritesItPrunesByItself) {
    const Scratch scratch;
    const Variable limit("CARAT_CACHE_SIZE_MB", "0");
    Cache cache(scratch.path().c_str());
    for (int i = 0; i + 1 < Cache::kWritesPerPrune; ++i) {
        cache.store(sample_key(i), sample_artifact());
        set_age(cache.entry_path(sample_key(i)), 7200);
    }
    EXPECT_EQ(cache.stats().entries, Cache::kWritesPerPrune - 1);
    cache.store(sample_key(1000), sample_artifact());
    EXPECT_EQ(cache.stats().entries, 1);
    EXPECT_TRUE(holds(cache, sample_key(1000)));
}

TEST(Cache, LeftoversOfDeadProcessesGo) {
    const Scratch scratch;
    Cache cache(scratch.path().c_str());
    cache.store(sample_key(), sample_artifact());
    write_text(scratch / "v1/staging/old", "x");
    write_text(scratch / "v1/staging/new", "x");
    write_text(scratch / "v1/staging/ahead", "x");
    write_text(scratch / "v1/locks/old.lock", "");
    set_age(scratch / "v1/staging/old", 4000);
    set_age(scratch / "v1/staging/ahead", -100);  // of a machine whose clock runs ahead
    set_age(scratch / "v1/locks/old.lock", 4000);
    EXPECT_EQ(cache.prune().entries, 0);
    EXPECT_FALSE(fs::exists(scratch / "v1/staging/old"));
    EXPECT_FALSE(fs::exists(scratch / "v1/locks/old.lock"));
    EXPECT_TRUE(fs::exists(scratch / "v1/staging/new"));
    EXPECT_TRUE(fs::exists(scratch / "v1/staging/ahead"));
    EXPECT_EQ(cache.clear().entries, 1);
    EXPECT_EQ(files_below(scratch.path()), 0);
}

TEST(Cache, ClearLeavesOtherFilesAlone) {
    const Scratch scratch;
    Cache cache(scratch.path().c_str());
    for (int i = 0; i < 4; ++i) cache.store(sample_key(i), sample_artifact());
    write_text(scratch / "notes.txt", "mine");
    write_text(scratch / "v1/sm_90a/notes.txt", "mine");
    const CacheRemoved removed = cache.clear();
    EXPECT_EQ(removed.entries, 4);
    EXPECT_EQ(removed.left_entries, 0);
    EXPECT_EQ(files_below(scratch.path()), 2);
}

TEST(Cache, SizeLimitThatIsNoNumberIsTheDefault) {
    for (const char* text : {"many", "-1", "12x", "99999999999999999999", ""}) {
        const Variable limit("CARAT_CACHE_SIZE_MB", text);
        EXPECT_EQ(Cache("").stats().limit_bytes, int64_t(1) << 30) << text;
    }
    const Variable limit("CARAT_CACHE_SIZE_MB", "7");
    EXPECT_EQ(Cache("").stats().limit_bytes, 7 << 20);
}

TEST(CacheLock, IsExclusiveBoundedAndReleased) {
    using namespace std::chrono_literals;
    const Scratch scratch;
    const Cache cache(scratch.path().c_str());
    {
        const Cache::Lock first = cache.lock(sample_key(1), 0ms);
        EXPECT_TRUE(first.held());
        EXPECT_TRUE(cache.lock(sample_key(2), 0ms).held());
        const auto begin = std::chrono::steady_clock::now();
        EXPECT_FALSE(cache.lock(sample_key(1), 100ms).held());
        EXPECT_GE(std::chrono::steady_clock::now() - begin, 100ms);
    }
    EXPECT_TRUE(cache.lock(sample_key(1), 0ms).held());
    // A process that dies holding it releases it.
    EXPECT_EQ(in_child([&] { return cache.lock(sample_key(3), 0ms).held() ? (std::raise(SIGKILL), 1) : 2; }), -1);
    EXPECT_TRUE(cache.lock(sample_key(3), 0ms).held());
}

TEST(Cache, ThreadsStoreReadAndPruneAtOnce) {
    const Scratch scratch;
    const Variable limit("CARAT_CACHE_SIZE_MB", "0");
    Cache cache(scratch.path().c_str());
    std::atomic<int> wrong{0}, found{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 150; ++i) {
                const int number = (i * 7 + t) % 10;
                const Artifact artifact = sample_artifact(3000, unsigned(number));
                cache.store(sample_key(number), artifact);
                if (const auto entry = cache.find(sample_key(number))) {
                    ++found;
                    if (entry->artifact.cubin != artifact.cubin) ++wrong;
                }
                if (i % 20 == t) cache.prune(true);
                if (i % 50 == t) cache.clear();
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(found, 300);  // most of the 600: others may prune between a store and its find
}

}  // namespace
}  // namespace carat::jit::testing
