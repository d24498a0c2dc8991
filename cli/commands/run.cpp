// SPDX-License-Identifier: Apache-2.0
// run.cpp: `carat run`: one problem on random data or on tensors from files, timed, checked, written.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <optional>

#include "commands/commands.hpp"
#include "io/tensor_file.hpp"
#include "report.hpp"

namespace carat::cli {
namespace {

struct RunFlags {
    Output output;
    ProblemFlags problem;
    MachineFlags machine;
    std::string a, b, c, out;
    bool check = false;
};

// The tensors of a run's files, in the types they are multiplied in.
struct Files {
    std::optional<Tensor> a, b, c, bias;
};

carat_dtype wanted_type(const std::string& own, const ProblemFlags& flags, const char* flag) {
    if (!own.empty()) return parse_dtype(own, flag);
    return flags.dtype_given ? parse_dtype(flags.dtype, "--dtype") : CARAT_NONE;
}

Tensor read_file(const std::string& reference, const char* flag, carat_dtype wanted) {
    const auto parsed = parse_reference(reference);
    if (!parsed.ok()) fail(kUsage, "{}: {}", flag, parsed.status().sentence());
    auto tensor = read_tensor(reference, wanted);
    if (!tensor.ok()) fail(kInputOutput, "{}: {}", flag, tensor.status().sentence());
    if (wanted == CARAT_NONE || wanted == tensor->dtype) return *std::move(tensor);
    if (carat_dtype_bits(wanted) < 8 || carat_dtype_bits(tensor->dtype) < 8)
        fail(kUsage, "{} {} is {}: it cannot be converted to {} here", flag, one_line(reference),
             dtype_text(tensor->dtype), dtype_text(wanted));
    const auto bytes = convert_elements(tensor->data(), tensor->dtype, wanted, tensor->elements());
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    return make_tensor(wanted, tensor->shape, {begin, begin + bytes.size()});
}

std::string named(const char* flag, const std::string& reference, const Tensor& tensor) {
    return fmt::format("{} {} of shape {}", flag, one_line(reference), tensor.shape_text());
}

// Sets an extent from a file, against what flags or another file say of it.
void agree(std::string& extent, std::string& origin, int64_t value, const char* letter, const std::string& who) {
    const std::string text = std::to_string(value);
    if (extent.empty()) {
        extent = text;
        origin = who;
    } else if (extent != text) {
        const std::string other =
            origin.empty() ? fmt::format("--{} is {}", static_cast<char>(std::tolower(*letter)), one_line(extent))
                           : fmt::format("{} has {} = {}", origin, letter, extent);
        fail(kUsage, "{} has {} = {}, but {}", who, letter, text, other);
    }
}

// M, N and K from the shapes of A and B. Leading dimensions of A are rows, as in torch's linear.
void deduce_extents(const RunFlags& flags, const Files& files, ProblemFlags& p) {
    std::string m_from, n_from, k_from;
    if (files.a) {
        const std::string who = named("--a", flags.a, *files.a);
        const auto& shape = files.a->shape;
        const bool transposed = p.layout.starts_with('t');
        if (shape.empty() || (transposed && shape.size() != 2))
            fail(kUsage, "{} is no matrix: layout {} takes A as {}", who, p.layout,
                 transposed ? "(K, M)" : "(..., M, K)");
        int64_t rows = 1;
        for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
        agree(p.m, m_from, transposed ? shape[1] : rows, "M", who);
        agree(p.k, k_from, transposed ? shape[0] : shape.back(), "K", who);
    }
    if (files.b) {
        const std::string who = named("--b", flags.b, *files.b);
        const auto& shape = files.b->shape;
        const bool transposed = p.layout.ends_with('t');
        if (shape.size() != 2)
            fail(kUsage, "{} is no matrix: layout {} takes B as {}", who, p.layout, transposed ? "(N, K)" : "(K, N)");
        agree(p.n, n_from, transposed ? shape[0] : shape[1], "N", who);
        agree(p.k, k_from, transposed ? shape[1] : shape[0], "K", who);
    }
}

void expect_shape(const Tensor& tensor, const std::vector<int64_t>& wanted, const std::string& who, const char* why) {
    if (tensor.shape != wanted) fail(kUsage, "{} does not fit: {} takes {}", who, why, shape_text(wanted));
}

// Reads the files, fills in what they say about the problem, and makes it.
carat_problem prepare_problem(RunFlags& flags, Files& files) {
    ProblemFlags& p = flags.problem;
    const bool any_file = !(flags.a.empty() && flags.b.empty() && flags.c.empty());
    if (any_file && !(p.batch.empty() && p.groups.empty()))
        fail(kUsage, "--batch and --groups take random data: run files without them");
    const bool rows_only = !flags.c.empty() || !flags.out.empty();
    if (rows_only && p.d_order == "col")
        fail(kUsage, "--d-order col: files are row-major, so --c and --out take --d-order row");
    if (!flags.a.empty()) files.a = read_file(flags.a, "--a", wanted_type(p.dtype_a, p, "--dtype-a"));
    if (!flags.b.empty()) files.b = read_file(flags.b, "--b", wanted_type(p.dtype_b, p, "--dtype-b"));
    if (!flags.c.empty())
        files.c = read_file(flags.c, "--c", p.dtype_c.empty() ? CARAT_NONE : parse_dtype(p.dtype_c, "--dtype-c"));
    deduce_extents(flags, files, p);
    if (files.a) p.dtype_a = dtype_text(files.a->dtype);
    if (files.b) p.dtype_b = dtype_text(files.b->dtype);
    if (!p.dtype_given && !files.a && files.b && carat_dtype_bits(files.b->dtype) >= 8) p.dtype = p.dtype_b;
    if (!p.dtype_given && files.a && !files.b && p.dtype_b.empty()) p.dtype_b = p.dtype_a;
    const bool word = p.bias.empty() || p.bias == "n" || p.bias == "m" || p.bias == "none";
    const std::string bias_file = word ? "" : std::exchange(p.bias, "");
    if (files.c) {
        p.dtype_c = dtype_text(files.c->dtype);
        if (p.beta == "0") p.beta = "1";
    }
    const std::vector<Shape> shapes = shapes_of_flags(p);
    if (shapes.size() != 1)
        fail(kUsage, "--m, --n and --k make {} problems: run takes one, bench takes many", shapes.size());
    carat_problem problem = make_problem(p, shapes[0]);
    if (files.c) expect_shape(*files.c, {problem.m, problem.n}, named("--c", flags.c, *files.c), "C");
    if (bias_file.empty()) return problem;
    files.bias = read_file(bias_file, "--bias", CARAT_NONE);
    if (files.bias->shape == std::vector<int64_t>{problem.n})
        problem.epilogue.bias = CARAT_BIAS_N;
    else if (files.bias->shape == std::vector<int64_t>{problem.m})
        problem.epilogue.bias = CARAT_BIAS_M;
    else
        expect_shape(*files.bias, {problem.n}, named("--bias", bias_file, *files.bias), "a bias along N");
    problem.epilogue.bias_dtype = files.bias->dtype;
    return problem;
}

void write_result(const RunFlags& flags, const Files& files, const Context& context, const carat_problem& problem,
                  const OperandSets& sets) {
    if (flags.out.empty()) return;
    std::vector<std::byte> bytes(sets.layout().d.bytes);
    if (!bytes.empty()) check(carat_memory_copy(context.get(), bytes.data(), sets[0].d, bytes.size()));
    std::vector<int64_t> shape = {problem.m, columns_of_d(problem)};
    if (files.a && files.a->shape.size() > 2) {
        shape = files.a->shape;
        shape.back() = columns_of_d(problem);
    }
    if (problem.mode == CARAT_BATCHED) shape.insert(shape.begin(), problem.batch);
    const Status status = write_tensor(flags.out, make_tensor(problem.d.dtype, shape, std::move(bytes)));
    if (!status.ok()) fail(kInputOutput, "--out: {}", status.sentence());
}

struct Outcome {
    std::string kernel;
    double predicted_us = NAN;
    Timing timing;
    CheckReport check;
    Floor floor;
};

void print_outcome(const Outcome& o, const carat_problem& problem, const RunFlags& flags, const Json& env) {
    const bool colored = flags.output.colored(stdout);
    Table table({"problem", shape_name(problem)});
    if (const std::string recipe = recipe_name(problem); !recipe.empty()) table.add({"recipe", recipe});
    const std::string epilogue =
        epilogue_name(problem, parse_real(flags.problem.alpha, "--alpha"), parse_real(flags.problem.beta, "--beta"));
    if (!epilogue.empty()) table.add({"epilogue", epilogue});
    table.add({"device", text_at(env, "device", text_at(env, "backend"))});
    table.add({"kernel", o.kernel});
    table.add({"time", fmt::format("{} us, warm caches ({} GFLOP/s, {} GB/s)", human(o.timing.us),
                                   human(tflops(flops_of(problem), o.timing.us) * 1e3),
                                   human(gigabytes_per_second(o.floor.bytes, o.timing.us)))});
    table.add({"floor", fmt::format("{} us, bound by {}", human(o.floor.us), o.floor.bound)});
    table.add({"check", o.check.cell()});
    if (o.check.ran)
        table.add({"error", fmt::format("{:.3g} of a bound of {:.3g}, {} entries", o.check.result.error,
                                        o.check.result.bound, o.check.result.entries)});
    if (!flags.out.empty()) table.add({"written", one_line(flags.out)});
    print(table.str(colored));
}

Json outcome_json(const Outcome& o, const carat_problem& problem, const RunFlags& flags, const Json& env) {
    Json json = {{"schema", "carat.run/1"}, {"env", env}};
    json.update(
        problem_json(problem, parse_real(flags.problem.alpha, "--alpha"), parse_real(flags.problem.beta, "--beta")));
    json["backend"] = member(env, "backend");
    json["kernel"] = o.kernel;
    json["us"] = maybe(o.timing.us);
    json["tflops"] = maybe(tflops(flops_of(problem), o.timing.us));
    json["gbps"] = maybe(gigabytes_per_second(o.floor.bytes, o.timing.us));
    json["floor_us"] = maybe(o.floor.us);
    json["predicted_us"] = maybe(o.predicted_us);
    json["check"] = o.check.json(true);
    json["out"] = maybe(flags.out);
    return json;
}

Outcome execute(const RunFlags& flags, const Files& files, const Context& context, const carat_problem& problem) {
    const double alpha = parse_real(flags.problem.alpha, "--alpha"), beta = parse_real(flags.problem.beta, "--beta");
    const Plan plan = context.plan(problem, plan_options(flags.machine));
    OperandSets sets(context, problem, 1, seed_of(flags.machine), alpha, beta);
    if (files.a) sets.upload(sets.layout().a, files.a->data(), files.a->bytes.size());
    if (files.b) sets.upload(sets.layout().b, files.b->data(), files.b->bytes.size());
    if (files.c) sets.upload(sets.layout().c, files.c->data(), files.c->bytes.size());
    if (files.bias) sets.upload(sets.layout().bias, files.bias->data(), files.bias->bytes.size());
    Buffer workspace(context, std::max<size_t>(plan.workspace_bytes(), 1));
    sets.set_workspace(workspace);
    const Stream stream(context);
    Outcome outcome;
    outcome.kernel = plan.kernel();
    outcome.predicted_us = plan.predicted_us();
    if (flags.check) outcome.check = check_once(context, stream, plan, problem, sets[0]);
    Repeater repeater(context, stream, sets, [&plan](const Operands& o, void* s) { plan.execute(o, s); });
    outcome.timing = measure({[&] { return repeater.sample(); }}, {.seconds = 0.25, .least = 3, .warm_up = 0})[0];
    outcome.floor = floor_of(context, problem);
    if (outcome.check.ok()) write_result(flags, files, context, problem, sets);
    return outcome;
}

ExitCode run_run(RunFlags flags) {
    Files files;
    const carat_problem problem = prepare_problem(flags, files);
    OutputFile file(flags.output.file);
    const Context context = make_context(flags.machine);
    const Outcome outcome = execute(flags, files, context, problem);
    Json env = environment_json(context, flags.machine);
    env["l2"] = "warm";
    const Json json = outcome_json(outcome, problem, flags, env);
    file.commit(dump(json));
    print_json(flags.output, json);
    if (flags.output.tables()) print_outcome(outcome, problem, flags, env);
    if (!outcome.check.ok()) fail(kCheckFailed, "the result is wrong: {}", describe_failure(outcome.check));
    return kOk;
}

}  // namespace

Command add_run(CLI::App& app) {
    auto flags = std::make_shared<RunFlags>();
    app.add_option("--a", flags->a, "A from x.npy or x.safetensors:NAME; its leading dimensions are rows")
        ->type_name("FILE");
    app.add_option("--b", flags->b, "B; layout nt takes it as (N, K), as checkpoints store weights")->type_name("FILE");
    app.add_option("--c", flags->c, "C; beta is 1 unless given")->type_name("FILE");
    app.add_option("--bias", flags->problem.bias, "A random bias along N or M (n or m), or a file of N or M numbers")
        ->type_name("n|m|FILE");
    app.add_option("--out", flags->out, "Write D to y.npy or y.safetensors[:NAME]")->type_name("FILE");
    app.add_flag("--check", flags->check, "Compare the result with the f64 reference; exit 4 if it is wrong");
    add_problem_flags(app, flags->problem, ShapeFlags::optional);
    add_machine_flags(app, flags->machine);
    add_output_flags(app, flags->output, true);
    return [flags] { return run_run(*flags); };
}

}  // namespace carat::cli
