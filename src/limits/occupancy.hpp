// SPDX-License-Identifier: Apache-2.0
// occupancy.hpp: how many blocks of a kernel an SM holds at once, from what a block needs and what an SM has.
#pragma once

#include "limits/target.hpp"

namespace carat {

struct BlockNeeds {
    int threads = 0;
    int registers = 0;         // a thread
    int64_t shared_bytes = 0;  // static and dynamic
};

struct Occupancy {
    int blocks = 0;    // an SM; 0: a block does not fit
    double share = 0;  // of the warps an SM can hold
};
Occupancy occupancy_of(const BlockNeeds& needs, const Target& target);

}  // namespace carat
