// SPDX-License-Identifier: Apache-2.0
#include "api/trace.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include "core/env.hpp"
#include "core/log.hpp"
#include "core/problem_json.hpp"

namespace carat::api {
namespace {

// The traces that still have something to write when the process ends: many programs never destroy their context.
struct Living {
    std::mutex mutex;
    std::set<Trace*> traces;
};
Living& living() {
    static Living* instance = new Living;  // never destroyed: a context may go away after it
    return *instance;
}
struct AtExit {
    ~AtExit() {
        std::lock_guard lock(living().mutex);
        for (Trace* trace : living().traces) trace->write();
    }
};

void warn(const std::string& path, const char* what) {
    log::warn_once("trace " + path, fmt::format("the trace {} cannot be {}: {}; nothing is recorded there", path, what,
                                                std::strerror(errno)));
}

}  // namespace

std::unique_ptr<Trace> Trace::open(const char* trace) {
    const auto path = trace ? std::optional<std::string>(trace) : env::get("CARAT_TRACE");
    if (!path || path->empty()) return nullptr;
    const int file = ::open(path->c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return warn(*path, "opened"), nullptr;
    static const AtExit at_exit;
    return std::unique_ptr<Trace>(new Trace(file, *path));
}

Trace::Trace(int file, std::string path) : file_(file), path_(std::move(path)), owner_(getpid()) {
    std::lock_guard lock(living().mutex);
    living().traces.insert(this);
}

Trace::~Trace() {
    {
        std::lock_guard lock(living().mutex);
        living().traces.erase(this);
    }
    write();
    close(file_);
}

std::atomic<uint64_t>* Trace::counter(const Problem& problem, const std::string& device, const std::string& kernel) {
    std::lock_guard lock(mutex_);
    const auto [place, is_new] = entries_.try_emplace(describe(problem));
    Entry& entry = place->second;
    if (is_new) {
        const nlohmann::ordered_json head = {
            {"schema", "carat.trace/1"}, {"problem", problem_json(problem)}, {"device", device}, {"kernel", kernel}};
        entry.head = head.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
        entry.head.back() = ',';  // its closing brace: the count follows
    }
    return &entry.executions;
}

void Trace::write() {
    if (getpid() != owner_) return;
    std::lock_guard lock(mutex_);
    for (auto& [key, entry] : entries_) {
        const uint64_t executions = entry.executions.load(std::memory_order_relaxed);
        if (!entry.is_new && executions == entry.written) continue;
        const std::string line = fmt::format("{}\"count\":{}}}\n", entry.head, executions - entry.written);
        if (::write(file_, line.data(), line.size()) != ssize_t(line.size())) return warn(path_, "written");
        entry.written = executions;
        entry.is_new = false;
    }
}

}  // namespace carat::api
