// SPDX-License-Identifier: Apache-2.0
// ldmatrix.cuh: the matrix loads and stores of the emulation, between the lanes of a warp.
#pragma once

#include <ptx/shared.cuh>

namespace carat_kernel {

// The 16-bit element (row, col) of matrix i, whose rows the lanes named.
inline unsigned matrix_address(const host_cuda::Slots& rows, int i, int row, int col) {
    return rows[8 * i + row][0] + 2 * static_cast<unsigned>(col);
}

template <bool kTransposed>
void ldmatrix_x4(unsigned (&registers)[4], unsigned row) {
    const host_cuda::Slots& rows = host_cuda::share(&row, 1);
    const int lane = int(threadIdx.x % 32), g = lane / 4, t = lane % 4 * 2;
    for (int i = 0; i < 4; ++i)
        for (int e = 0; e < 2; ++e)
            std::memcpy(
                reinterpret_cast<char*>(&registers[i]) + 2 * e,
                shared_pointer(kTransposed ? matrix_address(rows, i, t + e, g) : matrix_address(rows, i, g, t + e), 2),
                2);
}

template <bool kTransposed>
void stmatrix_x4(unsigned row, const unsigned (&registers)[4]) {
    const host_cuda::Slots& rows = host_cuda::share(&row, 1);
    const int lane = int(threadIdx.x % 32), g = lane / 4, t = lane % 4 * 2;
    for (int i = 0; i < 4; ++i)
        for (int e = 0; e < 2; ++e)
            write_shared(kTransposed ? matrix_address(rows, i, t + e, g) : matrix_address(rows, i, g, t + e),
                         reinterpret_cast<const char*>(&registers[i]) + 2 * e, 2);
}

}  // namespace carat_kernel
