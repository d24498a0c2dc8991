// SPDX-License-Identifier: Apache-2.0
// tuning.cpp: problems as JSON, and the tuning database at the C border: what a context uses, what a file holds, what a tuner
// shall measure.
#include <nlohmann/json.hpp>

#include "api/error.hpp"
#include "api/handles.hpp"
#include "api/validate.hpp"
#include "core/problem_json.hpp"
#include "dispatch/neighbours.hpp"

using namespace carat;
using namespace carat::api;
using Json = nlohmann::ordered_json;

namespace {

Json tuning_json(carat_context_s& context) {
    const TuningDb& tuning = context.tuning();
    Json files = Json::array();
    for (const TuningDb::File& file : tuning.files())
        files.push_back({{"file", file.name}, {"rows", file.rows}, {"skipped", file.skipped}});
    const TuningPlaces& places = context.tuning_places;
    return {{"schema", "carat.tuning_info/1"},
            {"enabled", places.enabled},
            {"user_file", places.user.empty() ? Json() : Json(places.user)},
            {"device", TunedDevice::of(context.target()).json()},
            {"kernels", kTunedKernels},
            {"rows", tuning.size()},
            {"files", files}};
}

Json rows_json(const TuningRows& read) {
    Json rows = Json::array();
    for (const TuningRow& row : read.rows) rows.push_back(row.json);
    return {{"schema", "carat.tuning/1"}, {"rows", rows}, {"skipped", read.skipped}};
}

Json candidates_json(const std::vector<Candidate>& candidates, const std::string& chosen) {
    Json list = Json::array();
    for (const Candidate& candidate : candidates)
        list.push_back({{"kernel", candidate.config.name()},
                        {"row", candidate.row->name},
                        {"predicted_us", candidate.prediction.us}});
    return {{"schema", "carat.tuning_candidates/1"}, {"chosen", chosen}, {"candidates", list}};
}

}  // namespace

carat_status carat_problem_json(const carat_problem* problem, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_ASSIGN(const Problem valid, validate_problem(problem));
        return give_json(problem_json(valid), json, -1);
    });
}

carat_status carat_problem_parse(const char* json, carat_problem* problem) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(json, "json"));
        CARAT_TRY(require_pointer(problem, "problem"));
        const Json parsed = Json::parse(std::string_view(json), nullptr, /*allow_exceptions=*/false);
        if (parsed.is_discarded())
            return fail(CARAT_INVALID_VALUE, "the problem is not JSON: write it as carat_problem_json gives it");
        CARAT_ASSIGN(const carat_problem read, parse_problem(parsed));
        CARAT_TRY(validate_problem(&read).status());
        *problem = read;
        return {};
    });
}

carat_status carat_tuning(carat_context_t context, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        return give_json(tuning_json(*context), json, -1);
    });
}

carat_status carat_tuning_read(const char* path, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(path, "path"));
        CARAT_ASSIGN(const std::string text, read_tuning_file(path));
        return give_json(rows_json(read_tuning(text, validate_problem)), json, -1);
    });
}

carat_status carat_tuning_candidates(carat_context_t context, const carat_problem* problem, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        CARAT_ASSIGN(const Problem valid, validate_problem(problem));
        CARAT_ASSIGN(const Candidate chosen, select(valid, context->target()));
        CARAT_ASSIGN(const std::vector<Candidate> candidates, tuning_candidates(valid, context->target()));
        return give_json(candidates_json(candidates, chosen.config.name()), json, -1);
    });
}
