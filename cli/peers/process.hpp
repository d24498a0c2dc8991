// SPDX-License-Identifier: Apache-2.0
// process.hpp: what peers take from the process around them: variables of the environment, and the device's CUDA context.
#pragma once

#include <string>

namespace carat::cli {

// The value of a variable, empty where it is not set.
std::string variable(const char* name);
// Makes the device's primary context current, as a program of the CUDA runtime would have it: cuBLASLt and CUTLASS take no
// device. The context lives until the process ends.
bool make_current(int device, std::string* why_not);

}  // namespace carat::cli
