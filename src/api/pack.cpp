// SPDX-License-Identifier: Apache-2.0
// pack.cpp: kernel packs at the C border: what a context has prepared, writing it down, looking into a pack.
#include <nlohmann/json.hpp>

#include "api/error.hpp"
#include "api/handles.hpp"
#include "jit/entry.hpp"
#include "jit/pack.hpp"

using namespace carat;
using namespace carat::api;
using Json = nlohmann::ordered_json;

namespace {

Json compiler_json(const jit::Compiler& compiler) {
    return fmt::format("NVRTC {}.{}", compiler.major, compiler.minor);
}

Json kernel_json(const jit::PreparedKernel& kernel) {
    const KernelFacts& facts = kernel.artifact->facts;
    return {{"name", kernel.name},
            {"arch", kernel.key.arch},
            {"from", kernel.source},
            {"compile_ms", kernel.compile_ms},
            {"cubin_bytes", kernel.artifact->cubin.size()},
            {"registers", facts.registers},
            {"spill_bytes", facts.spill_bytes}};
}

Json kernels_json(const carat_context_s& context) {
    Json kernels = Json::array();
    for (const jit::PreparedKernel& kernel : context.runtime.jit->prepared()) kernels.push_back(kernel_json(kernel));
    return {{"schema", "carat.kernels/1"}, {"target", context.runtime.target.name}, {"kernels", kernels}};
}

Status write_prepared(std::span<const carat_context_t> contexts, const std::string& path) {
    std::vector<jit::PreparedKernel> kernels;
    for (const carat_context_t context : contexts) {
        CARAT_TRY(require_pointer(context, "a context"));
        for (jit::PreparedKernel& kernel : context->runtime.jit->prepared()) kernels.push_back(std::move(kernel));
    }
    if (kernels.empty())
        return fail(
            CARAT_NOT_PREPARED,
            "there is no kernel to write to {}: make plans first, in a context on a CUDA device or for a target", path);
    for (const jit::PreparedKernel& kernel : kernels)
        if (kernel.compiler != kernels.front().compiler)
            return fail(CARAT_INVALID_VALUE,
                        "the kernels are of two compilers (NVRTC {}.{} and {}.{}), which one pack cannot hold: use a "
                        "context whose option pack is \"\"",
                        kernels.front().compiler.major, kernels.front().compiler.minor, kernel.compiler.major,
                        kernel.compiler.minor);
    return jit::write_pack(path, kernels.front().compiler, kernels);
}

Json packed_json(const jit::PackedKernel& kernel) {
    return {{"name", kernel.name}, {"arch", kernel.arch}, {"bytes", kernel.bytes}};
}

// As packed_json(), with what reading it says.
Json verified_json(const jit::Pack& pack, const jit::PackedKernel& kernel) {
    const auto entry = pack.read(kernel);
    Json json = packed_json(kernel);
    json["registers"] = entry.ok() ? Json(entry->artifact.facts.registers) : Json();
    json["spill_bytes"] = entry.ok() ? Json(entry->artifact.facts.spill_bytes) : Json();
    json["damage"] = entry.ok() ? Json() : Json(entry.status().sentence());
    return json;
}

Result<Json> pack_json(const std::string& path, std::string_view command) {
    if (command != "list" && command != "verify")
        return fail(CARAT_INVALID_VALUE, "there is no pack command '{}': use list or verify", command);
    CARAT_ASSIGN(const auto pack, jit::Pack::open(path));
    const bool verify = command == "verify";
    Json kernels = Json::array();
    int64_t bad = 0;
    for (const jit::PackedKernel& kernel : pack->kernels()) {
        kernels.push_back(verify ? verified_json(*pack, kernel) : packed_json(kernel));
        bad += verify && !kernels.back()["damage"].is_null();
    }
    return Json{{"schema", "carat.pack/1"},
                {"command", command},
                {"path", pack->path()},
                {"bytes", pack->bytes()},
                {"entries", kernels.size()},
                {"archs", pack->archs()},
                {"compiler", compiler_json(pack->compiler())},
                {"library", pack->library()},
                {"of_this_library", pack->library() == jit::pack_maker()},
                {"bad", verify ? Json(bad) : Json()},
                {"kernels", kernels}};
}

}  // namespace

carat_status carat_kernels(carat_context_t context, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        return give_json(kernels_json(*context), json);
    });
}

carat_status carat_pack_write(const carat_context_t* contexts, size_t count, const char* path) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(contexts, "contexts"));
        CARAT_TRY(require_pointer(path, "path"));
        return write_prepared({contexts, count}, path);
    });
}

carat_status carat_pack(const char* path, const char* command, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(path, "path"));
        CARAT_TRY(require_pointer(command, "command"));
        CARAT_ASSIGN(const Json result, pack_json(path, command));
        return give_json(result, json);
    });
}
