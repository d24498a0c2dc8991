// SPDX-License-Identifier: Apache-2.0
// kernels/gemm_stream.cuh on emulated threads: every number of rows, tails of N and K, layouts, pitches and places, runs
// of columns of any length, batches, every epilogue, and what must not be read.
#include "kernels/host_cuda.hpp"
// After the language.
#include <gemm_stream.cuh>

#include <gtest/gtest.h>

#include "kernels/emulated.hpp"

namespace carat::test {
namespace {

using carat_shared::GemmParams;
using host_cuda::Launch;
using host_cuda::Order;

// ---------------------------------------------------------------- configurations

// Rows of A at most; rows of B a warp; warps along K and along the columns.
template <int RowsA, int Rows, int WarpsK, int WarpsN, int Stages, int Cluster = 1>
struct ShapeOf {
    static constexpr int kRowsA = RowsA, kRows = Rows, kWarpsK = WarpsK, kWarpsN = WarpsN, kRing = Stages;
    static constexpr int kCluster = Cluster;
};
using Eight = ShapeOf<8, 16, 2, 1, 3>;
using Sixteen = ShapeOf<16, 32, 1, 2, 2>;
using Across = ShapeOf<16, 64, 2, 1, 2>;

// A, B; D; C and the bias.
template <carat_dtype In, carat_dtype Out, carat_dtype Other = Out>
struct TypesWith : TypesOf<In, Out> {
    static constexpr int kTypeC = Other, kTypeBias = Other;
};
using Bf16 = TypesWith<CARAT_BF16, CARAT_BF16>;
using F16 = TypesWith<CARAT_F16, CARAT_F16>;
using E4m3 = TypesWith<CARAT_BF16, CARAT_E4M3, CARAT_F16>;
using S8 = TypesWith<CARAT_BF16, CARAT_S8, CARAT_BF16>;

using Nt = LayoutOf<true, false, true>;
using NtColumns = LayoutOf<true, false, false>;
using Nn = LayoutOf<true, true, true>;
using Tt = LayoutOf<false, false, true>;
using TnColumns = LayoutOf<false, true, false>;

template <class Shape, class Layout, class Types, class Epilogue = NoEpilogue, bool Whole = false>
struct ConfigOf : Layout, Types, Epilogue {
    static constexpr int kGated = Epilogue::kGate == CARAT_GATE_NONE ? 1 : 2;
    static constexpr int kBM = Shape::kRowsA, kTN = Shape::kRows, kBN = kTN * Shape::kWarpsN / kGated;
    static constexpr int kBK = 32 * Shape::kWarpsK, kStages = Shape::kRing;
    static constexpr int kThreads = 32 * Shape::kWarpsK * Shape::kWarpsN;
    static constexpr int kGrain = Epilogue::kOutScale == CARAT_OUT_SCALE_COMPUTED_1X128 ? 128
                                  : Layout::kRowMajorB                                  ? 8
                                                                                        : 1;
    static constexpr int kClusterK = Shape::kCluster;
    static constexpr bool kWholeChunks = Whole, kFetchFirst = Whole;
    static constexpr unsigned kSharedBytes =
        kStages * (kTN / 8 + kBM / 8) * 16 * kThreads +
        4 * Shape::kWarpsK * (Layout::kRowMajorD ? (kBN * kGated + 8) * kBM : (kBM + 4) * kBN * kGated);
};

// ---------------------------------------------------------------- running

// n: columns of B.
template <class Config>
Problem problem_of(int64_t m, int64_t n, int64_t k, Pitch pitch) {
    Problem p = make_problem(Config::types, m, n, k, Config::layout(), Config::kRowMajorD);
    carat_epilogue& e = p.epilogue;
    e.scalars_on_device = Config::kDeviceScalars;
    e.gate = carat_gate(Config::kGate);
    if (Config::kRowMajorD) p.d.ld = std::max<int64_t>(1, p.d_cols());
    if (Config::kHasC) add_c(p, carat_dtype(Config::kTypeC));
    set_pitch(p, pitch);
    if (Config::kBias != CARAT_BIAS_NONE) add_bias(p, carat_bias(Config::kBias), carat_dtype(Config::kTypeBias));
    e.activation = carat_activation(Config::kActivation);
    e.clamp = Config::kClamp, e.clamp_lo = -3, e.clamp_hi = 30;
    e.out_scale = carat_out_scale(Config::kOutScale);
    e.amax = Config::kAmax;
    return p;
}

// "" or what is wrong.
template <class Config>
std::string run(GemmCase& gemm, unsigned blocks, Order order = Order::forward,
                const carat_operands* operands = nullptr) {
    float amax = 0;
    carat_operands given = operands ? *operands : gemm.operands();
    if (gemm.problem.epilogue.amax) given.amax = &amax;
    const GemmParams params = params_of(gemm.problem, given);
    Launch launch;
    launch.blocks = blocks * Config::kClusterK;
    launch.cluster = Config::kClusterK;
    launch.threads = Config::kThreads;
    launch.shared_bytes = Config::kSharedBytes;
    launch.order = order;
    const std::string error = host_cuda::launch(launch, [&] { carat_kernel::gemm_stream<Config>(params); });
    if (!error.empty()) return error;
    if (carat_kernel::copies_left_behind()) return "asynchronous copies outlive the kernel";
    return gemm.verify(amax);
}

struct Size {
    int64_t m, n, k;
};

template <class Config>
void expect_right(Size s, Pitch pitch = Pitch::odd, Place place = Place::one_off, unsigned blocks = 3,
                  Data data = Data::integers, double alpha = 1, double beta = 0) {
    GemmCase gemm(problem_of<Config>(s.m, s.n, s.k, pitch), data, 7, alpha, beta, place);
    EXPECT_EQ(run<Config>(gemm, blocks), "");
}

// ---------------------------------------------------------------- sizes

TEST(StreamEmulation, EveryNumberOfRows) {
    for (int64_t m = 1; m <= 8; ++m) expect_right<ConfigOf<Eight, Nt, Bf16>>({m, 37, 70});
    for (int64_t m = 1; m <= 16; ++m) expect_right<ConfigOf<Sixteen, Nt, Bf16>>({m, 75, 70});
    for (int64_t m = 1; m <= 16; m += 5) expect_right<ConfigOf<Across, Nn, Bf16>>({m, 75, 70});
}

// Pieces of a chunk, of a step, of all warps' steps, of the ring.
constexpr int64_t kDepths[] = {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 200, 391};

TEST(StreamEmulation, TailsOfK) {
    for (const int64_t k : kDepths)
        for (const Pitch pitch : {Pitch::packed, Pitch::even, Pitch::odd}) {
            expect_right<ConfigOf<Eight, Nt, Bf16>>({5, 20, k}, pitch);
            expect_right<ConfigOf<Sixteen, Tt, F16>>({13, 20, k}, pitch);
            expect_right<ConfigOf<Across, Nn, Bf16>>({9, 20, k}, pitch);
        }
}

// Whole chunks at multiples of 16 bytes, and the same extents elsewhere.
TEST(StreamEmulation, WholeChunks) {
    for (const int64_t k : {0, 8, 16, 24, 32, 40, 64, 72, 128, 136, 264})
        for (const Place place : {Place::aligned, Place::one_off}) {
            expect_right<ConfigOf<Eight, Nt, Bf16, NoEpilogue, true>>({8, 37, k}, Pitch::eights, place);
            expect_right<ConfigOf<Sixteen, Nt, F16, NoEpilogue, true>>({15, 66, k}, Pitch::eights, place);
            expect_right<ConfigOf<Sixteen, Tt, Bf16, NoEpilogue, true>>({16, 66, k}, Pitch::eights, place);
            expect_right<ConfigOf<Across, Nn, F16, NoEpilogue, true>>({16, 72, k}, Pitch::eights, place);
            expect_right<ConfigOf<Across, TnColumns, F16, NoEpilogue, true>>({11, 136, k}, Pitch::eights, place);
        }
}

// Runs of no column, of one, of part of a tile, of tiles; more blocks than columns.
TEST(StreamEmulation, RunsOfColumns) {
    for (const int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 161})
        for (const unsigned blocks : {1, 2, 5, 40}) {
            expect_right<ConfigOf<Eight, Nt, Bf16>>({3, n, 40}, Pitch::odd, Place::one_off, blocks);
            expect_right<ConfigOf<Sixteen, NtColumns, Bf16>>({10, n, 40}, Pitch::even, Place::aligned, blocks);
            expect_right<ConfigOf<Across, Nn, Bf16>>({10, n, 40}, Pitch::odd, Place::one_off, blocks);
        }
}

// Every column once, in order; runs that differ by a grain at most; tiles of one batch entry that begin at grains.
template <int kTileCols, int kGrain>
void expect_even_runs(int64_t cols, int64_t batch, unsigned blocks) {
    const std::string what = fmt::format("{} columns, {} times, in {} runs", cols, batch, blocks);
    int64_t next = 0, shortest = INT64_MAX, longest = 0;
    for (unsigned block = 0; block < blocks; ++block) {
        carat_kernel::ColumnRuns<kTileCols, kGrain> runs(cols, batch, block, blocks);
        int64_t grains = 0;
        for (auto tile = runs.next(); tile.cols > 0; tile = runs.next()) {
            ASSERT_EQ(tile.batch * cols + tile.col, next) << what;
            ASSERT_LE(tile.cols, kTileCols) << what;
            ASSERT_LE(tile.col + tile.cols, cols) << what;
            ASSERT_EQ(tile.col % kGrain, 0) << what;
            next += tile.cols;
            grains += ceil_div(tile.cols, kGrain);
        }
        shortest = std::min(shortest, grains), longest = std::max(longest, grains);
        EXPECT_EQ(runs.next().cols, 0) << what;
    }
    EXPECT_EQ(next, cols * batch) << what;
    EXPECT_LE(longest - shortest, 1) << what;
}

TEST(StreamEmulation, RunsAreEvenAndCoverEachColumnOnce) {
    for (const int64_t cols : {1, 7, 8, 31, 127, 128, 129, 576, 2112, 4096, 128256})
        for (const int64_t batch : {1, 2, 5})
            for (const unsigned blocks : {1, 2, 66, 132}) {
                expect_even_runs<32, 1>(cols, batch, blocks);
                expect_even_runs<64, 8>(cols, batch, blocks);
                expect_even_runs<128, 128>(cols, batch, blocks);
            }
    expect_even_runs<512, 1>(1 << 20, 1023, 132);
}

template <class Types, bool A, bool B, bool D>
void expect_layout() {
    using Shape = std::conditional_t<B, Across, Sixteen>;
    using Config = ConfigOf<Shape, LayoutOf<A, B, D>, Types>;
    for (const Pitch pitch : {Pitch::packed, Pitch::eights, Pitch::even, Pitch::odd})
        for (const Place place : {Place::aligned, Place::one_off}) expect_right<Config>({11, 131, 77}, pitch, place);
}

TEST(StreamEmulation, LayoutsAndTypes) {
    expect_layout<Bf16, true, true, true>();
    expect_layout<F16, true, false, true>();
    expect_layout<TypesWith<CARAT_BF16, CARAT_F32>, false, true, true>();
    expect_layout<TypesWith<CARAT_F16, CARAT_BF16>, false, false, true>();
    expect_layout<TypesWith<CARAT_BF16, CARAT_F16>, true, true, false>();
    expect_layout<F16, true, false, false>();
    expect_layout<TypesWith<CARAT_F16, CARAT_F32>, false, true, false>();
    expect_layout<Bf16, false, false, false>();
}

TEST(StreamEmulation, ShapesOfTheRow) {
    expect_right<ConfigOf<ShapeOf<8, 32, 16, 1, 4>, Nt, Bf16>>({8, 70, 1100});
    expect_right<ConfigOf<ShapeOf<16, 16, 16, 1, 8>, Nt, Bf16>>({16, 70, 1100});
    expect_right<ConfigOf<ShapeOf<16, 32, 4, 4, 3>, Nt, Bf16>>({9, 300, 300});
    expect_right<ConfigOf<ShapeOf<8, 32, 1, 16, 4>, Nt, Bf16>>({1, 700, 100});
    expect_right<ConfigOf<ShapeOf<8, 64, 8, 1, 4>, Nn, Bf16>>({7, 70, 600});
    expect_right<ConfigOf<ShapeOf<16, 64, 1, 8, 4>, Nn, Bf16>>({16, 700, 100});
}

TEST(StreamEmulation, ClustersAlongK) {
    for (const int64_t k : {0, 1, 31, 64, 65, 127, 200, 500}) {
        expect_right<ConfigOf<ShapeOf<8, 16, 2, 1, 3, 2>, Nt, Bf16>>({5, 40, k});
        expect_right<ConfigOf<ShapeOf<16, 32, 1, 1, 2, 4>, NtColumns, F16>>({13, 70, k});
        expect_right<ConfigOf<ShapeOf<16, 64, 1, 1, 2, 2>, Nn, Bf16>>({16, 70, k});
    }
    expect_right<ConfigOf<ShapeOf<8, 16, 2, 1, 3, 8>, Nt, Bf16, NoEpilogue, true>>({8, 40, 1000}, Pitch::eights,
                                                                                   Place::aligned);
}

TEST(StreamEmulation, BatchesPitchesAndSharedOperands) {
    using Config = ConfigOf<Eight, Nt, Bf16, NoEpilogue, true>;
    for (const Pitch pitch : {Pitch::packed, Pitch::eights, Pitch::even, Pitch::odd})
        for (const bool shared : {false, true}) {
            const bool eights = pitch == Pitch::eights;
            using Odd = ConfigOf<Eight, Nt, Bf16>;
            Problem p = make_problem(Config::types, 7, 37, 88, "nt");
            set_pitch(p, pitch);
            set_batch(p, 3, eights ? 16 : 5);
            if (shared) p.a.batch_stride = p.b.batch_stride = 0;
            GemmCase gemm(p, Data::integers, 7, 1, 0, eights ? Place::aligned : Place::one_off);
            for (const unsigned blocks : {1, 2, 7}) {
                gemm.clear_d();
                EXPECT_EQ(eights ? run<Config>(gemm, blocks) : run<Odd>(gemm, blocks), "");
            }
        }
}

// ---------------------------------------------------------------- epilogues

template <carat_activation Activation, bool C, carat_bias Bias, carat_out_scale Scale, bool Rest>
struct Epilogue : NoEpilogue {
    static constexpr bool kDeviceScalars = Rest, kHasC = C, kClamp = Rest, kAmax = Rest;
    static constexpr int kBias = Bias, kActivation = Activation, kOutScale = Scale;
};

template <class Shape, class Types, class Layout, class Epilogue>
void expect_epilogue() {
    using Config = ConfigOf<Shape, Layout, Types, Epilogue>;
    const Data data = Epilogue::kActivation > CARAT_ACT_RELU ? Data::normal : Data::integers;
    for (const Pitch pitch : {Pitch::packed, Pitch::odd})
        for (const double beta : {0.0, -2.0})
            if (beta == 0 || Epilogue::kHasC)
                expect_right<Config>({Shape::kRowsA - 1, 74, 40}, pitch, Place::one_off, 2, data, 0.5, beta);
}

TEST(StreamEmulation, EveryStepOfTheEpilogue) {
    using F32ToF16 = TypesWith<CARAT_BF16, CARAT_F16, CARAT_F32>;
    using F16ToF32 = TypesWith<CARAT_F16, CARAT_F32, CARAT_BF16>;
    expect_epilogue<Eight, Bf16, Nt, Epilogue<CARAT_ACT_RELU, false, CARAT_BIAS_N, CARAT_OUT_SCALE_ROW, true>>();
    expect_epilogue<Sixteen, Bf16, Nt, Epilogue<CARAT_ACT_NONE, true, CARAT_BIAS_M, CARAT_OUT_SCALE_ROW, true>>();
    expect_epilogue<Eight, F32ToF16, Nt,
                    Epilogue<CARAT_ACT_GELU_ERF, true, CARAT_BIAS_N, CARAT_OUT_SCALE_NONE, true>>();
    expect_epilogue<Sixteen, F16ToF32, NtColumns,
                    Epilogue<CARAT_ACT_SILU, true, CARAT_BIAS_M, CARAT_OUT_SCALE_TENSOR, true>>();
    expect_epilogue<Across, E4m3, TnColumns, Epilogue<CARAT_ACT_RELU, true, CARAT_BIAS_N, CARAT_OUT_SCALE_ROW, true>>();
    expect_epilogue<Across, S8, Nn, Epilogue<CARAT_ACT_NONE, false, CARAT_BIAS_N, CARAT_OUT_SCALE_TENSOR, false>>();
}

template <carat_gate Gate, carat_activation Activation, bool C, carat_bias Bias, carat_out_scale Scale>
struct Gated : Epilogue<Activation, C, Bias, Scale, true> {
    static constexpr int kGate = Gate;
};

template <class Shape, class Types, class Layout, class Epilogue>
void expect_gated() {
    using Config = ConfigOf<Shape, Layout, Types, Epilogue>;
    for (const int64_t half : {1, 8, 45, 72})
        for (const Pitch pitch : {Pitch::packed, Pitch::odd})
            expect_right<Config>({Shape::kRowsA - 3, 2 * half, 72}, pitch, Place::one_off, 2, Data::normal, 0.25,
                                 Epilogue::kHasC ? -0.5 : 0);
}

TEST(StreamEmulation, Gates) {
    constexpr carat_gate kPairs = CARAT_GATE_INTERLEAVED, kHalves = CARAT_GATE_SPLIT;
    expect_gated<Eight, Bf16, Nt, Gated<kPairs, CARAT_ACT_SILU, false, CARAT_BIAS_N, CARAT_OUT_SCALE_NONE>>();
    expect_gated<Sixteen, F16, NtColumns,
                 Gated<kPairs, CARAT_ACT_GELU_TANH, true, CARAT_BIAS_M, CARAT_OUT_SCALE_ROW>>();
    expect_gated<Across, Bf16, Nn, Gated<kPairs, CARAT_ACT_SILU, true, CARAT_BIAS_N, CARAT_OUT_SCALE_TENSOR>>();
    expect_gated<Eight, Bf16, Nt, Gated<kHalves, CARAT_ACT_SILU, false, CARAT_BIAS_N, CARAT_OUT_SCALE_NONE>>();
    expect_gated<Sixteen, F16, Tt, Gated<kHalves, CARAT_ACT_GELU_TANH, true, CARAT_BIAS_M, CARAT_OUT_SCALE_ROW>>();
    expect_gated<Across, Bf16, TnColumns, Gated<kHalves, CARAT_ACT_SILU, true, CARAT_BIAS_N, CARAT_OUT_SCALE_TENSOR>>();
}

// Whole blocks of 128 columns of D, one that is cut, and one of a single column.
template <class Shape, class Types, class Layout, class Epilogue>
void expect_computed() {
    using Config = ConfigOf<Shape, Layout, Types, Epilogue>;
    for (const int64_t cols : {1, 129, 200, 256})
        expect_right<Config>({Shape::kRowsA - 2, cols * Config::kGated, 40}, Pitch::odd, Place::one_off, 2,
                             Data::normal, 0.25, Config::kHasC ? 2 : 0);
}

TEST(StreamEmulation, ComputedScales) {
    using Computed = Epilogue<CARAT_ACT_NONE, false, CARAT_BIAS_N, CARAT_OUT_SCALE_COMPUTED_1X128, true>;
    using Split = Gated<CARAT_GATE_SPLIT, CARAT_ACT_SILU, true, CARAT_BIAS_NONE, CARAT_OUT_SCALE_COMPUTED_1X128>;
    using Pairs = Gated<CARAT_GATE_INTERLEAVED, CARAT_ACT_SILU, true, CARAT_BIAS_N, CARAT_OUT_SCALE_COMPUTED_1X128>;
    expect_computed<ShapeOf<8, 32, 1, 4, 2>, E4m3, Nt, Computed>();
    expect_computed<ShapeOf<16, 64, 1, 2, 2>, S8, TnColumns, Computed>();
    expect_computed<ShapeOf<16, 32, 2, 8, 2>, E4m3, NtColumns, Split>();
    expect_computed<ShapeOf<8, 64, 1, 4, 2>, S8, Nn, Pairs>();
}

// ---------------------------------------------------------------- what must not be read

TEST(StreamEmulation, NothingIsReadWhereAlphaIsZero) {
    using Config = ConfigOf<Eight, Nt, Bf16, Epilogue<CARAT_ACT_NONE, true, CARAT_BIAS_N, CARAT_OUT_SCALE_NONE, false>>;
    GemmCase gemm(problem_of<Config>(5, 40, 100, Pitch::odd), Data::integers, 7, 0, 2);
    carat_operands operands = gemm.operands();
    operands.a = operands.b = nullptr;
    EXPECT_EQ(run<Config>(gemm, 2, Order::forward, &operands), "");
}

TEST(StreamEmulation, CIsNotReadWhereBetaIsZero) {
    using Config =
        ConfigOf<Sixteen, Nt, Bf16, Epilogue<CARAT_ACT_NONE, true, CARAT_BIAS_NONE, CARAT_OUT_SCALE_NONE, true>>;
    GemmCase gemm(problem_of<Config>(12, 40, 100, Pitch::odd), Data::integers, 7, 1, 0);
    carat_operands operands = gemm.operands();
    operands.c = nullptr;
    EXPECT_EQ(run<Config>(gemm, 2, Order::forward, &operands), "");
}

// The operands end where their allocations do: the address sanitizer sees what reads beyond.
TEST(StreamEmulation, NothingBeyondTheAllocationsIsRead) {
    using Config = ConfigOf<Eight, Nt, Bf16, NoEpilogue, true>;
    using Odd = ConfigOf<Eight, Nt, Bf16>;
    for (const int64_t k : {8, 9, 31, 72}) {
        GemmCase gemm(problem_of<Odd>(3, 21, k, Pitch::packed), Data::integers, 7, 1, 0, Place::aligned);
        std::vector<std::byte> a = gemm.a.elements(), b = gemm.b.elements();
        a.shrink_to_fit(), b.shrink_to_fit();
        carat_operands operands = gemm.operands();
        operands.a = a.data(), operands.b = b.data();
        EXPECT_EQ(
            k % 8 == 0 ? run<Config>(gemm, 2, Order::forward, &operands) : run<Odd>(gemm, 2, Order::forward, &operands),
            "");
    }
}

TEST(StreamEmulation, TheSameBitsInAnyOrderOfThreads) {
    using Config = ConfigOf<ShapeOf<16, 32, 4, 2, 3>, Nt, Bf16>;
    GemmCase gemm(problem_of<Config>(13, 150, 500, Pitch::odd), Data::normal);
    std::vector<std::byte> bits;
    for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
        gemm.clear_d();
        EXPECT_EQ(run<Config>(gemm, 2, order), "");
        if (bits.empty()) bits = gemm.d.elements();
        EXPECT_TRUE(bits == gemm.d.elements());
    }
}

// A case that would let anything pass tests nothing.
TEST(StreamEmulation, AWrongElementWouldShow) {
    using Config = ConfigOf<Eight, Nt, Bf16>;
    GemmCase gemm(problem_of<Config>(3, 21, 40, Pitch::odd), Data::integers);
    EXPECT_EQ(run<Config>(gemm, 2), "");
    gemm.d.set(2, gemm.d.at(2) + 1);
    EXPECT_NE(gemm.verify(), "");
}

}  // namespace
}  // namespace carat::test
