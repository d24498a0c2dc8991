// SPDX-License-Identifier: Apache-2.0
// rows_cpu.hpp: the CPU rows of the registry: the fast backend once for each instruction set, then the reference.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

extern const Row kRowCpuAvx512Bf16, kRowCpuAvx512, kRowCpuAvx2, kRowCpuPortable, kRowCpuReference;

}  // namespace carat
