// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <system_error>

namespace carat::cli {

std::string one_line(std::string_view text) {
    std::string line(text);
    for (char& c : line)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

bool Output::colored(std::FILE* stream) const {
    if (color == "always") return true;
    if (color == "never") return false;
    const char* no_color = std::getenv("NO_COLOR");
    const char* terminal = std::getenv("TERM");
    if (no_color && *no_color) return false;
    if (!terminal || std::strcmp(terminal, "dumb") == 0) return false;
    return isatty(fileno(stream)) == 1;
}

void add_output_flags(CLI::App& app, Output& output, bool file) {
    app.add_flag("--json", output.json, "Print JSON to stdout instead of a table");
    app.add_flag("-q,--quiet", output.quiet, "Print errors only");
    app.add_option("--color", output.color, "Colours in tables; auto: on a terminal unless NO_COLOR is set")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->type_name("auto|always|never");
    if (file) app.add_option("-o,--output", output.file, "Write the JSON to this file too")->type_name("FILE");
}

OutputFile::OutputFile(const std::string& path, const char* flag) : path_(path), flag_(flag) {
    if (path_.empty()) return;
    struct stat info = {};
    const bool there = stat(path_.c_str(), &info) == 0;
    if (there && S_ISDIR(info.st_mode)) fail(kInputOutput, "{} {} is a directory: give a file", flag_, one_line(path_));
    const bool special = there && !S_ISREG(info.st_mode);  // /dev/stdout, a pipe: written in place
    if (!special) temporary_ = fmt::format("{}.tmp{}", path_, getpid());
    file_ = std::fopen(special ? path_.c_str() : temporary_.c_str(), "w");
    if (!file_) {
        const int error = errno;
        temporary_.clear();
        fail(kInputOutput, "{} {} cannot be written: {}", flag_, one_line(path_), std::strerror(error));
    }
}

OutputFile::~OutputFile() {
    if (file_) std::fclose(file_);
    if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::give_up(const char* what) {
    fail(kInputOutput, "{} {} could not be {}: {}", flag_, one_line(path_), what, std::strerror(errno));
}

void OutputFile::commit(const std::string& text) {
    if (!file_) return;
    const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fflush(file_) == 0;
    if (!written) give_up("written");
    std::FILE* file = std::exchange(file_, nullptr);
    if (std::fclose(file) != 0) give_up("closed");
    if (temporary_.empty()) return;
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) give_up("put in place");
    temporary_.clear();
}

std::string dump(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void print(std::string_view text) {
    errno = 0;
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        fail(kInputOutput, "standard output could not be written: {}", std::strerror(errno));
}

void print_json(const Output& output, const Json& json) {
    if (output.json) print(dump(json));
}

void complain(std::string_view sentence) {
    std::fflush(stdout);
    fmt::print(stderr, "carat: {}\n", one_line(sentence));
}

double number_at(const Json& json, const char* key, double fallback) {
    const Json& value = member(json, key);
    return value.is_number() ? value.get<double>() : fallback;
}

std::string text_at(const Json& json, const char* key, const std::string& fallback) {
    const Json& value = member(json, key);
    return value.is_string() ? value.get<std::string>() : fallback;
}

const Json& member(const Json& json, const char* key) {
    static const Json nothing;
    if (!json.is_object()) return nothing;
    const auto found = json.find(key);
    return found == json.end() ? nothing : *found;
}

Json parse_json(const std::string& text, const std::string& who) {
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) fail(kInputOutput, "{} is not JSON", who);
    return json;
}

std::string human(double value) {
    if (!std::isfinite(value)) return "-";
    const double size = std::fabs(value);
    if (size == 0) return "0";
    if (size < 1e-3 || size >= 1e7) return fmt::format("{:.2e}", value);
    if (size < 1) return fmt::format("{:.3f}", value);
    if (size < 10) return fmt::format("{:.2f}", value);
    if (size < 100) return fmt::format("{:.1f}", value);
    return fmt::format("{:.0f}", value);
}

std::string human_bytes(double bytes) {
    static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 4) bytes /= 1000, ++unit;
    return fmt::format("{} {}", human(bytes), kUnits[unit]);
}

Json maybe(double value) {
    return std::isfinite(value) ? Json(value) : Json();
}
Json maybe(const std::string& text) {
    return text.empty() ? Json() : Json(text);
}

int64_t parse_integer(std::string_view text, std::string_view flag, int64_t least, int64_t most) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least || value > most)
        fail(kUsage, "{} got \"{}\": it takes a whole number from {} to {}", flag, one_line(text), least, most);
    return value;
}

double parse_real(std::string_view text, std::string_view flag) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
        fail(kUsage, "{} got \"{}\": it takes a number", flag, one_line(text));
    return value;
}

double parse_budget(const std::string& text) {
    const double seconds = parse_real(text, "--budget");
    if (!(seconds > 0)) fail(kUsage, "--budget got \"{}\": it takes seconds above 0", one_line(text));
    return seconds;
}

double parse_timeout(const std::string& text) {
    const double seconds = parse_real(text, "--timeout");
    if (seconds < 0 || seconds > 1e6)
        fail(kUsage, "--timeout got \"{}\": it takes seconds from 0 to 1000000", one_line(text));
    return seconds;
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    for (size_t begin = 0;;) {
        const size_t end = text.find(separator, begin);
        parts.emplace_back(text.substr(begin, end - begin));
        if (end == std::string_view::npos) return parts;
        begin = end + 1;
    }
}

std::string read_text_file(const std::string& path, size_t limit) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (!file) fail(kInputOutput, "{} cannot be read: {}", one_line(path), std::strerror(errno));
    std::string text;
    char block[65536];
    size_t got = 0;
    while (text.size() <= limit && (got = std::fread(block, 1, sizeof block, file)) > 0) text.append(block, got);
    const bool bad = std::ferror(file) != 0;
    const int error = errno;
    std::fclose(file);
    if (bad) fail(kInputOutput, "{} cannot be read: {}", one_line(path), std::strerror(error));
    if (text.size() > limit) fail(kInputOutput, "{} is larger than the {} bytes allowed here", one_line(path), limit);
    return text;
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
    return fmt::format("{}", fmt::join(words, separator));
}

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts = {};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

namespace {
std::string g_command;
}

void remember_command(int argc, char** argv) {
    std::vector<std::string> words = {"carat"};
    for (int i = 1; i < argc; ++i) {
        std::string word = one_line(argv[i]);
        const bool plain = !word.empty() && word.find_first_of(" '\"\\$`*?[]{}()<>|&;#~!") == std::string::npos;
        if (!plain) {
            std::string quoted(1, '\'');
            for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
            word = std::move(quoted) + '\'';
        }
        words.push_back(word);
    }
    g_command = join(words, " ");
}

const std::string& command_line() {
    return g_command;
}

}  // namespace carat::cli
