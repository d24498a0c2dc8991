// SPDX-License-Identifier: Apache-2.0
// loaded_modules.hpp: the modules of a device by what is in them, so that plans share one. Other threads wait while one is
// loaded, as they would within the driver, which loads one at a time.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda/device.hpp"
#include "jit/hash.hpp"

namespace carat::cuda {

struct LoadedModules {
    // A cubin and the dynamic shared memory that it is launched with at most.
    using Key = std::pair<jit::Digest, unsigned>;
    std::mutex mutex;
    std::map<Key, std::shared_ptr<const Module>> all;
};

}  // namespace carat::cuda
