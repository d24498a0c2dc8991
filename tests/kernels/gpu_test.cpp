// SPDX-License-Identifier: Apache-2.0
// Every CUDA row on a real GPU: edges, layouts, epilogues, what must not be read, big offsets, repeatability.
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

using GpuContract = GpuTest;

constexpr int64_t kEdges[] = {0, 1, 15, 16, 17, 31, 32, 33, 63, 65, 127, 129};
constexpr int64_t kPrimes[] = {2, 7, 53, 97, 131};
constexpr const char* kLayouts[] = {"nn", "nt", "tn", "tt"};

TEST_F(GpuContract, EveryLayoutAtEveryEdgeIsExact) {
    size_t turn = 0;
    for (const char* layout : kLayouts)
        for (const bool d_row_major : {true, false})
            for (const int64_t m : kEdges)
                for (const int64_t n : kEdges) {
                    // One K for each pair of M and N: together they see all of them in every layout.
                    const int64_t k = kEdges[turn++ * 5 % std::size(kEdges)];
                    Problem p = f32_problem(m, n, k, layout, d_row_major);
                    pad(p, int64_t(turn % 3));
                    expect_right(p, Data::integers);
                }
}

TEST_F(GpuContract, PrimesOfRandomDataStayWithinTheBound) {
    for (const char* layout : kLayouts)
        for (const int64_t m : kPrimes)
            for (const int64_t k : kPrimes) expect_right(f32_problem(m, 89, k, layout), Data::normal, 0.75);
    expect_right(f32_problem(257, 509, 1021, "nt"), Data::normal);
}

Problem with_epilogue(carat_activation activation, carat_gate gate, int variant) {
    Problem p = f32_problem(37, 70, 41, kLayouts[variant % 4], variant % 3 != 0);
    pad(p, 1 + variant % 2);
    carat_epilogue& e = p.epilogue;
    e.activation = activation;
    e.gate = gate;
    if (variant % 2) add_c(p);
    e.scalars_on_device = variant % 3 == 1;
    e.bias = carat_bias(variant % 3), e.bias_dtype = CARAT_F32;
    e.clamp = variant % 4 == 2, e.clamp_lo = -1.25f, e.clamp_hi = 3;
    e.out_scale = carat_out_scale(variant / 2 % 3);
    e.amax = variant / 3 % 2;
    return p;
}

TEST_F(GpuContract, EpiloguesInEveryCombination) {
    const auto expect_epilogue = [&](carat_activation activation, carat_gate gate, int variant) {
        const Problem p = with_epilogue(activation, gate, variant);
        expect_right(p, Data::normal, 0.5, p.has_c() && variant % 4 != 3 ? -0.75 : 0);
    };
    for (int activation = CARAT_ACT_NONE; activation <= CARAT_ACT_SIGMOID; ++activation)
        for (int variant = 0; variant < 6; ++variant)
            expect_epilogue(carat_activation(activation), CARAT_GATE_NONE, variant + activation);
    for (const carat_gate gate : {CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT})
        for (const carat_activation activation : {CARAT_ACT_SILU, CARAT_ACT_GELU_ERF, CARAT_ACT_GELU_TANH})
            for (int variant = 0; variant < 6; ++variant) expect_epilogue(activation, gate, variant);
}

TEST_F(GpuContract, BetaZeroNeverReadsC) {
    Problem p = f32_problem(65, 33, 40, "nt");
    add_c(p);
    for (const bool on_device : {false, true}) {
        p.epilogue.scalars_on_device = on_device;
        for (const Kernel& kernel : cuda_kernels(p, runtime_.target)) {
            GemmCase gemm(p, Data::integers);
            std::fill(gemm.c.floats.begin(), gemm.c.floats.end(), NAN);
            EXPECT_EQ(check(kernel, gemm), "");
            const auto executable = prepare(kernel, p, runtime_);
            const DeviceCase memory(*device_, gemm);
            carat_operands operands = memory.operands(gemm);
            operands.c = nullptr;
            EXPECT_EQ(run(*executable, *device_, operands), "");
        }
    }
}

TEST_F(GpuContract, AlphaZeroAndKZeroNeverReadAOrB) {
    for (const int64_t k : {int64_t(0), int64_t(40)}) {
        Problem p = f32_problem(65, 33, k, "nt");
        add_c(p);
        for (const Kernel& kernel : cuda_kernels(p, runtime_.target)) {
            GemmCase gemm(p, Data::integers, 3, k == 0 ? 1 : 0, -2);
            const auto executable = prepare(kernel, p, runtime_);
            const DeviceCase memory(*device_, gemm);
            carat_operands operands = memory.operands(gemm);
            operands.a = operands.b = nullptr;
            EXPECT_EQ(run(*executable, *device_, operands), "");
            memory.fetch(gemm);
            EXPECT_EQ(gemm.verify(), "");
        }
    }
}

TEST_F(GpuContract, EmptyProblemsTouchNothing) {
    for (const Problem& p : {f32_problem(0, 5, 5), f32_problem(5, 0, 5), f32_problem(0, 0, 0)})
        for (const Kernel& kernel : cuda_kernels(p, runtime_.target)) {
            carat_operands nothing{};
            EXPECT_EQ(run(*prepare(kernel, p, runtime_), *device_, nothing), "");
        }
}

TEST_F(GpuContract, DMayBeC) {
    Problem p = f32_problem(65, 33, 40, "nt");
    add_c(p);
    for (const Kernel& kernel : cuda_kernels(p, runtime_.target)) {
        GemmCase gemm(p, Data::integers, 3, 2, -1);
        std::copy_n(gemm.c.data(), p.m * p.n, gemm.d.data());
        const auto executable = prepare(kernel, p, runtime_);
        const DeviceCase memory(*device_, gemm);
        carat_operands operands = memory.operands(gemm);
        operands.c = operands.d;
        EXPECT_EQ(run(*executable, *device_, operands), "");
        memory.fetch(gemm);
        EXPECT_EQ(gemm.verify(), "");
    }
}

TEST_F(GpuContract, BatchesBeyondGridLimits) {
    Problem p = f32_problem(3, 2, 5, "nt");
    set_batch(p, 65537, 1);
    p.epilogue.amax = 1;
    p.epilogue.bias = CARAT_BIAS_N, p.epilogue.bias_dtype = CARAT_F32, p.epilogue.bias_batch_stride = 2;
    expect_right(p, Data::integers);
    p.b.batch_stride = 0;
    expect_right(p, Data::integers);
}

// A's last rows lie beyond 2^31 elements. Everything else of A is NaN, so only a right address gives a number.
TEST_F(GpuContract, OffsetsBeyond31Bits) {
    constexpr int64_t kLd = 32768, kLastRows = 64;
    Problem p = f32_problem(70000, 4, 8, "nt");
    p.a.ld = kLd;
    const size_t bytes = size_t(p.m * kLd) * sizeof(float);
    if (*device_->free_bytes() < bytes + (size_t(1) << 30)) GTEST_SKIP() << "needs " << bytes << " bytes of GPU memory";
    const DeviceMemory a(*device_, bytes), b(*device_, 32 * 4), d(*device_, size_t(p.m * p.n) * 4);
    ASSERT_TRUE(device_->fill(a.floats(), 0xff, bytes).ok());
    std::vector<float> b_host(32), row(8), got(size_t(p.m * p.n));
    for (size_t i = 0; i < 32; ++i) b_host[i] = float(i % 7) - 3;
    ASSERT_TRUE(device_->copy(b.floats(), b_host.data(), 32 * 4).ok());
    for (int64_t i = p.m - kLastRows; i < p.m; ++i) {
        for (int64_t k = 0; k < 8; ++k) row[size_t(k)] = float((i + k) % 5);
        ASSERT_TRUE(device_->copy(a.floats() + i * kLd, row.data(), 8 * 4).ok());
    }
    carat_operands operands{};
    operands.a = a.floats(), operands.b = b.floats(), operands.d = d.floats(), operands.alpha = 1;
    for (const Kernel& kernel : cuda_kernels(p, runtime_.target)) {
        ASSERT_TRUE(device_->fill(d.floats(), 0, got.size() * 4).ok());
        ASSERT_EQ(run(*prepare(kernel, p, runtime_), *device_, operands), "");
        ASSERT_TRUE(device_->copy(got.data(), d.floats(), got.size() * 4).ok());
        for (int64_t i = p.m - kLastRows; i < p.m; ++i)
            for (int64_t j = 0; j < 4; ++j) {
                float want = 0;
                for (int64_t k = 0; k < 8; ++k) want += float((i + k) % 5) * b_host[size_t(j * 8 + k)];
                ASSERT_EQ(got[size_t(i * 4 + j)], want) << kernel.config.name() << " row " << i;
            }
        EXPECT_TRUE(std::isnan(got[0]));
    }
}

TEST_F(GpuContract, RepeatsAndRungsGiveTheSameBits) {
    Problem p = f32_problem(129, 257, 300, "nt");
    p.epilogue.activation = CARAT_ACT_SILU;
    p.epilogue.amax = 1;
    std::vector<float> first;
    float first_amax = 0;
    for (const Kernel& kernel : cuda_kernels(p, runtime_.target)) {
        GemmCase gemm(p, Data::normal);
        const auto executable = prepare(kernel, p, runtime_);
        const DeviceCase memory(*device_, gemm);
        for (int repeat = 0; repeat < 20; ++repeat) {
            ASSERT_EQ(run(*executable, *device_, memory.operands(gemm)), "");
            const float amax = memory.fetch(gemm);
            if (first.empty()) first = gemm.d.floats, first_amax = amax;
            ASSERT_EQ(std::memcmp(first.data(), gemm.d.floats.data(), gemm.d.bytes()), 0) << kernel.config.name();
            ASSERT_EQ(amax, first_amax);
        }
    }
}

}  // namespace
}  // namespace carat::test
