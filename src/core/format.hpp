// SPDX-License-Identifier: Apache-2.0
// format.hpp: the one way this code formats text: {fmt}, header-only because Debian ships no static libfmt and the
// built tree must run on machines that lack it.
#pragma once

#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY 1
#endif
#include <fmt/format.h>
