// SPDX-License-Identifier: Apache-2.0
// dependent_launch.cuh: kernels of the emulation run one after the other: there is nothing to wait for.
#pragma once

namespace carat_kernel {

inline void wait_for_kernels_before() {}
inline void let_next_kernel_start() {}

}  // namespace carat_kernel
