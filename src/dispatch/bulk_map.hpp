// SPDX-License-Identifier: Apache-2.0
// bulk_map.hpp: matrices of a 16-bit type as the copy engine sees them, in the boxes that kernels/mainloop/operand_tile.cuh
// and kernels/store/fragments.cuh ask for. Addresses are filled in when a kernel is executed.
#pragma once

#include "core/problem.hpp"
#include "cuda/tensor_map.hpp"

namespace carat {

// box: of elements, along the contiguous dimension by along the other.
cuda::TensorMapDesc bulk_map(const carat_matrix& x, Extents extents, int64_t batch, uint32_t contiguous,
                             uint32_t other);

// An operand tile of `rows` (of M or N) by 64 (of K): one box of a K-major operand, boxes of 64 x 64 of an MN-major one.
cuda::TensorMapDesc operand_map(const carat_matrix& x, Extents extents, int64_t batch, bool k_major, int rows);

// All that can be said without the address: pitches of 16 bytes, extents of 31 bits.
bool takes_bulk(const cuda::TensorMapDesc& desc);

}  // namespace carat
