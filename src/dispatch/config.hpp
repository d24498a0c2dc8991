// SPDX-License-Identifier: Apache-2.0
// config.hpp: a configuration is a value: printable, parsable, hashable. Its string is the kernel's name, its fields
// are the `Config` struct that the JIT generates. Fields that a family does not use stay at their defaults and are not
// printed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/problem.hpp"

namespace carat {

// How the partial sums of a K that is split over blocks come together. The letter is that of the name.
enum class SplitForm : char {
    none = 0,
    cluster = 'c',    // in a cluster, through distributed shared memory
    serial = 's',     // one block after the other adds to sums in the workspace
    workspace = 'w',  // all into the workspace, and a second kernel adds them up
    stream_k = 'k',   // serial, but only of the last tiles, whose steps of K are dealt out evenly; split_k is 0
};

struct Config {
    std::string family;  // "v0_naive", "v1_shared", "cpu_fast_avx512", "cpu_reference"
    carat_dtype a = CARAT_NONE, b = CARAT_NONE, d = CARAT_NONE;
    std::string layout;                // "nt"
    int bm = 0, bn = 0, bk = 0;        // tile
    int tm = 0, tn = 0;                // register tile of a thread; 0: unused
    int stages = 0;                    // pipeline stages; 0: unused
    int cluster_m = 0, cluster_n = 0;  // thread-block cluster; 0: unused
    int split_k = 0;                   // parts of K; 0: unused
    SplitForm split_form = SplitForm::none;
    bool pingpong = false;  // consumers take whole tiles in turn
    // Tiles across a strip of the order in which clusters take them: above 0 rows of tiles, below 0 columns; 0: unused.
    int strip = 0;
    bool aligned = false;  // operands are copied to pitches of 16 bytes first
    bool swapped = false;  // computes D^T = B^T A^T: the tile and the cluster are of D^T

    // "v1_shared_f32_f32_f32_nt_32x32x32" [+ "_t8x8"] [+ "_s4"] [+ "_c2x1"] [+ "_k4c" or "_sk"] [+ "_pp"] [+ "_rm8" or "_rn8"] [+ "_aligned"] [+ "_swap"]
    std::string name() const;
    static Result<Config> parse(std::string_view name);
    bool operator==(const Config&) const = default;
};

}  // namespace carat

template <>
struct std::hash<carat::Config> {
    size_t operator()(const carat::Config& config) const { return std::hash<std::string>()(config.name()); }
};
