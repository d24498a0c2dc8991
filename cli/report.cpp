// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <cmath>

namespace carat::cli {
namespace {

// The value of the doctor's check whose name holds `word`, where it was found.
Json doctor_value(const Json& doctor, const std::string& word) {
    const Json& checks = member(doctor, "checks");
    if (!checks.is_array()) return nullptr;
    for (const Json& check : checks) {
        std::string name = text_at(check, "name");
        for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (name.find(word) != std::string::npos && text_at(check, "state") != "missing") return member(check, "value");
    }
    return nullptr;
}

}  // namespace

Json device_state_json(const Context& context) {
    Text text;
    if (carat_device_state(context.get(), text.out()) != CARAT_SUCCESS) return nullptr;
    return parse_json(text.str(), "the device state");
}

Json environment_json(const Context& context, const MachineFlags& machine) {
    const Json doctor = parse_json(carat::doctor(), "the doctor's report");
    const Json state = device_state_json(context);
    const bool cuda = context.backend() == CARAT_BACKEND_CUDA;
    Json env;
    env["carat"] = carat_version();
    env["backend"] = cuda ? "cuda" : "cpu";
    env["device"] = member(state, "name");
    env["driver"] = member(state, "driver");
    env["nvrtc"] = doctor_value(doctor, "nvrtc");
    env["threads"] = member(state, "threads");
    env["cpu"] = member(doctor, "cpu");
    env["date"] = utc_now();
    env["command"] = command_line();
    env["seed"] = seed_of(machine);
    env["l2"] = "cold";
    env["device_before"] = state;
    return env;
}

Json provenance_json(const Context& context) {
    const Json state = device_state_json(context);
    return {{"carat", carat_version()},
            {"driver", member(state, "driver")},
            {"sm_clock_mhz", member(state, "sm_clock_mhz")},
            {"memory_clock_mhz", member(state, "memory_clock_mhz")},
            {"power_limit_w", member(state, "power_limit_w")},
            {"date", utc_now()}};
}

Json problem_json(const carat_problem& p, double alpha, double beta) {
    Json json;
    json["m"] = p.m;
    json["n"] = p.n;
    json["k"] = p.k;
    json["batch"] = p.mode == CARAT_GROUPED ? Json(nullptr) : Json(p.batch);
    json["groups"] = p.mode == CARAT_GROUPED ? Json(p.batch) : Json(nullptr);
    json["dtype"] = dtype_name(p);
    json["layout"] = layout_name(p);
    json["recipe"] = maybe(recipe_name(p));
    json["epilogue"] = maybe(epilogue_name(p, alpha, beta));
    return json;
}

Floor floor_of(const Context& context, const carat_problem& problem) {
    Text text;
    if (carat_floor(context.get(), &problem, text.out()) != CARAT_SUCCESS) return {};
    const Json json = parse_json(text.str(), "the floor");
    return {number_at(json, "us", NAN), number_at(json, "bytes", NAN), text_at(json, "bound")};
}

Json CheckReport::json(bool all) const {
    if (!ran) return nullptr;
    Json json;
    json["ok"] = result.ok != 0;
    json["error"] = maybe(result.error);
    json["bound"] = maybe(result.bound);
    if (!all) return json;
    json["full"] = result.full != 0;
    json["entries"] = result.entries;
    json["freivalds"] = maybe(result.freivalds);
    return json;
}

Cell CheckReport::cell() const {
    if (!ran) return {"not checked", Tone::faint};
    if (!result.ok) return {"WRONG", Tone::bad};
    return {result.full ? "ok, all" : fmt::format("ok, {} + product", result.entries), Tone::good};
}

CheckReport check_once(const Context& context, const Stream& stream, const Plan& plan, const carat_problem& problem,
                       const Operands& operands) {
    plan.execute(operands, stream.get());
    stream.synchronize();
    CheckReport report;
    report.result = context.verify(problem, operands);
    report.ran = true;
    return report;
}

std::string describe_failure(const CheckReport& check) {
    const carat_check_result& r = check.result;
    return fmt::format("entry ({}, {}) of matrix {} is {:.6g}, the reference is {:.6g}; error {:.3g}, bound {:.3g}",
                       r.bad_row, r.bad_col, r.bad_batch, r.got, r.want, r.error, r.bound);
}

double tflops(double flops, double us) {
    return us > 0 ? flops / us * 1e-6 : NAN;
}

double gigabytes_per_second(double bytes, double us) {
    return us > 0 ? bytes / us * 1e-3 : NAN;
}

}  // namespace carat::cli
