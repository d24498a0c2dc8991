// SPDX-License-Identifier: Apache-2.0
#include "dispatch/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "core/json_member.hpp"
#include "core/problem_json.hpp"
#include "dispatch/select.hpp"
#include "limits/calibration.hpp"

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

Result<Sample> parse_sample(const Json& json, const Target& target, Validate validate) {
    const Json &problem = member(json, "problem"), &kernel = member(json, "kernel"), &us = member(json, "us");
    if (!problem.is_object() || !kernel.is_string() || !us.is_number() || !(us > 0))
        return fail(CARAT_INVALID_VALUE, "it needs a \"problem\", the name of a \"kernel\", and \"us\" above 0");
    Sample sample;
    CARAT_ASSIGN(const carat_problem parsed, parse_problem(problem));
    CARAT_ASSIGN(sample.problem, validate(&parsed));
    const std::string name = kernel.get<std::string>();
    CARAT_TRY(Config::parse(name).status());
    CARAT_ASSIGN(Candidate candidate, select(sample.problem, target, name));
    sample.row = candidate.row, sample.config = std::move(candidate.config), sample.us = us.get<double>();
    return sample;
}

double distance(const Sample& sample, const Target& target) {
    return std::fabs(std::log(sample.row->predict(sample.problem, sample.config, target).us / sample.us));
}

// What a fit makes small. The median itself has steps, and few samples move it; a mean in which none counts more than a
// factor of two is as deaf to outliers, and each parameter that matters to some samples moves it.
double loss(std::span<const Sample> samples, const Target& target) {
    double sum = 0;
    for (const Sample& sample : samples) sum += std::min(distance(sample, target), std::log(2.0));
    return sum / double(samples.size());
}

double median_of(std::vector<double> values) {
    const auto middle = values.begin() + ptrdiff_t(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// More digits would say more than a measurement knows, and be harder to read.
double four_digits(double value) {
    return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
}

// Of one problem: the best measured time, and that of the sample which is predicted to be the best.
struct Choice {
    size_t samples = 0;
    double best_us = INFINITY, predicted_us = INFINITY, chosen_us = 0;

    void see(double measured, double predicted) {
        ++samples;
        best_us = std::min(best_us, measured);
        if (predicted < predicted_us) predicted_us = predicted, chosen_us = measured;
    }
};

// Each parameter in turn by a factor up or down, by smaller ones once none of them helps.
class Descent {
  public:
    Descent(std::span<const Sample> samples, Target target, int evaluations)
        : samples_(samples), target_(std::move(target)), left_(evaluations), best_(evaluate()) {}

    CostParameters run() {
        constexpr double kFirst = 1.3, kLast = 1.004;
        for (double factor = kFirst; factor > kLast && left_ > 0;)
            if (!pass(factor)) factor = std::sqrt(factor);
        return target_.cost;
    }

  private:
    bool pass(double factor) {
        bool better = false;
        for (const CostParameter& parameter : cost_parameters()) {
            const bool up = follow(parameter, factor);
            better |= up || follow(parameter, 1 / factor);
        }
        return better;
    }

    // As long as it helps.
    bool follow(const CostParameter& parameter, double factor) {
        double& value = target_.cost.*parameter.value;
        bool better = false;
        while (left_ > 0) {
            const double before = value;
            value = four_digits(std::clamp(before * factor, parameter.least, parameter.most));
            const double after = value == before ? best_ : evaluate();
            // Less is noise, and a parameter that the samples say nothing of stays where it is.
            constexpr double kLeast = 1e-4;
            if (!(after < best_ * (1 - kLeast))) {
                value = before;
                break;
            }
            best_ = after, better = true;
        }
        return better;
    }

    double evaluate() {
        --left_;
        return loss(samples_, target_);
    }

    std::span<const Sample> samples_;
    Target target_;
    int left_;
    double best_;
};

}  // namespace

Result<Samples> read_samples(std::string_view text, const Target& target, Validate validate) {
    const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    const Json& list = member(json, "samples");
    if (member(json, "schema") != "carat.calibration_samples/1" || !list.is_array())
        return fail(CARAT_INVALID_VALUE,
                    "the samples are no \"carat.calibration_samples/1\" with an array \"samples\": write them with "
                    "`carat calibrate --save-samples`");
    const Json here = calibrated_device(target), &there = member(json, "device");
    for (const char* key : {"target", "units"})
        if (member(there, key) != here[key])
            return fail(CARAT_INVALID_VALUE, "the samples are of {}, but the context is for {}: measure them there",
                        there.dump(-1, ' ', true, Json::error_handler_t::replace), here.dump());
    Samples result;
    for (size_t i = 0; i < list.size(); ++i) {
        auto sample = parse_sample(list[i], target, validate);
        if (sample.ok())
            result.samples.push_back(std::move(sample).value());
        else
            result.skipped.push_back(fmt::format("sample {}: {}", i + 1, sample.status().sentence()));
    }
    if (result.samples.empty())
        return fail(CARAT_INVALID_VALUE, "there is no sample that can be used{}: measure again with `carat calibrate`",
                    result.skipped.empty() ? "" : " (" + result.skipped.front() + ")");
    return result;
}

PredictionError prediction_error(std::span<const Sample> samples, const Target& target) {
    PredictionError error;
    if (samples.empty()) return error;
    std::vector<double> distances;
    std::map<std::string, Choice> choices;
    for (const Sample& sample : samples) {
        const double predicted = sample.row->predict(sample.problem, sample.config, target).us;
        choices[describe(sample.problem)].see(sample.us, predicted);
        distances.push_back(std::expm1(std::fabs(std::log(predicted / sample.us))));
        if (error.samples++ > 0 && distances.back() <= error.worst) continue;
        error.worst = distances.back();
        error.worst_sample = fmt::format("{} by {}: predicted {:.4g} us, measured {:.4g}", describe(sample.problem),
                                         sample.config.name(), predicted, sample.us);
    }
    error.median = median_of(std::move(distances));
    size_t close = 0;
    for (const auto& [problem, choice] : choices) {
        if (choice.samples < 2) continue;
        ++error.problems;
        if (choice.chosen_us <= 1.05 * choice.best_us) ++close;
    }
    if (error.problems > 0) error.within_5_percent = double(close) / double(error.problems);
    return error;
}

CostParameters fit_cost(std::span<const Sample> samples, Target target, int evaluations) {
    if (samples.empty()) return target.cost;
    return Descent(samples, std::move(target), evaluations).run();
}

}  // namespace carat
