// SPDX-License-Identifier: Apache-2.0
// ldmatrix.cuh: four 8x8 matrices of 16-bit elements between shared memory and a warp's registers in one instruction.
// Lane l names row l % 8 of matrix l / 8: 16 bytes, aligned to 16. Register i of a lane belongs to matrix i and holds
// elements (lane / 4, 2 (lane % 4) + {0, 1}), the layout in which mma.sync wants its operands; transposed, elements
// (2 (lane % 4) + {0, 1}, lane / 4).
#pragma once

namespace carat_kernel {

template <bool kTransposed>
__device__ inline void ldmatrix_x4(unsigned (&registers)[4], unsigned row) {
    if constexpr (kTransposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(row)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(row)
                     : "memory");
}

// The way back; sm_90 and newer.
template <bool kTransposed>
__device__ inline void stmatrix_x4(unsigned row, const unsigned (&registers)[4]) {
    if constexpr (kTransposed)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
                     "r"(registers[0]), "r"(registers[1]), "r"(registers[2]), "r"(registers[3])
                     : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(registers[0]),
                     "r"(registers[1]), "r"(registers[2]), "r"(registers[3])
                     : "memory");
}

}  // namespace carat_kernel
