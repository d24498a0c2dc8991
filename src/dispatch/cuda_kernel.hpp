// SPDX-License-Identifier: Apache-2.0
// cuda_kernel.hpp: what every CUDA row shares: the epilogue as compile-time constants, a problem as kernel parameters,
// and the executable that compiles, loads and launches a kernel.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuda/device.hpp"
#include "dispatch/registry.hpp"
#include "jit/codegen.hpp"
#include "shared/gemm_params.h"

namespace carat {

// Config's members for the epilogue (kernels/epilogue/ops.cuh), with kRowMajorD.
std::vector<jit::Constant> epilogue_constants(const Problem& problem);

// The refusals that hold for every CUDA row.
void require_cuda(const Problem& problem, const Target& target, Requirements& requirements);

// The operands that a kernel copies in bulk, as dispatch/bulk_map.hpp describes them; the others are left to the threads.
// Encoded when the plan is made; an execution fills in the addresses.
struct BulkMaps {
    std::optional<cuda::TensorMapDesc> a, b, c, d;
    std::optional<cuda::TensorMapDesc> a_last, b_last;  // of the rows in which A and B end within a box, if they do
};

// COMPILE_FAILED where the compiler spilled registers or serialised instructions: such a kernel is several times slower
// than predicted, so that another configuration is to be taken.
Status refuse_if_slow(const std::string& kernel, const KernelFacts& facts);

// What a kernel keeps in the caller's workspace between its blocks (SplitParams): words that are 0 when it starts, and sums.
struct WorkspaceUse {
    size_t zeroed_words = 0, sums_bytes = 0;
    size_t bytes() const;  // of a workspace at any address; 0: none is needed
};

struct CudaKernel {
    std::string include;                    // "ladder/v0_naive.cuh"
    std::string function;                   // "carat_kernel::v0_naive"
    std::string parameters = "GemmParams";  // or "BulkGemmParams"
    std::vector<jit::Constant> constants;
    cuda::LaunchShape shape;
    std::optional<BulkMaps> bulk;
    carat_shared::TileWalk walk = {};
    int once_a = 0, once_b = 0, early_bytes = 0;  // as in BulkGemmParams
    bool must_not_spill = false;                  // nor be serialised: see refuse_if_slow()
    WorkspaceUse workspace;
    std::vector<CudaKernel> then;  // launched after it, with the same parameters
    std::optional<Config> config;  // where it differs from the configuration that the kernel is a way to run
};

// Compiles (or finds) the kernels and loads them where there is a device; without one the executable has facts only.
// Several kernels are ways to run one configuration, best first: the first whose bulk copies can take the addresses of
// the operands is launched, so the last must have no `bulk`. The facts are those of the first.
Result<std::unique_ptr<Executable>> prepare_cuda(const Problem& problem, const Config& config,
                                                 std::span<const CudaKernel> kernels, Runtime& runtime);

}  // namespace carat
