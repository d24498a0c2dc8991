// SPDX-License-Identifier: Apache-2.0
#include "limits/calibration.hpp"

#include <algorithm>

#include "core/json_member.hpp"

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

// Why a file says nothing of the target.
Status check_file(const Json& json, const Target& target) {
    if (json.is_discarded()) return fail(CARAT_INVALID_VALUE, "it is not JSON, perhaps cut short");
    if (member(json, "schema") != "carat.calibration/1" || !member(json, "parameters").is_array())
        return fail(CARAT_INVALID_VALUE, "it is no \"carat.calibration/1\" with an array \"parameters\"");
    if (member(json, "models") != kCostModels)
        return fail(CARAT_INVALID_VALUE, "it was fitted to cost models of version {}, these are of {}",
                    member(json, "models").dump(), kCostModels);
    // The full name is there to be read: drivers and tables spell it differently.
    const Json here = calibrated_device(target), &there = member(json, "device");
    for (const char* key : {"target", "compute_capability", "units"})
        if (member(there, key) != here[key])
            return fail(CARAT_INVALID_VALUE, "it is of a device whose {} is {}, here it is {}", key,
                        member(there, key).dump(), here[key].dump());
    return {};
}

Status read_parameter(const Json& json, CostParameters& cost) {
    const Json &name = member(json, "name"), &value = member(json, "value");
    const auto table = cost_parameters();
    const auto known = std::find_if(table.begin(), table.end(), [&](const CostParameter& x) { return name == x.name; });
    if (known == table.end())
        return fail(CARAT_INVALID_VALUE, "there is no parameter {}",
                    name.dump(-1, ' ', true, Json::error_handler_t::replace));
    if (!value.is_number() || !(value >= known->least && value <= known->most))
        return fail(CARAT_INVALID_VALUE, "{} is {}: it must be a number from {} to {}", known->name,
                    value.dump(-1, ' ', true, Json::error_handler_t::replace), known->least, known->most);
    cost.*known->value = value.get<double>();
    return {};
}

}  // namespace

std::string_view shipped_device_file(std::string_view name) {
    for (const DeviceFile& file : shipped_device_files())
        if (file.name == name) return file.text;
    return "";
}

Json calibrated_device(const Target& target) {
    return {{"target", target.name},
            {"name", target.full_name},
            {"compute_capability", fmt::format("{}.{}", target.cc_major, target.cc_minor)},
            {"units", target.units}};
}

Calibration read_calibration(std::string_view text, const Target& target) {
    Calibration result = {.cost = target.cost};
    const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    if (const Status status = check_file(json, target); !status.ok()) {
        result.skipped.push_back("all of it: " + status.sentence());
        return result;
    }
    size_t number = 0;
    for (const Json& parameter : member(json, "parameters")) {
        ++number;
        if (const Status status = read_parameter(parameter, result.cost); status.ok())
            ++result.used;
        else
            result.skipped.push_back(fmt::format("parameter {}: {}", number, status.sentence()));
    }
    return result;
}

Json calibration_json(const Target& target, const CostParameters& cost) {
    Json parameters = Json::array();
    for (const CostParameter& x : cost_parameters())
        parameters.push_back({{"name", x.name}, {"value", cost.*x.value}, {"unit", x.unit}, {"summary", x.summary}});
    return {{"schema", "carat.calibration/1"},
            {"device", calibrated_device(target)},
            {"models", kCostModels},
            {"parameters", parameters}};
}

}  // namespace carat
