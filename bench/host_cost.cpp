// SPDX-License-Identifier: Apache-2.0
// host_cost.cpp: what the library costs the calling thread on a GPU: planning a problem for the first time and again, executing a
// plan and the one-call form, beside the driver's bare launch of the same kernel with the same parameters. The contestants take
// turns; the stream is emptied between turns, so that no call waits for a full queue.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "carat/carat.hpp"
#include "cuda/driver.hpp"
#include "shared/gemm_params.h"

namespace {

using carat::cuda::Driver;
using Json = nlohmann::ordered_json;

constexpr int kNoGpu = 3, kFailed = 1;  // exit codes, as of carat
constexpr int kTurns = 200, kCallsOfATurn = 32;

double now_us() {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

double time_us(const std::function<void()>& call) {
    const double begin = now_us();
    call();
    return now_us() - begin;
}

// ---------------------------------------------------------------- the bare launch

// A launch as the library made it. The table of driver functions is the library's own: for one call its entry is this one.
struct Launch {
    carat::cuda::LaunchConfig config;
    carat::cuda::LaunchAttribute attributes[4];
    carat::cuda::CuKernel kernel;
    carat_shared::BulkGemmParams parameters;
};
Launch g_launch;

carat::cuda::CuResult record(const carat::cuda::LaunchConfig* config, carat::cuda::CuKernel kernel, void** parameters,
                             void**) {
    g_launch.config = *config;
    std::memcpy(g_launch.attributes, config->attributes, config->attribute_count * sizeof g_launch.attributes[0]);
    g_launch.config.attributes = g_launch.attributes;
    g_launch.kernel = kernel;
    std::memcpy(&g_launch.parameters, parameters[0], sizeof g_launch.parameters);
    return 0;
}

void record_launch(Driver& driver, const carat::Plan& plan, const carat::Operands& operands, void* stream) {
    const auto original = driver.launch;
    driver.launch = record;
    plan.execute(operands, stream);
    driver.launch = original;
}

void launch_bare(const Driver& driver) {
    void* parameters[] = {&g_launch.parameters};
    if (driver.launch(&g_launch.config, g_launch.kernel, parameters, nullptr) != 0)
        throw std::runtime_error("cuLaunchKernelEx failed");
}

// ---------------------------------------------------------------- measuring

struct Contestant {
    const char* name;
    std::function<void()> call;
    std::vector<double> us = {};
};

Json summary(std::vector<double> us) {
    std::sort(us.begin(), us.end());
    return {{"median_us", us[us.size() / 2]}, {"p95_us", us[us.size() * 95 / 100]}, {"calls", us.size()}};
}

void take_turns(std::vector<Contestant>& all, const carat::Stream& stream) {
    for (int turn = 0; turn < kTurns; ++turn)
        for (Contestant& one : all) {
            for (int i = 0; i < kCallsOfATurn; ++i) one.us.push_back(time_us(one.call));
            stream.synchronize();
        }
}

// A directory for compiled kernels that goes with the object.
class Scratch {
  public:
    Scratch() : path_(std::filesystem::temp_directory_path() / "carat-host-cost-XXXXXX") {
        if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary directory could be made");
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const char* path() const { return path_.c_str(); }

  private:
    std::string path_;
};

carat_context_options options(const Scratch& cache) {
    carat_context_options options = carat::Context::default_options();
    options.backend = CARAT_BACKEND_CUDA;
    options.cache_dir = cache.path();
    return options;
}

// A problem's first plan: with its kernel compiled, read from disk, and loaded already for another problem.
Json time_first_plans(const Scratch& cache, const carat_problem& problem) {
    carat_problem other = problem;
    other.m += 1;
    const carat::Context compiles(options(cache)), reads(options(cache));
    Json json;
    json["plan_compiled_us"] = time_us([&] { compiles.plan(problem); });
    json["plan_from_disk_us"] = time_us([&] { reads.plan(problem); });
    const std::string kernel = reads.plan(problem).kernel();
    json["plan_of_a_loaded_kernel_us"] = time_us([&] { reads.plan(other, kernel); });
    return json;
}

Json measure(const carat_problem& problem) {
    const Scratch cache;
    Json json = {{"schema", "carat.host_cost/1"}, {"m", problem.m}, {"n", problem.n}, {"k", problem.k}};
    json.update(time_first_plans(cache, problem));

    const carat::Context context(options(cache));
    const carat::Stream stream(context);
    const carat::Buffer a(context, size_t(problem.m * problem.k) * 2), b(context, size_t(problem.n * problem.k) * 2);
    const carat::Buffer d(context, size_t(problem.m * problem.n) * 2);
    const carat::Operands operands = {.a = a.data(), .b = b.data(), .d = d.data()};
    const carat::Plan plan = context.plan(problem, [] {
        carat_plan_options without = carat::Context::plan_options();
        without.workspace_limit = 0;
        return without;
    }());
    json["kernel"] = plan.kernel();

    auto& driver = const_cast<Driver&>(**carat::cuda::driver());
    carat::cuda::CuContext primary = nullptr;
    if (driver.primary_retain(&primary, 0) != 0 || driver.context_push(primary) != 0)
        throw std::runtime_error("the primary context could not be made current");
    record_launch(driver, plan, operands, stream.get());

    std::vector<Contestant> all = {{"bare_launch", [&] { launch_bare(driver); }},
                                   {"execute", [&] { plan.execute(operands, stream.get()); }},
                                   {"one_call", [&] { gemm(context, problem, operands, stream.get()); }},
                                   {"plan_cached", [&] { context.plan(problem); }}};
    for (const Contestant& one : all) one.call();  // warm
    stream.synchronize();
    take_turns(all, stream);
    for (const Contestant& one : all) json[one.name] = summary(one.us);
    carat::cuda::CuContext popped = nullptr;
    driver.context_pop(&popped);
    return json;
}

void print(const Json& json) {
    fmt::print("{} x {} x {} bf16 by {}\n", json["m"].dump(), json["n"].dump(), json["k"].dump(),
               json["kernel"].get<std::string>());
    for (const auto& [name, value] : json.items()) {
        if (value.is_object())
            fmt::print("{:<28} {:10.2f} us, 95 % below {:.2f} us\n", name, value["median_us"].get<double>(),
                       value["p95_us"].get<double>());
        else if (name.ends_with("_us"))
            fmt::print("{:<28} {:10.1f} us\n", name, value.get<double>());
    }
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app("What planning and executing cost the calling thread on a GPU.");
    int64_t m = 16, n = 512, k = 512;
    std::string output;
    app.add_option("--m", m, "Rows of D")->check(CLI::PositiveNumber);
    app.add_option("--n", n, "Columns of D")->check(CLI::PositiveNumber);
    app.add_option("--k", k, "The depth; small, so that the GPU keeps up")->check(CLI::PositiveNumber);
    app.add_option("--output", output, "A file for the JSON \"carat.host_cost/1\"");
    CLI11_PARSE(app, argc, argv);
    if (const auto info = carat::cuda::driver(); !info.ok()) {
        fmt::print(stderr, "host_cost measures on a GPU, and there is none: {}\n", info.status().sentence());
        return kNoGpu;
    }
    const Json json = measure(carat::gemm_problem(m, n, k, CARAT_BF16, "nt"));
    print(json);
    if (!output.empty() && !(std::ofstream(output) << json.dump(2) << "\n")) {
        fmt::print(stderr, "{} could not be written\n", output);
        return kFailed;
    }
    return 0;
} catch (const std::exception& error) {
    fmt::print(stderr, "host_cost failed: {}\n", error.what());
    return kFailed;
}
