// SPDX-License-Identifier: Apache-2.0
// common.hpp: what every subcommand shares: how it fails (one sentence, one exit code), how it writes (a human table, or
// JSON to stdout and to a file), and how numbers look.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "carat/carat.hpp"
#include "exit_codes.hpp"

namespace CLI {
class App;
}

namespace carat::cli {

using Json = nlohmann::ordered_json;

// A failure of the command line: main() prints "carat: <sentence>" and exits with the code.
class Failure : public std::runtime_error {
  public:
    Failure(ExitCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
    ExitCode code() const { return code_; }

  private:
    ExitCode code_;
};

template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
    throw Failure(code, fmt::format(format, std::forward<Args>(args)...));
}

// Control characters replaced, so that whatever a file or an argument holds, a sentence stays one line.
std::string one_line(std::string_view text);

// How a command speaks, from --json, --quiet, --color and -o.
struct Output {
    bool json = false;
    bool quiet = false;
    std::string color = "auto";
    std::string file;

    bool tables() const { return !json && !quiet; }
    bool colored(std::FILE* stream) const;
};

// Adds --json, --quiet and --color, and -o where `file` is set.
void add_output_flags(CLI::App& app, Output& output, bool file = false);

// A file written whole or not at all: opened beside its place at once, so that an unusable path fails before the work,
// and renamed into it by commit(). Empty path: does nothing.
class OutputFile {
  public:
    explicit OutputFile(const std::string& path, const char* flag = "--output");
    OutputFile(const OutputFile&) = delete;
    ~OutputFile();
    void commit(const std::string& text);

  private:
    [[noreturn]] void give_up(const char* what);
    std::string path_, flag_, temporary_;
    std::FILE* file_ = nullptr;
};

std::string dump(const Json& json);
// The whole of stdout's text, with a failure (a full disk, a closed pipe) turned into kInputOutput.
void print(std::string_view text);
// Prints the JSON if --json was given.
void print_json(const Output& output, const Json& json);
// A sentence on stderr, "carat: ...".
void complain(std::string_view sentence);

// Reading of JSON that comes from elsewhere: absent or of another type is the fallback.
double number_at(const Json& json, const char* key, double fallback);
std::string text_at(const Json& json, const char* key, const std::string& fallback = "");
const Json& member(const Json& json, const char* key);  // null if absent
Json parse_json(const std::string& text, const std::string& who);

// Numbers for people: three significant digits, "-" for a number that is none.
std::string human(double value);
std::string human_bytes(double bytes);
// null where the value is not a number.
Json maybe(double value);
Json maybe(const std::string& text);

// Whole-number and real values of flags; failures name the flag.
int64_t parse_integer(std::string_view text, std::string_view flag, int64_t least, int64_t most);
double parse_real(std::string_view text, std::string_view flag);
// Of --budget: seconds above 0. Of --timeout: seconds up to 1000000, 0 for no limit.
double parse_budget(const std::string& text);
double parse_timeout(const std::string& text);
std::vector<std::string> split(std::string_view text, char separator);
std::string read_text_file(const std::string& path, size_t limit);
std::string join(const std::vector<std::string>& words, std::string_view separator);

// "2026-01-31T12:00:00Z".
std::string utc_now();
// The command as typed, quoted for a shell.
void remember_command(int argc, char** argv);
const std::string& command_line();

}  // namespace carat::cli
