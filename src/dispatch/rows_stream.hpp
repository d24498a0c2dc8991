// SPDX-License-Identifier: Apache-2.0
// rows_stream.hpp: the kernel for at most 16 rows (or columns) of D, which reads the other operand once at the memory's
// speed (kernels/gemm_stream.cuh), as a row of the registry.
#pragma once

#include "dispatch/registry.hpp"

namespace carat {

extern const Row kRowStream;

}  // namespace carat
