// SPDX-License-Identifier: Apache-2.0
#include "cuda/nvml.hpp"

#include "core/library.hpp"

namespace carat::cuda {
namespace {

using NvmlDevice = struct NvmlDeviceOpaque*;

// nvmlClockType_t, nvmlTemperatureSensors_t.
constexpr int kClockSm = 1, kClockMemory = 2, kSensorGpu = 0;

struct Nvml {
    SharedLibrary library;
    bool ready = false;
    int (*driver_version)(char*, unsigned) = nullptr;
    int (*by_bus_id)(const char*, NvmlDevice*) = nullptr;
    int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
    int (*max_clock)(NvmlDevice, int, unsigned*) = nullptr;
    int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
    int (*power)(NvmlDevice, unsigned*) = nullptr;
    int (*power_limit)(NvmlDevice, unsigned*) = nullptr;
    int (*throttle)(NvmlDevice, unsigned long long*) = nullptr;

    template <class Function>
    void find(Function*& function, const char* symbol) {
        function = reinterpret_cast<Function*>(library.symbol(symbol));
    }

    Nvml() {
        auto opened = SharedLibrary::open_first({"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"});
        if (!opened.ok()) return;
        library = std::move(*opened);
        int (*init)() = nullptr;
        find(init, "nvmlInit_v2");
        ready = init != nullptr && init() == 0;
        find(driver_version, "nvmlSystemGetDriverVersion");
        find(by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
        find(clock, "nvmlDeviceGetClockInfo");
        find(max_clock, "nvmlDeviceGetMaxClockInfo");
        find(temperature, "nvmlDeviceGetTemperature");
        find(power, "nvmlDeviceGetPowerUsage");
        find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
        find(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    }
};

const Nvml& nvml() {
    static const Nvml* table = new Nvml();  // never destroyed, as the driver's table
    return *table;
}

int read_unsigned(int (*function)(NvmlDevice, int, unsigned*), NvmlDevice device, int which) {
    unsigned value = 0;
    return function != nullptr && function(device, which, &value) == 0 ? int(value) : -1;
}

double read_watts(int (*function)(NvmlDevice, unsigned*), NvmlDevice device) {
    unsigned milliwatts = 0;
    return function != nullptr && function(device, &milliwatts) == 0 ? milliwatts / 1e3 : -1;
}

}  // namespace

DeviceState read_device_state(const std::string& pci_bus_id) {
    DeviceState state;
    const Nvml& table = nvml();
    if (!table.ready) return state;
    char version[96] = {};
    if (table.driver_version != nullptr && table.driver_version(version, sizeof version) == 0) state.driver = version;
    NvmlDevice device = nullptr;
    if (table.by_bus_id == nullptr || table.by_bus_id(pci_bus_id.c_str(), &device) != 0) return state;
    state.sm_clock_mhz = read_unsigned(table.clock, device, kClockSm);
    state.memory_clock_mhz = read_unsigned(table.clock, device, kClockMemory);
    state.max_sm_clock_mhz = read_unsigned(table.max_clock, device, kClockSm);
    state.temperature_c = read_unsigned(table.temperature, device, kSensorGpu);
    state.power_w = read_watts(table.power, device);
    state.power_limit_w = read_watts(table.power_limit, device);
    unsigned long long reasons = 0;
    if (table.throttle != nullptr && table.throttle(device, &reasons) == 0)
        state.throttle_reasons = (long long)(reasons);
    return state;
}

}  // namespace carat::cuda
