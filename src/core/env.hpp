// SPDX-License-Identifier: Apache-2.0
// env.hpp: the one place that reads the environment. Each variable is a row of a table, from which docs/env.md, `carat
// doctor` and the warning about unknown CARAT_* names are made.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace carat::env {

struct Variable {
    const char* name;      // "CARAT_CACHE_DIR"
    const char* values;    // "a directory"
    const char* fallback;  // what holds when it is unset
    const char* meaning;
};

std::span<const Variable> variables();

// Value of a CARAT_* variable of the table (asserted), or of a foreign one ("HOME"); empty counts as unset.
std::optional<std::string> get(const char* name);
// Where a user's data lies: $XDG_DATA_HOME/carat/NAME, else ~/.local/share/carat/NAME; "" if there is no place for it.
std::string data_file(const std::string& name);
// CARAT_* names in the environment that the table does not know.
std::vector<std::string> unknown();

}  // namespace carat::env
