// SPDX-License-Identifier: Apache-2.0
// Modules: one kernel each, loaded for every context of a device through the driver's library interface.
#include <cstring>

#include "cuda/device.hpp"
#include "cuda/device_core.hpp"
#include "cuda/loaded_modules.hpp"
#include "jit/jit.hpp"

namespace carat::cuda {

namespace {

// A shape as the driver takes it. Not copied: the configuration points to the attributes.
struct Launch {
    LaunchAttribute attributes[2] = {};
    LaunchConfig config;

    Launch(const LaunchShape& shape, void* stream) {
        unsigned count = 0;
        if (shape.cluster_x * shape.cluster_y > 1) {
            attributes[count].id = kLaunchCluster;
            attributes[count].value.cluster[0] = shape.cluster_x;
            attributes[count].value.cluster[1] = shape.cluster_y;
            attributes[count++].value.cluster[2] = 1;
        }
        if (shape.programmatic) {
            attributes[count].id = kLaunchProgrammatic;
            attributes[count++].value.programmatic = 1;
        }
        config = {shape.grid_x, shape.grid_y, shape.grid_z, shape.threads, 1, 1, shape.dynamic_shared_bytes,
                  stream,       attributes,   count};
    }
    Launch(const Launch&) = delete;
};

}  // namespace

struct Module::State {
    std::shared_ptr<DeviceCore> core;
    CuLibrary library = nullptr;
    CuKernel kernel = nullptr;
    unsigned dynamic_shared_limit = 0;
    std::string name;

    ~State() {
        if (library == nullptr) return;
        const ContextScope scope(*core);
        if (scope.status().ok()) core->driver->library_unload(library);
    }

    // Raises the kernel's dynamic shared memory limit on this device, or says why it does not fit.
    Status allow_shared(unsigned bytes) {
        const Driver& driver = *core->driver;
        int fixed = 0;
        CARAT_TRY(driver.check(driver.kernel_attribute(&fixed, kKernelStaticShared, kernel, core->device),
                               "cuKernelGetAttribute"));
        const int64_t needed = int64_t(fixed) + bytes;
        if (needed > core->target.shared_bytes_per_block)
            return fail(
                CARAT_NOT_SUPPORTED,
                "kernel {} needs {} bytes of shared memory a block, but {} has {}: choose a smaller tile or fewer "
                "stages",
                name, needed, core->target.full_name, core->target.shared_bytes_per_block);
        dynamic_shared_limit = bytes;
        if (bytes == 0) return {};
        return driver.check(driver.kernel_set_attribute(kKernelDynamicSharedLimit, int(bytes), kernel, core->device),
                            "cuKernelSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
    }

    // Loads the code into the current context now: a lazy first launch would load it, which a stream capture forbids.
    Status load_now() const {
        const Driver& driver = *core->driver;
        CuFunction function = nullptr;
        CARAT_TRY(driver.check(driver.kernel_function(&function, kernel), "cuKernelGetFunction"));
        if (driver.function_load == nullptr) return {};
        return driver.check(driver.function_load(function), "cuFuncLoad");
    }
};

Module::~Module() = default;

Result<std::unique_ptr<Module>> Module::load(const Device& device, const std::vector<std::byte>& cubin,
                                             unsigned dynamic_shared_bytes, const std::string& name) {
    std::unique_ptr<Module> module(new Module());
    module->state_ = std::make_unique<State>();
    State& state = *module->state_;
    state.core = device.core_;
    state.name = name;
    const ContextScope scope(*state.core);
    CARAT_TRY(scope.status());
    const Driver& driver = *state.core->driver;
    CARAT_TRY(driver.check(driver.library_load(&state.library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                           "cuLibraryLoadData of " + name));
    CARAT_TRY(driver.check(driver.library_kernel(&state.kernel, state.library, jit::kEntry),
                           "cuLibraryGetKernel of " + name));
    CARAT_TRY(state.allow_shared(dynamic_shared_bytes));
    CARAT_TRY(state.load_now());
    return module;
}

Result<std::shared_ptr<const Module>> Device::module(const std::vector<std::byte>& cubin, unsigned dynamic_shared_bytes,
                                                     const std::string& name) const {
    const LoadedModules::Key key = {jit::hash128(cubin), dynamic_shared_bytes};
    const ContextScope scope(*core_);
    CARAT_TRY(scope.status());
    const std::lock_guard lock(modules_->mutex);
    if (const auto found = modules_->all.find(key); found != modules_->all.end()) {
        CARAT_TRY(found->second->state_->load_now());  // the caller's context may be another one of this device
        return found->second;
    }
    CARAT_ASSIGN(std::shared_ptr<const Module> module, Module::load(*this, cubin, dynamic_shared_bytes, name));
    modules_->all.emplace(key, module);
    return module;
}

int Module::active_clusters(const LaunchShape& shape) const {
    const State& state = *state_;
    const ContextScope scope(*state.core);
    const Driver& driver = *state.core->driver;
    CuFunction function = nullptr;
    int clusters = 0;
    const Launch launch(shape, nullptr);
    if (!scope.status().ok() || driver.active_clusters == nullptr ||
        driver.kernel_function(&function, state.kernel) != 0 ||
        driver.active_clusters(&clusters, function, &launch.config) != 0)
        return 0;
    return clusters;
}

Status Module::launch(const LaunchShape& shape, const void* parameters, size_t parameter_bytes, void* stream,
                      std::span<const PlacedMap> maps) const {
    const State& state = *state_;
    const Driver& driver = *state.core->driver;
    const ContextScope scope(*state.core);
    CARAT_TRY(scope.status());
    if (parameter_bytes > 4096 || shape.dynamic_shared_bytes > state.dynamic_shared_limit)
        return fail(
            CARAT_INTERNAL_ERROR,
            "kernel {} was launched with {} bytes of parameters (at most 4096) and {} bytes of shared memory (at "
            "most {}): please report this",
            state.name, parameter_bytes, shape.dynamic_shared_bytes, state.dynamic_shared_limit);
    for (const PlacedMap& map : maps) {
        std::memcpy(map.parameter, map.encoded, sizeof *map.encoded);
        CARAT_TRY(driver.check(driver.tensor_map_address(map.parameter, const_cast<void*>(map.address)),
                               "cuTensorMapReplaceAddress"));
    }
    const Launch launch(shape, stream);
    void* arguments[] = {const_cast<void*>(parameters)};
    const CuResult result = driver.launch(&launch.config, state.kernel, arguments, nullptr);
    if (result == 0) [[likely]]
        return {};
    return driver.failure(result, "cuLaunchKernelEx of " + state.name);
}

}  // namespace carat::cuda
