// SPDX-License-Identifier: Apache-2.0
// ladder_view.hpp: a result "carat.ladder/1" for people: its parts by problem, the words for them, and the table on a
// terminal. Everything shown is read from the JSON, so that a kept result is shown like a new one.
#pragma once

#include <string>
#include <vector>

#include "common.hpp"

namespace carat::cli {

// What a result holds of one size.
struct LadderSize {
    std::string name;  // "4096 x 4096 x 4096"
    std::vector<const Json*> results, peers, skipped;
};
std::vector<LadderSize> sizes_of(const Json& report);

// As a configuration's name has it, "128x256x64 t2x1 s4 c2x1", and what that means.
std::string tile_text(const Json& result);
inline constexpr const char* kTileMeaning =
    "BM x BN x BK of a block; t: elements of a thread, or 64-row wgmmas of a warpgroup; s: stages; c: cluster";
// The first clause of the row's summary, without its number: "tiles of A and B in shared memory".
std::string what_is_new(const Json& result);
// "f32 nn".
std::string operands_text(const Json& result);
// "ok", "WRONG", "not checked".
std::string check_text(const Json& result);
// "HBM 4.59 TB/s, L2 10.2 TB/s, ..." and "f32 nn (v0, v1), bf16 nt (v4)".
std::string limits_text(const Json& report);
std::string problems_text(const Json& report);
bool timed(const Json& report);
// A value of 0 to 1 in percent, "-" where it is not known.
std::string percent_at(const Json& json, const char* key);
std::string human_at(const Json& json, const char* key);
// A whole number as it is.
std::string whole_at(const Json& json, const char* key);

// Everything that goes to a terminal.
std::string ladder_text(const Json& report, bool colored);

// A file of such a result, for --load.
Json load_ladder(const std::string& path);

}  // namespace carat::cli
