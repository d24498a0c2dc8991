// SPDX-License-Identifier: Apache-2.0
// codegen.hpp: the translation unit of one kernel: a named Config struct, the #include of the kernel's file and the
// entry point. Text only: what it means is decided by the kernel's file, which reads Config's members by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dispatch/config.hpp"

namespace carat::jit {

using Constant = std::pair<std::string, std::string>;

// Members of the generated `struct Config`, in this order:
//   kTypeA, kTypeB, kTypeD (values of carat_dtype), kRowMajorA, kRowMajorB (from the layout),
//   kBM, kBN, kBK, kTM, kTN, kStages, kClusterM, kClusterN, kSplitK: those that the configuration uses (not 0), so that
//   a kernel that reads one it was not given does not compile;
//   then `constants`, as given: {"kHasC", "true"} is a bool, {"kThreads", "256"} an int, any other value of a name that
//   starts with k is `constexpr auto`; {"Accumulator", "float"} (a capital) is a type alias.
// `constants` must hold kThreads (the launch bound) and may hold kMinBlocks (its second argument).
// include: "ladder/v1_shared.cuh", a name of jit::sources(). kernel_function: a __device__ function template,
// qualified, called as kernel_function<Config>(params). parameters: the struct of shared/gemm_params.h that it takes.
std::string generate_main(const Config& config, std::span<const Constant> constants, std::string include,
                          std::string kernel_function, std::string parameters = "GemmParams");

}  // namespace carat::jit
