// SPDX-License-Identifier: Apache-2.0
// device.hpp: one GPU through the driver API, reached by dlopen. A device works in the context that was current when it
// was opened, if that belongs to the GPU (and then must not outlive it), else in the retained primary context. A call
// from a thread whose current context belongs to the GPU uses that one; any other call pushes the device's and pops it
// again. Nothing here is global but the driver's function table.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "cuda/tensor_map.hpp"
#include "limits/target.hpp"

namespace carat::cuda {

struct Driver;

struct DriverInfo {
    std::string path;
    int version = 0;  // 13000: CUDA 13.0
    int devices = 0;
};
// Opens libcuda once a process; the failure says where it was looked for.
Result<DriverInfo> driver_info();

// What doctor and bench report of a device (NVML by dlopen; fields that cannot be read stay at -1).
struct DeviceState {
    int sm_clock_mhz = -1, memory_clock_mhz = -1, max_sm_clock_mhz = -1;
    int temperature_c = -1;
    double power_w = -1, power_limit_w = -1;
    long long throttle_reasons = -1;
    std::string driver;  // "580.159.04"
};

class Module;

class Device {
  public:
    // ordinal -1: the device of the calling thread's current context, else 0.
    static Result<std::shared_ptr<Device>> open(int ordinal);
    // The same through a given driver, which must outlive the device.
    static Result<std::shared_ptr<Device>> open(const Driver& driver, int ordinal);
    ~Device();

    int ordinal() const;
    const Target& target() const;
    DeviceState state() const;
    Result<size_t> free_bytes() const;

    Result<void*> alloc(size_t bytes) const;
    void free(void* memory) const;
    Status copy(void* destination, const void* source, size_t bytes) const;  // any direction, done on return
    Status fill(void* memory, int byte, size_t bytes) const;                 // done on return
    // Enqueues `words` copies of a 32-bit word; can be captured in a graph.
    Status fill_async(void* memory, unsigned word, size_t words, void* stream) const;

    // What bulk copies of this device are described by; encoded once, and moved to an address at each launch.
    Result<TensorMap> tensor_map(const TensorMapDesc& desc) const;

    // The kernel of a cubin, loaded once for all who ask. It stays loaded as long as the device is open, since launches on
    // their way and captured graphs may need it when the plan is gone; it takes some 20 to 100 KB.
    Result<std::shared_ptr<const Module>> module(const std::vector<std::byte>& cubin, unsigned dynamic_shared_bytes,
                                                 const std::string& name) const;

    // Streams do not wait for the legacy stream (CU_STREAM_NON_BLOCKING), so that one can be captured while another
    // thread copies.
    Result<void*> stream_create() const;
    void stream_destroy(void* stream) const;
    Status stream_synchronize(void* stream) const;

    // A captured graph, ready to launch.
    class Graph {
      public:
        virtual ~Graph() = default;
        virtual Result<double> launch(void* stream) const = 0;  // device time in us
    };
    Status graph_begin(void* stream) const;
    // Whether a stream is being captured now; NULL, the legacy stream, cannot be.
    Result<bool> is_capturing(void* stream) const;
    Result<std::unique_ptr<Graph>> graph_end(void* stream) const;

  private:
    Device();
    friend class Module;
    friend class RelaxedCapture;
    // Shared with modules and graphs, which keep the context alive.
    std::shared_ptr<struct DeviceCore> core_;
    std::unique_ptr<struct LoadedModules> modules_;
};

// For its scope the calling thread may load code and allocate although a stream is being captured, by this thread or by another
// one in global mode: without it the driver refuses and the capture is lost. A device of null: nothing.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const Device* device);
    ~RelaxedCapture();
    RelaxedCapture(const RelaxedCapture&) = delete;

  private:
    const Driver* driver_ = nullptr;
    int before_ = 0;
};

struct LaunchShape {
    unsigned grid_x = 1, grid_y = 1, grid_z = 1;
    unsigned threads = 1;
    unsigned cluster_x = 1, cluster_y = 1;
    unsigned dynamic_shared_bytes = 0;
    bool programmatic = false;  // programmatic dependent launch
};

// A map among the parameters of a launch: an encoded one, moved to an operand's address.
struct PlacedMap {
    const TensorMap* encoded;
    const void* address;
    void* parameter;  // 128 bytes
};

// One loaded kernel (cuLibraryLoadData, entry jit::kEntry). Attributes are set per device at load, not at launch.
class Module {
  public:
    // A copy of one's own: Device::module() shares.
    static Result<std::unique_ptr<Module>> load(const Device& device, const std::vector<std::byte>& cubin,
                                                unsigned dynamic_shared_bytes, const std::string& name);
    ~Module();
    // How many clusters of this shape the device runs at once: fewer than its SMs would hold, as a cluster lies within one
    // GPC. 0: not known.
    int active_clusters(const LaunchShape& shape) const;
    // `parameters`: one struct passed by value to the kernel, in which `maps` are placed first. Asynchronous.
    Status launch(const LaunchShape& shape, const void* parameters, size_t parameter_bytes, void* stream,
                  std::span<const PlacedMap> maps = {}) const;

  private:
    Module() = default;
    friend class Device;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace carat::cuda
