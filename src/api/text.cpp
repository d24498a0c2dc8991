// SPDX-License-Identifier: Apache-2.0
// text.cpp: strings owned by the library, and element types by name.
#include <nlohmann/json.hpp>

#include "api/error.hpp"
#include "api/handles.hpp"

using namespace carat;
using namespace carat::api;

namespace carat::api {

Status give_text(std::string text, carat_text_t* out) {
    CARAT_TRY(require_pointer(out, "json"));
    *out = new carat_text_s{std::move(text)};
    return {};
}

Status give_json(const nlohmann::ordered_json& json, carat_text_t* out, int indent) {
    return give_text(json.dump(indent, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace),
                     out);
}

}  // namespace carat::api

const char* carat_text_data(carat_text_t text) {
    return text ? text->text.c_str() : "";
}
size_t carat_text_size(carat_text_t text) {
    return text ? text->text.size() : 0;
}
void carat_text_destroy(carat_text_t text) {
    delete text;
}

const char* carat_dtype_name(carat_dtype dtype) {
    return name(dtype);
}
int carat_dtype_bits(carat_dtype dtype) {
    return bits(dtype);
}
carat_status carat_dtype_parse(const char* text, carat_dtype* dtype) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(text, "name"));
        CARAT_TRY(require_pointer(dtype, "dtype"));
        CARAT_ASSIGN(*dtype, parse_dtype(text));
        return {};
    });
}
