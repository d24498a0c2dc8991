// SPDX-License-Identifier: Apache-2.0
// counters.hpp: counts what an execution must not do: this program's linker sends malloc, the locks of pthread and getenv
// through counters.cpp, and operator new is its own. Calls from within shared libraries (the fake driver) are not counted.
#pragma once

namespace carat::test {

struct Counts {
    int allocations = 0, locks = 0, environment = 0;
    bool operator==(const Counts&) const = default;
};

// Of the calling thread, since it started.
Counts counts();

}  // namespace carat::test
