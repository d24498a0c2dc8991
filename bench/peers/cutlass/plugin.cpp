// SPDX-License-Identifier: Apache-2.0
// plugin.cpp: the plugin's table over all kernels of kernels.def.
#include "plugin.h"

#include "cutlass/version.h"
#include "entry.h"

namespace carat_cutlass {

#define KERNEL(id, ...) extern const Entry entry_##id;
#include "kernels.def"
#undef KERNEL

namespace {

struct Row {
    const char* name;
    const Entry* entry;
};

#define NAME_Cooperative "cooperative"
#define NAME_Pingpong "ping-pong"
#define NAME_Persistent ""
#define NAME_StreamK " stream-K"
#define KERNEL(id, m, n, k, schedule, cluster_m, cluster_n, scheduler) \
    {#m "x" #n "x" #k " " NAME_##schedule " " #cluster_m "x" #cluster_n NAME_##scheduler, &entry_##id},
constexpr Row kRows[] = {
#include "kernels.def"
};
#undef KERNEL

struct Variant {
    const char* name;
    Walk walk;
};
constexpr Variant kVariants[] = {
    {"swizzle 1 along m", {1, 'm'}}, {"swizzle 1 along n", {1, 'n'}}, {"swizzle 2 along m", {2, 'm'}},
    {"swizzle 2 along n", {2, 'n'}}, {"swizzle 4 along m", {4, 'm'}}, {"swizzle 4 along n", {4, 'n'}},
    {"swizzle 8 along m", {8, 'm'}}, {"swizzle 8 along n", {8, 'n'}},
};

template <class T, int count>
constexpr int length(const T (&)[count]) {
    return count;
}

const Functions& functions(int kernel, const carat_cutlass_problem* problem) {
    return kRows[kernel].entry->of[problem->dtype];
}

constexpr carat_cutlass_plugin_table kTable = {
    CARAT_CUTLASS_ABI,
#define TEXT_NOW(x) #x
#define TEXT(x) TEXT_NOW(x)
    TEXT(CUTLASS_MAJOR) "." TEXT(CUTLASS_MINOR) "." TEXT(CUTLASS_PATCH),
    length(kRows),
    length(kVariants),
    [](int kernel) { return kRows[kernel].name; },
    [](int variant) { return kVariants[variant].name; },
    [](int kernel, const carat_cutlass_problem* problem) { return functions(kernel, problem).can(*problem); },
    [](int kernel, int variant, const carat_cutlass_problem* problem) {
        return functions(kernel, problem).workspace(*problem, kVariants[variant].walk);
    },
    [](int kernel, int variant, const carat_cutlass_problem* problem, const carat_cutlass_pointers* pointers,
       void* stream) { return functions(kernel, problem).run(*problem, kVariants[variant].walk, *pointers, stream); },
};

}  // namespace
}  // namespace carat_cutlass

extern "C" __attribute__((visibility("default"))) const carat_cutlass_plugin_table* carat_cutlass_plugin(void) {
    return &carat_cutlass::kTable;
}
