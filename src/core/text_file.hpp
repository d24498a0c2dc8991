// SPDX-License-Identifier: Apache-2.0
// text_file.hpp: a whole file as text, as far as it is not absurdly large.
#pragma once

#include <string>

#include "core/status.hpp"

namespace carat {

// NOT_INITIALIZED where there is no such file, or IO_ERROR. `what` it should be: "tuning database".
Result<std::string> read_text_file(const std::string& path, size_t most_bytes, const char* what);

}  // namespace carat
