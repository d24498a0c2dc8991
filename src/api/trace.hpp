// SPDX-License-Identifier: Apache-2.0
// trace.hpp: CARAT_TRACE: which problems a program plans, and how often it executes each, as JSON lines "carat.trace/1", for
// `carat tune --trace` and `carat bench --replay`. An execution adds 1 to an atomic counter; records are written when the context
// goes away or the process ends, each by one write() to a file opened for appending, so that many processes may share it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/problem.hpp"

namespace carat::api {

class Trace {
  public:
    // `trace` as in carat_context_options. Null where nothing is to be recorded, or, with a warning in the log, where its file cannot be opened.
    static std::unique_ptr<Trace> open(const char* trace);
    Trace(const Trace&) = delete;
    ~Trace();

    // Counts the executions of a problem; all its plans share it, and it lives as long as the trace.
    std::atomic<uint64_t>* counter(const Problem& problem, const std::string& device, const std::string& kernel);
    // A record for each problem that is new, or was executed since its last one.
    void write();

  private:
    struct Entry {
        std::string head;  // the record up to the count
        std::atomic<uint64_t> executions{0};
        uint64_t written = 0;
        bool is_new = true;
    };
    Trace(int file, std::string path);

    const int file_;
    const std::string path_;
    const pid_t owner_;  // a forked child would write its parent's counts again
    std::mutex mutex_;
    std::unordered_map<std::string, Entry> entries_;  // by describe(problem)
};

}  // namespace carat::api
