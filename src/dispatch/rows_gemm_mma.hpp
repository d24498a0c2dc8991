// SPDX-License-Identifier: Apache-2.0
// rows_gemm_mma.hpp: the kernel of 16-bit operands on mma.sync (kernels/gemm_mma.cuh) as a row of the registry.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

extern const Row kRowMma;

}  // namespace carat
