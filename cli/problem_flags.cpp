// SPDX-License-Identifier: Apache-2.0
#include "problem_flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <limits>

namespace carat::cli {
namespace {

constexpr int64_t kLargestExtent = int64_t(1) << 40;
constexpr size_t kMostSizes = 4096;

template <class T>
struct Word {
    const char* name;
    T value;
};

constexpr Word<carat_activation> kActivations[] = {{"none", CARAT_ACT_NONE},     {"relu", CARAT_ACT_RELU},
                                                   {"gelu", CARAT_ACT_GELU_ERF}, {"gelu-tanh", CARAT_ACT_GELU_TANH},
                                                   {"silu", CARAT_ACT_SILU},     {"sigmoid", CARAT_ACT_SIGMOID}};
constexpr Word<carat_gate> kGates[] = {{"interleaved", CARAT_GATE_INTERLEAVED}, {"split", CARAT_GATE_SPLIT}};
constexpr Word<carat_out_scale> kOutScales[] = {
    {"tensor", CARAT_OUT_SCALE_TENSOR}, {"row", CARAT_OUT_SCALE_ROW}, {"1x128", CARAT_OUT_SCALE_COMPUTED_1X128}};
constexpr Word<carat_compute> kComputes[] = {{"default", CARAT_COMPUTE_DEFAULT}, {"f32", CARAT_COMPUTE_F32},
                                             {"tf32", CARAT_COMPUTE_TF32},       {"3xtf32", CARAT_COMPUTE_3XTF32},
                                             {"bf16x9", CARAT_COMPUTE_BF16X9},   {"promoted", CARAT_COMPUTE_PROMOTED},
                                             {"fast", CARAT_COMPUTE_FAST}};
constexpr Word<carat_recipe> kRecipes[] = {{"none", CARAT_SCALE_NONE},
                                           {"tensorwise", CARAT_SCALE_TENSOR_WISE},
                                           {"rowwise", CARAT_SCALE_ROW_WISE},
                                           {"1x128", CARAT_SCALE_BLOCK_WISE_1X128},
                                           {"128x128", CARAT_SCALE_BLOCK_WISE_128X128}};
constexpr Word<carat_backend> kBackends[] = {
    {"auto", CARAT_BACKEND_AUTO}, {"cpu", CARAT_BACKEND_CPU}, {"cuda", CARAT_BACKEND_CUDA}};
constexpr Word<carat_numerics> kNumerics[] = {
    {"deterministic", CARAT_DETERMINISTIC}, {"batch_invariant", CARAT_BATCH_INVARIANT}, {"fast", CARAT_FAST}};
constexpr Word<carat_order> kOrders[] = {{"row", CARAT_ROW_MAJOR}, {"col", CARAT_COL_MAJOR}};
constexpr Word<int> kLayouts[] = {{"nt", 0}, {"nn", 1}, {"tn", 2}, {"tt", 3}};

template <class T, size_t N>
std::string names_of(const Word<T> (&words)[N]) {
    std::vector<std::string> names;
    for (const auto& word : words) names.emplace_back(word.name);
    return join(names, ", ");
}

template <class T, size_t N>
T parse_word(const Word<T> (&words)[N], const std::string& text, const std::string& flag) {
    for (const auto& word : words)
        if (text == word.name) return word.value;
    fail(kUsage, "{} got \"{}\": it takes one of {}", flag, one_line(text), names_of(words));
}

template <class T, size_t N>
const char* word_of(const Word<T> (&words)[N], T value) {
    for (const auto& word : words)
        if (value == word.value) return word.name;
    return "?";
}

carat_scale parse_recipe(const std::string& text, bool for_b) {
    carat_scale scale = {CARAT_SCALE_NONE, 0, 0, CARAT_ROW_MAJOR, 0, CARAT_PACKED};
    if (text.starts_with("groupwise")) {
        if (!for_b) fail(kUsage, "--recipe got \"{}\" for A: groupwise scales belong to B", one_line(text));
        std::string group = text.substr(9);
        if (group.ends_with(":zero")) scale.zero_points = 1, group.resize(group.size() - 5);
        if (!group.starts_with(':'))
            fail(kUsage, "--recipe got \"{}\": write groupwise:SIZE or groupwise:SIZE:zero", one_line(text));
        scale.recipe = CARAT_SCALE_GROUP_WISE;
        scale.group = static_cast<int32_t>(parse_integer(group.substr(1), "--recipe groupwise", 1, 1 << 30));
        return scale;
    }
    for (const auto& word : kRecipes)
        if (text == word.name) return scale.recipe = word.value, scale;
    fail(kUsage, "--recipe got \"{}\": it takes one of {}, and groupwise:SIZE[:zero] for B", one_line(text),
         names_of(kRecipes));
}

void apply_recipe(carat_problem& p, const std::string& text) {
    if (text.empty()) return;
    const std::vector<std::string> parts = split(text, ',');
    if (parts.size() > 2)
        fail(kUsage, "--recipe got \"{}\": it takes A's recipe and B's, as in 1x128,128x128", one_line(text));
    if (parts.size() == 2) {
        p.scale_a = parse_recipe(parts[0], false);
        p.scale_b = parse_recipe(parts[1], true);
        return;
    }
    p.scale_b = parse_recipe(text, true);
    if (p.scale_b.recipe != CARAT_SCALE_GROUP_WISE && carat_dtype_bits(p.a.dtype) <= 8) p.scale_a = p.scale_b;
}

void apply_epilogue(carat_problem& p, const ProblemFlags& flags) {
    carat_epilogue& e = p.epilogue;
    if (!flags.bias.empty() && flags.bias != "none") {
        static constexpr Word<carat_bias> kBiases[] = {{"n", CARAT_BIAS_N}, {"m", CARAT_BIAS_M}};
        e.bias = parse_word(kBiases, flags.bias, "--bias");
        e.bias_dtype = default_bias_dtype(p);
    }
    std::string activation = flags.activation;
    std::replace(activation.begin(), activation.end(), '_', '-');
    e.activation = parse_word(kActivations, activation == "gelu-erf" ? "gelu" : activation, "--activation");
    if (!flags.gate.empty()) e.gate = parse_word(kGates, flags.gate, "--gate");
    if (!flags.out_scale.empty()) e.out_scale = parse_word(kOutScales, flags.out_scale, "--out-scale");
    e.amax = flags.amax;
    if (flags.clamp.empty()) return;
    const std::vector<std::string> ends = split(flags.clamp, ',');
    if (ends.size() != 2) fail(kUsage, "--clamp got \"{}\": it takes LO,HI", one_line(flags.clamp));
    e.clamp = 1;
    e.clamp_lo = static_cast<float>(parse_real(ends[0], "--clamp"));
    e.clamp_hi = static_cast<float>(parse_real(ends[1], "--clamp"));
}

void apply_types(carat_problem& p, const ProblemFlags& flags) {
    if (!flags.dtype_a.empty()) p.a.dtype = parse_dtype(flags.dtype_a, "--dtype-a");
    if (!flags.dtype_b.empty()) p.b.dtype = parse_dtype(flags.dtype_b, "--dtype-b");
    if (!flags.dtype_d.empty()) p.d.dtype = parse_dtype(flags.dtype_d, "--dtype-d");
    const bool has_c = parse_real(flags.beta, "--beta") != 0 || !flags.dtype_c.empty();
    if (has_c) p.c.dtype = flags.dtype_c.empty() ? p.d.dtype : parse_dtype(flags.dtype_c, "--dtype-c");
}

void apply_mode(carat_problem& p, const ProblemFlags& flags, const Shape& shape) {
    const int64_t batch = flags.batch.empty() ? 0 : parse_integer(flags.batch, "--batch", 0, kLargestExtent);
    int64_t groups = shape.groups;
    if (!groups && !flags.groups.empty()) groups = parse_integer(flags.groups, "--groups", 1, 1 << 20);
    if (groups && !flags.batch.empty())
        fail(kUsage, "--batch and --groups were both given: a problem is batched or grouped");
    for (carat_matrix* x : {&p.a, &p.b, &p.c, &p.d}) x->batch_stride = CARAT_PACKED;
    if (groups) {
        p.mode = CARAT_GROUPED;
        p.group_form = CARAT_GROUP_M_OFFSETS;
        p.batch = groups;
    } else if (!flags.batch.empty()) {
        p.mode = CARAT_BATCHED;
        p.batch = batch;
    }
}

void parse_range(const std::string& part, const std::string& flag, std::vector<int64_t>& sizes) {
    const std::vector<std::string> ends = split(part, ':');
    if (ends.size() == 1) return sizes.push_back(parse_integer(part, flag, 0, kLargestExtent));
    if (ends.size() != 3)
        fail(kUsage, "{} got \"{}\": a range is first:last:step or first:last:xfactor", flag, one_line(part));
    const int64_t first = parse_integer(ends[0], flag, 0, kLargestExtent);
    const int64_t last = parse_integer(ends[1], flag, first, kLargestExtent);
    const bool factor = ends[2].starts_with('x');
    const int64_t step = parse_integer(factor ? ends[2].substr(1) : ends[2], flag, factor ? 2 : 1, kLargestExtent);
    if (factor && first == 0)
        fail(kUsage, "{} got \"{}\": a range with a factor starts at 1 or more", flag, one_line(part));
    for (int64_t value = first; value <= last && sizes.size() <= kMostSizes;
         value = factor ? value * step : value + step)
        sizes.push_back(value);
}

}  // namespace

void add_problem_flags(CLI::App& app, ProblemFlags& f, ShapeFlags shapes) {
    const std::string many =
        shapes == ShapeFlags::lists ? ": a number, a list 1,16,64, a range 128:1024:128 or 1:4096:x2" : "";
    app.add_option("--m", f.m, "Rows of A and D (tokens)" + many)->type_name("M");
    app.add_option("--n", f.n, "Columns of B (out features)" + many)->type_name("N");
    app.add_option("--k", f.k, "Columns of A, rows of B (in features)" + many)->type_name("K");
    app.add_option_function<std::string>(
           "--dtype", [&f](const std::string& text) { f.dtype = text, f.dtype_given = true; },
           "Element type: f64 f32 f16 bf16 e4m3 e5m2 s8 (default f32)")
        ->type_name("TYPE");
    app.add_option("--dtype-a", f.dtype_a, "Type of A, where it differs")->type_name("TYPE");
    app.add_option("--dtype-b", f.dtype_b, "Type of B, where it differs (s4, u4: weights only)")->type_name("TYPE");
    app.add_option("--dtype-c", f.dtype_c, "Type of C (default: D's)")->type_name("TYPE");
    app.add_option("--dtype-d", f.dtype_d, "Type of D (default: A's; s32 for s8, bf16 for FP8)")->type_name("TYPE");
    app.add_option("--layout", f.layout, "Transposition of A and B over row-major storage: nt nn tn tt (default nt)")
        ->type_name("LAYOUT");
    app.add_option("--d-order", f.d_order, "Storage of C and D: row or col (default row)")->type_name("ORDER");
    app.add_option("--alpha", f.alpha, "Factor of A B (default 1)")->type_name("X");
    app.add_option("--beta", f.beta, "Factor of C (default 0)")->type_name("X");
    if (shapes != ShapeFlags::optional)
        app.add_option("--bias", f.bias, "A bias along N or M: n or m")->type_name("n|m");
    app.add_option("--activation", f.activation, names_of(kActivations))->type_name("NAME");
    app.add_option("--gate", f.gate, "Gated epilogue: interleaved or split columns")->type_name("NAME");
    app.add_option("--clamp", f.clamp, "Clamp to LO,HI")->type_name("LO,HI");
    app.add_option("--out-scale", f.out_scale, "Output scale: tensor, row, 1x128 (computed)")->type_name("NAME");
    app.add_flag("--amax", f.amax, "Also compute max |v|");
    app.add_option("--batch", f.batch, "Problems of one shape")->type_name("B");
    app.add_option("--groups", f.groups, "Groups that share the M rows evenly, each with a B of its own")
        ->type_name("G");
    app.add_option("--recipe", f.recipe,
                   "Scale recipe of A,B: tensorwise rowwise 1x128 128x128 none, groupwise:SIZE[:zero] for B")
        ->type_name("A,B");
    app.add_option("--compute", f.compute, names_of(kComputes))->type_name("MODE");
}

void add_machine_flags(CLI::App& app, MachineFlags& f, bool with_target) {
    app.add_option("--backend", f.backend, "auto (a GPU if one is there), cpu or cuda")->type_name("NAME");
    app.add_option("--kernel", f.kernel, "A row of `carat list` or a full configuration name")->type_name("NAME");
    app.add_option("--numerics", f.numerics,
                   "What of the bits is promised: deterministic (default), batch_invariant, fast")
        ->type_name("NAME");
    app.add_option("--threads", f.threads, "Threads of the CPU backend (default: all allowed)")->type_name("N");
    app.add_option("--device", f.device, "CUDA device (default 0)")->type_name("N");
    app.add_option("--cache-dir", f.cache_dir, "Where compiled kernels are kept")->type_name("DIR");
    app.add_option("--tuning", f.tuning, "The tuning database to use, or off (docs/tuning.md)")->type_name("FILE|off");
    app.add_option("--seed", f.seed, "Seed of the random data (default 0)")->type_name("N");
    if (with_target)
        app.add_option("--target", f.target, "Plan for this GPU of `carat list`, with no such GPU here")
            ->type_name("GPU");
}

std::vector<int64_t> parse_sizes(const std::string& text, const std::string& flag) {
    std::vector<int64_t> sizes;
    for (const std::string& part : split(text, ',')) parse_range(part, flag, sizes);
    if (sizes.size() > kMostSizes) fail(kUsage, "{} lists more than {} sizes", flag, kMostSizes);
    return sizes;
}

std::vector<Shape> shapes_of_flags(const ProblemFlags& flags) {
    const std::array<std::pair<const char*, const std::string*>, 3> given = {
        {{"--m", &flags.m}, {"--n", &flags.n}, {"--k", &flags.k}}};
    for (const auto& [flag, text] : given)
        if (text->empty()) fail(kUsage, "{} is missing: a problem needs --m, --n and --k", flag);
    std::vector<Shape> shapes;
    const auto ms = parse_sizes(flags.m, "--m"), ns = parse_sizes(flags.n, "--n"), ks = parse_sizes(flags.k, "--k");
    if (ms.size() * ns.size() * ks.size() > kMostSizes)
        fail(kUsage, "--m, --n and --k make {} problems: the most is {}", ms.size() * ns.size() * ks.size(),
             kMostSizes);
    for (int64_t n : ns)
        for (int64_t k : ks)
            for (int64_t m : ms) shapes.push_back({.m = m, .n = n, .k = k});
    return shapes;
}

carat_dtype parse_dtype(const std::string& text, const std::string& flag) {
    carat_dtype type = CARAT_NONE;
    if (carat_dtype_parse(text.c_str(), &type) == CARAT_SUCCESS && type != CARAT_NONE) return type;
    std::vector<std::string> names;
    for (int i = CARAT_F64; i <= CARAT_U4; ++i) names.emplace_back(carat_dtype_name(static_cast<carat_dtype>(i)));
    fail(kUsage, "{} got \"{}\": it takes one of {}", flag, one_line(text), join(names, ", "));
}

carat_dtype default_bias_dtype(const carat_problem& p) {
    switch (p.d.dtype) {
        case CARAT_F64:
        case CARAT_F32:
        case CARAT_F16:
        case CARAT_BF16:
            return p.d.dtype;
        default:
            return CARAT_F32;
    }
}

carat_problem make_problem(const ProblemFlags& flags, const Shape& shape) {
    const std::string layout = shape.layout.empty() ? flags.layout : shape.layout;
    // A typed --dtype stands above a file's, so that one suite serves several types.
    const std::string dtype = shape.dtype.empty() || flags.dtype_given ? flags.dtype : shape.dtype;
    parse_word(kLayouts, layout, "--layout");
    carat_problem p;
    const carat_dtype a =
        flags.dtype_a.empty() ? parse_dtype(dtype, "--dtype") : parse_dtype(flags.dtype_a, "--dtype-a");
    check(carat_problem_init(&p, shape.m, shape.n, shape.k, a, layout.c_str()));
    if (!flags.dtype_a.empty() && flags.dtype_given) p.b.dtype = parse_dtype(dtype, "--dtype");
    p.d.order = p.c.order = parse_word(kOrders, flags.d_order, "--d-order");
    p.compute = parse_word(kComputes, flags.compute, "--compute");
    parse_real(flags.alpha, "--alpha");
    apply_types(p, flags);
    apply_mode(p, flags, shape);
    apply_recipe(p, flags.recipe);
    apply_epilogue(p, flags);
    return p;
}

Context make_context(const MachineFlags& flags) {
    carat_context_options options = Context::default_options();
    options.backend = parse_word(kBackends, flags.backend, "--backend");
    if (!flags.device.empty()) options.device = static_cast<int32_t>(parse_integer(flags.device, "--device", 0, 1023));
    if (!flags.threads.empty())
        options.threads = static_cast<int32_t>(parse_integer(flags.threads, "--threads", 1, 4096));
    if (!flags.cache_dir.empty()) options.cache_dir = flags.cache_dir.c_str();
    if (!flags.tuning.empty()) options.tuning = flags.tuning.c_str();
    if (!flags.target.empty()) options.target = flags.target.c_str();
    seed_of(flags);
    return Context(options);
}

carat_plan_options plan_options(const MachineFlags& flags) {
    carat_plan_options options = Context::plan_options(flags.kernel.c_str());
    std::string numerics = flags.numerics;
    std::replace(numerics.begin(), numerics.end(), '-', '_');
    options.numerics = parse_word(kNumerics, numerics, "--numerics");
    return options;
}

uint64_t seed_of(const MachineFlags& flags) {
    return static_cast<uint64_t>(parse_integer(flags.seed, "--seed", 0, std::numeric_limits<int64_t>::max()));
}

const char* layout_name(const carat_problem& p) {
    const bool a_t = p.a.order == CARAT_COL_MAJOR, b_t = p.b.order == CARAT_COL_MAJOR;
    return a_t ? (b_t ? "tt" : "tn") : (b_t ? "nt" : "nn");
}

std::string dtype_name(const carat_problem& p) {
    const std::string a = carat_dtype_name(p.a.dtype), b = carat_dtype_name(p.b.dtype), d = carat_dtype_name(p.d.dtype);
    std::string text = a == b && a == d ? a : fmt::format("{},{},{}", a, b, d);
    if (p.compute != CARAT_COMPUTE_DEFAULT) text += fmt::format("/{}", word_of(kComputes, p.compute));
    return text;
}

std::string recipe_name(const carat_problem& p) {
    const auto one = [](const carat_scale& s) -> std::string {
        if (s.recipe != CARAT_SCALE_GROUP_WISE) return word_of(kRecipes, s.recipe);
        return fmt::format("groupwise:{}{}", s.group, s.zero_points ? ":zero" : "");
    };
    if (p.scale_a.recipe == CARAT_SCALE_NONE && p.scale_b.recipe == CARAT_SCALE_NONE) return "";
    return one(p.scale_a) + "," + one(p.scale_b);
}

std::string epilogue_name(const carat_problem& p, double alpha, double beta) {
    const carat_epilogue& e = p.epilogue;
    std::vector<std::string> words;
    if (alpha != 1) words.push_back(fmt::format("alpha={}", alpha));
    if (beta != 0) words.push_back(fmt::format("beta={}", beta));
    if (p.c.dtype != CARAT_NONE) words.push_back(fmt::format("c={}", carat_dtype_name(p.c.dtype)));
    if (e.bias != CARAT_BIAS_NONE)
        words.push_back(fmt::format("bias_{}={}", e.bias == CARAT_BIAS_N ? "n" : "m", carat_dtype_name(e.bias_dtype)));
    if (e.activation != CARAT_ACT_NONE) words.emplace_back(word_of(kActivations, e.activation));
    if (e.gate != CARAT_GATE_NONE) words.push_back(fmt::format("gate_{}", word_of(kGates, e.gate)));
    if (e.clamp) words.push_back(fmt::format("clamp={},{}", e.clamp_lo, e.clamp_hi));
    if (e.out_scale != CARAT_OUT_SCALE_NONE)
        words.push_back(fmt::format("out_scale_{}", word_of(kOutScales, e.out_scale)));
    if (e.amax) words.emplace_back("amax");
    if (p.d.order == CARAT_COL_MAJOR) words.emplace_back("d_col");
    return join(words, "+");
}

std::string shape_name(const carat_problem& p) {
    std::string text = fmt::format("{} x {} x {} {} {}", p.m, p.n, p.k, dtype_name(p), layout_name(p));
    if (p.mode == CARAT_BATCHED) text += fmt::format(" batch {}", p.batch);
    if (p.mode == CARAT_GROUPED) text += fmt::format(" groups {}", p.batch);
    return text;
}

double flops_of(const carat_problem& p) {
    return 2.0 * double(p.m) * double(p.n) * double(p.k) * (p.mode == CARAT_BATCHED ? double(p.batch) : 1.0);
}

int64_t columns_of_d(const carat_problem& p) {
    return p.epilogue.gate == CARAT_GATE_NONE ? p.n : p.n / 2;
}

}  // namespace carat::cli
