// SPDX-License-Identifier: Apache-2.0
// driver.hpp: the CUDA driver API, reached by dlopen so that one binary runs with and without a GPU. Own prototypes, no
// cuda.h: a driver's ABI is fixed by the symbol's version suffix (tests/cuda/abi_test.cpp compares with cuda.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/library.hpp"
#include "core/status.hpp"

namespace carat::cuda {

using CuResult = int;
using CuDevice = int;
using CuPointer = unsigned long long;
using CuContext = struct CuContextOpaque*;
using CuStream = void*;
using CuEvent = struct CuEventOpaque*;
using CuGraph = struct CuGraphOpaque*;
using CuGraphExec = struct CuGraphExecOpaque*;
using CuLibrary = struct CuLibraryOpaque*;
using CuKernel = struct CuKernelOpaque*;
using CuFunction = struct CuFunctionOpaque*;

// CUresult values that get a word of their own.
inline constexpr CuResult kOutOfMemory = 2, kStubLibrary = 34, kNoDevice = 100;

// CUdevice_attribute, CUfunction_attribute, CUlaunchAttributeID and flags, as far as used.
inline constexpr int kDeviceSms = 16, kDeviceL2Bytes = 38, kDeviceCcMajor = 75, kDeviceCcMinor = 76,
                     kDeviceSharedOptin = 97;
inline constexpr int kKernelMaxThreads = 0, kKernelStaticShared = 1, kKernelDynamicSharedLimit = 8;
inline constexpr unsigned kLaunchCluster = 4, kLaunchProgrammatic = 6;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kCaptureThreadLocal = 1, kCaptureRelaxed = 2;

struct LaunchAttribute {  // CUlaunchAttribute
    unsigned id;
    unsigned padding;
    union alignas(8) {
        unsigned char bytes[64];
        unsigned cluster[3];
        int programmatic;
    } value;
};

struct LaunchConfig {  // CUlaunchConfig
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic_shared_bytes;
    CuStream stream;
    LaunchAttribute* attributes;
    unsigned attribute_count;
};

// The function table of one driver library. Immutable once open.
struct Driver {
    // Oldest driver we take: cuLibrary* and tensor maps came with it.
    static constexpr int kOldest = 12000;

#define CARAT_CUDA_SYMBOL(member, symbol, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
#define CARAT_CUDA_OPTIONAL(member, symbol, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
#include "cuda/driver.def"
#undef CARAT_CUDA_SYMBOL
#undef CARAT_CUDA_OPTIONAL

    SharedLibrary library;
    int version = 0;  // 13000: CUDA 13.0
    int devices = 0;
    int pid = 0;    // of the process that called cuInit; a fork of it cannot use the driver
    int forks = 0;  // between the first process with a driver and this one

    // Opens the first candidate (as SharedLibrary::open_first) that is no stub, resolves every symbol, calls cuInit.
    static Result<std::unique_ptr<Driver>> open(const std::vector<std::string>& candidates);

    // SUCCESS, or a sentence: the call, the error's name and meaning, and what to do.
    Status check(CuResult result, std::string_view call) const {
        return result == 0 ? Status() : failure(result, call);
    }
    Status failure(CuResult result, std::string_view call) const;
    // Fails in a process forked after cuInit.
    Status usable() const;

  private:
    Status resolve();
};

// Where the process's driver is looked for, in order.
std::vector<std::string> driver_candidates();
// The process's driver, opened at the first call (a failure is kept, too: it does not heal while the process lives).
Result<const Driver*> driver();

}  // namespace carat::cuda
