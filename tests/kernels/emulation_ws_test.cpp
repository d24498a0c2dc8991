// SPDX-License-Identifier: Apache-2.0
// The Hopper kernel on emulated threads and units: every form (cooperative, ping-pong, clusters), tiles and tails, layouts,
// types, epilogues and ways to copy and to store; and the protocol, with copies that land early, late and at random.
#include "kernels/host_cuda.hpp"
// After the language.
#include <gemm_ws.cuh>

#include <gtest/gtest.h>

#include "kernels/emulated_ws.hpp"

namespace carat::test {
namespace {

using host_cuda::Copies;
using host_cuda::Order;

// ---------------------------------------------------------------- results

template <class Shape, class Types, bool A, bool B, bool D, class Copy>
void expect_layout() {
    // Row-major B goes to two blocks in boxes of 64 columns each.
    using Config = ConfigOf<Shape, 64 * Shape::kClusterM, 3, LayoutOf<A, B, D>, Types, Copy>;
    expect_right<Config>(130, 72, 150);
    expect_right<Config>(64, 63, 64);
}

TEST(WsEmulation, LayoutsAndTypes) {
    using All = Bulk<true, true>;
    expect_layout<Cooperative, Bf16, true, true, true, All>();
    expect_layout<PingPong, F16, true, false, true, All>();
    expect_layout<Cooperative, Bf16ToF32, false, true, true, All>();
    expect_layout<PingPong, Bf16, false, false, false, All>();
    expect_layout<Cooperative, F16ToBf16, true, false, false, All>();
    expect_layout<PingPong, Bf16ToF32, true, true, false, All>();
    expect_layout<Form<2, 1, false, 2, 1>, Bf16, false, true, true, All>();
    expect_layout<Form<2, 1, false, 2, 2>, Bf16, false, true, false, All>();
}

TEST(WsEmulation, OperandsThatThreadsCopy) {
    expect_layout<Cooperative, Bf16, true, true, true, Bulk<false, false>>();
    expect_layout<PingPong, F16, true, false, true, Bulk<false, false>>();
    expect_layout<Cooperative, Bf16, false, false, false, Bulk<false, false>>();
    expect_layout<PingPong, Bf16ToF32, false, true, false, Bulk<false, false>>();
}

// One in bulk, the other by threads: the pitches of a problem of which one operand is odd.
template <class Copy>
void expect_one_by_threads() {
    using Config = ConfigOf<Cooperative, 64, 3, Nt, Bf16, Copy>;
    Problem p = make_problem(Config::types, 130, 70, 201, "nt");
    (Copy::kBulkA ? p.a.ld : p.b.ld) = 208;
    GemmCase gemm(p, Data::integers, 7, 1, 0, Place::aligned);
    EXPECT_EQ(run<Config>(gemm, 1), "");
}
TEST(WsEmulation, OneOperandInBulkTheOtherByThreads) {
    expect_one_by_threads<Bulk<true, false>>();
    expect_one_by_threads<Bulk<false, true>>();
}

template <class Shape, int N>
void expect_edges() {
    using Config = ConfigOf<Shape, N, 2, Nt, Bf16>;
    for (const int64_t m : {1, Config::kBM - 1, Config::kBM + 1, 2 * Config::kBM + 44})
        for (const int64_t n : {1, N - 1, N, 2 * N + 9})
            for (const int64_t k : {0, 8, 200}) expect_right<Config>(m, n, k);
}

TEST(WsEmulation, Edges) {
    expect_edges<Cooperative, 64>();
    expect_edges<PingPong, 16>();
    expect_edges<Form<2, 2, true>, 48>();
    expect_edges<Form<3, 1, false>, 32>();
    expect_edges<Form<2, 1, false, 1, 2>, 64>();
    expect_edges<Form<2, 2, false, 2, 1>, 80>();
}

TEST(WsEmulation, TilesOfTheRow) {
    expect_right<ConfigOf<PingPong, 16, 4, Nt, Bf16>>(200, 100, 330);
    expect_right<ConfigOf<PingPong, 256, 4, Nt, Bf16>>(200, 300, 330);
    expect_right<ConfigOf<Form<2, 2, true>, 128, 4, Nt, Bf16>>(300, 300, 330);
    expect_right<ConfigOf<Cooperative, 176, 4, Nt, F16>>(200, 400, 330);
    expect_right<ConfigOf<Form<2, 2, false>, 208, 3, Nt, Bf16>>(300, 500, 200);
    expect_right<ConfigOf<Form<2, 2, false, 2, 1>, 192, 3, Nt, Bf16>>(600, 300, 200);
    expect_right<ConfigOf<Form<3, 1, false>, 192, 3, Nt, Bf16>>(300, 300, 200);
    expect_right<ConfigOf<Form<2, 1, false, 2, 2>, 128, 4, Nt, Bf16>>(500, 500, 200);
    expect_right<ConfigOf<Form<2, 1, false, 4, 1>, 128, 4, Nt, Bf16>>(500, 200, 200);
    expect_right<ConfigOf<Cooperative, 16, 4, LayoutOf<false, true, true>, Bf16>>(200, 100, 200);
    expect_right<ConfigOf<Cooperative, 208, 3, LayoutOf<true, true, true>, Bf16>>(200, 300, 200);
}

TEST(WsEmulation, StripsEitherWay) {
    using Config = ConfigOf<PingPong, 16, 2, Nt, Bf16>;
    for (const int strip : {1, 2, 3, 100, -1, -2, -3, -100}) {
        Config::strip = strip;
        expect_right<Config>(64 * 5, 16 * 4 + 1, 40, 3);
    }
    Config::strip = 2;
}

TEST(WsEmulation, BatchesAndSharedOperands) {
    expect_batches<ConfigOf<Cooperative, 64, 2, Nt, Bf16>>();
    expect_batches<ConfigOf<PingPong, 64, 2, Nt, Bf16>>();
    expect_batches<ConfigOf<Form<2, 1, false, 2, 1>, 64, 2, Nt, Bf16>>();
}

// D of every alignment: by the engine, and in words of 16 down to 1 byte.
template <class Types, bool D>
void expect_pitches() {
    using Config = ConfigOf<Cooperative, 64, 2, LayoutOf<true, false, D>, Types>;
    using ByThreads = WithoutBulkStore<Config>;
    for (const int64_t more : {0, 1, 2, 4, 8}) {
        Problem p = make_problem(Config::types, 72, 64, 72, "nt", D);
        p.d.ld = (p.d.ld + 15) / 16 * 16 + more;
        GemmCase gemm(p, Data::integers, 7, 1, 0, Place::aligned);
        EXPECT_EQ(run<ByThreads>(gemm, 1), "");
        Problem tail = p;
        tail.m = 67, tail.n = 61;
        GemmCase cut(tail, Data::integers, 7, 1, 0, Place::aligned);
        EXPECT_EQ(run<ByThreads>(cut, 1), "");
    }
}
TEST(WsEmulation, DOfEveryPitch) {
    expect_pitches<Bf16, true>();
    expect_pitches<Bf16, false>();
    expect_pitches<Bf16ToF32, true>();
    expect_pitches<Bf16ToF32, false>();
    expect_pitches<Bf16ToE4m3, true>();
    expect_pitches<Bf16ToS8, false>();
}

// Its box is 128 columns: tiles of a part of one, of one, of one and a part, and of two; pitches of D for the engine (of
// row-major D) and for threads.
template <class Shape, int N, class Types, bool D>
void expect_narrow() {
    using Config = ConfigOf<Shape, N, 2, LayoutOf<true, false, D>, Types>;
    for (const int64_t pitch : {16, 1}) {
        Problem p = make_problem(Config::types, 140, 336, 72, Config::layout(), D);
        set_pitch(p, Pitch::eights);
        p.d.ld = (p.d.ld + 15) / 16 * 16 + pitch;
        GemmCase gemm(p, Data::integers, 7, 1, 0, Place::aligned);
        EXPECT_EQ(run<Config>(gemm, 1), "");
    }
}
TEST(WsEmulation, DOf8Bits) {
    expect_narrow<Cooperative, 128, Bf16ToE4m3, true>();
    expect_narrow<Cooperative, 64, F16ToE5m2, true>();
    expect_narrow<PingPong, 192, Bf16ToS8, true>();
    expect_narrow<PingPong, 256, Bf16ToE4m3, false>();
    expect_narrow<Form<2, 2, false>, 176, F16ToE5m2, true>();
    expect_narrow<Form<2, 2, true>, 64, Bf16ToS8, false>();
    expect_narrow<Form<3, 1, false>, 160, Bf16ToE4m3, true>();
    expect_narrow<Form<2, 1, false, 2, 1>, 128, F16ToE5m2, false>();
    expect_right<ConfigOf<Cooperative, 128, 2, Nt, Bf16ToS8, Bulk<false, false>>>(140, 300, 72);
}

// ---------------------------------------------------------------- protocol

// Several tiles a block, more steps than stages, odd counts of both, tiles of a cluster that lie outside of D.
template <class Shape, class Copy = Bulk<true, true>>
void expect_protocol() {
    using Config = ConfigOf<Shape, 64, 2, Nt, Bf16, Copy>;
    for (const Copies copies : {Copies::early, Copies::late, Copies::random})
        for (const Order order : {Order::forward, Order::backward, Order::shuffled})
            for (unsigned seed = 1; seed <= (copies == Copies::random ? 2 : 1); ++seed) {
                Launch launch;
                launch.order = order, launch.copies = copies, launch.seed = seed;
                expect_right<Config>(3 * Shape::kBM, 2 * 64 + 1, 200, 1, launch);
            }
}
TEST(WsProtocol, Cooperative) {
    expect_protocol<Cooperative>();
    expect_protocol<Cooperative, Bulk<false, false>>();
    expect_protocol<Cooperative, Bulk<true, false>>();
}
TEST(WsProtocol, PingPong) {
    expect_protocol<PingPong>();
    expect_protocol<PingPong, Bulk<false, true>>();
    expect_protocol<Form<2, 1, true, 2, 1>>();
}
TEST(WsProtocol, Clusters) {
    expect_protocol<Form<2, 1, false, 2, 1>>();
    expect_protocol<Form<2, 1, false, 1, 2>>();
    expect_protocol<Form<2, 1, false, 2, 2>>();
    expect_protocol<Form<2, 1, false, 1, 4>>();
}

// ---------------------------------------------------------------- epilogues

template <carat_gate Gate, carat_bias Bias, bool C, carat_out_scale OutScale = CARAT_OUT_SCALE_ROW>
struct Everything {
    static constexpr bool kDeviceScalars = true, kHasC = C, kClamp = true, kAmax = true;
    static constexpr int kBias = Bias, kActivation = Gate == CARAT_GATE_NONE ? CARAT_ACT_RELU : CARAT_ACT_SILU;
    static constexpr int kGate = Gate, kOutScale = OutScale;
};

template <class Shape, int N, class Types, bool D, class Epilogue, class Copy = Bulk<true, true>>
void expect_everything() {
    using Config = ConfigOf<Shape, N, 2, LayoutOf<true, false, D>, Types, Copy, Epilogue>;
    for (const int64_t n : {70, 72, 208}) {
        Problem p = make_problem(Config::types, 140, n, 80, Config::layout(), D);
        set_pitch(p, Pitch::eights);
        if (Epilogue::kHasC) add_c(p, carat_dtype(Config::kTypeC));
        p.epilogue.scalars_on_device = 1;
        p.epilogue.gate = carat_gate(Epilogue::kGate);
        add_bias(p, carat_bias(Epilogue::kBias), carat_dtype(Config::kTypeBias));
        p.epilogue.activation = carat_activation(Epilogue::kActivation);
        p.epilogue.clamp = 1, p.epilogue.clamp_lo = 3, p.epilogue.clamp_hi = 30;
        p.epilogue.out_scale = carat_out_scale(Epilogue::kOutScale);
        p.epilogue.amax = 1;
        const bool exact = p.epilogue.activation <= CARAT_ACT_RELU;
        GemmCase gemm(p, exact ? Data::integers : Data::normal, 7, 2, Epilogue::kHasC ? -1 : 0,
                      Copy::kBulkA ? Place::aligned : Place::one_off);
        EXPECT_EQ(run<Config>(gemm, 1), "");
    }
}

struct Bf16WithF32C : Bf16 {
    static constexpr int kTypeC = CARAT_F32, kTypeBias = CARAT_F32;
};

TEST(WsEmulation, Epilogues) {
    expect_everything<Cooperative, 64, Bf16, true, Everything<CARAT_GATE_NONE, CARAT_BIAS_N, true>>();
    expect_everything<Cooperative, 64, Bf16WithF32C, true, Everything<CARAT_GATE_NONE, CARAT_BIAS_M, true>>();
    expect_everything<PingPong, 48, F16, false, Everything<CARAT_GATE_NONE, CARAT_BIAS_M, true>>();
    expect_everything<Cooperative, 64, Bf16ToF32, true, Everything<CARAT_GATE_NONE, CARAT_BIAS_N, false>>();
    expect_everything<PingPong, 64, F16, true, Everything<CARAT_GATE_NONE, CARAT_BIAS_N, true>, Bulk<false, false>>();
}

// Unrolled over all boxes of a tile.
struct Silu : Everything<CARAT_GATE_NONE, CARAT_BIAS_N, false> {
    static constexpr int kActivation = CARAT_ACT_SILU;
};
TEST(WsEmulation, SiluOfSeveralBoxes) {
    expect_everything<Cooperative, 176, Bf16, true, Silu>();
    expect_everything<Form<2, 2, true>, 96, Bf16ToF32, true, Silu>();
}

// Tiles of more than 160 accumulators a thread, whose C and bias come two blocks at a time.
struct SiluWithC : Silu {
    static constexpr bool kHasC = true;
};
TEST(WsEmulation, LargeTilesWithCAndBias) {
    expect_everything<Form<2, 2, true>, 176, Bf16, true, SiluWithC>();
    expect_everything<Form<2, 2, true>, 192, F16, false, Everything<CARAT_GATE_NONE, CARAT_BIAS_M, true>>();
    expect_everything<Form<2, 2, false>, 176, Bf16WithF32C, true, SiluWithC>();
}

// GELU goes over a box in turns of 8 accumulators.
template <carat_gate Gate>
struct Gelu : Everything<Gate, CARAT_BIAS_N, true> {
    static constexpr int kActivation = CARAT_ACT_GELU_ERF;
};
TEST(WsEmulation, GeluInTurns) {
    expect_everything<Cooperative, 128, Bf16, true, Gelu<CARAT_GATE_NONE>>();
    expect_everything<PingPong, 48, F16, false, Gelu<CARAT_GATE_NONE>>();
    expect_everything<Cooperative, 160, Bf16ToF32, true, Gelu<CARAT_GATE_INTERLEAVED>>();
    expect_everything<PingPong, 128, Bf16ToE4m3, true, Gelu<CARAT_GATE_INTERLEAVED>>();
    expect_everything<Form<2, 2, false>, 96, Bf16, true, Gelu<CARAT_GATE_SPLIT>>();
    expect_everything<PingPong, 256, Bf16ToF32, true, Gelu<CARAT_GATE_SPLIT>>();
}

TEST(WsEmulation, EpiloguesOfDOf8Bits) {
    using Row = Everything<CARAT_GATE_NONE, CARAT_BIAS_N, true>;
    using Tensor = Everything<CARAT_GATE_NONE, CARAT_BIAS_M, true, CARAT_OUT_SCALE_TENSOR>;
    using GatedTensor = Everything<CARAT_GATE_INTERLEAVED, CARAT_BIAS_N, false, CARAT_OUT_SCALE_TENSOR>;
    using SplitRow = Everything<CARAT_GATE_SPLIT, CARAT_BIAS_N, true>;
    expect_everything<Cooperative, 64, Bf16ToE4m3, true, Row>();
    expect_everything<PingPong, 128, Bf16ToS8, false, Tensor>();
    expect_everything<Form<2, 2, true>, 192, F16ToE5m2, true, Row>();
    expect_everything<Cooperative, 256, Bf16ToE4m3, true, GatedTensor>();
    expect_everything<PingPong, 128, Bf16ToS8, true, GatedTensor>();
    expect_everything<Form<2, 2, false>, 64, F16ToE5m2, false, SplitRow>();
    expect_everything<PingPong, 128, Bf16ToE4m3, true, SplitRow, Bulk<false, false>>();
}

TEST(WsEmulation, Gates) {
    using Interleaved = Everything<CARAT_GATE_INTERLEAVED, CARAT_BIAS_N, true>;
    using Split = Everything<CARAT_GATE_SPLIT, CARAT_BIAS_N, true>;
    expect_everything<Cooperative, 128, Bf16, true, Interleaved>();
    expect_everything<PingPong, 64, Bf16, true, Interleaved>();
    expect_everything<PingPong, 64, Bf16ToF32, false, Interleaved>();
    expect_everything<Cooperative, 128, Bf16, true, Split>();
    expect_everything<PingPong, 64, F16, false, Split>();
    expect_everything<Form<2, 1, false, 2, 1>, 64, Bf16ToF32, true, Split>();
    // Several strips of 64 rows, each with a right half.
    expect_everything<Form<2, 2, false>, 128, Bf16, true, Split>();
    expect_everything<Form<2, 2, true>, 192, Bf16ToF32, true, Split>();
    expect_everything<Form<2, 2, true>, 96, F16, true, Interleaved>();
    expect_everything<Form<2, 2, false>, 160, Bf16ToF32, true, Interleaved>();
    expect_everything<Cooperative, 64, Bf16, true, Split, Bulk<false, false>>();
    expect_everything<Cooperative, 64, Bf16, true, Interleaved, Bulk<false, false>>();
}

template <carat_gate Gate>
struct ComputedScales : NoEpilogue {
    static constexpr bool kAmax = true;
    static constexpr int kActivation = Gate == CARAT_GATE_NONE ? CARAT_ACT_NONE : CARAT_ACT_SILU;
    static constexpr int kGate = Gate, kOutScale = CARAT_OUT_SCALE_COMPUTED_1X128;
};

// A tail of M, and of D's columns: none, one of 1 and one of 72.
template <class Shape, int N, class Types, bool D, carat_gate Gate = CARAT_GATE_NONE>
void expect_computed_scales() {
    using Config = ConfigOf<Shape, N, 2, LayoutOf<true, false, D>, Types, Bulk<true, true>, ComputedScales<Gate>>;
    for (const int64_t cols : {256, 129, 200}) {
        Problem p =
            make_problem(Config::types, 140, Gate == CARAT_GATE_NONE ? cols : 2 * cols, 72, Config::layout(), D);
        set_pitch(p, Pitch::eights);
        p.d.ld = (p.d.ld + 15) / 16 * 16;
        p.epilogue.gate = Gate;
        p.epilogue.activation = carat_activation(Config::kActivation);
        p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
        p.epilogue.amax = 1;
        if (cols == 200) set_batch(p, 2, 16);
        GemmCase gemm(p, Data::normal, 7, 0.5, 0, Place::aligned);
        EXPECT_EQ(run<Config>(gemm, 1), "");
    }
}
TEST(WsEmulation, ComputedScalesOf128Columns) {
    expect_computed_scales<Cooperative, 128, Bf16ToE4m3, true>();
    expect_computed_scales<PingPong, 256, F16ToE5m2, true>();
    expect_computed_scales<Form<2, 2, false>, 128, Bf16ToS8, true>();
    expect_computed_scales<Form<2, 2, true>, 128, Bf16ToE4m3, false>();
    expect_computed_scales<Form<3, 1, false>, 128, Bf16ToS8, false>();
    expect_computed_scales<Form<2, 1, false, 1, 2>, 128, Bf16ToE4m3, true>();
    expect_computed_scales<Cooperative, 256, Bf16ToE4m3, true, CARAT_GATE_INTERLEAVED>();
    expect_computed_scales<PingPong, 256, Bf16ToS8, false, CARAT_GATE_INTERLEAVED>();
    expect_computed_scales<Cooperative, 256, F16ToE5m2, true, CARAT_GATE_SPLIT>();
    expect_computed_scales<PingPong, 256, Bf16ToE4m3, false, CARAT_GATE_SPLIT>();
}

// A row of zeros has scale 1; NaN takes no part in a maximum and stays NaN.
TEST(WsEmulation, ComputedScalesOfZerosAndNaN) {
    using Config = ConfigOf<Cooperative, 128, 2, Nt, Bf16ToE4m3, Bulk<true, true>, ComputedScales<CARAT_GATE_NONE>>;
    Problem p = make_problem(Config::types, 64, 128, 64, "nt");
    p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
    p.epilogue.amax = 1;
    GemmCase gemm(p, Data::integers, 7, 1, 0, Place::aligned);
    for (int64_t k = 0; k < 64; ++k) gemm.a.set(3 * 64 + k, 0);
    gemm.b.set(5 * 64, NAN);
    for (int64_t k = 0; k < 64; ++k) gemm.a.set(7 * 64 + k, 0), gemm.b.set(9 * 64 + k, 0);
    EXPECT_EQ(run<Config>(gemm, 1), "");
}

// ---------------------------------------------------------------- C in bulk

struct WithC : NoEpilogue {
    static constexpr bool kHasC = true;
};
struct WithCAndSilu : WithC {
    static constexpr int kActivation = CARAT_ACT_SILU, kBias = CARAT_BIAS_N;
};
template <carat_dtype C, carat_dtype D>
struct Bf16ToDWithC : TypesOf<CARAT_BF16, D> {
    static constexpr int kTypeC = C;
};
struct F16ToF16WithBf16C : TypesOf<CARAT_F16, CARAT_F16> {
    static constexpr int kTypeC = CARAT_BF16;
};

// A problem whose C and D the copy engine can take.
template <class Config>
Problem problem_with_c(int64_t m, int64_t n, int64_t k) {
    Problem p = make_problem(Config::types, m, n, k, Config::layout(), Config::kRowMajorD);
    add_c(p, carat_dtype(Config::kTypeC));
    set_pitch(p, Pitch::eights);
    p.c.ld += 16;
    p.epilogue.activation = carat_activation(Config::kActivation);
    if (Config::kBias != CARAT_BIAS_NONE) add_bias(p, carat_bias(Config::kBias));
    return p;
}
template <class Config>
GemmCase case_with_c(const Problem& p, double beta = -2) {
    const bool exact = Config::kActivation == CARAT_ACT_NONE;
    return GemmCase(p, exact ? Data::integers : Data::normal, 7, 1, beta, Place::aligned);
}
// Where D may leave in bulk: its lines are whole pieces of 16 bytes.
template <class Config>
constexpr int64_t piece_of_d = 16 / carat_shared::type_bytes(Config::kTypeD);

// Edges of both extents, on one block and on as many as there are tiles.
template <class Shape, int N, class Types = Bf16, bool D = true, class Epilogue = WithC>
void expect_c() {
    using Config = ConfigOf<Shape, N, 2, LayoutOf<true, false, D>, Types, Bulk<true, true>, Epilogue>;
    static_assert(Config::kBulkC);
    constexpr int64_t piece = piece_of_d<Config>;
    for (const unsigned clusters : {0u, 1u})
        for (const auto& [m, n] : {std::pair<int64_t, int64_t>(2 * Config::kBM + 40, 2 * N + 24), {24, piece}}) {
            const Problem p = problem_with_c<Config>(D ? m + 3 : m, D ? n : n + 3, 136);
            ASSERT_TRUE(residual_map(p).has_value());
            GemmCase gemm = case_with_c<Config>(p);
            EXPECT_EQ(run<Config>(gemm, clusters), "");
        }
}

// Boxes of a consumer in a tile: one, an odd number, an even one, the last whole or not.
TEST(WsEmulation, CInBulkInEveryForm) {
    expect_c<Cooperative, 64>();
    expect_c<Cooperative, 192>();
    expect_c<Cooperative, 256>();
    expect_c<Cooperative, 176>();
    expect_c<Form<2, 2, false>, 80>();
    expect_c<Form<2, 2, false>, 192>();
    expect_c<Form<3, 1, false>, 160>();
    expect_c<PingPong, 16>();
    expect_c<PingPong, 192>();
    expect_c<Form<2, 2, true>, 64>();
    expect_c<Form<2, 2, true>, 144>();
    expect_c<Form<2, 1, false, 2, 1>, 128>();
    expect_c<Form<2, 1, false, 1, 2>, 96>();
    expect_c<Form<2, 1, false, 2, 2>, 64>();
    expect_c<Form<2, 1, true, 2, 1>, 64>();
}

TEST(WsEmulation, CInBulkOfEveryTypeAndOrder) {
    expect_c<Cooperative, 128, F16>();
    expect_c<Cooperative, 128, Bf16, false>();
    expect_c<PingPong, 48, F16, false>();
    expect_c<Form<2, 2, false>, 112, Bf16, false>();
    expect_c<Cooperative, 128, Bf16ToF32>();
    expect_c<PingPong, 112, Bf16ToF32>();
    expect_c<PingPong, 128, Bf16ToDWithC<CARAT_F16, CARAT_BF16>>();
    expect_c<Cooperative, 96, F16ToF16WithBf16C, false>();
    // Not unrolled: the accumulators move.
    expect_c<Cooperative, 256, Bf16, true, WithCAndSilu>();
    expect_c<Form<2, 2, false>, 192, Bf16, false, WithCAndSilu>();
    expect_c<Form<2, 2, true>, 144, Bf16ToF32, true, WithCAndSilu>();
}

template <class Shape, int N, bool D>
void expect_c_in_batches() {
    using Config = ConfigOf<Shape, N, 2, LayoutOf<true, false, D>, Bf16, Bulk<true, true>, WithC>;
    for (const bool shared_c : {false, true}) {
        Problem p = problem_with_c<Config>(136, 72, 72);
        set_batch(p, 3, 16);
        if (shared_c) p.c.batch_stride = 0;
        ASSERT_TRUE(residual_map(p).has_value());
        GemmCase gemm = case_with_c<Config>(p);
        EXPECT_EQ(run<Config>(gemm, 2), "");
    }
}
TEST(WsEmulation, CInBulkOfBatches) {
    expect_c_in_batches<Cooperative, 64, true>();
    expect_c_in_batches<PingPong, 96, false>();
    expect_c_in_batches<Form<2, 1, false, 2, 1>, 64, true>();
}

// In place: no part of C is asked for after a neighbour's D has been written where it lies.
template <class Shape, int N, bool D>
void expect_c_in_place() {
    using Config = ConfigOf<Shape, N, 2, LayoutOf<true, false, D>, Bf16, Bulk<true, true>, WithC>;
    for (const Copies copies : {Copies::early, Copies::late, Copies::random}) {
        Problem p = problem_with_c<Config>(2 * Config::kBM + 8, 2 * N + 8, 136);
        p.c.ld = p.d.ld;
        GemmCase gemm = case_with_c<Config>(p);
        gemm.start_d_as_c();
        carat_operands operands = gemm.operands();
        operands.c = operands.d;
        Launch launch;
        launch.copies = copies;
        EXPECT_EQ(run<Config>(gemm, 2, launch, &operands), "");
    }
}
TEST(WsEmulation, DMayBeCInBulk) {
    expect_c_in_place<Cooperative, 128, true>();
    expect_c_in_place<Form<2, 2, false>, 80, true>();
    expect_c_in_place<PingPong, 144, false>();
}

// Where beta is 0, C is neither waited for nor read; also on the device, and with one at an odd address left to threads.
TEST(WsEmulation, CInBulkIsNotReadForABetaOf0) {
    using Shape = Form<2, 2, true>;
    using Config = ConfigOf<Shape, 144, 2, Nt, Bf16, Bulk<true, true>, WithC>;
    GemmCase gemm = case_with_c<Config>(problem_with_c<Config>(300, 304, 72), 0);
    gemm.c.fill(nan_bits(CARAT_BF16));
    EXPECT_EQ(run<Config>(gemm, 1), "");
    gemm.clear_d();
    EXPECT_EQ(run<WithoutBulkC<Config>>(gemm, 1), "");
}

template <class Shape, int N, class Epilogue = WithC>
void expect_protocol_of_c() {
    using Config = ConfigOf<Shape, N, 2, Nt, Bf16, Bulk<true, true>, Epilogue>;
    for (const Copies copies : {Copies::early, Copies::late, Copies::random})
        for (const Order order : {Order::forward, Order::backward, Order::shuffled})
            for (unsigned seed = 1; seed <= (copies == Copies::random ? 2 : 1); ++seed) {
                Launch launch;
                launch.order = order, launch.copies = copies, launch.seed = seed;
                // No products at all, too.
                for (const int64_t k : {0, 200}) {
                    GemmCase gemm = case_with_c<Config>(problem_with_c<Config>(3 * Shape::kBM, 2 * N + 8, k));
                    EXPECT_EQ(run<Config>(gemm, 1, launch), "");
                }
            }
}
TEST(WsProtocol, CInBulk) {
    expect_protocol_of_c<Cooperative, 192>();
    expect_protocol_of_c<Form<2, 2, false>, 80>();
    expect_protocol_of_c<PingPong, 64>();
    expect_protocol_of_c<Form<2, 2, true>, 96, WithCAndSilu>();
    expect_protocol_of_c<Form<2, 1, false, 2, 1>, 64>();
}

// ---------------------------------------------------------------- what must not be read

template <class Shape, class Copy>
void expect_not_read() {
    using Config = ConfigOf<Shape, 64, 2, Nt, Bf16, Copy, WithC>;
    GemmCase beta_zero = case_of<Config>(130, 72, 80);
    carat_operands operands = beta_zero.operands();
    operands.c = nullptr;
    EXPECT_EQ(run<Config>(beta_zero, 1, {}, &operands), "");
    GemmCase alpha_zero = case_of<Config>(130, 72, 80, 0, -2);
    operands = alpha_zero.operands();
    if (!Copy::kBulkA) operands.a = operands.b = nullptr;
    alpha_zero.a.fill(nan_bits(CARAT_BF16)), alpha_zero.b.fill(nan_bits(CARAT_BF16));
    EXPECT_EQ(run<Config>(alpha_zero, 1, {}, &operands), "");
}

TEST(WsEmulation, NeitherCNorAAndBAreReadInVain) {
    expect_not_read<Cooperative, Bulk<true, true>>();
    expect_not_read<Cooperative, Bulk<false, false>>();
    expect_not_read<PingPong, Bulk<true, true>>();
}

}  // namespace
}  // namespace carat::test
