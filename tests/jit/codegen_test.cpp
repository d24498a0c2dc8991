// SPDX-License-Identifier: Apache-2.0
// The generated translation unit says what the configuration says, by name.
#include "jit/codegen.hpp"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "jit/jit.hpp"

namespace carat::jit {
namespace {

struct Parsed {
    std::map<std::string, std::pair<std::string, std::string>> members;  // name -> type ("using" for an alias), value
    std::vector<std::string> includes;
    std::string bounds, call;
};

// Reads the generated text back. Anything that is not one of the few forms ends up as a failure.
Parsed parse(const std::string& text) {
    Parsed parsed;
    std::istringstream lines(text);
    const std::string constant = "    static constexpr ", alias = "    using ", include = "#include <",
                      launch = "extern \"C\" __global__ void __launch_bounds__(";
    for (std::string line; std::getline(lines, line);) {
        if (const size_t comment = line.find("  //"); comment != line.npos) line.resize(comment);
        const size_t equals = line.find(" = ");
        if (line.starts_with(constant)) {
            const std::string declaration = line.substr(constant.size(), equals - constant.size());
            const size_t blank = declaration.find(' ');
            const bool fresh =
                parsed.members
                    .emplace(declaration.substr(blank + 1),
                             std::pair(declaration.substr(0, blank), line.substr(equals + 3, line.size() - equals - 4)))
                    .second;
            EXPECT_TRUE(fresh) << line;
        } else if (line.starts_with(alias)) {
            parsed.members.emplace(line.substr(alias.size(), equals - alias.size()),
                                   std::pair("using", line.substr(equals + 3, line.size() - equals - 4)));
        } else if (line.starts_with(include)) {
            parsed.includes.push_back(line.substr(include.size(), line.size() - include.size() - 1));
        } else if (line.starts_with(launch)) {
            parsed.bounds = line.substr(launch.size(), line.find(')') - launch.size());
        } else if (line.ends_with("<Config>(params);")) {
            parsed.call = line.substr(4, line.find('<') - 4);
        } else {
            EXPECT_TRUE(line.empty() || line == "struct Config {" || line == "};" || line == "}" ||
                        line == "namespace carat_entry {" || line == "}  // namespace carat_entry" ||
                        line == "carat_kernel(const __grid_constant__ carat_shared::GemmParams params) {" ||
                        line.ends_with("carat_kernel(const __grid_constant__ carat_shared::GemmParams params) {"))
                << line;
        }
    }
    return parsed;
}

Config back(const Parsed& parsed) {
    Config config;
    const auto number = [&](const char* name) {
        const auto it = parsed.members.find(name);
        return it == parsed.members.end() ? 0 : std::stoi(it->second.second);
    };
    config.a = carat_dtype(number("kTypeA")), config.b = carat_dtype(number("kTypeB")),
    config.d = carat_dtype(number("kTypeD"));
    config.bm = number("kBM"), config.bn = number("kBN"), config.bk = number("kBK"), config.tm = number("kTM"),
    config.tn = number("kTN");
    config.stages = number("kStages"), config.cluster_m = number("kClusterM"), config.cluster_n = number("kClusterN"),
    config.split_k = number("kSplitK");
    config.layout += parsed.members.at("kRowMajorA").second == "true" ? 'n' : 't';
    config.layout += parsed.members.at("kRowMajorB").second == "true" ? 'n' : 't';
    return config;
}

TEST(Codegen, TextParsesBackToTheConfiguration) {
    int count = 0;
    for (const char* layout : {"nn", "nt", "tn", "tt"})
        for (int variant = 0; variant < 16; ++variant) {
            Config config{
                .a = CARAT_BF16, .b = CARAT_E4M3, .d = CARAT_F32, .layout = layout, .bm = 128, .bn = 64, .bk = 32};
            if (variant & 1) config.tm = 8, config.tn = 4;
            if (variant & 2) config.stages = 5;
            if (variant & 4) config.cluster_m = 2, config.cluster_n = 1;
            if (variant & 8) config.split_k = 7;
            const std::vector<Constant> constants = {{"kThreads", "256"}};
            const Parsed parsed =
                parse(generate_main(config, constants, "ladder/v1_shared.cuh", "carat::ladder::v1_shared"));
            EXPECT_EQ(back(parsed), config) << layout << " " << variant;
            EXPECT_EQ(parsed.members.contains("kStages"), bool(variant & 2));
            ++count;
        }
    EXPECT_EQ(count, 64);
}

TEST(Codegen, ConstantsKeepNameTypeAndValue) {
    const std::vector<Constant> constants = {
        {"kThreads", "256"},   {"kHasC", "true"},           {"kReads", "false"},     {"kShift", "-3"},
        {"kScale", "0x1p-8f"}, {"kLarge", "10000000000LL"}, {"Accumulator", "float"}};
    const Parsed parsed = parse(generate_main({.a = CARAT_F32, .b = CARAT_F32, .d = CARAT_F32, .layout = "nt"},
                                              constants, "ladder/v0_naive.cuh", "carat::ladder::v0_naive"));
    const std::map<std::string, std::string> types = {{"kThreads", "int"},     {"kHasC", "bool"},  {"kReads", "bool"},
                                                      {"kShift", "int"},       {"kScale", "auto"}, {"kLarge", "auto"},
                                                      {"Accumulator", "using"}};
    for (const auto& [name, value] : constants) {
        ASSERT_TRUE(parsed.members.contains(name)) << name;
        EXPECT_EQ(parsed.members.at(name).first, types.at(name)) << name;
        EXPECT_EQ(parsed.members.at(name).second, value) << name;
    }
    EXPECT_FALSE(parsed.members.contains("kBM"));  // unused fields are absent, so that reading one does not compile
    EXPECT_EQ(parsed.bounds, "Config::kThreads");
    EXPECT_EQ(parsed.call, "carat::ladder::v0_naive");
    EXPECT_EQ(parsed.includes, (std::vector<std::string>{"shared/gemm_params.h", "ladder/v0_naive.cuh"}));
}

TEST(Codegen, MinimumBlocksGoIntoTheLaunchBounds) {
    const std::vector<Constant> constants = {{"kThreads", "128"}, {"kMinBlocks", "2"}};
    EXPECT_EQ(parse(generate_main({.layout = "nn"}, constants, "x.cuh", "f")).bounds,
              "Config::kThreads, Config::kMinBlocks");
}

TEST(Codegen, GeneratedTextCompiles) {
    const std::vector<Constant> constants = {{"kThreads", "64"}, {"Element", "float"}};
    Request request{.name = "generated", .arch = "sm_90a"};
    request.main = generate_main({.a = CARAT_F32, .b = CARAT_F32, .d = CARAT_F32, .layout = "nt", .bm = 64}, constants,
                                 "shared/gemm_params.h", "carat_kernel::fill");
    // The kernel function would come from the included file; here it is put in front of the rest.
    const std::string function =
        "namespace carat_kernel {\n"
        "template <class C> __device__ void fill(const carat_shared::GemmParams& p) {\n"
        "    static_assert(C::kTypeA == 2 && C::kRowMajorA && !C::kRowMajorB && C::kBM == 64);\n"
        "    if (threadIdx.x < p.m) static_cast<typename C::Element*>(p.d)[threadIdx.x] = C::kBM;\n}\n}\n";
    request.main.insert(request.main.find("namespace carat_entry"), function);
    Jit jit({.cache_dir = ""});
    const auto built = jit.build(request);
    ASSERT_TRUE(built.ok()) << built.status().sentence();
    EXPECT_GT((*built)->facts.registers, 0);
}

}  // namespace
}  // namespace carat::jit
