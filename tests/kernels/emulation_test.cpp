// SPDX-License-Identifier: Apache-2.0
// The device code of the ladder, compiled by g++ and run on emulated threads: indices, edges, layouts, epilogues and
// barriers are checked with no GPU, and the address sanitizer sees every access.
#include "kernels/host_cuda.hpp"
// After the language.
#include <ladder/v0_naive.cuh>
#include <ladder/v1_shared.cuh>
#include <ladder/v3_double_buffer.cuh>

#include <gtest/gtest.h>

#include "kernels/emulated.hpp"

namespace carat::test {
namespace {

using host_cuda::Order;

template <int M, int N, int K>
struct TileOf {
    static constexpr int kBM = M, kBN = N, kBK = K;
    static constexpr unsigned kThreads = M * N;
};

template <int M, int N, int K, int TM, int TN>
struct RegisterTileOf {
    static constexpr int kBM = M, kBN = N, kBK = K, kTM = TM, kTN = TN, kStages = 2;
    static constexpr unsigned kThreads = M / TM * (N / TN);
};

using F32 = TypesOf<CARAT_F32, CARAT_F32>;
struct Plain : NoEpilogue, F32 {};

template <class Tile, class LayoutType, class EpilogueType = Plain>
struct HostConfig : Tile, LayoutType, EpilogueType {
    using Layout = LayoutType;
    using Epilogue = EpilogueType;
};

using Small = TileOf<16, 16, 16>;
using Large = TileOf<32, 32, 32>;
using Registers = RegisterTileOf<16, 32, 8, 4, 4>;
using Nt = LayoutOf<true, false, true>;
using NnColumn = LayoutOf<true, true, false>;

enum class Kernel { v0, v1, v2, v3 };
constexpr Kernel kRungs[] = {Kernel::v0, Kernel::v1, Kernel::v2, Kernel::v3};

// The rungs above v1 have tiles of another kind.
template <class Config>
constexpr bool kRegisters = requires {
    Config::kTM;
};

template <class Config>
std::vector<Kernel> kernels_of() {
    if constexpr (kRegisters<Config>) return {Kernel::v2, Kernel::v3};
    return {Kernel::v0, Kernel::v1};
}

template <class Config>
void call(Kernel kernel, const carat_shared::GemmParams& params) {
    if constexpr (kRegisters<Config>)
        kernel == Kernel::v2 ? carat_kernel::v2_registers<Config>(params)
                             : carat_kernel::v3_double_buffer<Config>(params);
    else
        kernel == Kernel::v0 ? carat_kernel::v0_naive<Config>(params) : carat_kernel::v1_shared<Config>(params);
}

// Runs a case in up to `blocks` blocks (0: one a tile); "" or what is wrong.
template <class Config>
std::string execute(Kernel kernel, const Problem& p, const carat_operands& operands, unsigned blocks, Order order) {
    const auto params = params_of(p, operands);
    const int64_t tiles = ceil_div(p.m, Config::kBM) * ceil_div(p.d_cols(), Config::kBN) * p.batch;
    return host_cuda::launch(blocks ? blocks : unsigned(tiles), Config::kThreads, order,
                             [&] { call<Config>(kernel, params); });
}

template <class Config>
std::string run(Kernel kernel, GemmCase& gemm, carat_operands operands, unsigned blocks = 0,
                Order order = Order::forward) {
    float amax = 0;
    if (gemm.problem.epilogue.amax) operands.amax = &amax;
    const std::string error = execute<Config>(kernel, gemm.problem, operands, blocks, order);
    return error.empty() ? gemm.verify(amax) : error;
}

// A case on one rung, in small tiles.
template <class Layout, class Epilogue = Plain>
std::string run_rung(Kernel kernel, GemmCase& gemm, carat_operands operands, unsigned blocks = 0,
                     Order order = Order::forward) {
    if (kernel >= Kernel::v2)
        return run<HostConfig<Registers, Layout, Epilogue>>(kernel, gemm, operands, blocks, order);
    return run<HostConfig<Small, Layout, Epilogue>>(kernel, gemm, operands, blocks, order);
}

// Every kernel that has tiles as Config's is right, and has the bits of v0.
template <class Config>
void expect_right(const Problem& p, Data data, double alpha = 1, double beta = 0) {
    GemmCase v0(p, data, 7, alpha, beta);
    EXPECT_EQ(
        (run<HostConfig<Small, typename Config::Layout, typename Config::Epilogue>>(Kernel::v0, v0, v0.operands())),
        "");
    for (const Kernel kernel : kernels_of<Config>())
        for (const Place place : {Place::one_off, Place::aligned}) {
            if (place == Place::aligned && !kRegisters<Config>) continue;  // rungs 0 and 1 do not care
            GemmCase gemm(p, data, 7, alpha, beta, place);
            EXPECT_EQ(run<Config>(kernel, gemm, gemm.operands()), "") << "kernel v" << int(kernel);
            EXPECT_TRUE(v0.d.elements() == gemm.d.elements()) << "v0 and v" << int(kernel) << " differ in bits";
        }
}

constexpr int64_t kEdges[] = {1, 15, 16, 17, 31, 33};

template <class Tile, class Layout>
void sweep_layout() {
    using Config = HostConfig<Tile, Layout>;
    for (const int64_t m : kEdges)
        for (const int64_t n : kEdges)
            for (const int64_t k : {int64_t(0), int64_t(1), int64_t(16), int64_t(35)}) {
                Problem p = f32_problem(m, n, k, Layout::layout(), Layout::kRowMajorD);
                pad(p, (m + n) % 3);
                expect_right<Config>(p, Data::integers);
            }
}

template <class Tile>
void sweep_layouts() {
    sweep_layout<Tile, LayoutOf<false, false, false>>();
    sweep_layout<Tile, LayoutOf<false, false, true>>();
    sweep_layout<Tile, LayoutOf<false, true, false>>();
    sweep_layout<Tile, LayoutOf<false, true, true>>();
    sweep_layout<Tile, LayoutOf<true, false, false>>();
    sweep_layout<Tile, LayoutOf<true, false, true>>();
    sweep_layout<Tile, LayoutOf<true, true, false>>();
    sweep_layout<Tile, LayoutOf<true, true, true>>();
}

TEST(Emulation, EveryLayoutAndEdgeIsExact) {
    sweep_layouts<Small>();
}

TEST(Emulation, TilesOfOtherSizes) {
    sweep_layouts<TileOf<8, 8, 8>>();
    sweep_layouts<TileOf<24, 24, 24>>();
}

TEST(Emulation, LargeTiles) {
    for (const int64_t k : {31, 32, 33, 70}) {
        expect_right<HostConfig<Large, Nt>>(f32_problem(65, 63, k, "nt"), Data::normal);
        expect_right<HostConfig<Large, NnColumn>>(f32_problem(33, 64, k, "nn", false), Data::normal);
    }
}

// Leading dimensions that allow accesses of 16 bytes.
void align(Problem& p) {
    for (carat_matrix* matrix : {&p.a, &p.b, &p.d}) matrix->ld = (matrix->ld + 3) / 4 * 4;
}

// Around the tile's edges in all dimensions; every other problem has leading dimensions of a multiple of 4.
template <class Tile, class Layout>
void sweep_register_layout() {
    using Config = HostConfig<Tile, Layout>;
    constexpr int kBM = Tile::kBM, kBN = Tile::kBN, kBK = Tile::kBK;
    const int64_t ks[] = {0, 1, kBK - 1, kBK, kBK + 1, 2 * kBK, 3 * kBK + 5};
    size_t turn = 0;
    for (const int64_t m : {1, kBM - 1, kBM, kBM + 1, 2 * kBM + 3})
        for (const int64_t n : {1, kBN - 1, kBN, kBN + 1, 2 * kBN + 6})
            for (int repeat = 0; repeat < 2; ++repeat, ++turn) {
                Problem p = f32_problem(m, n, ks[turn % std::size(ks)], Layout::layout(), Layout::kRowMajorD);
                pad(p, int64_t(turn % 3));
                if (turn % 2) align(p);
                expect_right<Config>(p, Data::integers);
            }
}

TEST(Emulation, RegisterTilesInEveryLayout) {
    sweep_register_layout<Registers, LayoutOf<false, false, false>>();
    sweep_register_layout<Registers, LayoutOf<false, false, true>>();
    sweep_register_layout<Registers, LayoutOf<false, true, false>>();
    sweep_register_layout<Registers, LayoutOf<false, true, true>>();
    sweep_register_layout<Registers, LayoutOf<true, false, false>>();
    sweep_register_layout<Registers, LayoutOf<true, false, true>>();
    sweep_register_layout<Registers, LayoutOf<true, true, false>>();
    sweep_register_layout<Registers, LayoutOf<true, true, true>>();
}

template <class Tile, class Layout>
void expect_tile_right() {
    for (const int64_t k : {Tile::kBK - 1, 2 * Tile::kBK, 3 * Tile::kBK + 2}) {
        Problem p = f32_problem(Tile::kBM + 7, Tile::kBN - 2, k, Layout::layout());
        align(p);
        expect_right<HostConfig<Tile, Layout>>(p, Data::normal);
    }
}

template <class Tile>
void expect_tile_right() {
    expect_tile_right<Tile, LayoutOf<true, true, true>>();
    expect_tile_right<Tile, LayoutOf<true, false, true>>();
    expect_tile_right<Tile, LayoutOf<false, true, true>>();
    expect_tile_right<Tile, LayoutOf<false, false, true>>();
}

// The tiles of the registry: each has its own way to share copies among its threads.
TEST(Emulation, RegisterTilesOfOtherSizes) {
    expect_tile_right<RegisterTileOf<128, 128, 8, 8, 16>>();
    expect_tile_right<RegisterTileOf<128, 128, 16, 8, 8>>();
    expect_tile_right<RegisterTileOf<128, 256, 8, 8, 16>>();
    expect_tile_right<RegisterTileOf<64, 128, 8, 8, 8>>();
    expect_tile_right<RegisterTileOf<64, 64, 16, 8, 4>>();
    expect_tile_right<RegisterTileOf<32, 32, 32, 4, 4>>();
}

TEST(Emulation, AMissingBarrierWouldShow) {
    for (const Order order : {Order::forward, Order::backward, Order::shuffled})
        for (const Kernel kernel : {Kernel::v1, Kernel::v2, Kernel::v3}) {
            using Tile = RegisterTileOf<32, 64, 16, 4, 4>;  // 4 warps
            GemmCase gemm(f32_problem(70, 80, 90, "nt"), Data::normal);
            EXPECT_EQ((kernel == Kernel::v1 ? run<HostConfig<Large, Nt>>
                                            : run<HostConfig<Tile, Nt>>)(kernel, gemm, gemm.operands(), 2, order),
                      "");
        }
}

TEST(Emulation, FewerBlocksThanTilesAndBatch) {
    for (const unsigned blocks : {1u, 3u, 1000u})
        for (const Kernel kernel : kRungs) {
            Problem p = f32_problem(33, 18, 20, "nt");
            set_batch(p, 5, 11);
            GemmCase gemm(p, Data::integers);
            EXPECT_EQ((run_rung<Nt>(kernel, gemm, gemm.operands(), blocks)), "");
        }
}

TEST(Emulation, SharedOperandOfABatch) {
    Problem p = f32_problem(17, 16, 9, "nt");
    set_batch(p, 3);
    p.b.batch_stride = 0;
    expect_right<HostConfig<Small, Nt>>(p, Data::integers);
    expect_right<HostConfig<Registers, Nt>>(p, Data::integers);
}

struct WithC : Plain {
    static constexpr bool kHasC = true;
};

TEST(Emulation, BetaZeroNeverReadsC) {
    Problem p = f32_problem(33, 20, 18, "nt");
    add_c(p);
    for (const Kernel kernel : kRungs) {
        GemmCase gemm(p, Data::integers);
        carat_operands operands = gemm.operands();
        operands.c = nullptr;  // reading it would crash
        EXPECT_EQ((run_rung<Nt, WithC>(kernel, gemm, operands)), "");
    }
}

TEST(Emulation, AlphaZeroNeverReadsAOrB) {
    Problem p = f32_problem(33, 20, 18, "nt");
    add_c(p);
    for (const Kernel kernel : kRungs) {
        GemmCase gemm(p, Data::integers, 3, 0, -2);
        carat_operands operands = gemm.operands();
        operands.a = operands.b = nullptr;
        EXPECT_EQ((run_rung<Nt, WithC>(kernel, gemm, operands)), "");
    }
}

TEST(Emulation, DMayBeC) {
    Problem p = f32_problem(33, 20, 18, "nt");
    add_c(p);
    for (const Kernel kernel : kRungs) {
        GemmCase gemm(p, Data::integers, 3, 2, -1);
        gemm.start_d_as_c();
        carat_operands operands = gemm.operands();
        operands.c = operands.d;
        EXPECT_EQ((run_rung<Nt, WithC>(kernel, gemm, operands)), "");
    }
}

template <int Activation, int Gate>
struct Everything : F32 {
    static constexpr bool kDeviceScalars = true, kHasC = true, kClamp = true, kAmax = true;
    static constexpr int kBias = CARAT_BIAS_N, kActivation = Activation, kGate = Gate, kOutScale = CARAT_OUT_SCALE_ROW;
};

template <int Activation, int Gate>
void everything() {
    Problem p = f32_problem(19, 42, 33, "nn", false);
    p.d.ld += 2;
    set_batch(p, 2, 50);
    p.d.batch_stride += 100;
    add_c(p);
    p.c.ld += 1, p.c.batch_stride = 1000;
    p.epilogue.scalars_on_device = 1;
    p.epilogue.bias = CARAT_BIAS_N, p.epilogue.bias_dtype = CARAT_F32, p.epilogue.bias_batch_stride = p.n + 1;
    p.epilogue.activation = carat_activation(Activation);
    p.epilogue.gate = carat_gate(Gate);
    p.epilogue.clamp = 1, p.epilogue.clamp_lo = -1.5f, p.epilogue.clamp_hi = 2.25f;
    p.epilogue.out_scale = CARAT_OUT_SCALE_ROW;
    p.epilogue.amax = 1;
    expect_right<HostConfig<Small, NnColumn, Everything<Activation, Gate>>>(p, Data::normal, 0.375, -0.75);
    if constexpr (Gate == CARAT_GATE_NONE)
        expect_right<HostConfig<Registers, NnColumn, Everything<Activation, Gate>>>(p, Data::normal, 0.375, -0.75);
}

TEST(Emulation, EveryActivationAndGateInOrder) {
    everything<CARAT_ACT_NONE, CARAT_GATE_NONE>();
    everything<CARAT_ACT_RELU, CARAT_GATE_NONE>();
    everything<CARAT_ACT_GELU_ERF, CARAT_GATE_NONE>();
    everything<CARAT_ACT_GELU_TANH, CARAT_GATE_NONE>();
    everything<CARAT_ACT_SILU, CARAT_GATE_NONE>();
    everything<CARAT_ACT_SIGMOID, CARAT_GATE_NONE>();
    everything<CARAT_ACT_SILU, CARAT_GATE_INTERLEAVED>();
    everything<CARAT_ACT_GELU_ERF, CARAT_GATE_INTERLEAVED>();
    everything<CARAT_ACT_GELU_TANH, CARAT_GATE_SPLIT>();
    everything<CARAT_ACT_SILU, CARAT_GATE_SPLIT>();
}

struct BiasM : Plain {
    static constexpr int kBias = CARAT_BIAS_M, kOutScale = CARAT_OUT_SCALE_TENSOR;
};

TEST(Emulation, BiasAlongMAndOneOutputScale) {
    Problem p = f32_problem(35, 17, 16, "nt");
    p.epilogue.bias = CARAT_BIAS_M, p.epilogue.bias_dtype = CARAT_F32;
    p.epilogue.out_scale = CARAT_OUT_SCALE_TENSOR;
    expect_right<HostConfig<Small, Nt, BiasM>>(p, Data::integers);
    expect_right<HostConfig<Registers, Nt, BiasM>>(p, Data::integers);
}

template <int kActivation_, carat_dtype kTypeD_ = CARAT_F32>
struct Activation {
    static constexpr int kActivation = kActivation_, kTypeD = kTypeD_;
};
template <int kActivation, carat_dtype kTypeD = CARAT_F32>
float activated(float v) {
    return carat_kernel::activate<Activation<kActivation, kTypeD>>(v);
}

TEST(Emulation, ActivationsInTheTails) {
    using namespace carat_kernel;
    const auto close = [](float got, double want, double relative = 4e-6) {
        EXPECT_NEAR(got, want, relative * std::fabs(want) + 1e-37) << want;  // relative, far into the tail
    };
    for (double v : {-12.0, -8.0, -5.0, -3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0, 8.0, 30.0}) {
        close(activated<kActGeluErf>(float(v)), v * 0.5 * std::erfc(-double(float(v)) / std::sqrt(2.0)));
        close(activated<kActSilu>(float(v)), double(float(v)) / (1 + std::exp(-double(float(v)))));
        close(activated<kActSigmoid>(float(v)), 1 / (1 + std::exp(-double(float(v)))));
    }
    // The short exponential of a narrow D, as far as there is anything but 0.
    for (double v = -86; v < 86; v += 0.37) {
        const double x = double(float(v)), u2 = 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        close(activated<kActSilu, CARAT_BF16>(float(v)), x / (1 + std::exp(-x)), 2e-5);
        close(activated<kActSigmoid, CARAT_F16>(float(v)), 1 / (1 + std::exp(-x)), 2e-5);
        if (u2 > -86) close(activated<kActGeluTanh, CARAT_E4M3>(float(v)), x / (1 + std::exp(-u2)), 2e-5);
    }
    for (const float v : {activated<kActSilu>(-200.0f), activated<kActSilu, CARAT_BF16>(-200.0f),
                          activated<kActGeluTanh>(-200.0f), activated<kActGeluTanh, CARAT_BF16>(-200.0f)})
        EXPECT_EQ(v, 0.0f);
    EXPECT_EQ(activated<kActGeluTanh>(200.0f), 200.0f);
    EXPECT_TRUE(std::isnan(activated<kActRelu>(NAN)));
    EXPECT_TRUE(std::isnan(activated<kActGeluErf>(NAN)));
    EXPECT_TRUE((std::isnan(activated<kActSilu, CARAT_BF16>(NAN))));
}

struct ClampAmax : Plain {
    static constexpr bool kClamp = true, kAmax = true;
};

TEST(Emulation, NanStaysNanThroughClampAndAmax) {
    Problem p = f32_problem(17, 16, 4, "nt");
    p.epilogue.clamp = 1, p.epilogue.clamp_lo = -1, p.epilogue.clamp_hi = 1, p.epilogue.amax = 1;
    for (const Kernel kernel : kRungs) {
        GemmCase gemm(p, Data::integers);
        gemm.a.set(5 * p.a.ld, NAN);
        float amax = 0;
        carat_operands operands = gemm.operands();
        operands.amax = &amax;
        ASSERT_EQ(
            (kernel >= Kernel::v2 ? execute<HostConfig<Registers, Nt, ClampAmax>>
                                  : execute<HostConfig<Small, Nt, ClampAmax>>)(kernel, p, operands, 2, Order::forward),
            "");
        EXPECT_TRUE(std::isnan(gemm.d.at(5 * p.d.ld)));
        EXPECT_TRUE(std::isnan(amax));
        EXPECT_FALSE(std::isnan(gemm.d.at(4 * p.d.ld)));
    }
}

}  // namespace
}  // namespace carat::test
