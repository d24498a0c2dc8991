// SPDX-License-Identifier: Apache-2.0
// host_cuda.hpp: enough of CUDA's device language for g++ to compile the kernels of kernels/ladder and run them on the
// CPU, one block at a time, each thread a fiber. A barrier that not every thread of the block reaches is an error;
// fibers can be run in several orders, so that a missing barrier changes the result.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

#define __device__
#define __shared__ static

namespace host_cuda {

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

enum class Order { forward, backward, shuffled };

// Runs `body` for each thread of each block; "" or what went wrong.
std::string launch(unsigned grid_x, unsigned threads, Order order, const std::function<void()>& body);

// Suspends the calling fiber until all of the block called it with the same `kind`.
void barrier(int kind);
// The value that thread `lane ^ step` of this warp passed.
unsigned exchange(unsigned value, int step);

}  // namespace host_cuda

// What a vector type is for: an access to 4 floats of an array at once.
struct __attribute__((may_alias, aligned(16))) float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}

inline host_cuda::Index threadIdx, blockIdx, gridDim;

inline void __syncthreads() {
    host_cuda::barrier(1);
}
inline unsigned __shfl_xor_sync(unsigned, unsigned value, int step) {
    return host_cuda::exchange(value, step);
}
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline unsigned atomicMax(unsigned* address, unsigned value) {
    const unsigned old = *address;
    if (value > old) *address = value;
    return old;
}
