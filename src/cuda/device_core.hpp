// SPDX-License-Identifier: Apache-2.0
// device_core.hpp: what devices, modules and graphs share: the driver, the GPU and the context they work in.
#pragma once

#include <string>

#include "cuda/driver.hpp"
#include "limits/target.hpp"

namespace carat::cuda {

struct DeviceCore {
    const Driver* driver = nullptr;
    CuDevice device = 0;
    int ordinal = 0;
    CuContext context = nullptr;
    bool retained = false;  // the primary context, ours to release
    std::string pci_bus_id;
    Target target;

    ~DeviceCore();
};

// Makes a context of the device current for its scope and restores the caller's. Costs two driver look-ups and no
// switch where the caller's context is of this device already.
class ContextScope {
  public:
    explicit ContextScope(const DeviceCore& core);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;
    const Status& status() const { return status_; }

  private:
    const Driver& driver_;
    Status status_;
    bool pushed_ = false;
};

}  // namespace carat::cuda
