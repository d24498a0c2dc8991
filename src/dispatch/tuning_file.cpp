// SPDX-License-Identifier: Apache-2.0
#include "dispatch/tuning_file.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/problem_json.hpp"
#include "core/text_file.hpp"

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLargestFile = size_t(64) << 20;

Result<Json> member(const Json& json, const char* key, bool (Json::*is)() const noexcept, const char* wanted) {
    const auto found = json.find(key);
    if (found != json.end() && ((*found).*is)()) return *found;
    return fail(CARAT_INVALID_VALUE, "its \"{}\" is {}: it must be {}", key,
                found == json.end() ? "missing" : "of another type", wanted);
}

Result<double> number(const Json& json, const char* key, double least) {
    CARAT_ASSIGN(const Json value, member(json, key, &Json::is_number, "a number"));
    const double number = value.get<double>();
    if (std::isfinite(number) && number >= least) return number;
    return fail(CARAT_INVALID_VALUE, "its \"{}\" is {}: it must be {} or more", key, number, least);
}

Result<int> small_integer(const Json& json, const char* key) {
    CARAT_ASSIGN(const double value, number(json, key, 0));
    if (value <= INT32_MAX && value == std::floor(value)) return int(value);
    return fail(CARAT_INVALID_VALUE, "its \"{}\" is {}: it must be a whole number", key, value);
}

Result<std::string> text(const Json& json, const char* key) {
    CARAT_ASSIGN(const Json value, member(json, key, &Json::is_string, "a string"));
    return value.get<std::string>();
}

Result<TunedDevice> parse_device(const Json& json) {
    TunedDevice device;
    CARAT_ASSIGN(device.name, text(json, "name"));
    CARAT_ASSIGN(device.compute_capability, text(json, "compute_capability"));
    CARAT_ASSIGN(device.units, small_integer(json, "units"));
    return device;
}

Result<TuningRow> parse_row(const Json& json, Validate validate) {
    if (!json.is_object()) return fail(CARAT_INVALID_VALUE, "it is no object");
    TuningRow row;
    CARAT_ASSIGN(const Json problem, member(json, "problem", &Json::is_object, "an object"));
    CARAT_ASSIGN(const carat_problem parsed, parse_problem(problem));
    CARAT_ASSIGN(row.problem, validate(&parsed));
    CARAT_ASSIGN(const Json device, member(json, "device", &Json::is_object, "an object"));
    CARAT_ASSIGN(row.device, parse_device(device));
    CARAT_ASSIGN(const std::string kernel, text(json, "kernel"));
    CARAT_ASSIGN(row.config, Config::parse(kernel));
    CARAT_ASSIGN(row.kernels, small_integer(json, "kernels"));
    CARAT_ASSIGN(row.us, number(json, "us", 1e-3));
    CARAT_ASSIGN(row.spread, number(json, "spread", 0));
    if (const auto checked = json.find("checked"); checked == json.end() || *checked != true)
        return fail(CARAT_INVALID_VALUE, "its \"checked\" is not true: the kernel's result was never verified");
    row.json = json;
    row.json["problem"] = problem_json(row.problem);
    return row;
}

// The last row of a problem and device stays.
void keep_last(TuningRows& result) {
    std::unordered_map<std::string, size_t> last;
    const auto key_of = [](const TuningRow& row) { return row.json["problem"].dump() + row.device.json().dump(); };
    for (const TuningRow& row : result.rows) last[key_of(row)] = row.number;
    std::erase_if(result.rows, [&](const TuningRow& row) {
        const size_t kept = last[key_of(row)];
        if (kept != row.number)
            result.skipped.push_back(
                fmt::format("row {}: row {} is of the same problem and device, and is used", row.number, kept));
        return kept != row.number;
    });
}

}  // namespace

TunedDevice TunedDevice::of(const Target& target) {
    const bool gpu = target.backend == CARAT_BACKEND_CUDA;
    return {target.full_name, gpu ? fmt::format("{}.{}", target.cc_major, target.cc_minor) : "", target.units};
}

Json TunedDevice::json() const {
    return {{"name", name}, {"compute_capability", compute_capability}, {"units", units}};
}

TuningRows read_tuning(std::string_view text, Validate validate) {
    TuningRows result;
    const auto reject = [&](const std::string& sentence) {
        result.skipped.push_back(sentence);
        return result;
    };
    const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return reject("all of it: it is not JSON, perhaps cut short");
    const auto schema = json.is_object() ? json.find("schema") : json.end();
    const auto rows = json.is_object() ? json.find("rows") : json.end();
    if (schema == json.end() || *schema != "carat.tuning/1" || rows == json.end() || !rows->is_array())
        return reject("all of it: it is no \"carat.tuning/1\" with an array \"rows\"");
    for (size_t i = 0; i < rows->size(); ++i) {
        auto row = parse_row((*rows)[i], validate);
        if (row.ok()) {
            row->number = i + 1;
            result.rows.push_back(std::move(row).value());
        } else {
            result.skipped.push_back(fmt::format("row {}: {}", i + 1, row.status().sentence()));
        }
    }
    keep_last(result);
    return result;
}

Result<std::string> read_tuning_file(const std::string& path) {
    return read_text_file(path, kLargestFile, "tuning database");
}

}  // namespace carat
