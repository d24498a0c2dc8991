// SPDX-License-Identifier: Apache-2.0
// kernels/gemm_mma.cuh on emulated threads: every tile with tails in each dimension, layouts, pitches, batches, every
// epilogue by both ways to D, FP8 and s8, computed scales, and what must not be read.
#include "kernels/host_cuda.hpp"
// After the language.
#include <gemm_mma.cuh>

#include <gtest/gtest.h>

#include "kernels/emulated.hpp"

namespace carat::test {
namespace {

using carat_shared::GemmParams;
using host_cuda::Launch;
using host_cuda::Order;

// ---------------------------------------------------------------- configurations

// Columns are B's, of which a gate takes two for one of D.
template <int Rows, int ColsB, int WarpRows, int WarpCols, int Stages>
struct TileOf {
    static constexpr int kRows = Rows, kColsB = ColsB, kWarpRows = WarpRows, kWarpCols = WarpCols;
    static constexpr int kStagesOf = Stages;
};
using Small = TileOf<64, 64, 32, 32, 3>;
using Wide = TileOf<64, 256, 32, 64, 2>;

// A, B; D; C and the bias.
template <carat_dtype In, carat_dtype Out, carat_dtype Other = Out>
struct TypesWith : TypesOf<In, Out> {
    static constexpr int kTypeC = Other, kTypeBias = Other;
};
using Bf16 = TypesWith<CARAT_BF16, CARAT_BF16>;
using F16 = TypesWith<CARAT_F16, CARAT_F16>;
using E4m3 = TypesWith<CARAT_BF16, CARAT_E4M3, CARAT_F16>;
using E5m2 = TypesWith<CARAT_F16, CARAT_E5M2, CARAT_F32>;
using S8 = TypesWith<CARAT_BF16, CARAT_S8, CARAT_BF16>;

using Nt = LayoutOf<true, false, true>;
using NtColumns = LayoutOf<true, false, false>;
using Tn = LayoutOf<false, true, true>;
using TnColumns = LayoutOf<false, true, false>;

template <class Tile, class Layout, class Types, class Epilogue = NoEpilogue>
struct ConfigOf : Layout, Types, Epilogue {
    static constexpr int kGated = Epilogue::kGate == CARAT_GATE_NONE ? 1 : 2;
    static constexpr int kBM = Tile::kRows, kBN = Tile::kColsB / kGated, kBK = 64;
    static constexpr int kTM = Tile::kWarpRows, kTN = Tile::kWarpCols, kStages = Tile::kStagesOf;
    static constexpr int kThreads = 32 * (kBM / kTM) * (Tile::kColsB / kTN);
    static constexpr unsigned kSharedBytes = kStages * (kBM + Tile::kColsB) * 128;
};

// ---------------------------------------------------------------- running

enum class Operands { aligned, odd };  // to 16 bytes in address and pitch, or by no means

// n: columns of B.
template <class Config>
Problem problem_of(int64_t m, int64_t n, int64_t k, Operands operands) {
    Problem p = make_problem(Config::types, m, n, k, Config::layout(), Config::kRowMajorD);
    carat_epilogue& e = p.epilogue;
    e.scalars_on_device = Config::kDeviceScalars;
    e.gate = carat_gate(Config::kGate);
    if (Config::kRowMajorD) p.d.ld = std::max<int64_t>(1, p.d_cols());
    if (Config::kHasC) add_c(p, carat_dtype(Config::kTypeC));
    set_pitch(p, operands == Operands::aligned ? Pitch::eights : Pitch::odd);
    if (Config::kBias != CARAT_BIAS_NONE) add_bias(p, carat_bias(Config::kBias), carat_dtype(Config::kTypeBias));
    e.activation = carat_activation(Config::kActivation);
    e.clamp = Config::kClamp, e.clamp_lo = -3, e.clamp_hi = 30;
    e.out_scale = carat_out_scale(Config::kOutScale);
    e.amax = Config::kAmax;
    return p;
}

Place place_of(Operands operands) {
    return operands == Operands::aligned ? Place::aligned : Place::one_off;
}

// In so many blocks (0: one a tile); "" or what is wrong.
template <class Config>
std::string run(GemmCase& gemm, unsigned blocks = 0, Order order = Order::forward,
                const carat_operands* operands = nullptr) {
    const Problem& p = gemm.problem;
    float amax = 0;
    carat_operands given = operands ? *operands : gemm.operands();
    if (p.epilogue.amax) given.amax = &amax;
    const GemmParams params = params_of(p, given);
    Launch launch;
    launch.blocks =
        blocks ? blocks : unsigned(ceil_div(p.m, Config::kBM) * ceil_div(p.d_cols(), Config::kBN) * p.batch);
    launch.threads = Config::kThreads;
    launch.shared_bytes = Config::kSharedBytes;
    launch.order = order;
    const std::string error = host_cuda::launch(launch, [&] { carat_kernel::gemm_mma<Config>(params); });
    if (!error.empty()) return error;
    if (carat_kernel::copies_left_behind()) return "asynchronous copies outlive the kernel";
    return gemm.verify(amax);
}

struct Shape {
    int64_t m, n, k;
};

template <class Config>
void expect_right(Shape s, Operands operands, Data data = Data::integers, double alpha = 1, double beta = 0,
                  unsigned blocks = 0) {
    GemmCase gemm(problem_of<Config>(s.m, s.n, s.k, operands), data, 7, alpha, beta, place_of(operands));
    EXPECT_EQ(run<Config>(gemm, blocks), "");
}

// ---------------------------------------------------------------- tiles and layouts

// Tails of one and of all but one in each dimension, whole tiles, and no K at all.
template <class Tile, class Layout>
void expect_tile() {
    using Config = ConfigOf<Tile, Layout, Bf16>;
    constexpr int64_t kM = Tile::kRows, kN = Tile::kColsB;
    for (const Operands operands : {Operands::aligned, Operands::odd}) {
        expect_right<Config>({1, kN - 1, 200}, operands);
        expect_right<Config>({kM - 1, kN + 1, 65}, operands);
        expect_right<Config>({kM + 1, 1, 63}, operands);
        expect_right<Config>({kM, kN, 0}, operands);
        expect_right<Config>({kM, kN, 264}, operands);
    }
}

TEST(MmaEmulation, TailsOfEveryTile) {
    expect_tile<TileOf<128, 256, 64, 64, 3>, Nt>();
    expect_tile<TileOf<128, 128, 64, 32, 4>, Tn>();
    expect_tile<TileOf<64, 256, 32, 64, 4>, Nt>();
    expect_tile<Wide, Tn>();
    expect_tile<TileOf<64, 128, 32, 64, 3>, Nt>();
    expect_tile<TileOf<128, 64, 64, 32, 3>, Tn>();
    expect_tile<Small, Nt>();
    expect_tile<TileOf<32, 128, 32, 32, 4>, Nt>();
    expect_tile<TileOf<128, 128, 64, 32, 4>, NtColumns>();
    expect_tile<Small, TnColumns>();
}

template <class Types, bool A, bool B, bool D>
void expect_layout() {
    using Config = ConfigOf<Small, LayoutOf<A, B, D>, Types>;
    expect_right<Config>({67, 136, 72}, Operands::aligned);
    expect_right<Config>({67, 131, 77}, Operands::odd);
}

TEST(MmaEmulation, LayoutsAndTypes) {
    expect_layout<Bf16, true, true, true>();
    expect_layout<F16, true, false, true>();
    expect_layout<TypesWith<CARAT_BF16, CARAT_F32>, false, true, true>();
    expect_layout<TypesWith<CARAT_F16, CARAT_BF16>, false, false, true>();
    expect_layout<TypesWith<CARAT_BF16, CARAT_F16>, true, true, false>();
    expect_layout<F16, true, false, false>();
    expect_layout<TypesWith<CARAT_F16, CARAT_F32>, false, true, false>();
    expect_layout<Bf16, false, false, false>();
}

TEST(MmaEmulation, BatchesPitchesAndSharedOperands) {
    using Config = ConfigOf<Small, Nt, Bf16>;
    for (const Pitch pitch : {Pitch::packed, Pitch::eights, Pitch::even, Pitch::odd})
        for (const bool shared_b : {false, true}) {
            Problem p = make_problem(Config::types, 70, 66, 88, "nt");
            set_pitch(p, pitch);
            set_batch(p, 3, pitch == Pitch::eights ? 16 : 5);
            if (shared_b) p.b.batch_stride = 0;
            GemmCase gemm(p, Data::integers, 7, 1, 0, pitch == Pitch::eights ? Place::aligned : Place::one_off);
            EXPECT_EQ(run<Config>(gemm, 2), "");
        }
}

// ---------------------------------------------------------------- epilogues

template <carat_activation Activation, bool C, carat_bias Bias, carat_out_scale Scale, bool Rest>
struct Epilogue : NoEpilogue {
    static constexpr bool kDeviceScalars = Rest, kHasC = C, kClamp = Rest, kAmax = Rest;
    static constexpr int kBias = Bias, kActivation = Activation, kOutScale = Scale;
};

template <class Types, class Layout, class Epilogue>
void expect_epilogue() {
    using Config = ConfigOf<Small, Layout, Types, Epilogue>;
    const Data data = Epilogue::kActivation > CARAT_ACT_RELU ? Data::normal : Data::integers;
    for (const Operands operands : {Operands::aligned, Operands::odd})
        for (const double beta : {0.0, -2.0})
            if (beta == 0 || Epilogue::kHasC) expect_right<Config>({70, 74, 40}, operands, data, 0.5, beta, 2);
}

// From registers (row-major D without C) and through shared memory; C and the bias of D's type and of another.
TEST(MmaEmulation, EveryStepOfTheEpilogue) {
    using F32ToF16 = TypesWith<CARAT_BF16, CARAT_F16, CARAT_F32>;
    using F16ToF32 = TypesWith<CARAT_F16, CARAT_F32, CARAT_BF16>;
    expect_epilogue<Bf16, Nt, Epilogue<CARAT_ACT_RELU, false, CARAT_BIAS_N, CARAT_OUT_SCALE_ROW, true>>();
    expect_epilogue<F16, Nt, Epilogue<CARAT_ACT_NONE, false, CARAT_BIAS_M, CARAT_OUT_SCALE_TENSOR, false>>();
    expect_epilogue<Bf16, Nt, Epilogue<CARAT_ACT_NONE, true, CARAT_BIAS_M, CARAT_OUT_SCALE_ROW, true>>();
    expect_epilogue<F32ToF16, Nt, Epilogue<CARAT_ACT_GELU_ERF, true, CARAT_BIAS_N, CARAT_OUT_SCALE_NONE, true>>();
    expect_epilogue<F16ToF32, Tn, Epilogue<CARAT_ACT_GELU_TANH, false, CARAT_BIAS_N, CARAT_OUT_SCALE_ROW, false>>();
    expect_epilogue<Bf16, Nt, Epilogue<CARAT_ACT_SILU, false, CARAT_BIAS_M, CARAT_OUT_SCALE_TENSOR, true>>();
    expect_epilogue<Bf16, Tn, Epilogue<CARAT_ACT_SIGMOID, true, CARAT_BIAS_NONE, CARAT_OUT_SCALE_NONE, false>>();
    expect_epilogue<F32ToF16, TnColumns, Epilogue<CARAT_ACT_RELU, true, CARAT_BIAS_N, CARAT_OUT_SCALE_ROW, true>>();
    expect_epilogue<F16ToF32, NtColumns, Epilogue<CARAT_ACT_SILU, true, CARAT_BIAS_M, CARAT_OUT_SCALE_TENSOR, true>>();
}

TEST(MmaEmulation, NarrowOutputsSaturate) {
    using Plain = NoEpilogue;
    using Full = Epilogue<CARAT_ACT_RELU, true, CARAT_BIAS_N, CARAT_OUT_SCALE_ROW, true>;
    expect_epilogue<E4m3, Nt, Plain>();
    expect_epilogue<E5m2, Tn, Plain>();
    expect_epilogue<S8, NtColumns, Plain>();
    expect_epilogue<E4m3, TnColumns, Full>();
    expect_epilogue<E5m2, NtColumns, Full>();
    expect_epilogue<S8, Nt, Full>();
    // Sums of some thousands, of both signs.
    expect_right<ConfigOf<Small, Nt, E4m3>>({70, 74, 400}, Operands::aligned, Data::integers, 16);
    expect_right<ConfigOf<Small, Nt, E5m2>>({70, 74, 400}, Operands::aligned, Data::integers, 1024);
    expect_right<ConfigOf<Small, Nt, S8>>({70, 74, 400}, Operands::odd, Data::normal, 10);
}

// ---------------------------------------------------------------- gates

template <carat_gate Gate, carat_activation Activation, bool C, carat_bias Bias, carat_out_scale Scale>
struct Gated : Epilogue<Activation, C, Bias, Scale, true> {
    static constexpr int kGate = Gate;
};

// Halves of D that are no multiple of anything, and those that cp.async takes.
template <class Tile, class Types, class Layout, class Epilogue>
void expect_gated() {
    using Config = ConfigOf<Tile, Layout, Types, Epilogue>;
    const double beta = Epilogue::kHasC ? -0.5 : 0;
    for (const int64_t half : {1, 45, 72, Tile::kColsB / 2 + 3})
        for (const Operands operands : {Operands::aligned, Operands::odd})
            expect_right<Config>({70, 2 * half, 72}, operands, Data::normal, 0.25, beta, 2);
}

TEST(MmaEmulation, GatesOfInterleavedPairs) {
    constexpr carat_gate kGate = CARAT_GATE_INTERLEAVED;
    expect_gated<Small, Bf16, Nt, Gated<kGate, CARAT_ACT_SILU, false, CARAT_BIAS_N, CARAT_OUT_SCALE_NONE>>();
    expect_gated<Small, F16, Tn, Gated<kGate, CARAT_ACT_GELU_TANH, true, CARAT_BIAS_M, CARAT_OUT_SCALE_ROW>>();
    expect_gated<Small, Bf16, TnColumns, Gated<kGate, CARAT_ACT_SILU, true, CARAT_BIAS_N, CARAT_OUT_SCALE_TENSOR>>();
    expect_gated<Wide, E4m3, Nt, Gated<kGate, CARAT_ACT_GELU_ERF, false, CARAT_BIAS_N, CARAT_OUT_SCALE_ROW>>();
}

TEST(MmaEmulation, GatesOfSplitHalves) {
    constexpr carat_gate kGate = CARAT_GATE_SPLIT;
    using Boxes = TileOf<64, 128, 32, 64, 3>;  // of 64 columns for each half, where they are B's lines
    expect_gated<Small, Bf16, Nt, Gated<kGate, CARAT_ACT_SILU, false, CARAT_BIAS_N, CARAT_OUT_SCALE_NONE>>();
    expect_gated<Boxes, F16, Tn, Gated<kGate, CARAT_ACT_GELU_TANH, true, CARAT_BIAS_M, CARAT_OUT_SCALE_ROW>>();
    expect_gated<Boxes, Bf16, TnColumns, Gated<kGate, CARAT_ACT_SILU, true, CARAT_BIAS_N, CARAT_OUT_SCALE_TENSOR>>();
    expect_gated<Wide, S8, NtColumns, Gated<kGate, CARAT_ACT_GELU_ERF, false, CARAT_BIAS_N, CARAT_OUT_SCALE_ROW>>();
}

// ---------------------------------------------------------------- computed scales

using Computed = Epilogue<CARAT_ACT_NONE, false, CARAT_BIAS_N, CARAT_OUT_SCALE_COMPUTED_1X128, true>;
template <carat_gate Gate>
using ComputedGated = Gated<Gate, CARAT_ACT_SILU, true, CARAT_BIAS_NONE, CARAT_OUT_SCALE_COMPUTED_1X128>;
using OneBlock = TileOf<64, 128, 32, 64, 3>;

// Whole blocks of 128 columns of D, one that is cut, and one of a single column.
template <class Tile, class Types, class Layout, class Epilogue>
void expect_computed() {
    using Config = ConfigOf<Tile, Layout, Types, Epilogue>;
    for (const int64_t cols : {1, 129, 200, 256})
        for (const Operands operands : {Operands::aligned, Operands::odd}) {
            const Problem p = problem_of<Config>(70, cols * Config::kGated, 40, operands);
            GemmCase gemm(p, Data::normal, 7, 0.25, Config::kHasC ? 2 : 0, place_of(operands));
            EXPECT_EQ(run<Config>(gemm, 2), "");
        }
}

TEST(MmaEmulation, ComputedScales) {
    expect_computed<OneBlock, E4m3, Nt, Computed>();
    expect_computed<OneBlock, E5m2, TnColumns, Computed>();
    expect_computed<Wide, S8, Nt, Computed>();
    expect_computed<Wide, E4m3, Nt, ComputedGated<CARAT_GATE_INTERLEAVED>>();
    expect_computed<Wide, E5m2, NtColumns, ComputedGated<CARAT_GATE_INTERLEAVED>>();
    expect_computed<Wide, E4m3, TnColumns, ComputedGated<CARAT_GATE_SPLIT>>();
    expect_computed<Wide, S8, Nt, ComputedGated<CARAT_GATE_SPLIT>>();
}

TEST(MmaEmulation, ComputedScalesOfZerosNanAndBatches) {
    using Config = ConfigOf<OneBlock, Nt, E4m3,
                            Epilogue<CARAT_ACT_NONE, false, CARAT_BIAS_NONE, CARAT_OUT_SCALE_COMPUTED_1X128, true>>;
    Problem p = problem_of<Config>(66, 200, 24, Operands::odd);
    set_batch(p, 2, 3);
    GemmCase gemm(p, Data::normal);
    for (int64_t k = 0; k < p.k; ++k) gemm.a.set(5 * p.a.ld + k, 0);  // a row of zeros
    for (int64_t k = 0; k < p.k; ++k) gemm.b.set(150 * p.b.ld + k, k ? 0 : NAN);
    EXPECT_EQ(run<Config>(gemm, 1), "");
    const auto scale = [&](int64_t row, int64_t block) { return gemm.d_scales.at(row * 2 + block); };
    EXPECT_EQ(scale(5, 0), 1);
    EXPECT_GT(scale(4, 1), 0);
    EXPECT_TRUE(std::isnan(gemm.d.at(4 * p.d.ld + 150)));
}

// A case that would let anything pass tests nothing.
TEST(MmaEmulation, WrongScalesAndOutputsWouldShow) {
    using Config = ConfigOf<OneBlock, Nt, E4m3, Computed>;
    const auto verdict = [](auto change) {
        GemmCase gemm(problem_of<Config>(3, 200, 40, Operands::odd), Data::normal);
        EXPECT_EQ(run<Config>(gemm), "");
        gemm.problem.epilogue.amax = 0;
        change(gemm);
        return gemm.verify();
    };
    EXPECT_EQ(verdict([](GemmCase&) {}), "");
    EXPECT_NE(verdict([](GemmCase& gemm) { gemm.d_scales.set(2, gemm.d_scales.at(2) * 1.001); }), "");
    EXPECT_NE(verdict([](GemmCase& gemm) { gemm.d_scales.set(3, 0); }), "");
    EXPECT_NE(verdict([](GemmCase& gemm) { gemm.d_scales.set(6, 1); }), "");
    EXPECT_NE(verdict([](GemmCase& gemm) { gemm.d.set(7, gemm.d.at(7) * 1.25); }), "");
    EXPECT_NE(verdict([](GemmCase& gemm) { gemm.d.set(gemm.problem.d.ld - 1, 1); }), "");
    EXPECT_NE(verdict([](GemmCase& gemm) { gemm.d.set(0, NAN); }), "");
}

// ---------------------------------------------------------------- what must not be read, and order

struct WithC : NoEpilogue {
    static constexpr bool kHasC = true;
};

template <class Layout>
void expect_not_read() {
    using Config = ConfigOf<Small, Layout, Bf16, WithC>;
    for (const Operands operands : {Operands::aligned, Operands::odd}) {
        const Problem p = problem_of<Config>(70, 72, 80, operands);
        GemmCase beta_zero(p, Data::integers, 7, 1, 0, place_of(operands));
        beta_zero.c.fill(nan_bits(CARAT_BF16));
        EXPECT_EQ(run<Config>(beta_zero), "");
        carat_operands without = beta_zero.operands();
        without.c = nullptr;
        EXPECT_EQ(run<Config>(beta_zero, 1, Order::forward, &without), "");
        GemmCase alpha_zero(p, Data::integers, 7, 0, -2, place_of(operands));
        alpha_zero.a.fill(nan_bits(CARAT_BF16)), alpha_zero.b.fill(nan_bits(CARAT_BF16));
        EXPECT_EQ(run<Config>(alpha_zero), "");
        without = alpha_zero.operands();
        without.a = without.b = nullptr;
        EXPECT_EQ(run<Config>(alpha_zero, 1, Order::forward, &without), "");
    }
}

TEST(MmaEmulation, NeitherCNorAAndBAreReadInVain) {
    expect_not_read<Nt>();
    expect_not_read<TnColumns>();
}

TEST(MmaEmulation, DMayBeC) {
    using Config = ConfigOf<Small, Nt, Bf16, WithC>;
    Problem p = problem_of<Config>(70, 72, 40, Operands::odd);
    GemmCase gemm(p, Data::integers, 7, 2, -1);
    gemm.start_d_as_c();
    carat_operands operands = gemm.operands();
    operands.c = operands.d;
    EXPECT_EQ(run<Config>(gemm, 1, Order::forward, &operands), "");
}

// Several tiles a block, more steps than stages, by every way to D.
template <class Config>
void expect_any_order() {
    for (const Order order : {Order::forward, Order::backward, Order::shuffled})
        for (const Operands operands : {Operands::aligned, Operands::odd}) {
            GemmCase gemm(problem_of<Config>(130, 264, 328, operands), Data::normal, 7, 0.125, 0, place_of(operands));
            EXPECT_EQ(run<Config>(gemm, 1, order), "");
        }
}

TEST(MmaEmulation, AMissingBarrierOrWaitWouldShow) {
    expect_any_order<ConfigOf<OneBlock, Nt, Bf16>>();
    expect_any_order<ConfigOf<OneBlock, TnColumns, Bf16>>();
    expect_any_order<ConfigOf<Wide, Nt, E4m3, ComputedGated<CARAT_GATE_SPLIT>>>();
}

}  // namespace
}  // namespace carat::test
