// SPDX-License-Identifier: Apache-2.0
// ladder_rungs.hpp: the rungs of the ladder: the kernels whose row is named v0_..., v1_... and so on, found in the
// registry, each with the types and the layout that it is shown with.
#pragma once

#include <string>
#include <vector>

#include "common.hpp"

namespace carat::cli {

struct Rung {
    std::string name;  // "v3"
    int number = 0;
    std::string row, summary, source;  // as `carat list` has them
    std::string dtype, layout;         // of the problems it is shown with: "f32", "nn"
};

// What the flags say of all rungs.
struct RungFlags {
    std::string rungs;           // "v0,v3"; empty: all
    std::string layout;          // empty: nn for f32, nt for the 16-bit types
    std::string dtype = "bf16";  // of the rungs that do not take f32
};

// In order of their numbers; fails with the names there are for one that is none.
std::vector<Rung> find_rungs(const RungFlags& flags);

}  // namespace carat::cli
