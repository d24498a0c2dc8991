// SPDX-License-Identifier: Apache-2.0
// calibration.cpp: the cost models' parameters at the C border: which ones a context uses, how well they predict samples, and those
// that are fitted to samples.
#include <nlohmann/json.hpp>

#include "api/error.hpp"
#include "api/handles.hpp"
#include "api/validate.hpp"
#include "dispatch/calibrate.hpp"

using namespace carat;
using namespace carat::api;
using Json = nlohmann::ordered_json;

namespace {

Status require_gpu(carat_context_t context) {
    CARAT_TRY(require_pointer(context, "context"));
    if (context->backend == CARAT_BACKEND_CUDA) return {};
    return fail(CARAT_NOT_SUPPORTED,
                "calibration is of GPUs, and the context runs on a CPU, which is measured when it is first used: use "
                "backend CUDA, or name a target");
}

Json info_json(carat_context_s& context) {
    const DeviceCalibration& calibration = context.calibration;
    Json json = calibration_json(context.target(), context.target().cost);
    json["schema"] = "carat.calibration_info/1";
    json["user_file"] = calibration.file.empty() ? Json() : Json(calibration.file);
    json["used"] = calibration.used;
    json["skipped"] = calibration.skipped;
    size_t i = 0;
    for (const CostParameter& parameter : cost_parameters())
        json["parameters"][i++]["shipped"] = calibration.shipped.*parameter.value;
    return json;
}

Json error_json(const PredictionError& error) {
    return {
        {"samples", error.samples},   {"median", error.median},
        {"worst", error.worst},       {"worst_sample", error.worst_sample},
        {"problems", error.problems}, {"within_5_percent", error.problems > 0 ? Json(error.within_5_percent) : Json()}};
}

}  // namespace

carat_status carat_calibration(carat_context_t context, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_gpu(context));
        return give_json(info_json(*context), json, -1);
    });
}

carat_status carat_prediction_error(carat_context_t context, const char* samples, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_gpu(context));
        CARAT_TRY(require_pointer(samples, "samples"));
        CARAT_ASSIGN(const Samples read, read_samples(samples, context->target(), validate_problem));
        Json report = {{"schema", "carat.prediction_error/1"}};
        report.update(error_json(prediction_error(read.samples, context->target())));
        report["skipped"] = read.skipped;
        return give_json(report, json, -1);
    });
}

carat_status carat_calibrate(carat_context_t context, const char* samples, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_gpu(context));
        CARAT_TRY(require_pointer(samples, "samples"));
        Target target = context->target();
        CARAT_ASSIGN(const Samples read, read_samples(samples, target, validate_problem));
        target.cost = context->calibration.shipped;
        const PredictionError before = prediction_error(read.samples, target);
        target.cost = fit_cost(read.samples, target);
        Json report = calibration_json(target, target.cost);
        report["error"] = {{"shipped", error_json(before)},
                           {"fitted", error_json(prediction_error(read.samples, target))}};
        report["skipped"] = read.skipped;
        return give_json(report, json, -1);
    });
}
