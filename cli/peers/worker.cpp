// SPDX-License-Identifier: Apache-2.0
#include "peers/worker.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace carat::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kLongestAnswer = 1 << 20;
constexpr double kFarewellSeconds = 2;

// In the child, between fork and exec: nothing here allocates.
[[noreturn]] void become(char* const* command, int socket, int errors, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    signal(SIGINT, SIG_IGN);  // Ctrl-C lets the current problem finish, and that takes the worker
    dup2(socket, STDIN_FILENO);
    dup2(socket, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    execvp(command[0], command);
    const char* reason = strerror(errno);
    if (write(STDERR_FILENO, reason, strlen(reason)) < 0) _exit(126);
    _exit(127);
}

}  // namespace

Worker::Worker(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    int ends[2] = {-1, -1};
    errors_ = memfd_create("worker", MFD_CLOEXEC);
    if (errors_ < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw WorkerError(fmt::format("no socket for {}: {}", command[0], strerror(errno)));
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ == 0) become(words.data(), ends[1], errors_, parent);
    socket_ = ends[0];
    close(ends[1]);
    if (process_ < 0) throw WorkerError(fmt::format("{} cannot be started: {}", command[0], strerror(errno)));
    alive_ = true;
}

Worker::~Worker() {
    if (socket_ >= 0) close(socket_);  // the end of its input, and its cue to leave
    const auto begin = Clock::now();
    while (process_ > 0 && waitpid(process_, nullptr, WNOHANG) == 0) {
        if (!alive_ || std::chrono::duration<double>(Clock::now() - begin).count() > kFarewellSeconds)
            kill(process_, SIGKILL);
        usleep(1000);
    }
    if (errors_ >= 0) close(errors_);
}

// The last line on its stderr: of a Python program, the exception.
std::string Worker::last_words() const {
    char text[4096];
    const off_t size = lseek(errors_, 0, SEEK_END);
    const off_t from = size > static_cast<off_t>(sizeof text) ? size - static_cast<off_t>(sizeof text) : 0;
    const ssize_t got = pread(errors_, text, sizeof text, from);
    std::string words(text, got > 0 ? static_cast<size_t>(got) : 0);
    while (!words.empty() && words.back() == '\n') words.pop_back();
    words = words.substr(words.rfind('\n') + 1);
    return words.empty() ? "" : ": " + one_line(words);
}

void Worker::give_up(const std::string& what) {
    alive_ = false;
    throw WorkerError(what + last_words());
}

std::string Worker::read_line(double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
        if (const size_t newline = unread_.find('\n'); newline != std::string::npos) {
            std::string line = unread_.substr(0, newline);
            unread_.erase(0, newline + 1);
            return line;
        }
        const double left = std::chrono::duration<double>(end - Clock::now()).count();
        pollfd ready = {socket_, POLLIN, 0};
        if (left <= 0) give_up(fmt::format("its worker did not answer in {} s", seconds));
        if (poll(&ready, 1, static_cast<int>(left * 1000) + 1) <= 0) continue;  // the time is up, or a signal came
        char part[4096];
        const ssize_t got = recv(socket_, part, sizeof part, 0);
        if (got <= 0 || unread_.size() > kLongestAnswer) give_up("its worker ended");
        unread_.append(part, static_cast<size_t>(got));
    }
}

Json Worker::ask(const Json& question, double seconds) {
    if (!alive_) throw WorkerError("its worker has ended");
    const std::string line = question.dump() + "\n";
    const auto sent = send(socket_, line.data(), line.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(line.size())) give_up("its worker ended");
    const std::string text = read_line(seconds);
    const Json answer = Json::parse(text, nullptr, false);
    if (!answer.is_object()) give_up(fmt::format("its worker answered no JSON object: \"{}\"", one_line(text)));
    if (const std::string error = text_at(answer, "error"); !error.empty()) throw WorkerError(one_line(error));
    return answer;
}

}  // namespace carat::cli
