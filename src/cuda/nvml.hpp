// SPDX-License-Identifier: Apache-2.0
// nvml.hpp: clocks, power and temperature of a GPU, read through libnvidia-ml.so.1 where it is there.
#pragma once

#include <string>

#include "cuda/device.hpp"

namespace carat::cuda {

// Fields that cannot be read stay at -1.
DeviceState read_device_state(const std::string& pci_bus_id);

}  // namespace carat::cuda
