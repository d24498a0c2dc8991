// SPDX-License-Identifier: Apache-2.0
// calibrate.hpp: the cost models against measurements: how far predicted times are off, how often the best predicted kernel is the
// best, and which parameters bring the models nearest. Pure and deterministic: predictions depend on nothing but the target.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/registry.hpp"
#include "dispatch/tuning_file.hpp"

namespace carat {

// What a kernel was measured to take of a problem.
struct Sample {
    Problem problem;
    const Row* row = nullptr;
    Config config;
    double us = 0;
};

struct Samples {
    std::vector<Sample> samples;
    std::vector<std::string> skipped;  // "sample 3: ..."
};
// "carat.calibration_samples/1" of the target's device. Samples whose kernel is not there for their problem are skipped.
Result<Samples> read_samples(std::string_view text, const Target& target, Validate validate);

struct PredictionError {
    size_t samples = 0, problems = 0;  // problems with two samples or more, between which there is a choice
    double median = 0, worst = 0;      // the larger over the smaller of predicted and measured time, less 1
    std::string worst_sample;
    double within_5_percent = 0;  // share of problems whose best predicted sample takes at most 1.05 times the best one
};
PredictionError prediction_error(std::span<const Sample> samples, const Target& target);

// The parameters near the target's that predict the samples best, after at most so many evaluations of all of them.
CostParameters fit_cost(std::span<const Sample> samples, Target target, int evaluations = 2000);

}  // namespace carat
