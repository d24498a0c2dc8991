// SPDX-License-Identifier: Apache-2.0
// calibration.hpp: device files, "carat.calibration/1": the cost parameters of one GPU, one a line (docs/calibration.md). Those that
// are shipped are made from data/devices/. Reading never fails as a whole: what is not right is left out, with a sentence.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "limits/target.hpp"

namespace carat {

// A device file that lies inside the library.
struct DeviceFile {
    const char* name;  // "h200.json"
    const char* text;
};
const std::vector<DeviceFile>& shipped_device_files();
// Its text; "" if there is none of the name.
std::string_view shipped_device_file(std::string_view name);

// The GPU that a file is of: its numbers say nothing of another.
nlohmann::ordered_json calibrated_device(const Target& target);

struct Calibration {
    CostParameters cost;
    size_t used = 0;                   // parameters that the file gave
    std::vector<std::string> skipped;  // "parameter 3: sm90_ws.boost is 20: ..."
};
// The target's parameters with those of a file over them.
Calibration read_calibration(std::string_view text, const Target& target);

// A device file without its provenance.
nlohmann::ordered_json calibration_json(const Target& target, const CostParameters& cost);

}  // namespace carat
