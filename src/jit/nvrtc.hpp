// SPDX-License-Identifier: Apache-2.0
// nvrtc.hpp: NVRTC reached by dlopen: where it is looked for, what it is, and one compilation. No CUDA header, no GPU.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/library.hpp"
#include "jit/includes.hpp"
#include "jit/jit.hpp"
#include "jit/key.hpp"

namespace carat::jit {

struct Nvrtc {
    SharedLibrary library, builtins;
    NvrtcInfo info;
    Compiler compiler;
#define NVRTC(result, name, parameters) result(*name) parameters = nullptr;
#include "jit/nvrtc.def"
#undef NVRTC
};

// What dlopen is asked for, in this order; within each place .13 comes before .12, and .13 is left out where the
// installed driver is older than CUDA 13 (such a driver cannot load its cubins):
//   1. CARAT_NVRTC_PATH, and then nothing else
//   2. a copy that the process has loaded already (torch, cupy)
//   3. beside the library that holds this code: its directory; there and up to three directories above, nvidia/cu13/lib
//   and
//      nvidia/cuda_nvrtc/lib (we lie in site-packages too) and the same in .venv/lib/python3*/site-packages
//   4. the active virtual environment: $VIRTUAL_ENV/lib/python3*/site-packages/nvidia/{cu13,cuda_nvrtc}/lib
//   5. the loader's own search (libnvrtc.so.13)
//   6. $CUDA_HOME/lib64, $CUDA_PATH/lib64, /usr/local/cuda/lib64
std::vector<std::string> nvrtc_candidates();

// A new look at the candidates: the first that opens, is at least 12.3 and has every function.
Result<std::unique_ptr<Nvrtc>> open_nvrtc();
// The process's NVRTC: opened at the first success and kept; a failure is tried again the next time.
Result<const Nvrtc*> nvrtc();

// 13000 for a driver of CUDA 13.0; 0 where there is none.
int driver_version();

// Sorted and without duplicates: the standard options that this version knows, and the request's own.
std::vector<std::string> compile_options(const Compiler& compiler, const Request& request);

// cubin, log, and the facts that ptxas reports (threads and dynamic shared memory are the caller's to fill in).
Result<Artifact> compile(const Nvrtc& nvrtc, const Request& request, std::span<const Include> includes,
                         const std::vector<std::string>& options);

// What `ptxas -v` says in a log; registers stay 0 if it says nothing. spill_bytes is stores plus loads, over all
// functions. warnings: its "Potential Performance Loss" lines.
KernelFacts parse_facts(std::string_view log);

}  // namespace carat::jit
