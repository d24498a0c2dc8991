// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "core/env.hpp"
#include "cuda/device.hpp"

namespace carat::cuda {
namespace {

struct Advice {
    CuResult first, last;  // inclusive range of CUresult
    carat_status status;
    const char* what_to_do;
};

// Looked through in order; the last row takes every code.
constexpr Advice kAdvice[] = {
    {1, 1, CARAT_EXECUTION_FAILED, "check that every pointer is memory of this device and every handle is alive"},
    {2, 2, CARAT_ALLOC_FAILED, "free device memory, or make the problem smaller"},
    {3, 4, CARAT_NOT_INITIALIZED, "do not call the library after the driver was shut down at the end of the process"},
    {34, 34, CARAT_NOT_INITIALIZED,
     "it is the toolkit's stub library: take its directory out of LD_LIBRARY_PATH and CARAT_CUDA_PATH, and install the "
     "NVIDIA driver"},
    {46, 46, CARAT_NOT_INITIALIZED, "another process may hold the GPU in exclusive mode: see nvidia-smi"},
    {100, 100, CARAT_NOT_INITIALIZED,
     "no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use the CPU backend (CARAT_BACKEND=cpu)"},
    {101, 101, CARAT_NOT_INITIALIZED, "pick an ordinal that `carat doctor` lists"},
    {200, 200, CARAT_EXECUTION_FAILED, "the kernel's image is damaged: compile it afresh with CARAT_JIT=force"},
    {201, 201, CARAT_EXECUTION_FAILED, "a CUDA context that the library was created with must outlive it"},
    {209, 209, CARAT_EXECUTION_FAILED, "the kernel was built for another GPU: compile it afresh with CARAT_JIT=force"},
    {218, 222, CARAT_EXECUTION_FAILED, "the kernel does not fit this driver: update the driver or use an older NVRTC"},
    {400, 400, CARAT_EXECUTION_FAILED, "check that the stream is alive and belongs to this device"},
    {700, 700, CARAT_EXECUTION_FAILED,
     "a kernel touched memory that is not its own and the context is lost: check pointers, leading dimensions and "
     "strides, then restart the process"},
    {701, 701, CARAT_EXECUTION_FAILED, "the kernel asks for more threads, registers or shared memory than there are"},
    {702, 720, CARAT_EXECUTION_FAILED,
     "an earlier kernel failed and the context is lost: restart the process, and look with compute-sanitizer"},
    {802, 802, CARAT_NOT_INITIALIZED, "the fabric manager is not up yet: start nvidia-fabricmanager"},
    {803, 804, CARAT_NOT_INITIALIZED,
     "the driver library and the kernel module do not match: reboot, or take a cuda-compat directory out of "
     "LD_LIBRARY_PATH"},
    {900, 908, CARAT_EXECUTION_FAILED,
     "this call is not allowed while a stream is being captured: capture a stream of its own, not the legacy one"},
    {-0x7fffffff, 0x7fffffff, CARAT_EXECUTION_FAILED, "look into the kernel log (dmesg, NVRM lines) for its cause"},
};

bool is_stub(const std::string& path) {
    return path.find("/stubs/") != std::string::npos;
}

constexpr const char* kGetDriver = "install the NVIDIA driver, or name its libcuda.so.1 in CARAT_CUDA_PATH";

// The first candidate that opens and is no stub: LD_LIBRARY_PATH may hold the toolkit's before the driver's.
Result<SharedLibrary> open_library(const std::vector<std::string>& candidates) {
    std::string tried;
    for (const std::string& candidate : candidates) {
        auto library = SharedLibrary::open_first({candidate});
        if (library.ok() && !is_stub(library->path())) return library;
        if (!library.ok() && candidate.starts_with("loaded:")) continue;
        tried += tried.empty() ? "" : "; ";
        tried += library.ok() ? fmt::format("'{}' is the CUDA toolkit's stub", library->path())
                              : library.status().sentence();
    }
    return fail(CARAT_NOT_INITIALIZED, "no CUDA driver was found ({}): {}", tried, kGetDriver);
}

// Forks that lead to this process, counted in the child. To ask for the process's number would be a system call at every
// launch.
std::atomic<int> g_forks{0};

Status count_forks() {
    static const int failed = pthread_atfork(nullptr, nullptr, [] { g_forks.fetch_add(1, std::memory_order_relaxed); });
    if (failed == 0) return {};
    return fail(CARAT_ALLOC_FAILED, "out of host memory (pthread_atfork gave {}): free some", failed);
}

}  // namespace

std::vector<std::string> driver_candidates() {
    // A library named by the user is the one meant: nothing else is tried.
    if (const auto path = env::get("CARAT_CUDA_PATH")) return {*path};
    return {"loaded:libcuda.so.1", "libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"};
}

Result<std::unique_ptr<Driver>> Driver::open(const std::vector<std::string>& candidates) {
    auto driver = std::make_unique<Driver>();
    CARAT_ASSIGN(driver->library, open_library(candidates));
    CARAT_TRY(driver->resolve());
    CARAT_TRY(driver->check(driver->init(0), "cuInit"));
    CARAT_TRY(count_forks());
    driver->pid = int(getpid());
    driver->forks = g_forks.load(std::memory_order_relaxed);
    CARAT_TRY(driver->check(driver->device_count(&driver->devices), "cuDeviceGetCount"));
    if (driver->devices == 0) return driver->failure(kNoDevice, "cuDeviceGetCount");
    return driver;
}

Status Driver::resolve() {
    using GetVersion = CuResult(int*);
    const auto get_version = reinterpret_cast<GetVersion*>(library.symbol("cuDriverGetVersion"));
    if (get_version == nullptr || get_version(&version) != 0)
        return fail(CARAT_NOT_INITIALIZED, "'{}' is no CUDA driver (it has no working cuDriverGetVersion): {}",
                    library.path(), kGetDriver);
    if (version < kOldest)
        return fail(CARAT_NOT_INITIALIZED,
                    "the driver '{}' is of CUDA {}.{}, but {}.{} or newer is needed: update the NVIDIA driver (525 or "
                    "newer)",
                    library.path(), version / 1000, version % 1000 / 10, kOldest / 1000, kOldest % 1000 / 10);
    std::string missing;
#define CARAT_CUDA_OPTIONAL(member, entry, ...) member = reinterpret_cast<decltype(member)>(library.symbol(entry));
#define CARAT_CUDA_SYMBOL(member, entry, ...)       \
    CARAT_CUDA_OPTIONAL(member, entry, __VA_ARGS__) \
    if (member == nullptr && missing.empty()) missing = entry;
#include "cuda/driver.def"
#undef CARAT_CUDA_SYMBOL
#undef CARAT_CUDA_OPTIONAL
    if (!missing.empty())
        return fail(CARAT_NOT_INITIALIZED,
                    "the driver '{}' (CUDA {}.{}) lacks the function {}: reinstall the NVIDIA driver", library.path(),
                    version / 1000, version % 1000 / 10, missing);
    return {};
}

Status Driver::failure(CuResult result, std::string_view call) const {
    const char* name = nullptr;
    const char* meaning = nullptr;
    if (error_name(result, &name) != 0 || name == nullptr) name = "an unknown error";
    if (error_string(result, &meaning) != 0 || meaning == nullptr) meaning = "no description";
    const Advice& advice = *std::find_if(std::begin(kAdvice), std::end(kAdvice),
                                         [&](const Advice& a) { return result >= a.first && result <= a.last; });
    return fail(advice.status, "{} failed with {} ({}: {}): {}", call, name, result, meaning, advice.what_to_do);
}

Status Driver::usable() const {
    if (g_forks.load(std::memory_order_relaxed) == forks) return {};
    return fail(CARAT_NOT_INITIALIZED,
                "process {} was forked from process {} after CUDA was initialised there, and CUDA does not survive a "
                "fork: start it with exec or spawn, or fork before the first CUDA call",
                getpid(), pid);
}

Result<const Driver*> driver() {
    // Never destroyed: objects of the caller that use it may die after our static ones.
    static const auto* opened = new Result<std::unique_ptr<Driver>>(Driver::open(driver_candidates()));
    if (!opened->ok()) return opened->status();
    return static_cast<const Driver*>(opened->value().get());
}

Result<DriverInfo> driver_info() {
    CARAT_ASSIGN(const Driver* d, driver());
    return DriverInfo{d->library.path(), d->version, d->devices};
}

}  // namespace carat::cuda
