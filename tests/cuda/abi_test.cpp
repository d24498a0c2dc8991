// SPDX-License-Identifier: Apache-2.0
// Our own declarations of the driver's ABI against cuda.h, where a toolkit is installed: enumerators, struct layouts,
// and the parameter list of every function of driver.def.
#if __has_include(<cuda.h>)
#include <cuda.h>
#define CARAT_HAVE_CUDA_H
#elif __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#define CARAT_HAVE_CUDA_H
#endif

#include <gtest/gtest.h>

#include "cuda/driver.hpp"
#include "cuda/tensor_map.hpp"

namespace carat::test {
namespace {

#ifdef CARAT_HAVE_CUDA_H
using namespace cuda;

static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig) && sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(LaunchAttribute, value.programmatic) ==
              offsetof(CUlaunchAttribute, value.programmaticStreamSerializationAllowed));
static_assert(sizeof(LaunchAttribute::value.programmatic) ==
              sizeof(CUlaunchAttribute::value.programmaticStreamSerializationAllowed));
static_assert(offsetof(LaunchAttribute, value.cluster) == offsetof(CUlaunchAttribute, value.clusterDim));
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
static_assert(sizeof(CuPointer) == sizeof(CUdeviceptr) && sizeof(CuDevice) == sizeof(CUdevice));
static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kDeviceSms == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kDeviceL2Bytes == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(kDeviceCcMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kDeviceCcMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kDeviceSharedOptin == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(kKernelMaxThreads == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(kKernelStaticShared == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(kKernelDynamicSharedLimit == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(kLaunchCluster == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(kLaunchProgrammatic == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(int(Swizzle::bytes_128) == CU_TENSOR_MAP_SWIZZLE_128B &&
              int(Swizzle::bytes_32) == CU_TENSOR_MAP_SWIZZLE_32B);

// Parameter by parameter: pointers and handles are interchangeable, numbers must have the same size.
template <class A, class B>
constexpr bool same_abi() {
    return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
}
template <class Ours, class Theirs>
struct SameAbi : std::false_type {};
template <class R, class S, class... A, class... B>
struct SameAbi<R(A...), S(B...)> {
    static constexpr bool matches() {
        if constexpr (sizeof...(A) == sizeof...(B)) return (same_abi<A, B>() && ...);
        return false;
    }
    static constexpr bool value = matches();
};

// clang-format off
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::library_load)>, decltype(cuLibraryLoadData)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::library_unload)>, decltype(cuLibraryUnload)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::library_kernel)>, decltype(cuLibraryGetKernel)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::kernel_function)>, decltype(cuKernelGetFunction)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::kernel_attribute)>, decltype(cuKernelGetAttribute)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::kernel_set_attribute)>, decltype(cuKernelSetAttribute)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::function_load)>, decltype(cuFuncLoad)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::launch)>, decltype(cuLaunchKernelEx)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::tensor_map_tiled)>, decltype(cuTensorMapEncodeTiled)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::tensor_map_address)>, decltype(cuTensorMapReplaceAddress)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::device_attribute)>, decltype(cuDeviceGetAttribute)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::device_total_memory)>, decltype(cuDeviceTotalMem)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::device_pci_bus_id)>, decltype(cuDeviceGetPCIBusId)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::primary_retain)>, decltype(cuDevicePrimaryCtxRetain)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::context_push)>, decltype(cuCtxPushCurrent)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::context_pop)>, decltype(cuCtxPopCurrent)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::context_device)>, decltype(cuCtxGetDevice)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::memory_info)>, decltype(cuMemGetInfo)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::memory_alloc)>, decltype(cuMemAlloc)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::memory_free)>, decltype(cuMemFree)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::memory_copy)>, decltype(cuMemcpy)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::memory_fill)>, decltype(cuMemsetD8)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::memory_fill_words)>, decltype(cuMemsetD32Async)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::stream_create)>, decltype(cuStreamCreate)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::capture_begin)>, decltype(cuStreamBeginCapture)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::capture_end)>, decltype(cuStreamEndCapture)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::capture_status)>, decltype(cuStreamIsCapturing)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::capture_mode)>, decltype(cuThreadExchangeStreamCaptureMode)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::graph_instantiate)>, decltype(cuGraphInstantiate)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::graph_launch)>, decltype(cuGraphLaunch)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::event_create)>, decltype(cuEventCreate)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::event_record)>, decltype(cuEventRecord)>::value);
static_assert(SameAbi<std::remove_pointer_t<decltype(Driver::event_elapsed)>, decltype(cuEventElapsedTime)>::value);
// clang-format on

TEST(DriverAbi, AgreesWithCudaHeader) {
    EXPECT_GE(CUDA_VERSION, Driver::kOldest) << "the asserts above are the test";
}
#else
TEST(DriverAbi, AgreesWithCudaHeader) {
    GTEST_SKIP() << "no cuda.h is installed";
}
#endif

}  // namespace
}  // namespace carat::test
