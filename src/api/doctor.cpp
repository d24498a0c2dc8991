// SPDX-License-Identifier: Apache-2.0
// doctor.cpp: what this machine has and lacks, each finding with its fix: carat_doctor, carat_cache,
// carat_device_state.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "api/error.hpp"
#include "api/handles.hpp"
#include "core/env.hpp"
#include "cpu/fast.hpp"
#include "jit/cache.hpp"
#include "jit/pack.hpp"

using namespace carat;
using namespace carat::api;
using Json = nlohmann::ordered_json;

namespace {

Json or_null(const std::string& text) {
    return text.empty() ? Json() : Json(text);
}
template <class Number>
Json or_null(Number value) {
    return value < 0 ? Json() : Json(value);
}

Json finding(const char* name, const char* state, const std::string& value, const std::string& fix = {}) {
    return {{"name", name}, {"state", state}, {"value", value}, {"fix", or_null(fix)}};
}

Json driver_finding() {
    const auto driver = cuda::driver_info();
    if (!driver.ok())
        return finding("CUDA driver", "missing", driver.status().sentence(),
                       "install the NVIDIA driver (580 or newer) to use a GPU; the CPU backend needs none");
    const std::string version = fmt::format("{}.{}", driver->version / 1000, driver->version % 1000 / 10);
    return finding("CUDA driver", "ok",
                   fmt::format("CUDA {}, {} device(s), {}", version, driver->devices, driver->path));
}

Json nvrtc_finding() {
    const auto nvrtc = jit::nvrtc_info();
    if (!nvrtc.ok())
        return finding("NVRTC", "missing", nvrtc.status().sentence(),
                       "pip install 'nvidia-cuda-nvrtc>=13.0,<14', or install a CUDA toolkit, or set CARAT_NVRTC_PATH");
    return finding("NVRTC", "ok", fmt::format("{}.{}, {}", nvrtc->major, nvrtc->minor, nvrtc->path));
}

Json cache_finding(const jit::CacheStats& stats) {
    if (stats.path.empty())
        return finding("kernel cache", "warn", stats.memory_only,
                       "set CARAT_CACHE_DIR to a directory that is yours alone");
    return finding("kernel cache", "ok",
                   fmt::format("{} ({} entries, {:.1f} MB)", stats.path, stats.entries, double(stats.bytes) / 1e6));
}

Json pack_json(const jit::Pack& pack) {
    return {{"path", pack.path()},
            {"entries", pack.kernels().size()},
            {"bytes", pack.bytes()},
            {"archs", pack.archs()},
            {"of_this_library", pack.library() == jit::pack_maker()}};
}

Json pack_finding(const jit::FoundPacks& found_packs) {
    const auto& packs = found_packs.packs;
    std::string found, stale;
    for (const auto& pack : packs) {
        found += fmt::format("{}{} ({} kernels of {}, {:.1f} MB, NVRTC {}.{})", found.empty() ? "" : "; ", pack->path(),
                             pack->kernels().size(), pack->archs(), double(pack->bytes()) / 1e6, pack->compiler().major,
                             pack->compiler().minor);
        if (pack->library() != jit::pack_maker()) stale += (stale.empty() ? "" : ", ") + pack->path();
    }
    if (!found_packs.refused.empty())
        return finding("kernel pack", "warn", fmt::format("{}", fmt::join(found_packs.refused, "; ")),
                       "build it again with `carat pack build`, or set CARAT_PACK to another one or to none");
    if (packs.empty()) return finding("kernel pack", "ok", "none: a kernel is compiled when it is first planned");
    if (stale.empty()) return finding("kernel pack", "ok", found);
    return finding(
        "kernel pack", "warn", found,
        fmt::format("{} was made by another version of Carat: build it again with `carat pack build`", stale));
}

Json environment_finding() {
    const auto unknown = env::unknown();
    if (unknown.empty()) return finding("environment", "ok", "no unknown CARAT_* variable");
    std::string names;
    for (const std::string& name : unknown) names += (names.empty() ? "" : ", ") + name;
    return finding("environment", "warn", fmt::format("unknown: {}", names),
                   "check the spelling against `carat list`, or unset them");
}

Json gpus_json() {
    Json gpus = Json::array();
    const auto driver = cuda::driver_info();
    for (int ordinal = 0; driver.ok() && ordinal < driver->devices; ++ordinal) {
        const auto device = cuda::Device::open(ordinal);
        if (!device.ok()) {
            gpus.push_back({{"ordinal", ordinal}, {"error", device.status().sentence()}});
            continue;
        }
        const Target& target = (*device)->target();
        gpus.push_back({{"ordinal", ordinal},
                        {"name", target.full_name},
                        {"cc", fmt::format("{}.{}", target.cc_major, target.cc_minor)},
                        {"sms", target.units},
                        {"memory_bytes", target.memory_bytes},
                        {"driver", or_null((*device)->state().driver)}});
    }
    return gpus;
}

Json cpu_json() {
    Json isas = Json::array();
    for (const cpu::Isa isa : cpu::supported_isas()) isas.push_back(cpu::name(isa));
    return {{"threads", cpu::usable_threads()}, {"isas", isas}};
}

Json environment_json() {
    Json set = Json::array();
    for (const env::Variable& variable : env::variables())
        if (const auto value = env::get(variable.name)) set.push_back({{"name", variable.name}, {"value", *value}});
    return set;
}

Json cache_json(const char* command, const jit::CacheStats& stats) {
    return {{"schema", "carat.cache/1"},       {"command", command},
            {"path", or_null(stats.path)},     {"why_memory_only", or_null(stats.memory_only)},
            {"entries", stats.entries},        {"bytes", stats.bytes},
            {"limit_bytes", stats.limit_bytes}};
}

Json doctor_json() {
    const jit::CacheStats stats = jit::Cache(nullptr).stats();
    const jit::FoundPacks packs = jit::find_packs(nullptr);
    Json packs_json = Json::array();
    for (const auto& pack : packs.packs) packs_json.push_back(pack_json(*pack));
    Json checks = {driver_finding(), nvrtc_finding(), pack_finding(packs), cache_finding(stats), environment_finding()};
    const bool has_gpu = checks[0]["state"] == "ok";
    // Without a GPU nothing needs the driver or NVRTC: the CPU backend is complete.
    bool ok = true;
    for (const Json& check : checks) ok &= check["state"] != "missing" || !has_gpu;
    return {{"schema", "carat.doctor/1"},
            {"version", carat_version()},
            {"ok", ok},
            {"backend", has_gpu ? "cuda" : "cpu"},
            {"checks", checks},
            {"gpus", gpus_json()},
            {"cpu", cpu_json()},
            {"packs", packs_json},
            {"cache", cache_json("stats", stats)},
            {"environment", environment_json()}};
}

Result<Json> run_cache_command(jit::Cache& cache, std::string_view command) {
    Json extra = Json::object();
    if (command == "verify") {
        const jit::CacheVerified verified = cache.verify();
        extra = {{"checked", verified.ok + verified.bad}, {"bad", verified.bad}};
    } else if (command == "prune" || command == "clear") {
        const jit::CacheRemoved removed = command == "prune" ? cache.prune() : cache.clear();
        extra = {{"removed", removed.entries}, {"removed_bytes", removed.bytes}};
    } else if (command != "stats") {
        return fail(CARAT_INVALID_VALUE, "there is no cache command '{}': use stats, verify, prune or clear", command);
    }
    Json json = cache_json(std::string(command).c_str(), cache.stats());
    json.update(extra);
    return json;
}

Json device_state_json(const carat_context_s& context) {
    cuda::DeviceState state;
    if (context.runtime.device) state = context.runtime.device->state();
    return {{"schema", "carat.device/1"},
            {"backend", context.backend == CARAT_BACKEND_CUDA ? "cuda" : "cpu"},
            {"name", context.runtime.target.full_name},
            {"driver", or_null(state.driver)},
            {"sm_clock_mhz", or_null(state.sm_clock_mhz)},
            {"max_sm_clock_mhz", or_null(state.max_sm_clock_mhz)},
            {"memory_clock_mhz", or_null(state.memory_clock_mhz)},
            {"temperature_c", or_null(state.temperature_c)},
            {"power_w", or_null(state.power_w)},
            {"power_limit_w", or_null(state.power_limit_w)},
            {"throttle_reasons", or_null(state.throttle_reasons)},
            {"threads", context.runtime.threads->size()}};
}

}  // namespace

carat_status carat_doctor(carat_text_t* json) {
    return guard([&]() -> Status { return give_json(doctor_json(), json); });
}

carat_status carat_cache(carat_context_t context, const char* command, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        CARAT_TRY(require_pointer(command, "command"));
        CARAT_ASSIGN(const Json result, run_cache_command(context->runtime.jit->cache(), command));
        return give_json(result, json);
    });
}

carat_status carat_device_state(carat_context_t context, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        context->target();
        return give_json(device_state_json(*context), json);
    });
}
