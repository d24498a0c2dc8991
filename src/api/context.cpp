// SPDX-License-Identifier: Apache-2.0
// context.cpp: making a context: which backend, which device, which caches.
#include <charconv>

#include "api/error.hpp"
#include "api/handles.hpp"
#include "api/validate.hpp"
#include "core/env.hpp"
#include "core/log.hpp"
#include "cpu/fast.hpp"

using namespace carat;
using namespace carat::api;

namespace {

constexpr int kMostThreads = 4096;

carat_context_options default_options() {
    carat_context_options options = {};
    options.struct_size = sizeof options;
    options.device = -1;
    return options;
}

Result<carat_backend> wanted_backend(const carat_context_options& options) {
    if (options.backend != CARAT_BACKEND_AUTO) return options.backend;
    const std::string text = env::get("CARAT_BACKEND").value_or("auto");
    if (text == "auto") return CARAT_BACKEND_AUTO;
    if (text == "cpu") return CARAT_BACKEND_CPU;
    if (text == "cuda") return CARAT_BACKEND_CUDA;
    return fail(CARAT_INVALID_VALUE, "CARAT_BACKEND is '{}': use auto, cpu or cuda", text);
}

Result<int> wanted_threads(const carat_context_options& options) {
    if (options.threads < 0 || options.threads > kMostThreads)
        return fail(CARAT_INVALID_VALUE, "threads is {}: use 0 (all this process may use) to {}", options.threads,
                    kMostThreads);
    const auto text = env::get("CARAT_THREADS");
    if (options.threads > 0 || !text) return int(options.threads);
    int value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size() || value < 1 || value > kMostThreads)
        return fail(CARAT_INVALID_VALUE, "CARAT_THREADS is '{}': use a number from 1 to {}", *text, kMostThreads);
    return value;
}

Status open_planning_target(carat_context_s& context, const char* name) {
    CARAT_ASSIGN(context.runtime.target, find_gpu(name));
    context.backend = CARAT_BACKEND_CUDA;
    return {};
}

// CUDA if it was asked for or is there, else the CPU. AUTO says why it did not take a GPU only to the log.
Status open_backend(carat_context_s& context, carat_backend backend, int device) {
    if (backend != CARAT_BACKEND_CPU) {
        auto opened = cuda::Device::open(device);
        if (opened.ok()) {
            context.runtime.device = *opened;
            context.runtime.target = context.runtime.device->target();
            context.backend = CARAT_BACKEND_CUDA;
            return {};
        }
        if (backend == CARAT_BACKEND_CUDA) return opened.status();
        log::info("no GPU is used: {}", opened.status().sentence());
    }
    context.backend = CARAT_BACKEND_CPU;
    return {};  // carat_context_s::target() fills in the CPU's limits when they are first asked for
}

Status create(const carat_context_options& options, carat_context_t* out) {
    CARAT_TRY(check_struct_size(options.struct_size, sizeof options, "carat_context_options"));
    if (options.backend < CARAT_BACKEND_AUTO || options.backend > CARAT_BACKEND_CUDA)
        return fail(CARAT_INVALID_VALUE, "backend is {}: use AUTO, CPU or CUDA of carat_backend", int(options.backend));
    if (options.target && options.backend == CARAT_BACKEND_CPU)
        return fail(CARAT_INVALID_VALUE,
                    "target is '{}' with the CPU backend: a target is a GPU to plan for; use backend AUTO or CUDA",
                    options.target);
    CARAT_ASSIGN(const carat_backend backend, wanted_backend(options));
    CARAT_ASSIGN(const int threads, wanted_threads(options));
    if (options.jit < CARAT_JIT_AUTO || options.jit > CARAT_JIT_FORCE)
        return fail(CARAT_INVALID_VALUE, "jit is {}: use AUTO, NEVER or FORCE of carat_jit", int(options.jit));
    auto context = std::make_unique<carat_context_s>();
    context->runtime.threads = std::make_shared<cpu::ThreadPool>(threads);
    if (options.target)
        CARAT_TRY(open_planning_target(*context, options.target));
    else
        CARAT_TRY(open_backend(*context, backend, options.device));
    context->calibration = apply_device_file(context->runtime.target);
    context->runtime.jit = std::make_shared<jit::Jit>(jit::Options{options.jit, options.cache_dir, options.pack});
    context->tuning_places = find_tuning(options.tuning);
    context->trace = Trace::open(options.trace);
    for (const std::string& name : env::unknown())
        log::warn_once(
            name,
            fmt::format("the environment has {}, which Carat does not know; `carat list` names the variables", name));
    *out = context.release();
    return {};
}

}  // namespace

const Target& carat_context_s::target() {
    if (backend == CARAT_BACKEND_CPU)
        std::call_once(measured_, [this] {
            runtime.target = cpu::measure_cpu(*runtime.threads);
            for (const cpu::Isa isa : cpu::supported_isas()) runtime.target.isas.push_back(cpu::name(isa));
        });
    return runtime.target;
}

const TuningDb& carat_context_s::tuning() {
    std::call_once(tuning_read_, [this] { tuning_ = TuningDb(tuning_places, target(), validate_problem); });
    return tuning_;
}

carat_status carat_context_options_init(carat_context_options* options) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(options, "options"));
        *options = default_options();
        return {};
    });
}

carat_status carat_context_create(const carat_context_options* options, carat_context_t* context) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        *context = nullptr;
        return create(options ? *options : default_options(), context);
    });
}

void carat_context_destroy(carat_context_t context) {
    delete context;
}

carat_status carat_context_backend(carat_context_t context, carat_backend* backend) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        CARAT_TRY(require_pointer(backend, "backend"));
        *backend = context->backend;
        return {};
    });
}

void carat_set_log_callback(carat_log_callback callback, void* user, carat_log_level level) {
    log::set_callback(callback, user, level);
}
