// SPDX-License-Identifier: Apache-2.0
// models.cpp: carat_models: the linear layers of real models, as JSON.
#include "limits/models.hpp"
#include "api/error.hpp"
#include "api/handles.hpp"

using namespace carat;
using namespace carat::api;

carat_status carat_models(const char* model, int64_t tokens, int32_t tp, carat_text_t* json) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(json, "json"));
        CARAT_ASSIGN(std::string text, model ? model_gemms_json(model, tokens, tp) : models_json());
        return give_text(std::move(text), json);
    });
}
