// SPDX-License-Identifier: Apache-2.0
// The emulation of Hopper's units by itself: bulk copies and wgmma against plain loops, and that mistakes in a protocol
// become sentences: what a kernel's tests on it are worth.
#include "kernels/host_cuda.hpp"
// After the language.
#include <shared/swizzle.h>
#include <mainloop/operand_tile.cuh>
#include <ptx/block.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shared.cuh>
#include <ptx/wgmma.cuh>

#include <gtest/gtest.h>

namespace carat::test {
namespace {

using namespace carat_kernel;
using host_cuda::Copies;
using host_cuda::Launch;

// A tensor of bf16 with a value of its own everywhere: x + 16 y (mod 251), pitch and gaps NaN.
struct Tensor {
    int extent_x, extent_y, pitch;
    alignas(16) unsigned short bits[64 * 1024];

    Tensor(int x, int y, int pitch_) : extent_x(x), extent_y(y), pitch(pitch_) {
        std::fill(std::begin(bits), std::end(bits), 0x7fff);
        for (int j = 0; j < y; ++j)
            for (int i = 0; i < x; ++i) store_element<kTypeBf16>(bits, j * pitch + i, value(i, j));
    }
    float value(int x, int y) const {
        const bool inside = x >= 0 && x < extent_x && y >= 0 && y < extent_y;
        return inside ? float((x + 16 * y) % 251 - 125) : 0;
    }
    BulkMap map(unsigned box_x, unsigned box_y) {
        BulkDesc desc;
        desc.dtype = CARAT_BF16, desc.address = bits, desc.rank = 3;
        desc.dims[0] = uint64_t(extent_x), desc.dims[1] = uint64_t(extent_y), desc.dims[2] = 1;
        desc.strides_bytes[1] = desc.strides_bytes[2] = uint64_t(pitch) * 2;
        desc.box[0] = box_x, desc.box[1] = box_y, desc.box[2] = 1;
        desc.swizzle = cuda::Swizzle::bytes_128;
        return make_bulk_map(desc);
    }
};

constexpr unsigned kBarrier = 64 << 10;  // its shared address

std::string run(Launch launch, const std::function<void()>& body) {
    return host_cuda::launch(launch, body);
}
Launch threads(unsigned count, Copies copies = Copies::late, unsigned cluster = 1) {
    Launch launch;
    launch.blocks = launch.cluster = cluster, launch.threads = count, launch.copies = copies;
    return launch;
}

void make_barrier(int arrivals = 1) {
    if (threadIdx.x == 0) {
        barrier_init(kBarrier, arrivals);
        barrier_init_fence();
    }
    host_cuda::cluster_blocks() > 1 ? cluster_barrier() : __syncthreads();
}

TEST(HopperUnits, ACopyIsSwizzledAndZeroOutside) {
    Tensor tensor(100, 50, 104);
    const BulkMap map = tensor.map(64, 16);
    for (const int x : {-8, 0, 64, 128})
        for (const int y : {-3, 0, 40, 60}) {
            const auto body = [&] {
                make_barrier();
                if (threadIdx.x == 0) {
                    barrier_arrive_expect(kBarrier, 64 * 16 * 2);
                    bulk_load(1024, map, kBarrier, x, y, 0);
                }
                barrier_wait(kBarrier, 0);
                for (int line = 0; line < 16; ++line)
                    for (int i = 0; i < 64; ++i) {
                        const unsigned at = 1024u + unsigned(carat_shared::swizzle_128(line, i / 8)) + i % 8 * 2u;
                        ASSERT_EQ(load_element<kTypeBf16>(shared_pointer(at), 0), tensor.value(x + i, y + line));
                    }
            };
            ASSERT_EQ(run(threads(32), body), "");
        }
}

TEST(HopperUnits, AStoreIsClipped) {
    Tensor tensor(96, 50, 104);
    const BulkMap map = tensor.map(64, 8);
    const auto body = [&] {
        if (threadIdx.x < 8)
            for (int chunk = 0; chunk < 8; ++chunk) {
                Chunk ones;
                for (unsigned& word : ones.words) word = pack_pair<kTypeBf16>(1, 1);
                store_shared(unsigned(carat_shared::swizzle_128(int(threadIdx.x), chunk)), ones);
            }
        async_proxy_fence();
        __syncthreads();
        if (threadIdx.x != 0) return;
        bulk_store(map, 0, 64, 46, 0);
        bulk_store_commit();
        bulk_store_wait_read<0>();
    };
    ASSERT_EQ(run(threads(32), body), "");
    for (int y = 0; y < 51; ++y)
        for (int x = 0; x < 104; ++x) {
            const float got = load_element<kTypeBf16>(tensor.bits, y * 104 + x);
            if (x >= 96 || y >= 50)
                ASSERT_TRUE(std::isnan(got)) << x << ", " << y;
            else
                ASSERT_EQ(got, x >= 64 && y >= 46 ? 1.0f : tensor.value(x, y)) << x << ", " << y;
        }
}

TEST(HopperUnits, AMulticastReachesEveryBlock) {
    Tensor tensor(64, 32, 64);
    const BulkMap map = tensor.map(64, 16);
    const auto body = [&] {
        make_barrier();
        const int rank = cluster_rank();
        if (threadIdx.x == 0) {
            barrier_arrive_expect(kBarrier, 64 * 32 * 2);
            bulk_load_multicast(unsigned(rank) * 2048, map, kBarrier, 0, rank * 16, 0, 3);
        }
        barrier_wait(kBarrier, 0);
        for (int line = 0; line < 32; ++line)
            ASSERT_EQ(load_element<kTypeBf16>(shared_pointer(unsigned(carat_shared::swizzle_128(line, 2))), 0),
                      tensor.value(16, line));
        cluster_barrier();
    };
    for (const Copies copies : {Copies::early, Copies::late, Copies::random})
        EXPECT_EQ(run(threads(32, copies, 2), body), "");
}

// d += a b over 64 of K, both operands brought by bulk copies.
template <bool kKMajorA, bool kKMajorB, int kN>
void expect_product() {
    static Tensor a(kKMajorA ? 64 : 128, kKMajorA ? 128 : 64, 128), b(kKMajorB ? 64 : kN, kKMajorB ? kN : 64, 256);
    const BulkMap map_a = a.map(64, kKMajorA ? 128 : 64), map_b = b.map(64, kKMajorB ? kN : 64);
    using TileA = OperandTile<kKMajorA, 128>;
    using TileB = OperandTile<kKMajorB, kN>;
    const auto body = [&] {
        make_barrier();
        const unsigned tile_b = TileA::kBytes;
        if (threadIdx.x == 0) {
            barrier_arrive_expect(kBarrier, TileA::kBytes + TileB::kBytes);
            const int begin[] = {0};
            TileA::template load_panel<1>(0, {map_a, {}}, kBarrier, begin, 1 << 20, 0, 0, 0, 1);
            TileB::template load_panel<1>(tile_b, {map_b, {}}, kBarrier, begin, 1 << 20, 0, 0, 0, 1);
        }
        barrier_wait(kBarrier, 0);
        const int first = warpgroup_index() * 64;
        float d[kN / 2];
        std::fill(std::begin(d), std::end(d), 0.0f);
        wgmma_fence();
        for (int step = 0; step < 4; ++step)
            Wgmma<kN, kTypeBf16, kKMajorA, kKMajorB>::multiply(d, TileA::descriptor(0, first, step),
                                                               TileB::descriptor(tile_b, 0, step));
        wgmma_commit();
        wgmma_wait<0>();
        const int lane = int(threadIdx.x) % 32, row = first + int(threadIdx.x) % 128 / 32 * 16 + lane / 4;
        for (int i = 0; i < kN / 2; ++i) {
            const int r = row + i / 2 % 2 * 8, c = i / 4 * 8 + lane % 4 * 2 + i % 2;
            float want = 0;
            for (int k = 0; k < 64; ++k)
                want += (kKMajorA ? a.value(k, r) : a.value(r, k)) * (kKMajorB ? b.value(k, c) : b.value(c, k));
            ASSERT_EQ(d[i], want) << r << ", " << c;
        }
    };
    EXPECT_EQ(run(threads(256), body), "");
}

TEST(HopperUnits, WgmmaIsAProductOfBothMajors) {
    expect_product<true, true, 64>();
    expect_product<true, false, 64>();
    expect_product<false, true, 128>();
    expect_product<false, false, 192>();
}

TEST(HopperUnits, RegistersMoveBetweenWarpgroups) {
    const auto move = [] { warpgroup_index() == 0 ? shrink_registers<40>() : grow_registers<232>(); };
    EXPECT_EQ(run(threads(384), move), "");
    const auto too_many = [] { warpgroup_index() == 0 ? shrink_registers<40>() : grow_registers<240>(); };
    EXPECT_NE(run(threads(384), too_many).find("waits for 72 registers"), std::string::npos);
}

// ---------------------------------------------------------------- mistakes

void expect_error(const std::string& part, const Launch& launch, const std::function<void()>& body) {
    const std::string error = run(launch, body);
    EXPECT_NE(error.find(part), std::string::npos) << "'" << error << "' lacks '" << part << "'";
}

TEST(HopperMistakes, ADeadlockSaysWhoWaitsForWhat) {
    const auto no_arrival = [] {
        make_barrier();
        barrier_wait(kBarrier, 0);
    };
    expect_error("parity 0 of the barrier at 65536 (phase 0: 1 of 1 arrivals and 0 bytes", threads(64), no_arrival);
    expect_error("thread 0 and 63 others", threads(64), no_arrival);
    const auto too_few_bytes = [] {
        static Tensor tensor(64, 16, 64);
        static const BulkMap map = tensor.map(64, 8);
        make_barrier();
        if (threadIdx.x == 0) {
            barrier_arrive_expect(kBarrier, 4096);
            bulk_load(0, map, kBarrier, 0, 0, 0);
        }
        barrier_wait(kBarrier, 0);
    };
    expect_error("0 of 1 arrivals and 3072 bytes are missing", threads(32), too_few_bytes);
    expect_error("waits at barrier 1, where 32 of 64 threads are", threads(64), [] {
        if (threadIdx.x < 32) named_barrier<64>(1);
    });
    expect_error("waits at an exchange of its warp, where 31 lanes", threads(32), [] {
        if (threadIdx.x > 0) __shfl_xor_sync(~0u, 0, 1);
    });
}

TEST(HopperMistakes, WhatWasNotSetUp) {
    expect_error("no barrier at 65536", threads(32), [] { barrier_arrive(kBarrier); });
    expect_error("before barrier_init_fence()", threads(32), [] {
        static Tensor tensor(64, 16, 64);
        static const BulkMap map = tensor.map(64, 8);
        barrier_init(kBarrier, 1);
        bulk_load(0, map, kBarrier, 0, 0, 0);
    });
    expect_error("from element 3 of a line", threads(32), [] {
        static Tensor tensor(64, 16, 64);
        static const BulkMap map = tensor.map(64, 8);
        make_barrier();
        bulk_load(0, map, kBarrier, 3, 0, 0);
    });
    expect_error("which is not there or has ended", threads(32, Copies::late, 2), [] {
        make_barrier();
        if (cluster_rank() == 0) return;
        host_cuda::wait_until([] { return !host_cuda::is_running(0); }, [] { return "waits for block 0"; });
        barrier_arrive_at(kBarrier, 0);
    });
    expect_error("beyond the 232448 bytes", threads(1), [] { store_shared(232448, {}); });
}

TEST(HopperMistakes, WhatWasNotWaitedFor) {
    Tensor tensor(64, 16, 64);
    const BulkMap map = tensor.map(64, 8);
    const auto load_and_leave = [&] {
        make_barrier();
        if (threadIdx.x == 0) {
            barrier_arrive_expect(kBarrier, 1024);
            bulk_load(0, map, kBarrier, 0, 0, 0);
        }
    };
    expect_error("ended before the copy of the box at (0, 0, 0)", threads(32), load_and_leave);
    const auto store_and_leave = [&] {
        bulk_store(map, 0, 0, 8, 0);
        bulk_store_commit();
    };
    expect_error("ended before the store of the box at (0, 8, 0)", threads(1), store_and_leave);
}

TEST(HopperMistakes, WhatWasNotFenced) {
    Tensor tensor(64, 16, 64);
    const BulkMap map = tensor.map(64, 8);
    expect_error("a bulk store reads address 128 that thread 3 wrote", threads(32), [&] {
        if (threadIdx.x == 3) store_shared(128, {});
        __syncthreads();
        if (threadIdx.x == 0) bulk_store(map, 0, 0, 0, 0);
    });
    const auto multiply = [](bool fence) {
        if (threadIdx.x == 5) store_shared(0, {});
        __syncthreads();
        float d[32] = {};
        if (fence) wgmma_fence();
        Wgmma<64, kTypeBf16, true, true>::multiply(d, OperandTile<true, 64>::descriptor(0, 0, 0),
                                                   OperandTile<true, 64>::descriptor(8192, 0, 0));
        wgmma_commit();
        wgmma_wait<0>();
    };
    expect_error("wgmma reads address 0 that thread 5 wrote", threads(128), [&] { multiply(true); });
    expect_error("without a wgmma_fence()", threads(128), [&] { multiply(false); });
}

// A ring of one stage. Given back before the products are waited for, an early copy overwrites what they read.
TEST(HopperMistakes, AStageGivenBackTooSoonChangesTheResult) {
    static Tensor tensor(128, 64, 128);
    static const BulkMap map = tensor.map(64, 64);
    const auto product = [](bool wait_first) {
        float first = 0;
        const auto body = [&] {
            constexpr unsigned kEmpty = kBarrier + 8;
            if (threadIdx.x == 0) barrier_init(kEmpty, 128);
            make_barrier();
            if (threadIdx.x >= 128) {
                if (threadIdx.x > 128) return;
                for (int step = 0; step < 2; ++step) {
                    barrier_wait(kEmpty, step ^ 1);
                    barrier_arrive_expect(kBarrier, 8192);
                    bulk_load(0, map, kBarrier, step * 64, 0, 0);
                }
                return;
            }
            float d[32] = {};
            for (int step = 0; step < 2; ++step) {
                barrier_wait(kBarrier, step);
                wgmma_fence();
                Wgmma<64, kTypeBf16, true, true>::multiply(d, OperandTile<true, 64>::descriptor(0, 0, 0),
                                                           OperandTile<true, 64>::descriptor(0, 0, 0));
                wgmma_commit();
                if (wait_first) wgmma_wait<0>();
                barrier_arrive(kEmpty);
                __syncwarp();
            }
            wgmma_wait<0>();
            if (threadIdx.x == 0) first = d[0];
        };
        EXPECT_EQ(run(threads(160, Copies::early), body), "");
        return first;
    };
    EXPECT_NE(product(true), product(false));
}

}  // namespace
}  // namespace carat::test
