// SPDX-License-Identifier: Apache-2.0
// calibrate_samples.hpp: measured times of kernels, "carat.calibration_samples/1", from which `carat calibrate` fits and against which it
// holds the predictions (docs/calibration.md).
#pragma once

#include "common.hpp"

namespace carat::cli {

// The GPU that a context is for, as samples and device files name it; fails on a CPU.
Json calibrated_device(const Context& context);

struct SampleFile {
    Json json;
    size_t left_out =
        0;  // times of problems that are more than sizes, type and layout, and kernels that were not timed
};
// A file of samples, or a report of `carat bench` or `carat tune` that was measured on the GPU which the context is for.
SampleFile read_sample_file(const std::string& path, const Context& context);

// "off by 4.2 % in the median and 31 % at worst; ...": of a "carat.prediction_error/1".
std::string error_text(const Json& error);

}  // namespace carat::cli
