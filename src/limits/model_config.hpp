// SPDX-License-Identifier: Apache-2.0
// model_config.hpp: the fields of a config.json, read with sentences for what is missing, ill-typed or absurd.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.hpp"

namespace carat {

class ConfigReader {
  public:
    // `source` names the file in messages and must outlive the reader.
    static Result<ConfigReader> parse(std::string_view text, const std::string& source);

    const std::string& source() const { return *source_; }
    Result<std::string> text(const char* field) const;
    // A whole number from lo to hi.
    Result<int64_t> number(const char* field, int64_t lo, int64_t hi) const;
    // The same, or `otherwise` where the field is missing or null.
    Result<int64_t> number_or(const char* field, int64_t lo, int64_t hi, int64_t otherwise) const;
    // How many different layers from 0 to layers-1 a list names; a missing or null list names none.
    Result<std::vector<bool>> layer_set(const char* field, int64_t layers) const;

  private:
    nlohmann::json json_;
    const std::string* source_ = nullptr;
};

}  // namespace carat
