// SPDX-License-Identifier: Apache-2.0
// Rungs 6 to 8 on emulated threads and units: tiles, tails, layouts and types; and the protocol: phases, releases, fences
// and the end of a cluster, with copies that land early, late and at random, and threads that run in several orders.
#include "kernels/host_cuda.hpp"
// After the language.
#include <ladder/v6_wgmma.cuh>
#include <ladder/v7_warp_specialized.cuh>
#include <ladder/v8_cluster.cuh>

#include <gtest/gtest.h>

#include "kernels/emulated_hopper.hpp"

namespace carat::test {
namespace {

using carat_shared::BulkGemmParams;
using host_cuda::Copies;
using host_cuda::Launch;
using host_cuda::Order;

// ---------------------------------------------------------------- configurations

struct V6 {
    static constexpr int kTM = 1, kClusterM = 1, kClusterN = 1, kClusterK = 1, kThreads = 256, kFillThreads = 256;
    static constexpr bool kSpecialized = false;
    template <class Config>
    static void run(const BulkGemmParams& params) {
        carat_kernel::v6_wgmma<Config>(params);
    }
};

struct Specialized {
    static constexpr int kThreads = 384, kFillThreads = 128, kProducerRegisters = 40, kConsumerRegisters = 232;
    static constexpr bool kSpecialized = true;
};

struct V7 : Specialized {
    static constexpr int kTM = 1, kClusterM = 1, kClusterN = 1, kClusterK = 1;
    template <class Config>
    static void run(const BulkGemmParams& params) {
        carat_kernel::v7_warp_specialized<Config>(params);
    }
};

template <int M, int N, int Strips = 1>
struct V8 : Specialized {
    static constexpr int kTM = Strips, kClusterM = M, kClusterN = N, kClusterK = 1;
    template <class Config>
    static void run(const BulkGemmParams& params) {
        carat_kernel::v8_cluster<Config>(params);
    }
};

template <class Rung, int N, int Stages, class Layout, class Types, bool Bulk = true, class Epilogue = NoEpilogue>
struct ConfigOf : Rung, Layout, Types, Epilogue {
    static constexpr int kBM = 128 * Rung::kTM, kBN = N, kBK = 64, kTN = 1;
    static constexpr int kStages = Stages, kConsumers = 2, strip = 8;
    // As src/dispatch/rows_wgmma.cpp works them out, if the pitch of D allows bulk stores.
    static constexpr bool kStaged =
        !Layout::kRowMajorD || Epilogue::kHasC || Epilogue::kActivation > carat_shared::kActRelu;
    static constexpr bool kBulkA = Bulk, kBulkB = Bulk;
    static constexpr bool kBulkC = false, kStageBoxA = false, kStageBoxB = false;
    static constexpr bool kBulkStore = Bulk && Rung::kSpecialized && takes_bulk_stores<Types, Layout>;
    static constexpr unsigned kSharedBytes = Stages * ((kBM + N) * 64 * 2 + 16) +
                                             (Rung::kSpecialized || kStaged ? 2 * 16384 : 0) +
                                             (Rung::kSpecialized ? 2 * shared_bias_bytes<Epilogue, N, Rung::kTM> : 0);
};

using Bf16 = TypesOf<CARAT_BF16, CARAT_BF16>;
using F16 = TypesOf<CARAT_F16, CARAT_F16>;
using Bf16ToF32 = TypesOf<CARAT_BF16, CARAT_F32>;
using F16ToF32 = TypesOf<CARAT_F16, CARAT_F32>;
using Nt = LayoutOf<true, false, true>;

// ---------------------------------------------------------------- results

template <class Rung, class Types, bool A, bool B, bool D, bool Bulk>
void expect_layout() {
    // Row-major B goes to two blocks in boxes of 64 columns each.
    using Config = ConfigOf<Rung, 64 * Rung::kClusterM, 3, LayoutOf<A, B, D>, Types, Bulk>;
    expect_right<Config>(130, 70, 150);
    expect_right<Config>(64, 63, 64);
}

// Both majors of both operands, both orders of D, all types, by bulk copies and by threads.
template <class Rung>
void expect_layouts() {
    expect_layout<Rung, Bf16, true, true, true, true>();
    expect_layout<Rung, F16, true, false, true, true>();
    expect_layout<Rung, Bf16ToF32, false, true, true, true>();
    expect_layout<Rung, Bf16, false, false, false, true>();
    expect_layout<Rung, F16ToF32, true, false, false, true>();
}
template <class Rung>
void expect_layouts_by_threads() {
    expect_layout<Rung, Bf16, true, true, true, false>();
    expect_layout<Rung, F16, true, false, false, false>();
    expect_layout<Rung, Bf16ToF32, false, true, true, false>();
    expect_layout<Rung, Bf16, false, false, true, false>();
}

TEST(HopperEmulation, LayoutsAndTypesV6) {
    expect_layouts<V6>();
    expect_layouts_by_threads<V6>();
}
TEST(HopperEmulation, LayoutsAndTypesV7) {
    expect_layouts<V7>();
    expect_layouts_by_threads<V7>();
}
TEST(HopperEmulation, LayoutsAndTypesV8) {
    expect_layouts<V8<2, 1>>();
    expect_layouts<V8<1, 2>>();
    expect_layouts_by_threads<V8<1, 1>>();
}

template <class Rung, int N = 64>
void expect_edges() {
    using Config = ConfigOf<Rung, N, 2, Nt, Bf16>;
    for (const int64_t m : {1, 127, 129, 300})
        for (const int64_t n : {1, N - 1, N + 9})
            for (const int64_t k : {0, 8, 200}) expect_right<Config>(m, n, k);
}

TEST(HopperEmulation, Edges) {
    expect_edges<V6>();
    expect_edges<V7>();
    expect_edges<V8<2, 1>>();
    expect_edges<V8<1, 2, 2>>();
}

TEST(HopperEmulation, TilesOfTheRows) {
    expect_right<ConfigOf<V6, 256, 4, Nt, Bf16>>(200, 300, 330);
    expect_right<ConfigOf<V7, 256, 4, Nt, Bf16>>(200, 300, 330);
    expect_right<ConfigOf<V8<2, 1>, 256, 4, Nt, Bf16>>(300, 300, 330);
    expect_right<ConfigOf<V8<1, 2, 2>, 128, 4, Nt, Bf16>>(300, 300, 330);
    expect_right<ConfigOf<V8<2, 1, 2>, 192, 3, Nt, Bf16>>(300, 300, 330);
    expect_right<ConfigOf<V8<2, 1>, 192, 4, LayoutOf<true, false, false>, Bf16>>(300, 300, 330);
}

TEST(HopperEmulation, BatchesAndSharedOperands) {
    expect_batches<ConfigOf<V6, 64, 2, Nt, Bf16>>();
    expect_batches<ConfigOf<V7, 64, 2, Nt, Bf16>>();
    expect_batches<ConfigOf<V8<2, 1>, 64, 2, Nt, Bf16>>();
}

// ---------------------------------------------------------------- protocol

// Several tiles a block, more steps than stages, odd counts of both, tiles of a cluster that lie outside of D.
template <class Rung, bool Bulk = true>
void expect_protocol() {
    using Config = ConfigOf<Rung, 64, 2, Nt, Bf16, Bulk>;
    for (const Copies copies : {Copies::early, Copies::late, Copies::random})
        for (const Order order : {Order::forward, Order::backward, Order::shuffled})
            for (unsigned seed = 1; seed <= (copies == Copies::random ? 2 : 1); ++seed) {
                Launch launch;
                launch.order = order, launch.copies = copies, launch.seed = seed;
                expect_right<Config>(3 * 128, 2 * 64 + 1, 200, 1, launch);
            }
}

TEST(HopperProtocol, V6) {
    expect_protocol<V6>();
    expect_protocol<V6, false>();
}
TEST(HopperProtocol, V7) {
    expect_protocol<V7>();
    expect_protocol<V7, false>();
}
TEST(HopperProtocol, V8InOneBlock) {
    expect_protocol<V8<1, 1>>();
    expect_protocol<V8<1, 1>, false>();
}
TEST(HopperProtocol, V8OfRows) {
    expect_protocol<V8<2, 1>>();
}
TEST(HopperProtocol, V8OfColumns) {
    expect_protocol<V8<1, 2>>();
}

// ---------------------------------------------------------------- epilogues and what must not be read

// All of the epilogue that bulk stores take; with C it goes through shared memory as f32.
template <bool C>
struct Everything {
    static constexpr bool kDeviceScalars = true, kHasC = C, kClamp = true, kAmax = true;
    static constexpr int kBias = CARAT_BIAS_N, kActivation = CARAT_ACT_RELU, kGate = CARAT_GATE_NONE;
    static constexpr int kOutScale = CARAT_OUT_SCALE_ROW;
};

template <class Rung, class Types, bool C, bool D>
void expect_everything() {
    using Config = ConfigOf<Rung, 64, 2, LayoutOf<true, false, D>, Types, true, Everything<C>>;
    Problem p = make_problem(Config::types, 140, 72, 80, Config::layout(), D);
    set_pitch(p, Pitch::eights);
    if (C) add_c(p);
    p.epilogue.scalars_on_device = 1;
    add_bias(p, CARAT_BIAS_N);
    p.epilogue.activation = CARAT_ACT_RELU;
    p.epilogue.clamp = 1, p.epilogue.clamp_lo = 3, p.epilogue.clamp_hi = 30;
    p.epilogue.out_scale = CARAT_OUT_SCALE_ROW;
    p.epilogue.amax = 1;
    GemmCase gemm(p, Data::integers, 7, 2, C ? -1 : 0, Place::aligned);
    EXPECT_EQ(run<Config>(gemm, 1), "");
}

TEST(HopperEmulation, EpiloguesByEveryStore) {
    expect_everything<V6, Bf16, true, true>();
    expect_everything<V6, Bf16, false, true>();
    expect_everything<V7, Bf16, true, true>();
    expect_everything<V7, Bf16, false, true>();
    expect_everything<V7, F16, true, false>();
    expect_everything<V8<2, 1>, F16, false, true>();
    expect_everything<V8<2, 1>, F16, true, true>();
    expect_everything<V8<2, 1>, Bf16ToF32, false, true>();
}

struct WithC : NoEpilogue {
    static constexpr bool kHasC = true;
};

template <class Rung, bool Bulk>
void expect_not_read() {
    using Config = ConfigOf<Rung, 64, 2, Nt, Bf16, Bulk, WithC>;
    GemmCase beta_zero = case_of<Config>(130, 72, 80);
    carat_operands operands = beta_zero.operands();
    operands.c = nullptr;
    EXPECT_EQ(run<Config>(beta_zero, 1, {}, &operands), "");
    GemmCase alpha_zero = case_of<Config>(130, 72, 80, 0, -2);
    operands = alpha_zero.operands();
    if (!Bulk) operands.a = operands.b = nullptr;
    alpha_zero.a.fill(nan_bits(CARAT_BF16)), alpha_zero.b.fill(nan_bits(CARAT_BF16));
    EXPECT_EQ(run<Config>(alpha_zero, 1, {}, &operands), "");
}

TEST(HopperEmulation, NeitherCNorAAndBAreReadInVain) {
    expect_not_read<V6, true>();
    expect_not_read<V6, false>();
    expect_not_read<V7, true>();
    expect_not_read<V7, false>();
    expect_not_read<V8<2, 1>, true>();
    expect_not_read<V8<1, 1>, false>();
}

}  // namespace
}  // namespace carat::test
