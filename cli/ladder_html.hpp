// SPDX-License-Identifier: Apache-2.0
// ladder_html.hpp: a result of `carat ladder` as one page that stands alone: no script, no network, light and dark.
#pragma once

#include <string>

#include "common.hpp"

namespace carat::cli {

std::string ladder_html(const Json& report);

}  // namespace carat::cli
