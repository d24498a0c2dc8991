// SPDX-License-Identifier: Apache-2.0
// cuda_kernel.hpp: what every CUDA row shares: the epilogue as compile-time constants, a problem as kernel parameters,
// and the executable that compiles, loads and launches one kernel.
#pragma once

#include <memory>
#include <vector>

#include "cuda/device.hpp"
#include "dispatch/registry.hpp"
#include "jit/codegen.hpp"
#include "shared/gemm_params.h"

namespace carat {

// Config's members for the f32 epilogue (kernels/epilogue/ops.cuh), with kRowMajorD.
std::vector<jit::Constant> epilogue_constants(const Problem& problem);

// The refusals that hold for every CUDA row.
void require_cuda(const Problem& problem, const Target& target, Requirements& requirements);

struct CudaKernel {
    std::string include;   // "ladder/v0_naive.cuh"
    std::string function;  // "carat_kernel::v0_naive"
    std::vector<jit::Constant> constants;
    cuda::LaunchShape shape;
};

// Compiles (or finds) the kernel and loads it where there is a device; without one the executable has facts only.
Result<std::unique_ptr<Executable>> prepare_cuda(const Problem& problem, const Config& config, const CudaKernel& kernel,
                                                 Runtime& runtime);

}  // namespace carat
