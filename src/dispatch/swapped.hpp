// SPDX-License-Identifier: Apache-2.0
// swapped.hpp: D^T = B^T A^T. A kernel that takes every layout and either order of D runs any problem with its operands
// swapped, with no code of its own. wgmma has 64 rows at least and reads all columns of its B for every 64 of them, so
// that a tile of 256 rows by 64 columns is best run as 64 x 256.
#pragma once

#include <memory>

#include "dispatch/registry.hpp"

namespace carat {

// Whether nothing of the problem is tied to rows or columns of D: no gate, no scale of a row.
bool can_swap(const Problem& problem);

// The same problem for D^T. What is swapped twice is as it was.
Problem swap_operands(const Problem& problem);

// The configuration that runs the swapped problem in place of a swapped one, and back.
Config unswapped(Config config, const Problem& swapped_problem);
Config swapped(Config config, const Problem& problem);

// Runs a problem by an executable for its swapped form.
std::unique_ptr<Executable> swap_operands(std::unique_ptr<Executable> executable);

}  // namespace carat
