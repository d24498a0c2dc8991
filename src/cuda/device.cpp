// SPDX-License-Identifier: Apache-2.0
#include "cuda/device.hpp"

#include <mutex>

#include "cuda/device_core.hpp"
#include "cuda/loaded_modules.hpp"
#include "cuda/nvml.hpp"

namespace carat::cuda {
namespace {

CuPointer address(const void* memory) {
    return CuPointer(reinterpret_cast<uintptr_t>(memory));
}

// The calling thread's context and its device; {null, -1} where there is none.
struct Current {
    CuContext context = nullptr;
    CuDevice device = -1;
};

Result<Current> current_context(const Driver& driver) {
    Current current;
    CARAT_TRY(driver.check(driver.context_current(&current.context), "cuCtxGetCurrent"));
    if (current.context != nullptr) CARAT_TRY(driver.check(driver.context_device(&current.device), "cuCtxGetDevice"));
    return current;
}

// The ordinal asked for; for -1 that of the current context's device, else 0.
Result<int> resolve_ordinal(const Driver& driver, int ordinal, const Current& current) {
    if (ordinal < -1 || ordinal >= driver.devices)
        return fail(CARAT_INVALID_VALUE,
                    "device {} was asked for, but the ordinals are 0 to {}: pick one of these, or -1", ordinal,
                    driver.devices - 1);
    if (ordinal >= 0) return ordinal;
    for (int i = 0; i < driver.devices && current.context != nullptr; ++i) {
        CuDevice candidate = -1;
        CARAT_TRY(driver.check(driver.device_get(&candidate, i), "cuDeviceGet"));
        if (candidate == current.device) return i;
    }
    return 0;
}

Result<int> attribute(const DeviceCore& core, int which) {
    int value = 0;
    CARAT_TRY(core.driver->check(core.driver->device_attribute(&value, which, core.device), "cuDeviceGetAttribute"));
    return value;
}

// 7.5 is the oldest capability that NVRTC 13 compiles for.
Status check_capability(const std::string& name, int major, int minor) {
    if (major * 10 + minor >= 75) return {};
    return fail(
        CARAT_NOT_INITIALIZED,
        "{} has compute capability {}.{}, but 7.5 (Turing) or newer is needed: use another GPU or the CPU backend",
        name, major, minor);
}

Status read_facts(DeviceCore& core) {
    const Driver& driver = *core.driver;
    char text[256] = {};
    CARAT_TRY(driver.check(driver.device_name(text, int(sizeof text) - 1, core.device), "cuDeviceGetName"));
    const std::string name = text;
    size_t memory = 0;
    CARAT_TRY(driver.check(driver.device_total_memory(&memory, core.device), "cuDeviceTotalMem"));
    CARAT_ASSIGN(const int major, attribute(core, kDeviceCcMajor));
    CARAT_ASSIGN(const int minor, attribute(core, kDeviceCcMinor));
    CARAT_ASSIGN(const int sms, attribute(core, kDeviceSms));
    CARAT_ASSIGN(const int l2, attribute(core, kDeviceL2Bytes));
    CARAT_ASSIGN(const int shared, attribute(core, kDeviceSharedOptin));
    CARAT_TRY(check_capability(name, major, minor));
    char bus[64] = {};
    CARAT_TRY(driver.check(driver.device_pci_bus_id(bus, int(sizeof bus) - 1, core.device), "cuDeviceGetPCIBusId"));
    core.pci_bus_id = bus;
    core.target = match_gpu(name, major, minor, sms, l2, int64_t(memory), shared);
    return {};
}

class LaunchableGraph final : public Device::Graph {
  public:
    explicit LaunchableGraph(std::shared_ptr<DeviceCore> core) : core_(std::move(core)) {}
    ~LaunchableGraph() override {
        const ContextScope scope(*core_);
        if (!scope.status().ok()) return;
        if (start_) core_->driver->event_destroy(start_);
        if (end_) core_->driver->event_destroy(end_);
        if (exec_) core_->driver->graph_exec_destroy(exec_);
    }

    Status instantiate(CuGraph graph) {
        const Driver& driver = *core_->driver;
        CARAT_TRY(driver.check(driver.graph_instantiate(&exec_, graph, 0), "cuGraphInstantiate"));
        CARAT_TRY(driver.check(driver.event_create(&start_, 0), "cuEventCreate"));
        return driver.check(driver.event_create(&end_, 0), "cuEventCreate");
    }

    Result<double> launch(void* stream) const override {
        // An executable graph and its events serve one launch at a time.
        const std::lock_guard lock(mutex_);
        const ContextScope scope(*core_);
        CARAT_TRY(scope.status());
        const Driver& driver = *core_->driver;
        CARAT_TRY(driver.check(driver.event_record(start_, stream), "cuEventRecord"));
        CARAT_TRY(driver.check(driver.graph_launch(exec_, stream), "cuGraphLaunch"));
        CARAT_TRY(driver.check(driver.event_record(end_, stream), "cuEventRecord"));
        CARAT_TRY(driver.check(driver.event_synchronize(end_), "cuEventSynchronize"));
        float milliseconds = 0;
        CARAT_TRY(driver.check(driver.event_elapsed(&milliseconds, start_, end_), "cuEventElapsedTime"));
        return double(milliseconds) * 1e3;
    }

  private:
    std::shared_ptr<DeviceCore> core_;
    mutable std::mutex mutex_;
    CuGraphExec exec_ = nullptr;
    CuEvent start_ = nullptr, end_ = nullptr;
};

}  // namespace

DeviceCore::~DeviceCore() {
    if (retained && driver->usable().ok()) driver->primary_release(device);
}

ContextScope::ContextScope(const DeviceCore& core) : driver_(*core.driver) {
    status_ = driver_.usable();
    if (!status_.ok()) return;
    CuContext context = nullptr;
    CuDevice device = -1;
    // A current context that was destroyed has no device: then ours is pushed, too.
    if (driver_.context_current(&context) == 0 && context != nullptr && driver_.context_device(&device) == 0 &&
        device == core.device)
        return;
    status_ = driver_.check(driver_.context_push(core.context), "cuCtxPushCurrent");
    pushed_ = status_.ok();
}

ContextScope::~ContextScope() {
    CuContext popped = nullptr;
    if (pushed_) driver_.context_pop(&popped);
}

Result<std::shared_ptr<Device>> Device::open(int ordinal) {
    CARAT_ASSIGN(const Driver* opened, driver());
    return open(*opened, ordinal);
}

Result<std::shared_ptr<Device>> Device::open(const Driver& driver, int ordinal) {
    CARAT_TRY(driver.usable());
    CARAT_ASSIGN(const Current current, current_context(driver));
    auto core = std::make_shared<DeviceCore>();
    core->driver = &driver;
    CARAT_ASSIGN(core->ordinal, resolve_ordinal(driver, ordinal, current));
    CARAT_TRY(driver.check(driver.device_get(&core->device, core->ordinal), "cuDeviceGet"));
    CARAT_TRY(read_facts(*core));
    if (current.context != nullptr && current.device == core->device) {
        core->context = current.context;
    } else {
        CARAT_TRY(driver.check(driver.primary_retain(&core->context, core->device), "cuDevicePrimaryCtxRetain"));
        core->retained = true;
    }
    std::shared_ptr<Device> device(new Device());
    device->core_ = std::move(core);
    return device;
}

Device::Device() : modules_(std::make_unique<LoadedModules>()) {}
Device::~Device() = default;

int Device::ordinal() const {
    return core_->ordinal;
}

const Target& Device::target() const {
    return core_->target;
}

DeviceState Device::state() const {
    return read_device_state(core_->pci_bus_id);
}

Result<size_t> Device::free_bytes() const {
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    size_t available = 0, total = 0;
    CARAT_TRY(core_->driver->check(core_->driver->memory_info(&available, &total), "cuMemGetInfo"));
    return available;
}

Result<void*> Device::alloc(size_t bytes) const {
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    CuPointer memory = 0;
    if (bytes != 0)
        CARAT_TRY(core_->driver->check(core_->driver->memory_alloc(&memory, bytes),
                                       fmt::format("cuMemAlloc of {} bytes on device {}", bytes, core_->ordinal)));
    return reinterpret_cast<void*>(uintptr_t(memory));
}

void Device::free(void* memory) const {
    const ContextScope scope(*core_);
    if (memory != nullptr && scope.status().ok()) core_->driver->memory_free(address(memory));
}

Status Device::copy(void* destination, const void* source, size_t bytes) const {
    if (bytes == 0) return {};
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    const Driver& driver = *core_->driver;
    CARAT_TRY(driver.check(driver.memory_copy(address(destination), address(source), bytes), "cuMemcpy"));
    // Device to device returns at once, and so may a copy from pageable memory: the stream says when it is done.
    return driver.check(driver.stream_synchronize(nullptr), "cuStreamSynchronize after cuMemcpy");
}

Status Device::fill(void* memory, int byte, size_t bytes) const {
    if (bytes == 0) return {};
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    const Driver& driver = *core_->driver;
    CARAT_TRY(driver.check(driver.memory_fill(address(memory), (unsigned char)(byte), bytes), "cuMemsetD8"));
    return driver.check(driver.stream_synchronize(nullptr), "cuStreamSynchronize after cuMemsetD8");
}

Status Device::fill_async(void* memory, unsigned word, size_t words, void* stream) const {
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    return core_->driver->check(core_->driver->memory_fill_words(address(memory), word, words, stream),
                                "cuMemsetD32Async");
}

Result<TensorMap> Device::tensor_map(const TensorMapDesc& desc) const {
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    return encode_tensor_map(*core_->driver, desc);
}

Result<void*> Device::stream_create() const {
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    void* stream = nullptr;
    CARAT_TRY(core_->driver->check(core_->driver->stream_create(&stream, kStreamNonBlocking), "cuStreamCreate"));
    return stream;
}

void Device::stream_destroy(void* stream) const {
    const ContextScope scope(*core_);
    if (stream != nullptr && scope.status().ok()) core_->driver->stream_destroy(stream);
}

Status Device::stream_synchronize(void* stream) const {
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    return core_->driver->check(core_->driver->stream_synchronize(stream), "cuStreamSynchronize");
}

Status Device::graph_begin(void* stream) const {
    if (stream == nullptr)
        return fail(CARAT_INVALID_VALUE,
                    "the legacy stream (NULL) cannot be captured: create a stream and capture that one");
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    return core_->driver->check(core_->driver->capture_begin(stream, kCaptureThreadLocal), "cuStreamBeginCapture");
}

Result<bool> Device::is_capturing(void* stream) const {
    if (stream == nullptr) return false;
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    int status = 0;
    CARAT_TRY(core_->driver->check(core_->driver->capture_status(stream, &status), "cuStreamIsCapturing"));
    return status != 0;
}

RelaxedCapture::RelaxedCapture(const Device* device) {
    if (device == nullptr || !device->core_->driver->usable().ok()) return;
    before_ = kCaptureRelaxed;
    if (device->core_->driver->capture_mode(&before_) == 0) driver_ = device->core_->driver;
}

RelaxedCapture::~RelaxedCapture() {
    if (driver_ != nullptr) driver_->capture_mode(&before_);
}

Result<std::unique_ptr<Device::Graph>> Device::graph_end(void* stream) const {
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    const Driver& driver = *core_->driver;
    CuGraph graph = nullptr;
    CARAT_TRY(driver.check(driver.capture_end(stream, &graph), "cuStreamEndCapture"));
    auto launchable = std::make_unique<LaunchableGraph>(core_);
    const Status status = launchable->instantiate(graph);
    driver.graph_destroy(graph);
    CARAT_TRY(status);
    return std::unique_ptr<Graph>(std::move(launchable));
}

}  // namespace carat::cuda
