// SPDX-License-Identifier: Apache-2.0
// Code generation. Members are always named, never positional: a kernel cannot mistake one for another.
#include "jit/codegen.hpp"

#include <algorithm>
#include <cassert>
#include <cctype>

#include "core/dtype.hpp"
#include "core/format.hpp"
#include "jit/jit.hpp"

namespace carat::jit {
namespace {

bool is_integer(std::string_view text) {
    if (text.starts_with('-')) text.remove_prefix(1);
    return !text.empty() && text.size() <= 9 &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::string member(const std::string& name, const std::string& value) {
    assert(!name.empty() && !value.empty());
    if (name[0] != 'k') return fmt::format("    using {} = {};\n", name, value);
    const char* type = value == "true" || value == "false" ? "bool" : is_integer(value) ? "int" : "auto";
    return fmt::format("    static constexpr {} {} = {};\n", type, name, value);
}

bool has(std::span<const Constant> constants, std::string_view name) {
    return std::any_of(constants.begin(), constants.end(), [&](const Constant& c) { return c.first == name; });
}

std::string config_members(const Config& config) {
    std::string text;
    const std::pair<const char*, carat_dtype> types[] = {
        {"kTypeA", config.a}, {"kTypeB", config.b}, {"kTypeD", config.d}};
    for (const auto& [name, type] : types)
        text += fmt::format("    static constexpr int {} = {};  // {}\n", name, int(type), carat::info(type).name);
    if (config.layout.size() == 2) {
        text += member("kRowMajorA", config.layout[0] == 'n' ? "true" : "false");
        text += member("kRowMajorB", config.layout[1] == 'n' ? "true" : "false");
    }
    const std::pair<const char*, int> numbers[] = {{"kBM", config.bm},
                                                   {"kBN", config.bn},
                                                   {"kBK", config.bk},
                                                   {"kTM", config.tm},
                                                   {"kTN", config.tn},
                                                   {"kStages", config.stages},
                                                   {"kClusterM", config.cluster_m},
                                                   {"kClusterN", config.cluster_n},
                                                   {"kSplitK", config.split_k}};
    for (const auto& [name, value] : numbers)
        if (value != 0) text += member(name, std::to_string(value));
    return text;
}

}  // namespace

std::string generate_main(const Config& config, std::span<const Constant> constants, std::string include,
                          std::string kernel_function, std::string parameters) {
    assert(has(constants, "kThreads") && "the launch bound");
    std::string members = config_members(config);
    for (const auto& [name, value] : constants) members += member(name, value);
    const char* bounds = has(constants, "kMinBlocks") ? "Config::kThreads, Config::kMinBlocks" : "Config::kThreads";
    // The namespace keeps the entry point's name, which C linkage puts nowhere, apart from a namespace carat_kernel.
    return fmt::format(
        "#include <shared/gemm_params.h>\n"
        "#include <{}>\n\n"
        "namespace carat_entry {{\n\n"
        "struct Config {{\n{}}};\n\n"
        "extern \"C\" __global__ void __launch_bounds__({})\n"
        "{}(const __grid_constant__ carat_shared::{} params) {{\n"
        "    {}<Config>(params);\n"
        "}}\n\n"
        "}}  // namespace carat_entry\n",
        include, members, bounds, kEntry, parameters, kernel_function);
}

}  // namespace carat::jit
