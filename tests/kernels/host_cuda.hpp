// SPDX-License-Identifier: Apache-2.0
// host_cuda.hpp: enough of CUDA's device language for g++ to compile the kernels of kernels/ladder and run them on the
// CPU: each thread is a fiber that runs until it has to wait for something. The blocks of a cluster run together, one
// cluster after the other. Fibers can be run in several orders and asynchronous copies can happen early, late or at
// random, so that a missing barrier or wait changes the result; where nothing can go on, the launch says who waits for
// what. The twins of the PTX wrappers are in host/ptx/.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#define __device__
#define __shared__ static

namespace host_cuda {

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

// Of warps, and of the threads of a warp. shuffled: another one each round.
enum class Order { forward, backward, shuffled };
// When a deferred operation happens: at once; not before no thread can go on; now and then, in any order.
enum class Copies { early, late, random };

inline constexpr unsigned kMaxSharedBytes = 227 << 10;  // all that a block can have

struct Launch {
    unsigned blocks = 1, threads = 32, cluster = 1;
    unsigned shared_bytes = kMaxSharedBytes;
    Order order = Order::forward;
    Copies copies = Copies::late;
    unsigned seed = 1;  // of what is shuffled or random
};

// Runs `body` for each thread of each block; "" or what went wrong.
std::string launch(const Launch& launch, const std::function<void()>& body);
inline std::string launch(unsigned blocks, unsigned threads, Order order, const std::function<void()>& body) {
    Launch shape;
    shape.blocks = blocks, shape.threads = threads, shape.order = order;
    return launch(shape, body);
}

// ---- for the twins of instructions

// Suspends the calling thread until ready() holds. what(): "waits for ...", should that never happen.
void wait_until(std::function<bool()> ready, std::function<std::string()> what);
// Ends the launch with this sentence.
[[noreturn]] void fail(const std::string& sentence);
// An operation that the hardware does on its own; what: "the copy of ...". None may be left when its cluster ends.
// patient: of late ones, after all others.
void defer(std::function<void()> operation, std::string what, bool patient = false);

// Waits for `threads` threads of the block (0: for all) at one of 16 barriers.
void barrier(int number, unsigned threads = 0);
// The same for the warp; every lane must be at the same kind of instruction. Between two barriers of the block each warp
// runs on its own, as far ahead of the others as it gets.
void warp_barrier(const char* kind);
// For all threads of the cluster that have not ended.
void cluster_barrier();

// What each lane of a warp published.
inline constexpr int kSlotWords = 8;
using Slots = unsigned[32][kSlotWords];
// Publishes `count` words of the calling lane and gives those of all lanes, until the lane's next call but one. All lanes
// of the warp must call it.
const Slots& share(const unsigned* words, int count);

// Of the calling thread's block in its cluster. Outside of a launch: of the first block of the last cluster.
unsigned cluster_rank();
unsigned cluster_blocks();
unsigned block_threads();
// Whether a block of the cluster still has threads.
bool is_running(unsigned rank);

// Dynamic shared memory of a block of the cluster. What it has not written reads as NaN in every type.
char* shared_memory(unsigned rank);
unsigned shared_bytes();

// A T of each block of the cluster, made when it is first asked for.
std::shared_ptr<void>& block_slot(unsigned rank, size_t type);
size_t next_type();
template <class T>
T& block_local(unsigned rank) {
    static const size_t type = next_type();
    std::shared_ptr<void>& slot = block_slot(rank, type);
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
}

}  // namespace host_cuda

// What a vector type is for: an access to 4 floats of an array at once.
struct __attribute__((may_alias, aligned(8))) float2 {
    float x, y;
};
inline float2 make_float2(float x, float y) {
    return {x, y};
}
struct __attribute__((may_alias, aligned(16))) float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}

inline host_cuda::Index threadIdx, blockIdx, gridDim;

inline void __syncthreads() {
    host_cuda::barrier(0);
}
inline void __syncwarp() {
    host_cuda::warp_barrier("__syncwarp");
}
// The low word of (high, low) shifted right.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
    return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32) | low) >> (bits & 31));
}
inline unsigned __shfl_xor_sync(unsigned, unsigned value, int step) {
    return host_cuda::share(&value, 1)[threadIdx.x % 32 ^ unsigned(step)][0];
}
inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
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
