// SPDX-License-Identifier: Apache-2.0
// explain.cpp: why this kernel, and how far from the limit: carat_explain and carat_floor as JSON.
#include <nlohmann/json.hpp>

#include "api/error.hpp"
#include "api/handles.hpp"
#include "api/plan_report.hpp"
#include "api/validate.hpp"

using namespace carat;
using namespace carat::api;
using Json = nlohmann::ordered_json;

namespace {

Json floor_json(const Problem& problem, const Target& target) {
    const Floor floor = floor_of(problem, target, problem.has_c());
    return {{"schema", "carat.floor/1"},    {"target", target.name},          {"source", target.source},
            {"bytes", floor.bytes},         {"flops", floor.flops},           {"intensity", floor.intensity},
            {"memory_us", floor.memory_us}, {"compute_us", floor.compute_us}, {"us", floor.us},
            {"bound", name(floor.bound)}};
}

Json candidate_json(const Candidate& candidate, const Problem& problem) {
    return {{"kernel", candidate.config.name()},
            {"predicted_us", candidate.prediction.us},
            {"bound", candidate.prediction.bound},
            {"tile", tile_json(candidate.config)},
            {"intensity", intensity_json(candidate, problem)},
            {"workspace_bytes", workspace_bytes(candidate, problem)}};
}

Json ruled_out_json(const RuledOut& entry, const Problem& problem) {
    Json json = candidate_json(entry.candidate, problem);
    json["reason"] = entry.reason;
    return json;
}

Json row_json(const Considered& entry, const Problem& problem) {
    Json candidates = Json::array(), ruled_out = Json::array();
    for (const Candidate& candidate : entry.candidates) candidates.push_back(candidate_json(candidate, problem));
    for (const RuledOut& other : entry.ruled_out) ruled_out.push_back(ruled_out_json(other, problem));
    return {{"row", entry.row->name},
            {"backend", entry.row->backend == CARAT_BACKEND_CUDA ? "cuda" : "cpu"},
            {"refusal", entry.refusal.empty() ? Json() : Json(entry.refusal)},
            {"candidates", candidates},
            {"ruled_out", ruled_out}};
}

// What was measured, and what the model alone would have taken.
Json tuned_json(const Selection& selection) {
    if (!selection.tuned) return nullptr;
    const TunedChoice& choice = *selection.tuned->tuned;
    return {{"file", choice.file},
            {"row", choice.row},
            {"m", choice.m},
            {"dtype", name(choice.dtype)},
            {"us", choice.us},
            {"spread", choice.spread},
            {"model_kernel", selection.winner->config.name()},
            {"model_predicted_us", selection.winner->prediction.us}};
}

Json explain_json(const Problem& problem, const Target& target, const carat_plan_options& options,
                  const TuningDb& tuning) {
    const size_t limit = options.workspace_limit;
    const Selection selection = consider(problem, target, options.kernel ? options.kernel : "", limit, &tuning);
    Json rows = Json::array();
    for (const Considered& entry : selection.considered) rows.push_back(row_json(entry, problem));
    Json chosen;
    if (const Candidate* candidate = selection.chosen()) {
        chosen = candidate_json(*candidate, problem);
        chosen["row"] = candidate->row->name;
    }
    return {{"schema", "carat.explain/1"},
            {"problem", describe(problem)},
            {"target", target.name},
            {"numerics", numerics_name(problem.numerics)},
            {"workspace_limit", limit == SIZE_MAX ? Json() : Json(limit)},
            {"rows", rows},
            {"chosen", chosen},
            {"tuned", tuned_json(selection)},
            {"floor", floor_json(problem, target)}};
}

}  // namespace

carat_status carat_explain(carat_context_t context, const carat_problem* problem, const carat_plan_options* options,
                           carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        CARAT_ASSIGN(Problem valid, validate_problem(problem));
        CARAT_ASSIGN(const carat_plan_options wanted, read_options(options));
        valid.numerics = wanted.numerics;
        if (wanted.kernel != nullptr)
            if (auto known = select(valid, context->target(), wanted.kernel);
                known.status().code() == CARAT_INVALID_VALUE)
                return known.status();
        return give_json(explain_json(valid, context->target(), wanted, context->tuning()), json);
    });
}

carat_status carat_floor(carat_context_t context, const carat_problem* problem, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        CARAT_ASSIGN(const Problem valid, validate_problem(problem));
        return give_json(floor_json(valid, context->target()), json);
    });
}
