// SPDX-License-Identifier: Apache-2.0
// worker.hpp: a program that answers questions, both one line of JSON, over a socket that is its stdin and stdout. Whatever it
// does - crash, hang, answer nonsense - is a WorkerError here and nothing worse.
#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "common.hpp"

namespace carat::cli {

class WorkerError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Worker {
  public:
    // Starts a program, looked for in PATH.
    explicit Worker(const std::vector<std::string>& command);
    Worker(const Worker&) = delete;
    ~Worker();
    // The answer; a WorkerError with its "error" if it has one, or when it does not come in so many seconds.
    Json ask(const Json& question, double seconds);
    // False once it failed to answer: it is not to be asked again.
    bool alive() const { return alive_; }

  private:
    std::string read_line(double seconds);
    [[noreturn]] void give_up(const std::string& what);
    std::string last_words() const;
    pid_t process_ = -1;
    int socket_ = -1, errors_ = -1;  // its stdin and stdout; its stderr, a file
    bool alive_ = false;
    std::string unread_;
};

}  // namespace carat::cli
