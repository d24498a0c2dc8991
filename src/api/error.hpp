// SPDX-License-Identifier: Apache-2.0
// error.hpp: the border between Status and the C ABI: remembers a failure's sentence for carat_last_error, and turns
// whatever escapes (out of memory) into a status. No exception crosses the C ABI.
#pragma once

#include <exception>
#include <new>

#include "core/status.hpp"

namespace carat::api {

// Stores the sentence of a failure for this thread and returns its code.
carat_status report(const Status& status);

// Runs `body` (returning Status) and reports.
template <class Body>
carat_status guard(Body&& body) noexcept {
    try {
        const Status status = body();
        return status.ok() ? CARAT_SUCCESS : report(status);
    } catch (const std::bad_alloc&) {
        return report(Status(CARAT_ALLOC_FAILED, "out of host memory: free some, or make the problem smaller"));
    } catch (const std::exception& error) {
        return report(
            fail(CARAT_INTERNAL_ERROR, "unexpected failure inside the library: {}; please report it", error.what()));
    }
}

// For arguments that must not be null.
inline Status require_pointer(const void* pointer, const char* argument) {
    if (pointer) return {};
    return fail(CARAT_INVALID_VALUE, "{} is NULL: pass a valid pointer", argument);
}

}  // namespace carat::api
