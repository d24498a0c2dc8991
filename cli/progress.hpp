// SPDX-License-Identifier: Apache-2.0
// progress.hpp: long work: a line with the time left on stderr (only on a terminal), and the two ways it is cut short,
// SIGINT and --timeout, both of which let the current problem finish and the results be written.
#pragma once

#include <chrono>
#include <string>

#include "common.hpp"

namespace carat::cli {

class Progress {
  public:
    Progress(const Output& output, size_t total);
    Progress(const Progress&) = delete;
    ~Progress() { clear(); }
    // Shows that the next item is being worked on.
    void next(const std::string& what);
    void clear();

  private:
    bool shown_;
    bool dirty_ = false;
    size_t total_, started_ = 0;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// From here SIGINT asks for an early end; a second one ends the process at once.
void catch_interrupts();
// Seconds from now; 0: none. 30 s past it the process ends by itself, in case a kernel hangs.
void set_time_limit(double seconds);
// kOk, kInterrupted or kTimeOut.
ExitCode stop_asked();

}  // namespace carat::cli
