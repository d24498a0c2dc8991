// SPDX-License-Identifier: Apache-2.0
#include "calibrate_samples.hpp"

#include <cmath>

#include "problem_flags.hpp"

namespace carat::cli {
namespace {

constexpr size_t kLargestFile = size_t(256) << 20;

bool is_plain(const Json& result) {
    for (const char* key : {"groups", "recipe", "epilogue"})
        if (!member(result, key).is_null()) return false;
    return number_at(result, "batch", 1) == 1;
}

carat_problem problem_of(const Json& result) {
    Shape shape;
    shape.m = int64_t(number_at(result, "m", -1));
    shape.n = int64_t(number_at(result, "n", -1));
    shape.k = int64_t(number_at(result, "k", -1));
    shape.dtype = text_at(result, "dtype"), shape.layout = text_at(result, "layout");
    return make_problem(ProblemFlags(), shape);
}

// What was timed of one problem: by one kernel in a report of `carat bench`, by many in one of `carat tune`.
Json timed_kernels(const Json& result) {
    const Json& contenders = member(result, "contenders");
    return contenders.is_array() ? contenders : Json::array({result});
}

SampleFile samples_of_report(const Json& report, const std::string& path, const Context& context) {
    const Json device = calibrated_device(context);
    const std::string measured_on = text_at(member(report, "env"), "device"), here = text_at(device, "name");
    if (measured_on != here)
        fail(kInputOutput, "{} was measured on \"{}\", but the predictions are for \"{}\": choose it with --target",
             one_line(path), one_line(measured_on), here);
    SampleFile file;
    Json samples = Json::array();
    for (const Json& result : member(report, "results")) {
        const bool plain = is_plain(result);
        const Json problem = plain ? parse_json(carat::problem_json(problem_of(result)), "the problem") : Json();
        for (const Json& timed : timed_kernels(result)) {
            const bool counts = plain && number_at(timed, "us", NAN) > 0;
            if (!counts) {
                ++file.left_out;
                continue;
            }
            samples.push_back(
                {{"problem", problem}, {"kernel", text_at(timed, "kernel")}, {"us", member(timed, "us")}});
        }
    }
    const Json& env = member(report, "env");
    file.json = {{"schema", "carat.calibration_samples/1"},
                 {"device", device},
                 {"provenance",
                  {{"carat", member(env, "carat")}, {"driver", member(env, "driver")}, {"date", member(env, "date")}}},
                 {"samples", samples}};
    return file;
}

}  // namespace

Json calibrated_device(const Context& context) {
    return member(parse_json(context.calibration(), "the calibration's report"), "device");
}

SampleFile read_sample_file(const std::string& path, const Context& context) {
    Json json = Json::parse(read_text_file(path, kLargestFile), nullptr, /*allow_exceptions=*/false);
    const std::string schema = text_at(json, "schema");
    if (schema == "carat.bench/1" || schema == "carat.tune/1") return samples_of_report(json, path, context);
    if (schema == "carat.calibration_samples/1") return {.json = std::move(json)};
    fail(kInputOutput,
         "{} is neither a file of `carat calibrate --save-samples` nor a report of `carat bench` or `carat tune`",
         one_line(path));
}

std::string error_text(const Json& error) {
    std::string text = fmt::format("off by {:.1f} % in the median and by {:.0f} % at worst",
                                   100 * number_at(error, "median", NAN), 100 * number_at(error, "worst", NAN));
    if (member(error, "within_5_percent").is_number())
        text += fmt::format("; the best predicted kernel is within 5 % of the best measured in {:.0f} % of {} problems",
                            100 * number_at(error, "within_5_percent", NAN), number_at(error, "problems", 0));
    return text;
}

}  // namespace carat::cli
