// SPDX-License-Identifier: Apache-2.0
// wmma.cuh: WMMA of the emulation. How a fragment is spread is nobody's business, so each lane holds half a row of D and
// what that takes: the row of A and eight columns of B.
#pragma once

#include <cstdlib>

#include <ptx/convert.cuh>
#include <ptx/shared.cuh>

namespace carat_kernel::wmma {

enum Use { matrix_a, matrix_b, accumulator };
enum Layout { row_major, col_major };

template <Use kUse, int kType, Layout kLayout>
struct fragment {
    float x[kUse == matrix_a ? 1 : 8][16];  // by K last
};
struct accumulator_fragment {
    float x[8];
};

inline int lane() {
    return int(threadIdx.x % 32);
}
inline void fill_fragment(accumulator_fragment& d, float value) {
    for (float& x : d.x) x = value;
}

template <Use kUse, int kType, Layout kLayout>
void load_matrix_sync(fragment<kUse, kType, kLayout>& to, unsigned from, int ld) {
    host_cuda::warp_barrier("wmma.load");
    if (from % 32 != 0 || ld % 8 != 0) std::abort();
    const auto element = [&](int row, int col) {
        return load_element<kType>(shared_pointer(from), kLayout == row_major ? row * ld + col : col * ld + row);
    };
    for (int k = 0; k < 16; ++k)
        if constexpr (kUse == matrix_a)
            to.x[0][k] = element(lane() / 2, k);
        else
            for (int j = 0; j < 8; ++j) to.x[j][k] = element(k, lane() % 2 * 8 + j);
}

template <int kType, Layout kLayoutA, Layout kLayoutB>
void mma_sync(accumulator_fragment& d, const fragment<matrix_a, kType, kLayoutA>& a,
              const fragment<matrix_b, kType, kLayoutB>& b) {
    for (int j = 0; j < 8; ++j)
        for (int k = 0; k < 16; ++k) d.x[j] = fmaf(a.x[0][k], b.x[j][k], d.x[j]);
}

template <Layout kLayout>
void store_matrix_sync(unsigned to, const accumulator_fragment& d, int ld) {
    host_cuda::warp_barrier("wmma.store");
    const int row = lane() / 2;
    for (int j = 0; j < 8; ++j) {
        const int col = lane() % 2 * 8 + j;
        store_element<kTypeF32>(shared_pointer(to), kLayout == row_major ? row * ld + col : col * ld + row, d.x[j]);
    }
}

}  // namespace carat_kernel::wmma
