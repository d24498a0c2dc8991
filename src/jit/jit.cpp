// SPDX-License-Identifier: Apache-2.0
// Memory, then packs, then disk, then the compiler; and concurrent requests for one kernel wait for the first.
#include "jit/jit.hpp"

#include <algorithm>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "core/env.hpp"
#include "core/log.hpp"
#include "jit/cache.hpp"
#include "jit/includes.hpp"
#include "jit/nvrtc.hpp"
#include "jit/pack.hpp"

namespace carat::jit {
namespace {

using Built = Result<std::shared_ptr<const Artifact>>;
using Packs = std::vector<std::shared_ptr<const Pack>>;

carat_jit policy_from(carat_jit asked) {
    const auto text = asked == CARAT_JIT_AUTO ? env::get("CARAT_JIT") : std::nullopt;
    if (!text || *text == "auto") return asked;
    if (*text == "never") return CARAT_JIT_NEVER;
    if (*text == "force") return CARAT_JIT_FORCE;
    log::warn_once("CARAT_JIT",
                   fmt::format("CARAT_JIT is '{}', but auto, never or force is wanted: auto is used.", *text));
    return asked;
}

PreparedKernel prepared_by(const Request& request, Key key, const Compiler& compiler, Artifact artifact,
                           const char* source) {
    artifact.facts.source = source;
    const double compile_ms = artifact.facts.compile_ms;
    return {request.name, std::move(key), compiler,
            source,       compile_ms,     std::make_shared<const Artifact>(std::move(artifact))};
}

// The same kernel for those who ask for it from now on.
PreparedKernel from_memory(PreparedKernel kernel) {
    Artifact copy = *kernel.artifact;
    copy.facts.compile_ms = 0;
    copy.facts.source = "memory";
    kernel.artifact = std::make_shared<const Artifact>(std::move(copy));
    return kernel;
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

// why_not: why it is not compiled.
Status not_prepared(const Request& request, const Packs& packs, const Cache& cache, const std::string& why_not) {
    std::string places;
    for (const auto& pack : packs) places += (places.empty() ? "" : ", ") + pack->path();
    return fail(
        CARAT_NOT_PREPARED,
        "kernel {} for {} is in no pack ({}) and no cache ({}), and {}: run `carat prepare` for its model with this "
        "cache directory, or build a pack that has it with `carat pack build`",
        request.name, request.arch, places.empty() ? "none was found" : places,
        cache.path().empty() ? "kernels are kept in memory only" : cache.path(), why_not);
}

}  // namespace

struct Jit::State {
    State(const Options& options)
        : policy(policy_from(options.policy)),
          cache(options.cache_dir),
          pack(options.pack ? std::optional<std::string>(options.pack) : std::nullopt) {}

    carat_jit policy;
    Cache cache;
    const std::optional<std::string> pack;  // where the caller says they are
    std::once_flag packs_opened;
    Packs opened_packs;
    std::mutex mutex;
    std::map<std::string, PreparedKernel> ready;
    std::map<std::string, std::shared_future<Built>> in_flight;

    const Packs& packs();
    std::optional<PreparedKernel> from_pack(const Request& request, const std::string& sources);
    Result<PreparedKernel> from_cache_or_compiler(const Request& request, std::span<const Include> includes,
                                                  const std::string& sources);
    Result<PreparedKernel> produce(const Request& request);
    Result<PreparedKernel> guarded(const Request& request);
};

// Opened when a first kernel is asked for: a context on the CPU never asks.
const Packs& Jit::State::packs() {
    std::call_once(packs_opened, [this] { opened_packs = find_packs(pack ? pack->c_str() : nullptr).packs; });
    return opened_packs;
}

std::optional<PreparedKernel> Jit::State::from_pack(const Request& request, const std::string& sources) {
    for (const auto& one : packs()) {
        Key key = key_of(request, sources, one->compiler());
        if (auto artifact = one->find(key))
            return prepared_by(request, std::move(key), one->compiler(), std::move(*artifact), "pack");
    }
    return std::nullopt;
}

Result<PreparedKernel> Jit::State::from_cache_or_compiler(const Request& request, std::span<const Include> includes,
                                                          const std::string& sources) {
    const Result<const Nvrtc*> found = nvrtc();
    const char* forbidden = "the policy 'never' forbids to compile it";
    if (!found.ok() && policy == CARAT_JIT_NEVER) return not_prepared(request, packs(), cache, forbidden);
    if (!found.ok() && !request.may_compile) return captured(request);
    if (!found.ok() && !packs().empty())
        return not_prepared(request, packs(), cache,
                            fmt::format("it cannot be compiled ({})", found.status().sentence()));
    if (!found.ok()) return found.status();
    const Compiler& compiler = (*found)->compiler;
    const Key key = key_of(request, sources, compiler);
    const bool compiles_always = policy == CARAT_JIT_FORCE && request.may_compile;
    const auto look = [&]() -> std::optional<PreparedKernel> {
        auto entry = compiles_always ? std::nullopt : cache.find(key);
        if (!entry) return std::nullopt;
        return prepared_by(request, key, compiler, std::move(entry->artifact), "disk cache");
    };
    if (auto kernel = look()) return std::move(*kernel);
    if (policy == CARAT_JIT_NEVER) return not_prepared(request, packs(), cache, forbidden);
    if (!request.may_compile) return captured(request);

    const Cache::Lock lock = cache.lock(key);
    if (auto kernel = look()) return std::move(*kernel);  // another process made it meanwhile
    CARAT_ASSIGN(Artifact artifact, compile(**found, request, includes, compile_options(compiler, request)));
    cache.store(key, artifact);
    return prepared_by(request, key, compiler, std::move(artifact), "compiled");
}

Result<PreparedKernel> Jit::State::produce(const Request& request) {
    CARAT_TRY(check_arch(request));
    const std::vector<Include> includes = reachable(request.main);
    const std::string sources = hash_sources(request, includes);
    if (policy != CARAT_JIT_FORCE || !request.may_compile)
        if (auto kernel = from_pack(request, sources)) return std::move(*kernel);
    return from_cache_or_compiler(request, includes, sources);
}

// Nothing that is thrown may leave this module, nor leave others waiting.
Result<PreparedKernel> Jit::State::guarded(const Request& request) {
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
        if (ready != state_->ready.end() && !compiles_always) return ready->second.artifact;
        if (const auto flight = state_->in_flight.find(flight_name); flight != state_->in_flight.end()) {
            others = flight->second;
        } else {
            state_->in_flight.emplace(flight_name, promise.get_future().share());
        }
    }
    if (others.valid()) return others.get();

    const Result<PreparedKernel> made = state_->guarded(request);
    const Built built = made.ok() ? Built(made->artifact) : Built(made.status());
    {
        std::lock_guard lock(state_->mutex);
        if (made.ok()) state_->ready[identity] = from_memory(*made);
        state_->in_flight.erase(flight_name);
    }
    promise.set_value(built);
    return built;
}

std::vector<PreparedKernel> Jit::prepared() const {
    std::vector<PreparedKernel> kernels;
    std::lock_guard lock(state_->mutex);
    for (const auto& [identity, kernel] : state_->ready) kernels.push_back(kernel);
    return kernels;
}

std::set<std::string> Jit::packed_names(const std::string& arch) {
    std::set<std::string> names;
    for (const auto& one : state_->packs())
        for (const PackedKernel& kernel : one->kernels())
            if (kernel.arch == arch) names.insert(kernel.name);
    return names;
}

}  // namespace carat::jit
