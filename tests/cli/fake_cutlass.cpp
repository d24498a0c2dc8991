// SPDX-License-Identifier: Apache-2.0
// fake_cutlass.cpp: a plugin for the tests of `carat bench --peer cutlass`: two kernels that compute nothing, of which the second
// fails. FAKE_CUTLASS_ABI: another interface than the command line's.
#include <cstdlib>

#include "../../bench/peers/cutlass/plugin.h"

namespace {

int abi() {
    const char* text = std::getenv("FAKE_CUTLASS_ABI");
    return text ? std::atoi(text) : CARAT_CUTLASS_ABI;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const carat_cutlass_plugin_table* carat_cutlass_plugin(void) {
    static const carat_cutlass_plugin_table table = {
        abi(),
        "4.0.0",
        2,
        3,
        [](int kernel) { return kernel == 0 ? "one" : "two"; },
        [](int variant) { return variant == 0   ? "swizzle 1"
                                 : variant == 1 ? "swizzle 2"
                                                : "swizzle 4"; },
        [](int, const carat_cutlass_problem* p) { return p->k % 8 == 0 ? 1 : 0; },
        [](int, int variant, const carat_cutlass_problem*) { return static_cast<size_t>(variant) * 1000; },
        [](int kernel, int, const carat_cutlass_problem*, const carat_cutlass_pointers* at, void*) {
            return at->a && at->b && at->d && at->workspace ? kernel : 99;
        },
    };
    return &table;
}
