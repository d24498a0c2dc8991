// SPDX-License-Identifier: Apache-2.0
// fake_driver.hpp: what the fake driver (fake_driver.cpp, a library of its own) recorded, for the tests to read.
#pragma once

#include <cstdint>

namespace carat::test {

// CUlaunchConfig and CUlaunchAttribute, written down a second time.
struct FakeLaunchAttribute {
    unsigned id, padding;
    union {
        unsigned cluster[3];
        int programmatic;
        char bytes[64];
        void* aligned;
    };
};

struct FakeLaunchConfig {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
    void* stream;
    FakeLaunchAttribute* attributes;
    unsigned attribute_count;
};

struct FakeRecord {
    int retained, released, pushed, launches, graph_launches, graphs_destroyed, unloaded, last_device;
    FakeLaunchConfig last;
    FakeLaunchAttribute attributes[4];
    uint64_t first_parameter;
    int maps_encoded, maps_moved;
    int loaded;                                 // libraries
    int waits, allocations;                     // calls that synchronise or allocate
    int captures_lost;                          // by calls that are not allowed while a stream is captured
    void (*on_launch)(const void* parameters);  // called where set, one thread at a time
};

}  // namespace carat::test
