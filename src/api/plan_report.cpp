// SPDX-License-Identifier: Apache-2.0
#include "api/plan_report.hpp"

#include "api/error.hpp"
#include "api/handles.hpp"
#include "dispatch/ladder.hpp"
#include "limits/occupancy.hpp"
#include "limits/roofline.hpp"

using namespace carat;
using namespace carat::api;
using Json = nlohmann::ordered_json;

namespace carat::api {

Json tile_json(const Config& c) {
    const auto used = [](int value) { return value > 0 ? Json(value) : Json(); };
    return {{"bm", used(c.bm)},
            {"bn", used(c.bn)},
            {"bk", used(c.bk)},
            {"tm", used(c.tm)},
            {"tn", used(c.tn)},
            {"stages", used(c.stages)},
            {"cluster_m", used(c.cluster_m)},
            {"cluster_n", used(c.cluster_n)},
            {"swapped", c.swapped},
            {"aligned", c.aligned}};
}

Json intensity_json(const Candidate& candidate, const Problem& p) {
    const Config& c = candidate.config;
    if (candidate.row->backend != CARAT_BACKEND_CUDA) return nullptr;
    // A step of one element of K: nothing is kept in shared memory for the next thread to use.
    if (c.bk <= 1) return naive_intensity(p.a.dtype, p.b.dtype);
    return tiled_intensity(p.a.dtype, p.b.dtype,
                           {c.bm, tile_cols_of_b(p, c), std::max(c.cluster_m, 1), std::max(c.cluster_n, 1)});
}

}  // namespace carat::api

namespace {

// Of a plan that was made before nothing is compiled: its kernel comes from memory.
KernelFacts facts_of(const Planned& plan, bool kept) {
    KernelFacts facts = plan.executable ? plan.executable->facts() : KernelFacts();
    if (kept && plan.chosen.row->backend == CARAT_BACKEND_CUDA) facts.source = "memory", facts.compile_ms = 0;
    return facts;
}

void add_compiled_facts(Json& json, const Planned& plan, bool kept) {
    const bool cuda = plan.chosen.row->backend == CARAT_BACKEND_CUDA;
    const bool compiled = cuda && plan.executable != nullptr;
    const KernelFacts facts = facts_of(plan, kept);
    const auto known = [&](auto value) { return compiled ? Json(value) : Json(); };
    const Occupancy occupancy =
        compiled
            ? occupancy_of({facts.threads, facts.registers, facts.static_shared_bytes + facts.dynamic_shared_bytes},
                           *plan.target)
            : Occupancy();
    json["threads"] = known(facts.threads);
    json["registers"] = known(facts.registers);
    json["spill_bytes"] = known(facts.spill_bytes);
    json["stack_bytes"] = known(facts.stack_bytes);
    json["warnings"] = facts.warnings.empty() ? Json() : Json(facts.warnings);
    json["static_shared_bytes"] = known(facts.static_shared_bytes);
    json["dynamic_shared_bytes"] = known(facts.dynamic_shared_bytes);
    json["blocks_per_unit"] = known(occupancy.blocks);
    json["occupancy"] = known(occupancy.share);
    json["compile_ms"] = known(facts.compile_ms);
    json["compiled_from"] = facts.source.empty() ? Json() : Json(facts.source);
}

Json report_json(const Planned& plan, bool kept) {
    const Candidate& chosen = plan.chosen;
    Json json = {{"schema", "carat.plan/1"},     {"problem", describe(plan.problem)}, {"target", plan.target->name},
                 {"kernel", plan.kernel},        {"row", chosen.row->name},           {"summary", chosen.row->summary},
                 {"source", chosen.row->source}, {"tile", tile_json(chosen.config)}};
    add_compiled_facts(json, plan, kept);
    json["tuned"] = chosen.tuned ? Json(chosen.tuned->file) : Json();
    json["predicted_us"] = chosen.prediction.us;
    json["bound"] = chosen.prediction.bound;
    json["intensity"] = intensity_json(chosen, plan.problem);
    json["workspace_bytes"] = plan.workspace_bytes;
    json["refused"] = plan.refused;
    return json;
}

Json limits_json(const Target& t) {
    const auto known = [](double value) { return value > 0 ? Json(value) : Json(); };
    const double memory = memory_tb_per_s(t);
    const auto rate = [&](double tflops) {
        return Json{{"tflops", known(tflops)},
                    {"memory_ridge", known(ridge(tflops, memory))},
                    {"l2_ridge", known(ridge(tflops, t.l2_tb_per_s))}};
    };
    return {{"schema", "carat.limits/1"},
            {"backend", t.backend == CARAT_BACKEND_CUDA ? "cuda" : "cpu"},
            {"target", t.name},
            {"device", t.full_name},
            {"source", t.source},
            {"units", t.units},
            {"memory_tb_per_s", known(memory)},
            {"l2_tb_per_s", known(t.l2_tb_per_s)},
            {"l2_bytes", t.l2_bytes},
            {"memory_bytes", t.memory_bytes},
            {"launch_us", t.launch_us},
            {"rates",
             {{"f64", rate(t.f64_tflops)},
              {"f32", rate(t.f32_tflops)},
              {"tf32", rate(t.tf32_tflops)},
              {"f16", rate(t.f16_tflops)},
              {"fp8", rate(t.fp8_tflops)},
              {"s8", rate(t.s8_tflops)}}}};
}

}  // namespace

carat_status carat_plan_report(carat_plan_t plan, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(plan, "plan"));
        return give_json(report_json(*plan->planned, plan->kept), json);
    });
}

carat_status carat_limits(carat_context_t context, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        return give_json(limits_json(context->target()), json);
    });
}
