// SPDX-License-Identifier: Apache-2.0
// handles.hpp: what the opaque handles of carat.h are.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/plan_cache.hpp"
#include "api/trace.hpp"
#include "core/problem.hpp"
#include "cuda/device.hpp"
#include "dispatch/device_file.hpp"
#include "dispatch/runtime.hpp"
#include "dispatch/select.hpp"
#include "jit/jit.hpp"

namespace carat::api {

// What a plan runs. Immutable once made: the context and all plans of one problem share it, executions too, without a lock.
struct Planned {
    carat::Problem problem;
    carat::Candidate chosen;
    const carat::Target* target = nullptr;          // the context's, which outlives its plans
    std::string kernel;                             // chosen.config.name()
    std::unique_ptr<carat::Executable> executable;  // null for an empty problem: there is nothing to run
    size_t workspace_bytes = 0;
    std::vector<std::string> refused;             // why better predicted kernels are not it: the compiler's refusals
    std::atomic<uint64_t>* executions = nullptr;  // counted in the context's trace, if there is one
};

}  // namespace carat::api

struct carat_plan_s {
    std::shared_ptr<const carat::api::Planned> planned;
    bool kept;  // it was made before, by another call
};

struct carat_context_s {
    carat::Runtime runtime;
    carat_backend backend = CARAT_BACKEND_CPU;

    carat::api::PlanCache plans;

    carat::DeviceCalibration calibration;  // what the user's device file has put into runtime.target

    // What was measured before this process; read when a plan first asks.
    carat::TuningPlaces tuning_places;
    const carat::TuningDb& tuning();

    std::unique_ptr<carat::api::Trace> trace;  // null: nothing is recorded

    // The limits of a CPU are measured when first asked for (0.2 s), not when a context is made.
    const carat::Target& target();

  private:
    std::once_flag measured_, tuning_read_;
    carat::TuningDb tuning_;
};

struct carat_text_s {
    std::string text;
};

struct carat_graph_s {
    std::unique_ptr<carat::cuda::Device::Graph> graph;
};

namespace carat::api {

// Hands a string to the caller of the C ABI.
Status give_text(std::string text, carat_text_t* out);
// A JSON value, in lines or (-1) in one. Names of files and kernels need not be UTF-8: what is not is replaced.
Status give_json(const nlohmann::ordered_json& json, carat_text_t* out, int indent = 2);

// The caller's options, with the defaults of fields that an older version did not have. null: the defaults.
Result<carat_plan_options> read_options(const carat_plan_options* options);

}  // namespace carat::api
