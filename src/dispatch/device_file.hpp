// SPDX-License-Identifier: Apache-2.0
// device_file.hpp: what `carat calibrate` measured of this machine's GPU, over what is shipped for it. A bad or stale file never fails a
// context: what is wrong with it is left out, with one warning, and the shipped values hold.
#pragma once

#include <string>
#include <vector>

#include "limits/calibration.hpp"

namespace carat {

struct DeviceCalibration {
    bool enabled = false;  // a GPU, and CARAT_DEVICE_FILE is not "off"
    std::string file;      // the user's; "" if there is no place for one
    size_t used = 0;       // parameters that come from it
    std::vector<std::string> skipped;
    CostParameters shipped;
};
// Puts the values of CARAT_DEVICE_FILE, else of $XDG_DATA_HOME/carat/device-GPU.json, into the target of a GPU.
DeviceCalibration apply_device_file(Target& target);

}  // namespace carat
