// SPDX-License-Identifier: Apache-2.0
// A CUDA driver made of host memory, loaded by the tests as libcuda would be: two devices, contexts, streams, graphs
// that replay, captures that unsafe calls destroy, kernels that are recorded. FAKE_CUDA_* variables make it old, incomplete or empty. Every call that needs
// a current context fails with CUDA_ERROR_INVALID_CONTEXT without one, as the real one does.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/fake_driver.hpp"

using carat::test::FakeRecord;

namespace {

constexpr int kInvalidValue = 1, kInvalidContext = 201, kNoBinary = 209, kCaptureUnsupported = 900,
              kCaptureInvalidated = 901;
constexpr int kGlobal = 0, kRelaxed = 2;  // CUstreamCaptureMode; 1 is thread-local

struct Context {
    int device;
};

FakeRecord g_record;
Context g_primary[2] = {{0}, {1}};
thread_local std::vector<void*> t_stack;
std::mutex g_mutex;
std::set<void*> g_memory;

int env_number(const char* name, int fallback) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : fallback;
}

bool no_context() {
    return t_stack.empty() || t_stack.back() == nullptr;
}

struct Library {
    int max_dynamic[2] = {};
};

struct Capture {
    int mode;
    std::thread::id thread;
    bool lost = false;
};
std::map<void*, Capture> g_captures;
thread_local int t_mode = kGlobal;

// Of a call that may not be made while a stream is captured: whether it is refused, which costs the captures that forbid it.
bool forbidden() {
    const std::lock_guard lock(g_mutex);
    bool refused = false;
    for (auto& [stream, capture] : g_captures) {
        const bool mine = capture.thread == std::this_thread::get_id();
        if (t_mode == kRelaxed || (mine && capture.mode == kRelaxed)) continue;
        if (!mine && (capture.mode != kGlobal || t_mode != kGlobal)) continue;
        if (!capture.lost) ++g_record.captures_lost;
        capture.lost = refused = true;
    }
    return refused;
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))
#define NEEDS_CONTEXT \
    if (no_context()) return kInvalidContext
#define UNSAFE_IN_CAPTURE \
    if (forbidden()) return kCaptureUnsupported

FAKE FakeRecord* carat_fake_record() {
    return &g_record;
}
// A context that is not a primary one, as an application may create.
FAKE void* carat_fake_context(int device) {
    return new Context{device};
}

FAKE int cuDriverGetVersion(int* version) {
    *version = env_number("FAKE_CUDA_VERSION", 13000);
    return 0;
}
FAKE int cuInit(unsigned) {
    return env_number("FAKE_CUDA_INIT", 0);
}
FAKE int cuGetErrorName(int error, const char** text) {
    *text = error == 100 ? "CUDA_ERROR_NO_DEVICE" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE";
    return 0;
}
FAKE int cuGetErrorString(int error, const char** text) {
    *text = error == 100 ? "no CUDA-capable device is detected" : "a fake error";
    return 0;
}
FAKE int cuDeviceGetCount(int* count) {
    *count = env_number("FAKE_CUDA_DEVICES", 2);
    return 0;
}
FAKE int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return 0;
}
FAKE int cuDeviceGetName(char* name, int length, int) {
    std::strncpy(name, "NVIDIA H200", size_t(length));
    return 0;
}
FAKE int cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = size_t(141) << 30;
    return 0;
}
FAKE int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 16:
            *value = 132;
            return 0;
        case 38:
            *value = 60 << 20;
            return 0;
        case 75:
            *value = env_number("FAKE_CUDA_CC", 90) / 10;
            return 0;
        case 76:
            *value = env_number("FAKE_CUDA_CC", 90) % 10;
            return 0;
        case 97:
            *value = 232448;
            return 0;
        default:
            return kInvalidValue;
    }
}
FAKE int cuDeviceGetPCIBusId(char* id, int length, int) {
    std::strncpy(id, "00000000:00:00.0", size_t(length));
    return 0;
}
FAKE int cuDevicePrimaryCtxRetain(void** context, int device) {
    ++g_record.retained;
    *context = &g_primary[device];
    return 0;
}
FAKE int cuDevicePrimaryCtxRelease_v2(int) {
    ++g_record.released;
    return 0;
}
FAKE int cuCtxGetCurrent(void** context) {
    *context = t_stack.empty() ? nullptr : t_stack.back();
    return 0;
}
FAKE int cuCtxSetCurrent(void* context) {
    if (t_stack.empty()) t_stack.push_back(nullptr);
    t_stack.back() = context;
    return 0;
}
FAKE int cuCtxPushCurrent_v2(void* context) {
    ++g_record.pushed;
    t_stack.push_back(context);
    return 0;
}
FAKE int cuCtxPopCurrent_v2(void** context) {
    if (t_stack.empty()) return kInvalidContext;
    *context = t_stack.back();
    t_stack.pop_back();
    return 0;
}
FAKE int cuCtxGetDevice(int* device) {
    NEEDS_CONTEXT;
    *device = static_cast<Context*>(t_stack.back())->device;
    return 0;
}
FAKE int cuMemGetInfo_v2(size_t* available, size_t* total) {
    NEEDS_CONTEXT;
    *available = *total = size_t(1) << 30;
    return 0;
}
FAKE int cuMemAlloc_v2(unsigned long long* memory, size_t bytes) {
    NEEDS_CONTEXT;
    UNSAFE_IN_CAPTURE;
    ++g_record.allocations;
    if (bytes > size_t(1) << 30) return 2;
    void* p = std::malloc(bytes);
    const std::lock_guard lock(g_mutex);
    g_memory.insert(p);
    *memory = reinterpret_cast<uintptr_t>(p);
    return 0;
}
FAKE int cuMemFree_v2(unsigned long long memory) {
    NEEDS_CONTEXT;
    void* p = reinterpret_cast<void*>(uintptr_t(memory));
    const std::lock_guard lock(g_mutex);
    if (g_memory.erase(p) == 0) return kInvalidValue;
    std::free(p);
    return 0;
}
FAKE int cuMemcpy(unsigned long long destination, unsigned long long source, size_t bytes) {
    NEEDS_CONTEXT;
    UNSAFE_IN_CAPTURE;
    ++g_record.waits;
    std::memcpy(reinterpret_cast<void*>(uintptr_t(destination)), reinterpret_cast<void*>(uintptr_t(source)), bytes);
    return 0;
}
FAKE int cuMemsetD8_v2(unsigned long long memory, unsigned char byte, size_t bytes) {
    NEEDS_CONTEXT;
    UNSAFE_IN_CAPTURE;
    ++g_record.waits;
    std::memset(reinterpret_cast<void*>(uintptr_t(memory)), byte, bytes);
    return 0;
}
FAKE int cuMemsetD32Async(unsigned long long memory, unsigned word, size_t words, void*) {
    NEEDS_CONTEXT;
    for (size_t i = 0; i < words; ++i) reinterpret_cast<unsigned*>(uintptr_t(memory))[i] = word;
    return 0;
}
FAKE int cuStreamCreate(void** stream, unsigned flags) {
    NEEDS_CONTEXT;
    if (flags != 1) return kInvalidValue;
    *stream = std::malloc(1);
    return 0;
}
FAKE int cuStreamDestroy_v2(void* stream) {
    NEEDS_CONTEXT;
    std::free(stream);
    return 0;
}
FAKE int cuStreamSynchronize(void*) {
    ++g_record.waits;
    UNSAFE_IN_CAPTURE;
    return no_context() ? kInvalidContext : env_number("FAKE_CUDA_SYNC", 0);
}
FAKE int cuStreamBeginCapture_v2(void* stream, int mode) {
    NEEDS_CONTEXT;
    if (mode < kGlobal || mode > kRelaxed || stream == nullptr) return kInvalidValue;
    const std::lock_guard lock(g_mutex);
    g_captures[stream] = {mode, std::this_thread::get_id()};
    return 0;
}
FAKE int cuStreamEndCapture(void* stream, void** graph) {
    NEEDS_CONTEXT;
    const std::lock_guard lock(g_mutex);
    const auto found = g_captures.find(stream);
    if (found == g_captures.end()) return kInvalidValue;
    const bool lost = found->second.lost;
    g_captures.erase(found);
    *graph = lost ? nullptr : &g_record;
    return lost ? kCaptureInvalidated : 0;
}
FAKE int cuStreamIsCapturing(void* stream, int* status) {
    NEEDS_CONTEXT;
    const std::lock_guard lock(g_mutex);
    const auto found = g_captures.find(stream);
    *status = found == g_captures.end() ? 0 : found->second.lost ? 2 : 1;
    return 0;
}
FAKE int cuThreadExchangeStreamCaptureMode(int* mode) {
    if (*mode < kGlobal || *mode > kRelaxed) return kInvalidValue;
    std::swap(t_mode, *mode);
    return 0;
}
FAKE int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
    NEEDS_CONTEXT;
    *exec = graph;
    return 0;
}
FAKE int cuGraphLaunch(void*, void*) {
    NEEDS_CONTEXT;
    ++g_record.graph_launches;
    return 0;
}
FAKE int cuGraphExecDestroy(void*) {
    return ++g_record.graphs_destroyed, 0;
}
FAKE int cuGraphDestroy(void*) {
    return 0;
}
FAKE int cuEventCreate(void** event, unsigned) {
    NEEDS_CONTEXT;
    *event = std::malloc(1);
    return 0;
}
FAKE int cuEventRecord(void*, void*) {
    return no_context() ? kInvalidContext : 0;
}
FAKE int cuEventSynchronize(void*) {
    ++g_record.waits;
    return 0;
}
FAKE int cuEventElapsedTime(float* milliseconds, void*, void*) {
    *milliseconds = 0.25f;
    return 0;
}
FAKE int cuEventDestroy_v2(void* event) {
    std::free(event);
    return 0;
}
FAKE int cuLibraryLoadData(void** library, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
    UNSAFE_IN_CAPTURE;
    // FAKE_CUDA_ANY_CODE takes real cubins too; nothing of them runs, so their results are wrong.
    if (env_number("FAKE_CUDA_ANY_CODE", 0) == 0 && std::memcmp(code, "cubin", 5) != 0) return kNoBinary;
    *library = new Library();
    ++g_record.loaded;
    return 0;
}
FAKE int cuLibraryUnload(void* library) {
    ++g_record.unloaded;
    delete static_cast<Library*>(library);
    return 0;
}
FAKE int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
    *kernel = library;
    return std::strcmp(name, "carat_kernel") == 0 ? 0 : 500;
}
FAKE int cuKernelGetFunction(void** function, void* kernel) {
    NEEDS_CONTEXT;
    *function = kernel;
    return 0;
}
FAKE int cuKernelGetAttribute(int* value, int attribute, void*, int) {
    *value = attribute == 1 ? 64 : 0;
    return 0;
}
FAKE int cuKernelSetAttribute(int attribute, int value, void* kernel, int device) {
    if (attribute != 8) return kInvalidValue;
    static_cast<Library*>(kernel)->max_dynamic[device] = value;
    return 0;
}
FAKE int cuLaunchKernelEx(const carat::test::FakeLaunchConfig* config, void* kernel, void** parameters, void**) {
    NEEDS_CONTEXT;
    const int device = static_cast<Context*>(t_stack.back())->device;
    if (int(config->shared) > static_cast<Library*>(kernel)->max_dynamic[device]) return kInvalidValue;
    const std::lock_guard lock(g_mutex);
    ++g_record.launches;
    g_record.last = *config;
    g_record.last_device = device;
    std::memcpy(g_record.attributes, config->attributes, config->attribute_count * sizeof g_record.attributes[0]);
    std::memcpy(&g_record.first_parameter, parameters[0], sizeof g_record.first_parameter);
    if (g_record.on_launch != nullptr) g_record.on_launch(parameters[0]);
    return env_number("FAKE_CUDA_LAUNCH", 0);
}
#ifndef FAKE_WITHOUT_TENSOR_MAPS
// The address is the first word.
FAKE int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const uint64_t* dims,
                                const uint64_t* strides, const uint32_t* box, const uint32_t*, int, int swizzle, int,
                                int) {
    const uint64_t words[] = {reinterpret_cast<uintptr_t>(address),
                              uint64_t(type),
                              rank,
                              dims[0],
                              rank > 1 ? strides[0] : 0,
                              box[0],
                              uint64_t(swizzle)};
    std::memcpy(map, words, sizeof words);
    const std::lock_guard lock(g_mutex);
    ++g_record.maps_encoded;
    return 0;
}
FAKE int cuTensorMapReplaceAddress(void* map, void* address) {
    std::memcpy(map, &address, sizeof address);
    const std::lock_guard lock(g_mutex);
    ++g_record.maps_moved;
    return 0;
}
#endif
