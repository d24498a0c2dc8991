// SPDX-License-Identifier: Apache-2.0
#include "dispatch/device_file.hpp"

#include "core/env.hpp"
#include "core/log.hpp"
#include "core/text_file.hpp"

namespace carat {
namespace {

constexpr size_t kLargestFile = size_t(1) << 20;

void warn_of_skipped(const DeviceCalibration& calibration) {
    if (calibration.skipped.empty()) return;
    const std::string more =
        calibration.skipped.size() > 1 ? fmt::format(" (and {} more)", calibration.skipped.size() - 1) : "";
    log::warn_once("device file " + calibration.file + calibration.skipped.front(),
                   fmt::format("the device file {} is used without {}{}: measure again with `carat calibrate`, or take "
                               "it away; CARAT_DEVICE_FILE=off ignores it",
                               calibration.file, calibration.skipped.front(), more));
}

}  // namespace

DeviceCalibration apply_device_file(Target& target) {
    DeviceCalibration result = {.shipped = target.cost};
    const auto asked = env::get("CARAT_DEVICE_FILE");
    if (target.backend != CARAT_BACKEND_CUDA || asked == "off") return result;
    result.enabled = true;
    result.file = asked ? *asked : env::data_file(fmt::format("device-{}.json", target.name));
    if (result.file.empty()) return result;
    const auto text = read_text_file(result.file, kLargestFile, "device file");
    if (text.ok()) {
        Calibration read = read_calibration(*text, target);
        target.cost = read.cost, result.used = read.used, result.skipped = std::move(read.skipped);
    } else if (asked || text.status().code() == CARAT_IO_ERROR) {
        result.skipped.push_back("all of it: " + text.status().sentence());
    }
    warn_of_skipped(result);
    return result;
}

}  // namespace carat
