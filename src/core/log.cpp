// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>

#include "core/env.hpp"

namespace carat::log {
namespace {

carat_log_level level_from(const std::string& text) {
    static constexpr const char* kNames[] = {"off", "error", "warn", "info", "debug"};
    for (int i = 0; i < 5; ++i)
        if (text == kNames[i] || text == std::to_string(i)) return carat_log_level(i);
    return CARAT_LOG_WARN;
}

struct Sink {
    std::mutex mutex;
    carat_log_callback callback = nullptr;
    void* user = nullptr;
    std::FILE* file = nullptr;  // lives as long as the process
    std::atomic<int> level{CARAT_LOG_OFF};
    std::set<std::string> said;

    Sink() {
        const auto path = env::get("CARAT_LOG_FILE");
        if (!path) return;
        std::string name = *path;
        if (const size_t at = name.find("%p"); at != std::string::npos) name.replace(at, 2, std::to_string(getpid()));
        file = std::fopen(name.c_str(), "a");
        if (file) level = level_from(env::get("CARAT_LOG_LEVEL").value_or("info"));
    }
};

Sink& sink() {
    static Sink* instance = new Sink;  // never destroyed: threads may log while the process exits
    return *instance;
}

}  // namespace

bool enabled(carat_log_level level) {
    return level <= sink().level.load(std::memory_order_relaxed);
}

void write(carat_log_level level, const std::string& message) {
    static constexpr const char* kNames[] = {"off", "error", "warn", "info", "debug"};
    Sink& s = sink();
    std::lock_guard lock(s.mutex);
    if (s.callback) s.callback(level, message.c_str(), s.user);
    if (s.file) {
        fmt::print(s.file, "carat {} {}\n", kNames[level], message);
        std::fflush(s.file);
    }
}

void set_callback(carat_log_callback callback, void* user, carat_log_level level) {
    Sink& s = sink();
    std::lock_guard lock(s.mutex);
    s.callback = callback;
    s.user = user;
    if (const auto wanted = env::get("CARAT_LOG_LEVEL")) level = level_from(*wanted);
    if (callback || !s.file) s.level = callback ? level : CARAT_LOG_OFF;
}

void warn_once(const std::string& key, const std::string& message) {
    Sink& s = sink();
    {
        std::lock_guard lock(s.mutex);
        if (!s.said.insert(key).second) return;
    }
    if (enabled(CARAT_LOG_WARN)) write(CARAT_LOG_WARN, message);
}

}  // namespace carat::log
