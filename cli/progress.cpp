// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>

namespace carat::cli {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t g_interrupts = 0;
bool g_limited = false;
Clock::time_point g_limit;
constexpr unsigned kGraceSeconds = 30;

void on_interrupt(int) {
    if (g_interrupts > 0) _exit(kInterrupted);
    g_interrupts = 1;
}

void on_alarm(int) {
    static constexpr char kSentence[] = "carat: --timeout passed and the current problem did not end: given up\n";
    if (write(STDERR_FILENO, kSentence, sizeof kSentence - 1) < 0) _exit(kTimeOut);
    _exit(kTimeOut);
}

std::string duration(double seconds) {
    if (seconds < 60) return fmt::format("{:.0f} s", std::ceil(seconds));
    return fmt::format("{:.0f} min {:02.0f} s", std::floor(seconds / 60), std::fmod(seconds, 60));
}

}  // namespace

Progress::Progress(const Output& output, size_t total)
    : shown_(!output.quiet && isatty(STDERR_FILENO) == 1), total_(total) {}

void Progress::next(const std::string& what) {
    const double spent = std::chrono::duration<double>(Clock::now() - begin_).count();
    const size_t done = started_++;
    if (!shown_) return;
    clear();
    std::string line = fmt::format("[{}/{}] {}", started_, total_, one_line(what));
    if (done > 0 && done < total_) line += fmt::format("  {} left", duration(spent / done * (total_ - done)));
    fmt::print(stderr, "{}", line.substr(0, 100));
    std::fflush(stderr);
    dirty_ = true;
}

void Progress::clear() {
    if (!dirty_) return;
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    dirty_ = false;
}

void catch_interrupts() {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, nullptr);
}

void set_time_limit(double seconds) {
    if (seconds <= 0) return;
    g_limited = true;
    g_limit = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    struct sigaction action = {};
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, nullptr);
    alarm(static_cast<unsigned>(std::ceil(seconds)) + kGraceSeconds);
}

ExitCode stop_asked() {
    if (g_interrupts > 0) return kInterrupted;
    if (g_limited && Clock::now() >= g_limit) return kTimeOut;
    return kOk;
}

}  // namespace carat::cli
