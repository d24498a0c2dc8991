// SPDX-License-Identifier: Apache-2.0
#include "dispatch/tuning_db.hpp"

#include "core/env.hpp"
#include "core/log.hpp"

namespace carat {
namespace {

constexpr int64_t kFewRows = 256;
constexpr const char* kRemedy = "measure again with `carat tune`, or take the rows out";

bool has_few_rows(const Problem& problem) {
    return problem.mode == CARAT_SINGLE && problem.m <= kFewRows;
}

// Alike of problems that differ in M alone.
std::string without_rows(Problem problem) {
    problem.m = 0;
    return describe(problem);
}

carat_dtype other_of_16_bits(carat_dtype type) {
    return type == CARAT_BF16 ? CARAT_F16 : type == CARAT_F16 ? CARAT_BF16 : type;
}
// Of bf16 for f16, and the reverse.
Problem with_other_type(Problem problem) {
    for (carat_matrix* x : {&problem.a, &problem.b, &problem.c, &problem.d}) x->dtype = other_of_16_bits(x->dtype);
    problem.epilogue.bias_dtype = other_of_16_bits(problem.epilogue.bias_dtype);
    return problem;
}
Config with_other_type(Config config) {
    for (carat_dtype* type : {&config.a, &config.b, &config.d}) *type = other_of_16_bits(*type);
    return config;
}

void warn_of_skipped(const TuningDb::File& file) {
    if (file.skipped.empty()) return;
    const std::string more = file.skipped.size() > 1 ? fmt::format(" (and {} more)", file.skipped.size() - 1) : "";
    log::warn_once("tuning " + file.name + file.skipped.front(),
                   fmt::format("the tuning database {} is used without {}{}: {}; CARAT_TUNING=off ignores it",
                               file.name, file.skipped.front(), more, kRemedy));
}

}  // namespace

TuningPlaces find_tuning(const char* tuning) {
    const auto asked = tuning ? std::optional<std::string>(tuning) : env::get("CARAT_TUNING");
    if (asked && *asked == "off") return {.enabled = false};
    if (asked) return {.user = *asked, .must_exist = true};
    return {.user = env::data_file("tuning.json")};
}

TuningDb::TuningDb(const TuningPlaces& places, const Target& target, Validate validate) {
    if (!places.enabled) return;
    for (const TuningText& shipped : shipped_tuning())
        add(fmt::format("{} of the library", shipped.name), shipped.text, target, validate);
    if (!places.user.empty()) {
        const auto text = read_tuning_file(places.user);
        if (text.ok())
            add(places.user, *text, target, validate);
        else if (places.must_exist || text.status().code() == CARAT_IO_ERROR)
            files_.push_back({places.user, 0, {"all of it: " + text.status().sentence()}});
    }
    for (const File& file : files_) warn_of_skipped(file);
}

void TuningDb::add(const std::string& name, std::string_view text, const Target& target, Validate validate) {
    TuningRows read = read_tuning(text, validate);
    File file = {name, 0, std::move(read.skipped)};
    const TunedDevice here = TunedDevice::of(target);
    for (TuningRow& row : read.rows) {
        if (row.device != here) continue;
        if (row.kernels != kTunedKernels) {
            file.skipped.push_back(fmt::format("row {}: it was measured with kernels of version {}, these are of {}",
                                               row.number, row.kernels, kTunedKernels));
            continue;
        }
        TunedChoice choice = {row.config, row.us,        row.spread,          name,
                              row.number, row.problem.m, row.problem.a.dtype, false};
        put(row.problem, choice);
        const bool is_16_bit = other_of_16_bits(row.problem.a.dtype) != row.problem.a.dtype;
        if (is_16_bit && row.problem.a.dtype == row.problem.b.dtype) {
            choice.config = with_other_type(std::move(choice.config));
            choice.of_other_type = true;
            put(with_other_type(row.problem), std::move(choice));
        }
        ++file.rows;
    }
    files_.push_back(std::move(file));
}

// What was measured of a type itself stands above what was of the other.
void TuningDb::put(const Problem& problem, TunedChoice choice) {
    const auto [place, is_new] = choices_.try_emplace(describe(problem));
    if (!is_new && choice.of_other_type && !place->second.of_other_type) return;
    place->second = std::move(choice);
    if (has_few_rows(problem)) few_rows_[without_rows(problem)].insert(problem.m);
}

const TunedChoice* TuningDb::find(const Problem& problem) const {
    if (choices_.empty()) return nullptr;  // and no time for the description
    const auto found = choices_.find(describe(problem));
    return found == choices_.end() ? find_more_rows(problem) : &found->second;
}

const TunedChoice* TuningDb::find_more_rows(Problem problem) const {
    if (!has_few_rows(problem)) return nullptr;
    const auto measured = few_rows_.find(without_rows(problem));
    if (measured == few_rows_.end()) return nullptr;
    const auto more = measured->second.upper_bound(problem.m);
    if (more == measured->second.end() || *more >= 2 * problem.m) return nullptr;
    problem.m = *more;
    const auto found = choices_.find(describe(problem));
    return found == choices_.end() ? nullptr : &found->second;
}

void warn_stale(const TunedChoice& choice, const Problem& problem) {
    log::warn_once(fmt::format("tuning {} {}", choice.file, choice.row),
                   fmt::format("row {} of the tuning database {} is ignored, since {} is no longer there for {}: {}",
                               choice.row, choice.file, choice.config.name(), describe(problem), kRemedy));
}

}  // namespace carat
