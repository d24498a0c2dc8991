// SPDX-License-Identifier: Apache-2.0
#include "peers/process.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace carat::cli {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

bool make_current(int device, std::string* why_not) {
    const std::string forced = variable("CARAT_CUDA_PATH");
    const std::string path = forced.empty() ? "libcuda.so.1" : forced;
    void* driver = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!driver) return *why_not = path + " cannot be loaded", false;
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto get = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
    const auto retain = reinterpret_cast<int (*)(void**, int)>(dlsym(driver, "cuDevicePrimaryCtxRetain"));
    const auto set = reinterpret_cast<int (*)(void*)>(dlsym(driver, "cuCtxSetCurrent"));
    int handle = 0;
    void* context = nullptr;
    if (init && get && retain && set && init(0) == 0 && get(&handle, device) == 0 && retain(&context, handle) == 0 &&
        set(context) == 0)
        return true;
    return *why_not = fmt::format("the context of CUDA device {} cannot be made current", device), false;
}

}  // namespace carat::cli
