// SPDX-License-Identifier: Apache-2.0
// The Hopper kernel where few rows of D make the operands' bytes the time, on emulated threads and units: K in parts in the
// blocks of a cluster, and tiles of fewer rows than their products have.
#include "kernels/host_cuda.hpp"
// After the language.
#include <gemm_ws.cuh>

#include <gtest/gtest.h>

#include "kernels/emulated_ws.hpp"

namespace carat::test {
namespace {

using host_cuda::Copies;
using host_cuda::Order;

// ---------------------------------------------------------------- K in parts

template <int Consumers, int Strips, bool PingPong, int Parts>
using InParts = Form<Consumers, Strips, PingPong, 1, 1, Parts>;

template <class Shape, int N, class Types = Bf16, class Layout = Nt>
void expect_parts() {
    using Config = ConfigOf<Shape, N, 3, Layout, Types>;
    // Parts without a step, of one, and uneven ones; tiles that are whole and not; one cluster for all tiles.
    for (const int64_t k : {0, 64, 136, 600}) {
        expect_right<Config>(Config::kBM + 8, N + 9, k);
        expect_right<Config>(2 * Config::kBM, 2 * N, k, 1);
    }
    expect_right<Config>(1, 1, 300);
}
TEST(WsDecodeEmulation, PartsOfKInACluster) {
    expect_parts<InParts<1, 1, false, 2>, 16>();
    expect_parts<InParts<1, 1, false, 4>, 64, Bf16, LayoutOf<true, false, false>>();
    expect_parts<InParts<1, 1, false, 3>, 96, F16>();
    expect_parts<InParts<2, 1, false, 2>, 48, Bf16ToF32>();
    expect_parts<InParts<2, 1, false, 5>, 128, Bf16, LayoutOf<true, false, false>>();
    expect_parts<InParts<2, 2, false, 3>, 128, Bf16>();
    expect_parts<InParts<1, 1, false, 8>, 32, Bf16ToE4m3>();
    // Of two tiles that share B.
    expect_parts<Form<1, 1, false, 2, 1, 2>, 32>();
    expect_parts<Form<2, 1, false, 2, 1, 2, 88>, 96>();
}
TEST(WsDecodeEmulation, PartsOfKInAnyOrderOfEvents) {
    using Config = ConfigOf<InParts<1, 1, false, 3>, 80, 2, LayoutOf<true, false, false>, Bf16>;
    for (const Copies copies : {Copies::early, Copies::late, Copies::random})
        for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
            Launch launch;
            launch.copies = copies, launch.order = order;
            expect_right<Config>(200, 170, 520, 1, launch);
        }
}

// Stages of several lines of K: K that ends in the first panel of a stage, or within one.
template <class Shape, int N, int Depth, class Layout = Nt, class Copy = Bulk<true, true>>
void expect_deep() {
    using Config = ConfigOf<Shape, N, 3, Layout, Bf16, Copy, NoEpilogue, Depth>;
    for (const int64_t k : {0, 8, 64, 72, Depth, 3 * Depth + 72, 7 * Depth}) {
        expect_right<Config>(Config::kBM + 8, N + 9, k);
        expect_right<Config>(2 * Config::kBM, 2 * N, k, 1);
    }
}
TEST(WsDecodeEmulation, StagesOfSeveralPanels) {
    expect_deep<Form<1, 1, false>, 16, 128>();
    expect_deep<Form<1, 1, false, 1, 1, 1, 16>, 16, 256>();
    expect_deep<InParts<1, 1, false, 3>, 32, 128, LayoutOf<true, false, false>>();
    expect_deep<Form<2, 1, false>, 64, 128, LayoutOf<false, true, true>>();
    expect_deep<Form<2, 1, true>, 32, 128>();
    expect_deep<Form<2, 1, false>, 64, 128, Nt, Bulk<false, true>>();
    expect_deep<Form<2, 1, false, 2, 1>, 32, 128>();
}

// The next kernel may start before the last stages are asked for: none, one, two or more.
struct TwoBlocks : Form<1, 1, false, 1, 1, 1, 16> {
    static constexpr int kMinBlocks = 2;
};
TEST(WsDecodeEmulation, TheNextKernelMayStartBeforeTheLastStages) {
    using Config = ConfigOf<TwoBlocks, 16, 3, Nt, Bf16, Bulk<true, true>, NoEpilogue, 128>;
    for (const int64_t k : {0, 64, 128, 256, 384, 520, 1024}) {
        expect_right<Config>(40, 16, k);
        expect_right<Config>(40, 16, k, 1);
    }
}

struct WithMax : NoEpilogue {
    static constexpr bool kAmax = true;
};

// Tiles of fewer rows than their products have.
template <int Rows, int Consumers, int Strips, int N, int Parts = 1, class Types = Bf16>
void expect_rows() {
    using Shape = Form<Consumers, Strips, false, 1, 1, Parts, Rows>;
    using RowMajor = ConfigOf<Shape, N, 2, Nt, Types>;
    using ColMajor = ConfigOf<Shape, N, 2, LayoutOf<true, false, false>, Types>;
    for (const int64_t m : {1, Rows - 1, Rows, 3 * Rows + 5}) {
        expect_right<RowMajor>(m, N - 3, 136);
        expect_right<ColMajor>(m, N, 200, 1);
    }
    // A maximum knows nothing of the rows beyond.
    using Largest = ConfigOf<Shape, N, 2, Nt, Types, Bulk<true, true>, WithMax>;
    Problem p = make_problem(Largest::types, 3 * Rows + 5, N, 136, "nt");
    set_pitch(p, Pitch::eights);
    p.epilogue.amax = 1;
    GemmCase gemm(p, Data::integers, 7, 1, 0, Place::aligned);
    EXPECT_EQ(run<Largest>(gemm), "");
}
TEST(WsDecodeEmulation, TilesOfFewerRowsThanTheirProducts) {
    expect_rows<8, 1, 1, 16>();
    expect_rows<56, 1, 1, 48, 3>();
    expect_rows<72, 2, 1, 32>();
    expect_rows<112, 2, 1, 128, 2, F16>();
    expect_rows<184, 3, 1, 16>();
    expect_rows<200, 2, 2, 64, 2>();
    expect_rows<248, 2, 2, 96, 1, Bf16ToF32>();
}

}  // namespace
}  // namespace carat::test
