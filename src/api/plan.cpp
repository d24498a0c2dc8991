// SPDX-License-Identifier: Apache-2.0
// plan.cpp: problems, plans and executions at the C border.

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

// Every field that tells problems apart, as bytes.
std::string key_of(const Problem& p) {
    std::string key;
    const auto add = [&key](const auto&... values) {
        (key.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
    };
    add(p.mode, p.group_form, p.m, p.n, p.k, p.batch, p.compute, p.sparsity);
    for (const carat_matrix* x : {&p.a, &p.b, &p.c, &p.d}) add(x->dtype, x->order, x->ld, x->batch_stride);
    for (const carat_scale* s : {&p.scale_a, &p.scale_b})
        add(s->recipe, s->group, s->zero_points, s->order, s->ld, s->batch_stride);
    const carat_epilogue& e = p.epilogue;
    add(e.scalars_on_device, e.bias, e.bias_dtype, e.bias_batch_stride, e.activation, e.gate, e.clamp, e.clamp_lo,
        e.clamp_hi, e.out_scale, e.amax);
    return key;
}

Status execute(const carat_plan_s& plan, const carat_operands* operands, void* stream) {
    CARAT_TRY(validate_operands(plan.problem, operands, plan.workspace_bytes));
    if (plan.problem.empty()) return {};
    if (plan.executions) plan.executions->fetch_add(1, std::memory_order_relaxed);
    return plan.executable->execute(*operands, stream);
}

// Candidates that need no more workspace than `limit`; at least one.
Status keep_within(size_t limit, const Problem& problem, std::vector<Candidate>& candidates) {
    const auto bytes_of = [&](const Candidate& candidate) {
        const auto bytes = candidate.row->workspace_bytes;
        return bytes ? bytes(problem, candidate.config) : 0;
    };
    const Candidate first = candidates.front();
    std::erase_if(candidates, [&](const Candidate& candidate) { return bytes_of(candidate) > limit; });
    if (!candidates.empty()) return {};
    return fail(CARAT_INVALID_VALUE,
                "the kernel {} needs {} bytes of workspace, workspace_limit is {}: raise it or let the library choose",
                first.config.name(), bytes_of(first), limit);
}

// The context's own plan of a problem, made on first use. Readers share the lock.
Result<const carat_plan_s*> kept_plan(carat_context_s& context, const Problem& problem) {
    const std::string key = key_of(problem);
    {
        std::shared_lock lock(context.plans_mutex);
        if (const auto found = context.plans.find(key); found != context.plans.end())
            return static_cast<const carat_plan_s*>(found->second.get());
    }
    carat_plan_options options = default_plan_options();
    options.workspace_limit = 0;
    CARAT_ASSIGN(auto plan, make_plan(context, problem, options));
    std::unique_lock lock(context.plans_mutex);
    return static_cast<const carat_plan_s*>(context.plans.try_emplace(key, std::move(plan)).first->second.get());
}

}  // namespace

namespace carat::api {

Result<std::unique_ptr<carat_plan_s>> make_plan(carat_context_s& context, const Problem& problem,
                                                const carat_plan_options& options) {
    CARAT_TRY(check_struct_size(options.struct_size, sizeof options, "carat_plan_options"));
    const std::string_view kernel = options.kernel ? options.kernel : "";
    auto plan = std::make_unique<carat_plan_s>();
    plan->problem = problem;
    plan->target = &context.target();
    CARAT_ASSIGN(std::vector<Candidate> candidates, rank(problem, *plan->target, kernel, &context.tuning()));
    CARAT_TRY(keep_within(options.workspace_limit, problem, candidates));
    plan->chosen = candidates.front();
    plan->kernel = plan->chosen.config.name();
    if (context.trace) plan->executions = context.trace->counter(problem, plan->target->full_name, plan->kernel);
    if (problem.empty()) return plan;
    CARAT_ASSIGN(Prepared prepared, prepare_best(candidates, problem, context.runtime));
    plan->chosen = std::move(prepared.chosen);
    plan->kernel = plan->chosen.config.name();
    plan->executable = std::move(prepared.executable);
    plan->refused = std::move(prepared.refused);
    plan->workspace_bytes = plan->executable->workspace_bytes();
    return plan;
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
        CARAT_ASSIGN(const Problem valid, validate_problem(problem));
        CARAT_ASSIGN(auto made, make_plan(*context, valid, options ? *options : default_plan_options()));
        *plan = made.release();
        return {};
    });
}

void carat_plan_destroy(carat_plan_t plan) {
    delete plan;
}
size_t carat_plan_workspace_bytes(carat_plan_t plan) {
    return plan ? plan->workspace_bytes : 0;
}
const char* carat_plan_kernel(carat_plan_t plan) {
    return plan ? plan->kernel.c_str() : "";
}
double carat_plan_predicted_us(carat_plan_t plan) {
    return plan ? plan->chosen.prediction.us : 0;
}

carat_status carat_plan_execute(carat_plan_t plan, const carat_operands* operands, void* stream) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(plan, "plan"));
        return execute(*plan, operands, stream);
    });
}

carat_status carat_gemm(carat_context_t context, const carat_problem* problem, const carat_operands* operands,
                        void* stream) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        CARAT_ASSIGN(const Problem valid, validate_problem(problem));
        CARAT_ASSIGN(const carat_plan_s* plan, kept_plan(*context, valid));
        return execute(*plan, operands, stream);
    });
}
