// SPDX-License-Identifier: Apache-2.0
// entry.h: what each kernel's own .cu file tells the plugin's table.
#pragma once

#include "plugin.h"

namespace carat_cutlass {

// How blocks walk over the tiles of D: in stripes so many tiles wide, along M or along N.
struct Walk {
    int swizzle;
    char along;
};

struct Functions {
    int (*can)(const carat_cutlass_problem&);
    size_t (*workspace)(const carat_cutlass_problem&, const Walk&);
    int (*run)(const carat_cutlass_problem&, const Walk&, const carat_cutlass_pointers&, void* stream);
};

struct Entry {
    Functions of[2];  // by carat_cutlass_dtype
};

}  // namespace carat_cutlass
