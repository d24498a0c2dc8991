// SPDX-License-Identifier: Apache-2.0
// plan.cpp: problems, plans and executions at the C border.
#include <cstddef>
#include <cstring>

#include "api/error.hpp"
#include "api/handles.hpp"
#include "api/validate.hpp"
#include "dispatch/prepare.hpp"

using namespace carat;
using namespace carat::api;

namespace {

carat_plan_options default_plan_options() {
    carat_plan_options options = {};
    options.struct_size = sizeof options;
    options.workspace_limit = SIZE_MAX;
    return options;
}

Status init_problem(carat_problem& p, int64_t m, int64_t n, int64_t k, carat_dtype dtype, const char* layout) {
    CARAT_TRY(require_pointer(layout, "layout"));
    const std::string_view text = layout;
    if (text.size() != 2 || (text[0] != 'n' && text[0] != 't') || (text[1] != 'n' && text[1] != 't'))
        return fail(CARAT_INVALID_VALUE, "layout is '{}': use nn, nt, tn or tt", layout);
    if (!is_valid(dtype) || dtype == CARAT_NONE)
        return fail(CARAT_INVALID_VALUE, "dtype is {}: use a type of carat_dtype", int(dtype));
    const bool fp8 = dtype == CARAT_E4M3 || dtype == CARAT_E5M2;
    const carat_dtype out = dtype == CARAT_S8 ? CARAT_S32 : fp8 ? CARAT_BF16 : dtype;
    p = {};
    p.struct_size = sizeof p;
    p.m = m, p.n = n, p.k = k, p.batch = 1;
    p.a = {dtype, text[0] == 'n' ? CARAT_ROW_MAJOR : CARAT_COL_MAJOR, 0, CARAT_PACKED};
    p.b = {dtype, text[1] == 'n' ? CARAT_ROW_MAJOR : CARAT_COL_MAJOR, 0, CARAT_PACKED};
    p.c = {CARAT_NONE, CARAT_ROW_MAJOR, 0, CARAT_PACKED};
    p.d = {out, CARAT_ROW_MAJOR, 0, CARAT_PACKED};
    p.scale_a.order = p.scale_b.order = CARAT_ROW_MAJOR;
    p.scale_a.batch_stride = p.scale_b.batch_stride = CARAT_PACKED;
    return {};
}

Status execute(const Planned& planned, const carat_operands* operands, void* stream) {
    CARAT_TRY(validate_operands(planned.problem, operands, planned.workspace_bytes));
    if (planned.problem.empty()) return {};
    if (planned.executions) planned.executions->fetch_add(1, std::memory_order_relaxed);
    return planned.executable->execute(*operands, stream);
}

using Shared = std::shared_ptr<const Planned>;

// Chooses, loads, and compiles unless the stream is being captured.
Result<Shared> make_plan(carat_context_s& context, const Problem& problem, const carat_plan_options& options) {
    auto plan = std::make_shared<Planned>();
    plan->problem = problem;
    plan->target = &context.target();
    CARAT_ASSIGN(std::vector<Candidate> candidates, rank(problem, *plan->target, options.kernel ? options.kernel : "",
                                                         options.workspace_limit, &context.tuning()));
    plan->chosen = candidates.front();
    plan->kernel = plan->chosen.config.name();
    if (context.trace) plan->executions = context.trace->counter(problem, plan->target->full_name, plan->kernel);
    if (problem.empty()) return Shared(std::move(plan));
    Runtime runtime = context.runtime;
    if (runtime.device != nullptr) {
        CARAT_ASSIGN(const bool capturing, runtime.device->is_capturing(options.stream));
        runtime.may_compile = !capturing;
    }
    CARAT_ASSIGN(Prepared prepared, prepare_best(candidates, problem, runtime));
    plan->chosen = std::move(prepared.chosen);
    plan->kernel = plan->chosen.config.name();
    plan->executable = std::move(prepared.executable);
    plan->refused = std::move(prepared.refused);
    plan->workspace_bytes = plan->executable->workspace_bytes();
    return Shared(std::move(plan));
}

// Threads that want the same new plan may all make it: nothing is locked meanwhile, the JIT compiles a kernel once and the
// device loads it once.
Result<carat_plan_s> find_or_make(carat_context_s& context, const Problem& problem, const carat_plan_options& options,
                                  bool afresh) {
    const std::string key = plan_key(problem, options);
    if (!afresh)
        if (Shared kept = context.plans.find(key)) return carat_plan_s{std::move(kept), true};
    CARAT_ASSIGN(Shared made, make_plan(context, problem, options));
    if (afresh) return carat_plan_s{std::move(made), false};
    return carat_plan_s{context.plans.keep(key, std::move(made)), false};
}

}  // namespace

namespace carat::api {

Result<carat_plan_options> read_options(const carat_plan_options* options) {
    // The size when there were no numerics and no stream.
    constexpr size_t kFirst = offsetof(carat_plan_options, numerics);
    carat_plan_options known = default_plan_options();
    if (options == nullptr) return known;
    const size_t size = options->struct_size;
    if (size != kFirst) CARAT_TRY(check_struct_size(size, sizeof known, "carat_plan_options"));
    std::memcpy(&known, options, size);
    known.struct_size = sizeof known;
    if (known.numerics < CARAT_DETERMINISTIC || known.numerics > CARAT_FAST)
        return fail(CARAT_INVALID_VALUE, "numerics is {}: use DETERMINISTIC, BATCH_INVARIANT or FAST of carat_numerics",
                    int(known.numerics));
    return known;
}

}  // namespace carat::api

carat_status carat_problem_init(carat_problem* problem, int64_t m, int64_t n, int64_t k, carat_dtype dtype,
                                const char* layout) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(problem, "problem"));
        return init_problem(*problem, m, n, k, dtype, layout);
    });
}

carat_status carat_operands_init(carat_operands* operands) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(operands, "operands"));
        *operands = {};
        operands->struct_size = sizeof *operands;
        operands->alpha = 1;
        return {};
    });
}

carat_status carat_plan_options_init(carat_plan_options* options) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(options, "options"));
        *options = default_plan_options();
        return {};
    });
}

carat_status carat_plan_create(carat_context_t context, const carat_problem* problem, const carat_plan_options* options,
                               carat_plan_t* plan) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        CARAT_TRY(require_pointer(plan, "plan"));
        *plan = nullptr;
        CARAT_ASSIGN(Problem valid, validate_problem(problem));
        CARAT_ASSIGN(const carat_plan_options wanted, read_options(options));
        valid.numerics = wanted.numerics;
        const bool afresh = context->runtime.jit->policy() == CARAT_JIT_FORCE;  // to compile always is what that is for
        CARAT_ASSIGN(carat_plan_s made, find_or_make(*context, valid, wanted, afresh));
        *plan = new carat_plan_s(std::move(made));
        return {};
    });
}

void carat_plan_destroy(carat_plan_t plan) {
    delete plan;
}
size_t carat_plan_workspace_bytes(carat_plan_t plan) {
    return plan ? plan->planned->workspace_bytes : 0;
}
const char* carat_plan_kernel(carat_plan_t plan) {
    return plan ? plan->planned->kernel.c_str() : "";
}
double carat_plan_predicted_us(carat_plan_t plan) {
    return plan ? plan->planned->chosen.prediction.us : 0;
}

carat_status carat_plan_execute(carat_plan_t plan, const carat_operands* operands, void* stream) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(plan, "plan"));
        return execute(*plan->planned, operands, stream);
    });
}

carat_status carat_gemm(carat_context_t context, const carat_problem* problem, const carat_operands* operands,
                        void* stream) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        CARAT_ASSIGN(const Problem valid, validate_problem(problem));
        carat_plan_options options = default_plan_options();
        options.workspace_limit = 0;
        options.stream = stream;
        CARAT_ASSIGN(const carat_plan_s plan, find_or_make(*context, valid, options, false));
        return execute(*plan.planned, operands, stream);
    });
}
