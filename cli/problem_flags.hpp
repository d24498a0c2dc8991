// SPDX-License-Identifier: Apache-2.0
// problem_flags.hpp: the flags that describe a problem and where it runs, shared by run, bench and explain, and the
// words that results use for a problem.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common.hpp"

namespace carat::cli {

// Every flag as typed; make_problem() and make_context() say what is wrong with them.
struct ProblemFlags {
    std::string m, n, k;
    std::string dtype = "f32", dtype_a, dtype_b, dtype_c, dtype_d;
    std::string layout = "nt", d_order = "row";
    std::string alpha = "1", beta = "0";
    std::string bias, activation = "none", gate, clamp;
    std::string out_scale;
    bool amax = false;
    std::string batch, groups;
    std::string recipe, compute = "default";
    bool dtype_given = false;  // --dtype was typed
};

struct MachineFlags {
    std::string backend = "auto", kernel, numerics = "deterministic", target, threads, device, cache_dir, tuning;
    std::string seed = "0";
};

// One problem of a sweep; what is empty comes from the flags.
struct Shape {
    int64_t m = 0, n = 0, k = 0;
    int64_t groups = 0;  // 0: not grouped
    std::string dtype, layout;
    std::string name;  // of a model's layer
};

enum class ShapeFlags { one, lists, optional };

void add_problem_flags(CLI::App& app, ProblemFlags& flags, ShapeFlags shapes);
void add_machine_flags(CLI::App& app, MachineFlags& flags, bool with_target = false);

// "64", "1,16,64", "128:1024:128" (first:last:step) and "1:4096:x2" (first:last:xfactor), mixed.
std::vector<int64_t> parse_sizes(const std::string& text, const std::string& flag);
// The product of --m, --n and --k.
std::vector<Shape> shapes_of_flags(const ProblemFlags& flags);

carat_problem make_problem(const ProblemFlags& flags, const Shape& shape);
carat_dtype parse_dtype(const std::string& text, const std::string& flag);
// The type of a bias where no flag says it: D's, or f32 where D is narrower than 16 bits or an integer.
carat_dtype default_bias_dtype(const carat_problem& problem);

Context make_context(const MachineFlags& flags);
// --kernel and --numerics; valid as long as the flags.
carat_plan_options plan_options(const MachineFlags& flags);
uint64_t seed_of(const MachineFlags& flags);

const char* layout_name(const carat_problem& problem);
std::string dtype_name(
    const carat_problem& problem);  // "bf16"; "bf16,s4,f32" of A, B, D; "f32/tf32" with a compute mode
std::string recipe_name(const carat_problem& problem);                               // "" if there is none
std::string epilogue_name(const carat_problem& problem, double alpha, double beta);  // "" if there is none
std::string shape_name(const carat_problem& problem);                                // "64 x 6144 x 4096 bf16 nt"
double flops_of(const carat_problem& problem);
int64_t columns_of_d(const carat_problem& problem);

}  // namespace carat::cli
