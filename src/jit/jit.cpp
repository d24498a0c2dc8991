// SPDX-License-Identifier: Apache-2.0
// Memory, then disk, then the compiler; and concurrent requests for one kernel wait for the first.
#include "jit/jit.hpp"

#include <algorithm>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <new>

#include "core/env.hpp"
#include "core/log.hpp"
#include "jit/cache.hpp"
#include "jit/hash.hpp"
#include "jit/includes.hpp"
#include "jit/nvrtc.hpp"

namespace carat::jit {
namespace {

using Built = Result<std::shared_ptr<const Artifact>>;

// Every part with its length, so that no two lists of parts give one text.
std::string join_parts(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += fmt::format("{}:{}\n", part.size(), part);
    return text;
}

// What makes two requests of one process the same.
std::string identity_of(const Request& request) {
    std::vector<std::string> parts{request.arch, request.main};
    parts.insert(parts.end(), request.options.begin(), request.options.end());
    return join_parts(parts);
}

Key key_of(const Request& request, const std::vector<Include>& includes, const std::vector<std::string>& options,
           const Nvrtc& nvrtc) {
    std::vector<std::string> texts{request.main};
    for (const Include& include : includes) {
        texts.push_back(include.name);
        texts.push_back(include.text);
    }
    std::string environment;  // variables that change what NVRTC makes
    for (const char* name : {"NVRTC_PREPEND_FLAGS", "NVRTC_APPEND_FLAGS"})
        if (const auto value = env::get(name)) environment += fmt::format("{}={}\n", name, *value);
    return make_key(
        fmt::format("carat kernel, schema {}\nabi {}\nsources {}\narch {}\nnvrtc {}\noptions\n{}environment\n{}",
                    kEntrySchema, kKernelAbi, hash128_hex(join_parts(texts)), request.arch, nvrtc.identity,
                    join_parts(options), environment),
        request.arch);
}

carat_jit policy_from(carat_jit asked) {
    const auto text = asked == CARAT_JIT_AUTO ? env::get("CARAT_JIT") : std::nullopt;
    if (!text || *text == "auto") return asked;
    if (*text == "never") return CARAT_JIT_NEVER;
    if (*text == "force") return CARAT_JIT_FORCE;
    log::warn_once("CARAT_JIT",
                   fmt::format("CARAT_JIT is '{}', but auto, never or force is wanted: auto is used.", *text));
    return asked;
}

std::shared_ptr<const Artifact> shared(Artifact artifact, const char* source) {
    artifact.facts.source = source;
    return std::make_shared<const Artifact>(std::move(artifact));
}

std::shared_ptr<const Artifact> from_memory(const Artifact& artifact) {
    Artifact copy = artifact;
    copy.facts.compile_ms = 0;
    return shared(std::move(copy), "memory");
}

Status check_arch(const Request& request) {
    const bool plain =
        request.arch.starts_with("sm_") && std::all_of(request.arch.begin(), request.arch.end(),
                                                       [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (plain) return {};
    return fail(CARAT_INTERNAL_ERROR,
                "kernel {} is to be compiled for '{}', but a GPU architecture such as sm_90a is needed", request.name,
                request.arch);
}

Status captured(const Request& request) {
    return fail(
        CARAT_NOT_PREPARED,
        "kernel {} for {} is not compiled yet, and its stream is being captured, which is no time to compile: plan "
        "the problem before the capture begins, or prepare its kernel ahead (`carat prepare`, a kernel pack)",
        request.name, request.arch);
}

Status not_prepared(const Request& request, const Cache& cache, const std::string& why) {
    return fail(CARAT_NOT_PREPARED,
                "kernel {} for {} is in no cache ({}) and the policy 'never' forbids to compile it: {}make its plan "
                "once with policy 'auto' and this cache directory",
                request.name, request.arch, cache.path().empty() ? "kernels are kept in memory only" : cache.path(),
                why);
}

}  // namespace

struct Jit::State {
    State(const Options& options) : policy(policy_from(options.policy)), cache(options.cache_dir) {}

    carat_jit policy;
    Cache cache;
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const Artifact>> ready;
    std::map<std::string, std::shared_future<Built>> in_flight;

    Built produce(const Request& request);
    Built guarded(const Request& request);
};

Built Jit::State::produce(const Request& request) {
    CARAT_TRY(check_arch(request));
    const Result<const Nvrtc*> found = nvrtc();
    if (!found.ok())
        return policy == CARAT_JIT_NEVER ? not_prepared(request, cache, found.status().sentence() + "; or ")
                                         : found.status();
    const std::vector<Include> includes = reachable(request.main);
    const std::vector<std::string> options = compile_options(**found, request);
    const Key key = key_of(request, includes, options, **found);
    const bool compiles_always = policy == CARAT_JIT_FORCE && request.may_compile;
    const auto look = [&] { return compiles_always ? std::nullopt : cache.find(key); };
    if (auto entry = look()) return shared(std::move(entry->artifact), "disk cache");
    if (policy == CARAT_JIT_NEVER) return not_prepared(request, cache, "");
    if (!request.may_compile) return captured(request);

    const Cache::Lock lock = cache.lock(key);
    if (auto entry = look())
        return shared(std::move(entry->artifact), "disk cache");  // another process made it meanwhile
    CARAT_ASSIGN(Artifact artifact, compile(**found, request, includes, options));
    cache.store(key, artifact);
    return shared(std::move(artifact), "compiled");
}

// Nothing that is thrown may leave this module, nor leave others waiting.
Built Jit::State::guarded(const Request& request) {
    try {
        return produce(request);
    } catch (const std::bad_alloc&) {
        return fail(CARAT_ALLOC_FAILED, "out of host memory while preparing kernel {}", request.name);
    } catch (const std::exception& error) {
        return fail(CARAT_INTERNAL_ERROR, "preparing kernel {} failed: {}", request.name, error.what());
    }
}

Jit::Jit(const Options& options) : state_(std::make_unique<State>(options)) {}
Jit::~Jit() = default;
Cache& Jit::cache() {
    return state_->cache;
}
carat_jit Jit::policy() const {
    return state_->policy;
}

Built Jit::build(const Request& request) {
    const std::string identity = identity_of(request);
    // Who may compile does not share the failure of who may not.
    const std::string flight_name = (request.may_compile ? "" : "captured ") + identity;
    std::promise<Built> promise;
    std::shared_future<Built> others;
    {
        std::lock_guard lock(state_->mutex);
        const auto ready = state_->ready.find(identity);
        const bool compiles_always = state_->policy == CARAT_JIT_FORCE && request.may_compile;
        if (ready != state_->ready.end() && !compiles_always) return ready->second;
        if (const auto flight = state_->in_flight.find(flight_name); flight != state_->in_flight.end()) {
            others = flight->second;
        } else {
            state_->in_flight.emplace(flight_name, promise.get_future().share());
        }
    }
    if (others.valid()) return others.get();

    const Built built = state_->guarded(request);
    {
        std::lock_guard lock(state_->mutex);
        if (built.ok()) state_->ready[identity] = from_memory(**built);
        state_->in_flight.erase(flight_name);
    }
    promise.set_value(built);
    return built;
}

}  // namespace carat::jit
