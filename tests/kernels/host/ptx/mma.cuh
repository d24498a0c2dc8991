// SPDX-License-Identifier: Apache-2.0
// mma.cuh: the tensor cores of the emulation: lanes share their fragments and each computes its four elements, in f32.
#pragma once

#include <ptx/convert.cuh>

namespace carat_kernel {

// The element in the low (0) or high (1) half of a register.
template <int kType>
float half_of(unsigned pair, int half) {
    return unpack<kType>(static_cast<unsigned short>(pair >> 16 * half));
}

template <int kType>
void mma_m16n8k16(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    const unsigned words[6] = {a[0], a[1], a[2], a[3], b0, b1};
    const host_cuda::Slots& lanes = host_cuda::share(words, 6);
    const int lane = int(threadIdx.x % 32), row = lane / 4, col = lane % 4 * 2;
    for (int k = 0; k < 16; ++k) {
        const int t = k % 8 / 2, far = k / 8;  // the lane's place along K, and which 8 of K
        for (int e = 0; e < 4; ++e) {
            const float x = half_of<kType>(lanes[4 * row + t][2 * far + e / 2], k % 2);
            const float y = half_of<kType>(lanes[4 * (col + e % 2) + t][4 + far], k % 2);
            d[e] = fmaf(x, y, d[e]);
        }
    }
}

}  // namespace carat_kernel
