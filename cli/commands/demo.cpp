// SPDX-License-Identifier: Apache-2.0
// demo.cpp: `carat demo`: the linear layers of a real model on whatever is here, each checked against the reference. The
// weights are random numbers of the model's shapes: no weights are downloaded.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "commands/commands.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "shapes.hpp"

namespace carat::cli {
namespace {

// A layer that needs more than half of the free memory, or than this of a machine with less than 8 GB free, is left out.
constexpr double kSmallMachineBytes = 8e9, kLargestOnSmallMachine = 8e8;

struct DemoFlags {
    Output output;
    MachineFlags machine;
    std::string model = "llama-3.1-8b", tokens = "1,16,128", dtype, timeout = "0";
    bool all_models = false;
};

struct LayerResult {
    std::string model, layer, note, skipped;
    carat_problem problem;
    std::string kernel;
    Timing timing;
    Floor floor;
    CheckReport check;
};

double free_memory() {
    std::FILE* file = std::fopen("/proc/meminfo", "r");
    if (!file) return INFINITY;
    char line[256];
    double kilobytes = INFINITY;
    while (std::fgets(line, sizeof line, file))
        if (std::sscanf(line, "MemAvailable: %lf", &kilobytes) == 1) break;
    std::fclose(file);
    return kilobytes * 1024;
}

std::string too_large(const Context& context, double bytes) {
    if (context.backend() != CARAT_BACKEND_CPU) return "";
    const double available = free_memory();
    if (available < kSmallMachineBytes ? bytes < kLargestOnSmallMachine : bytes < available / 2) return "";
    return fmt::format("needs {}, and {} of memory are free", human_bytes(bytes), human_bytes(available));
}

bool has_kernel(const Context& context, const carat_problem& problem) {
    const Json report = Json::parse(context.explain(problem), nullptr, false);
    return member(report, "chosen").is_object();
}

// The first type, of those that models are served in, that a kernel here takes.
std::string choose_dtype(const Context& context, const DemoFlags& flags) {
    if (!flags.dtype.empty()) return flags.dtype;
    for (const char* type : {"bf16", "f32"})
        if (has_kernel(context, gemm_problem(16, 4096, 4096, dtype(type), "nt"))) return type;
    fail(kNoDevice, "no kernel here takes bf16 or f32 linear layers: see `carat list` and `carat doctor`");
}

// The problem of a layer. A grouped one that no kernel takes becomes one expert with its expected share of the tokens.
carat_problem problem_of(const Context& context, const Shape& shape, const std::string& type, std::string& note) {
    ProblemFlags flags;
    flags.dtype = type;
    carat_problem problem = make_problem(flags, shape);
    if (shape.groups == 0) return problem;
    const double bytes = double(lay_out(problem).total);
    if (has_kernel(context, problem) && context.backend() == CARAT_BACKEND_CPU && too_large(context, bytes).empty()) {
        note = fmt::format("{} experts in one call", shape.groups);
        return problem;
    }
    Shape expert = shape;
    expert.groups = 0;
    expert.m = std::max<int64_t>(1, std::llround(double(shape.m) / double(shape.groups)));
    note = fmt::format("one expert of {}, at its expected share of the rows", shape.groups);
    return make_problem(flags, expert);
}

void run_layer(const Context& context, const Stream& stream, const DemoFlags& flags, LayerResult& r) {
    const double bytes = double(lay_out(r.problem).total);
    if (r.skipped = too_large(context, bytes); !r.skipped.empty()) return;
    const Plan plan = context.plan(r.problem, plan_options(flags.machine));
    r.kernel = plan.kernel();
    r.floor = floor_of(context, r.problem);
    auto sets = allocate_cold(context, r.problem, seed_of(flags.machine), 1, 0);
    Buffer workspace(context, std::max<size_t>(plan.workspace_bytes(), 1));
    sets->set_workspace(workspace);
    r.check = check_once(context, stream, plan, r.problem, (*sets)[0]);
    Repeater repeater(context, stream, *sets, [&plan](const Operands& o, void* s) { plan.execute(o, s); });
    r.timing = measure({[&] { return repeater.sample(); }}, {.seconds = 0.2, .least = 5, .warm_up = 0})[0];
}

Json layer_json(const LayerResult& r) {
    Json json = {{"model", r.model}, {"layer", r.layer}};
    json.update(problem_json(r.problem, 1, 0));
    json["kernel"] = maybe(r.kernel);
    const bool ran = r.skipped.empty();
    const double us = ran ? r.timing.us : NAN;
    json["us"] = maybe(us);
    json["tflops"] = maybe(tflops(flops_of(r.problem), us));
    json["gbps"] = maybe(gigabytes_per_second(r.floor.bytes, us));
    json["floor_us"] = maybe(r.floor.us);
    json["check"] = r.check.json(true);
    json["note"] = maybe(r.note);
    json["skipped"] = maybe(r.skipped);
    return json;
}

void add_row(Table& table, const LayerResult& r) {
    const carat_problem& p = r.problem;
    std::vector<Cell> row = {r.layer, std::to_string(p.m), std::to_string(p.n), std::to_string(p.k)};
    if (!r.skipped.empty()) {
        row.resize(10, Cell("-"));
        row.push_back(Cell("left out: " + r.skipped, Tone::warning));
        return table.add(row);
    }
    const double us = r.timing.us;
    for (const std::string& text :
         {r.kernel, human(us), human(tflops(flops_of(p), us) * 1e3), human(gigabytes_per_second(r.floor.bytes, us)),
          fmt::format("{:.0f} %", 100 * r.floor.us / us)})
        row.emplace_back(text);
    row.push_back(r.check.cell());
    row.push_back(Cell(r.note, Tone::faint));
    table.add(row);
}

void print_model(const std::vector<LayerResult>& results, const std::string& model, const DemoFlags& flags) {
    const bool colored = flags.output.colored(stdout);
    Table table({"layer", ">M", ">N", ">K", "kernel", ">us", ">GFLOP/s", ">GB/s", ">of floor", "check", ""});
    for (const LayerResult& r : results)
        if (r.model == model) add_row(table, r);
    if (!table.empty()) print(toned(model, Tone::strong, colored) + "\n" + table.str(colored) + "\n");
}

std::vector<std::string> models_to_run(const DemoFlags& flags) {
    if (!flags.all_models) return {flags.model};
    std::vector<std::string> names;
    const Json list = parse_json(carat::models(), "the list of models");
    for (const Json& model : member(list, "models")) names.push_back(text_at(model, "model", text_at(model, "name")));
    return names;
}

void print_opening(const Context& context, const std::string& type, const Json& env, const DemoFlags& flags) {
    const bool cuda = context.backend() == CARAT_BACKEND_CUDA;
    print(fmt::format("Carat {} on {}: {} layers with random weights of the real shapes, cold caches.\n\n",
                      carat_version(),
                      cuda ? fmt::format("the GPU {}", text_at(env, "device", "?"))
                           : fmt::format("the CPU ({}, {} threads; no usable GPU was found or asked for)",
                                         text_at(env, "device", "?"), number_at(env, "threads", 1)),
                      type));
    if (cuda && type == "f32" && flags.dtype.empty())
        print("No kernel for bf16 on this GPU is built in yet, so the layers run in f32.\n\n");
}

void print_closing(const std::vector<LayerResult>& results, const Context& context, const DemoFlags& flags) {
    size_t ran = 0, right = 0, full = 0;
    for (const LayerResult& r : results) {
        ran += r.skipped.empty();
        right += r.check.ran && r.check.result.ok;
        full += r.check.ran && r.check.result.full;
    }
    const bool cuda = context.backend() == CARAT_BACKEND_CUDA;
    print(fmt::format(
        "{} problems were run and {} agree with the f64 reference ({} checked entry by entry, {} by sampled entries "
        "and a "
        "product test).\nThese are numbers of this {}; \"of floor\" is the share of the least time its memory and "
        "arithmetic allow.\nGo on with `./carat demo --all-models`, `./carat explain --m 16 --n 6144 --k 4096`, "
        "`./carat "
        "bench --help`.\n",
        ran, right, full, right - full, cuda ? "GPU" : "CPU, not of a GPU"));
    if (!flags.all_models && ran < results.size())
        print("Layers that were left out need a machine with more free memory.\n");
}

ExitCode finish(const std::vector<LayerResult>& results, ExitCode stopped) {
    for (const LayerResult& r : results)
        if (!r.check.ok()) fail(kCheckFailed, "{} {} is wrong: {}", r.model, r.layer, describe_failure(r.check));
    if (stopped == kInterrupted) complain(fmt::format("interrupted: {} layers were done", results.size()));
    if (stopped == kTimeOut) complain(fmt::format("--timeout has passed: {} layers were done", results.size()));
    return stopped;
}

ExitCode run_demo(const DemoFlags& flags) {
    const std::vector<int64_t> tokens = parse_sizes(flags.tokens, "--tokens");
    const double limit = parse_real(flags.timeout, "--timeout");
    if (!flags.dtype.empty()) parse_dtype(flags.dtype, "--dtype");
    OutputFile file(flags.output.file);
    std::vector<std::pair<std::string, Shape>> layers;
    const std::vector<std::string> models = models_to_run(flags);
    for (const std::string& model : models)
        for (const Shape& shape : shapes_of_model(model, tokens, 1)) layers.emplace_back(model, shape);
    const Context context = make_context(flags.machine);
    const Stream stream(context);
    const Json env = environment_json(context, flags.machine);
    const std::string type = choose_dtype(context, flags);
    if (flags.output.tables()) print_opening(context, type, env, flags);
    catch_interrupts();
    set_time_limit(limit);

    std::vector<LayerResult> results;
    Progress progress(flags.output, layers.size());
    ExitCode stopped = kOk;
    for (size_t i = 0; i < layers.size() && (stopped = stop_asked()) == kOk; ++i) {
        const auto& [model, shape] = layers[i];
        LayerResult result = {.model = model, .layer = shape.name};
        result.problem = problem_of(context, shape, type, result.note);
        progress.next(model + " " + shape.name + " " + shape_name(result.problem));
        try {
            run_layer(context, stream, flags, result);
        } catch (const Error& error) {
            if (error.status() != CARAT_ALLOC_FAILED) throw;
            result.skipped = "the device's memory ran out";
        }
        results.push_back(std::move(result));
        const bool last_of_model = i + 1 == layers.size() || layers[i + 1].first != model;
        if (last_of_model) progress.clear();
        if (last_of_model && flags.output.tables()) print_model(results, model, flags);
    }
    progress.clear();
    if (stopped != kOk && flags.output.tables() && !results.empty()) print_model(results, results.back().model, flags);
    Json report = {{"schema", "carat.demo/1"}, {"env", env}, {"dtype", type}, {"results", Json::array()}};
    for (const LayerResult& r : results) report["results"].push_back(layer_json(r));
    file.commit(dump(report));
    print_json(flags.output, report);
    if (flags.output.tables()) print_closing(results, context, flags);
    return finish(results, stopped);
}

}  // namespace

Command add_demo(CLI::App& app) {
    auto flags = std::make_shared<DemoFlags>();
    app.add_option("--model", flags->model, "A bundled model or a config.json (default llama-3.1-8b)")
        ->type_name("NAME");
    app.add_flag("--all-models", flags->all_models, "All bundled models");
    app.add_option("--tokens", flags->tokens, "Tokens in a step (default 1,16,128)")->type_name("LIST");
    app.add_option("--dtype", flags->dtype, "Element type (default: bf16 where a kernel here takes it, else f32)")
        ->type_name("TYPE");
    app.add_option("--timeout", flags->timeout, "Stop after this many seconds, exit 7")->type_name("SECONDS");
    add_machine_flags(app, flags->machine);
    add_output_flags(app, flags->output, true);
    return [flags] { return run_demo(*flags); };
}

}  // namespace carat::cli
