// SPDX-License-Identifier: Apache-2.0
// bulk_map.hpp: matrices as the copy engine sees them, in the boxes that kernels/mainloop/operand_tile.cuh and
// kernels/store/boxes.cuh ask for. Addresses are filled in when a kernel is executed.
#pragma once

#include <optional>

#include "core/problem.hpp"
#include "cuda/tensor_map.hpp"

namespace carat {

// box: of elements, along the contiguous dimension by along the other.
cuda::TensorMapDesc bulk_map(const carat_matrix& x, Extents extents, int64_t batch, uint32_t contiguous,
                             uint32_t other);

// A 16-bit operand's tile of `rows` (of M or N) by 64 (of K): one box of a K-major operand, boxes of 64 x 64 of an MN-major one.
cuda::TensorMapDesc operand_map(const carat_matrix& x, Extents extents, int64_t batch, bool k_major, int rows);

// `panels` such tiles of a K-major operand in one box, one after the other: a map of rank 4, of (64 of K, rows, lines of 64 of K, batch).
// K is a multiple of 64, for what is behind the end of a row is the next one.
cuda::TensorMapDesc panels_map(const carat_matrix& x, Extents extents, int64_t batch, int rows, int panels);

// D in boxes of 64 rows by 128 bytes of columns (column-major: by 64 columns of a 16-bit type), or nothing where D cannot
// leave in bulk: a store is clipped in pieces of 16 bytes, so where a line of D ends within one, the engine would write
// beyond it.
std::optional<cuda::TensorMapDesc> store_map(const Problem& problem);

// C in the same boxes, where it can be brought into those that D is to leave in: elements of D's size, as many columns, and D
// leaves in bulk.
std::optional<cuda::TensorMapDesc> residual_map(const Problem& problem);

// All that can be said without the address: pitches of 16 bytes, extents of 31 bits.
bool takes_bulk(const cuda::TensorMapDesc& desc);

}  // namespace carat
