// SPDX-License-Identifier: Apache-2.0
// json_member.hpp: a member of JSON that somebody else wrote.
#pragma once

#include <nlohmann/json.hpp>

namespace carat {

// null where there is none, or no object.
inline const nlohmann::ordered_json& member(const nlohmann::ordered_json& json, const char* key) {
    static const nlohmann::ordered_json kNull;
    const auto found = json.is_object() ? json.find(key) : json.end();
    return found == json.end() ? kNull : *found;
}

}  // namespace carat
