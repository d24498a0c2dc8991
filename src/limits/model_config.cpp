// SPDX-License-Identifier: Apache-2.0
#include "limits/model_config.hpp"

namespace carat {
namespace {

// What the user wrote, short enough for a sentence. Containers are not printed: dump() recurses, and a hostile file
// nests.
std::string shown(const nlohmann::json& value) {
    if (value.is_array()) return "[...]";
    if (value.is_object()) return "{...}";
    std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
    return text.size() > 40 ? text.substr(0, 40) + "..." : text;
}

}  // namespace

Result<ConfigReader> ConfigReader::parse(std::string_view text, const std::string& source) {
    ConfigReader reader;
    reader.source_ = &source;
    reader.json_ = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    if (reader.json_.is_object()) return reader;
    return fail(CARAT_INVALID_VALUE, "{} is not a JSON object: give the config.json of a model", source);
}

Result<std::string> ConfigReader::text(const char* field) const {
    const auto found = json_.find(field);
    if (found == json_.end() || !found->is_string()) {
        return fail(CARAT_INVALID_VALUE, "{} has no string \"{}\": give the config.json of a model", source(), field);
    }
    return found->get<std::string>();
}

Result<int64_t> ConfigReader::number(const char* field, int64_t lo, int64_t hi) const {
    const auto found = json_.find(field);
    if (found == json_.end()) {
        return fail(CARAT_INVALID_VALUE, "{} has no \"{}\": add it, a whole number from {} to {}", source(), field, lo,
                    hi);
    }
    const bool whole =
        found->is_number_integer() && !(found->is_number_unsigned() && found->get<uint64_t>() > uint64_t(INT64_MAX));
    if (!whole || found->get<int64_t>() < lo || found->get<int64_t>() > hi) {
        return fail(CARAT_INVALID_VALUE,
                    "{} has \"{}\": {}, and a whole number from {} to {} is wanted: correct the field", source(), field,
                    shown(*found), lo, hi);
    }
    return found->get<int64_t>();
}

Result<int64_t> ConfigReader::number_or(const char* field, int64_t lo, int64_t hi, int64_t otherwise) const {
    const auto found = json_.find(field);
    if (found == json_.end() || found->is_null()) return otherwise;
    return number(field, lo, hi);
}

Result<std::vector<bool>> ConfigReader::layer_set(const char* field, int64_t layers) const {
    std::vector<bool> set(size_t(layers), false);
    const auto found = json_.find(field);
    if (found == json_.end() || found->is_null()) return set;
    bool good = found->is_array();
    for (size_t i = 0; good && i < found->size(); ++i) {
        const nlohmann::json& layer = (*found)[i];
        good = layer.is_number_unsigned() && layer.get<uint64_t>() < uint64_t(layers);
        if (good) set[layer.get<size_t>()] = true;
    }
    if (good) return set;
    return fail(CARAT_INVALID_VALUE,
                "{} has \"{}\": {}, and a list of layers from 0 to {} is wanted: correct the field", source(), field,
                shown(*found), layers - 1);
}

}  // namespace carat
