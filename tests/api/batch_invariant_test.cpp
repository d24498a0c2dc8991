// SPDX-License-Identifier: Apache-2.0
// Numerics batch_invariant: a row of D has the same bits whatever M is, whatever the other rows hold, in every configuration
// that the library may take. On the CPU here; on a GPU, and in every tile and form that its row offers, where there is one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "carat/carat.hpp"

namespace {

constexpr int64_t kRows = 300, kCols = 136, kDepth = 1100;  // more than one block of K on the CPU, and a tail

// Rows of D as bytes.
using Rows = std::vector<std::vector<char>>;

struct Kind {
    carat_dtype dtype;
    bool epilogue;  // a bias, SiLU and C
    carat_order d_order = CARAT_ROW_MAJOR;
};

class Invariance {
  public:
    Invariance(const carat::Context& context, Kind kind)
        : context_(context),
          stream_(context),
          kind_(kind),
          a_(random(kRows * kDepth, 1)),
          b_(random(kCols * kDepth, 2)),
          c_(random(kRows * kCols, 3)),
          bias_(random(kCols, 4)),
          d_(context, size_t(kRows * kCols) * 8) {}

    carat_problem problem(int64_t m) const {
        carat_problem p = carat::gemm_problem(m, kCols, kDepth, kind_.dtype, "nt");
        p.d.order = kind_.d_order;
        if (!kind_.epilogue) return p;
        p.c = p.d;
        p.epilogue.bias = CARAT_BIAS_N, p.epilogue.bias_dtype = kind_.dtype, p.epilogue.activation = CARAT_ACT_SILU;
        return p;
    }

    static carat_plan_options options(const char* kernel = "") {
        carat_plan_options options = carat::Context::plan_options(kernel);
        options.numerics = CARAT_BATCH_INVARIANT;
        return options;
    }

    // Rows [first, first + m) of the whole product, on their own; the kernel's name goes to `kernel`.
    Rows run(int64_t first, int64_t m, const char* kernel = "") {
        carat_problem p = problem(m);
        if (kind_.d_order == CARAT_COL_MAJOR) p.c.ld = kRows;
        const carat::Plan plan = context_.plan(p, options(kernel));
        kernels.insert(plan.kernel());
        const size_t size = element();
        const int64_t line = kind_.d_order == CARAT_ROW_MAJOR ? kCols : 1;
        const carat::Buffer workspace(context_, plan.workspace_bytes() + 1);
        plan.execute({.a = at(a_, first * kDepth),
                      .b = b_.data(),
                      .c = kind_.epilogue ? at(c_, first * line) : nullptr,
                      .d = d_.data(),
                      .beta = kind_.epilogue ? 0.5 : 0,
                      .bias = bias_.data(),
                      .workspace = workspace.data(),
                      .workspace_bytes = workspace.size()},
                     stream_.get());
        stream_.synchronize();
        std::vector<char> bytes(size_t(m * kCols) * size);
        d_.download(bytes.data(), bytes.size());
        Rows rows(static_cast<size_t>(m), std::vector<char>(size_t(kCols) * size));
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < kCols; ++j)
                std::memcpy(&rows[size_t(i)][size_t(j) * size],
                            &bytes[size_t(kind_.d_order == CARAT_ROW_MAJOR ? i * kCols + j : j * m + i) * size], size);
        return rows;
    }

    // The first row that differs from those of the whole product; -1 if none does.
    static int64_t first_other(const Rows& whole, const Rows& part, int64_t first) {
        for (size_t i = 0; i < part.size(); ++i)
            if (part[i] != whole[size_t(first) + i]) return first + int64_t(i);
        return -1;
    }

    std::set<std::string> kernels;  // that were run

  private:
    size_t element() const { return size_t(carat_dtype_bits(kind_.dtype)) / 8; }
    const char* at(const carat::Buffer& buffer, int64_t index) const {
        return static_cast<const char*>(buffer.data()) + size_t(index) * element();
    }
    // Normal values of the type: of bf16 the upper half of an f32; f16 in the range where its exponent is 14 or 15.
    carat::Buffer random(int64_t count, unsigned seed) {
        std::mt19937 generator(seed);
        std::normal_distribution<float> normal;
        std::vector<char> bytes(size_t(count) * element());
        for (int64_t i = 0; i < count; ++i) {
            const float single = normal(generator);
            const double both = single;
            uint32_t bits;
            std::memcpy(&bits, &single, 4);
            const uint16_t half =
                kind_.dtype == CARAT_BF16 ? uint16_t(bits >> 16) : uint16_t(0x3800 | (bits >> 16 & 0x87ff));
            const void* from = kind_.dtype == CARAT_F64   ? static_cast<const void*>(&both)
                               : kind_.dtype == CARAT_F32 ? static_cast<const void*>(&single)
                                                          : &half;
            std::memcpy(&bytes[size_t(i) * element()], from, element());
        }
        carat::Buffer buffer(context_, bytes.size());
        buffer.upload(bytes.data(), bytes.size());
        return buffer;
    }

    const carat::Context& context_;
    carat::Stream stream_;
    Kind kind_;
    carat::Buffer a_, b_, c_, bias_, d_;
};

constexpr int64_t kSizes[] = {1,  2,  3,  5,   8,   9,   15,  16,  17,  31,  33, 48,
                              64, 65, 96, 127, 129, 192, 200, 256, 257, 299, 300};

void expect_invariant(const carat::Context& context, Kind kind, const char* kernel = "") {
    Invariance test(context, kind);
    const Rows whole = test.run(0, kRows, kernel);
    for (const int64_t m : kSizes)
        for (const int64_t first : {int64_t(0), kRows - m, (kRows - m) / 2})
            ASSERT_EQ(test.first_other(whole, test.run(first, m, kernel), first), -1)
                << "a row differs where M is " << m << ", from row " << first << " on, of type "
                << carat_dtype_name(kind.dtype) << ", by "
                << context.plan(test.problem(m), Invariance::options(kernel)).kernel();
}

carat::Context cpu() {
    carat_context_options options = carat::Context::default_options();
    options.backend = CARAT_BACKEND_CPU, options.threads = 2;
    return carat::Context(options);
}

TEST(BatchInvariant, TheLibrarysChoiceOnTheCpu) {
    const carat::Context context = cpu();
    for (const carat_dtype dtype : {CARAT_F32, CARAT_BF16, CARAT_F16, CARAT_F64})
        for (const bool epilogue : {false, true}) expect_invariant(context, {dtype, epilogue});
    expect_invariant(context, {CARAT_F32, false, CARAT_COL_MAJOR});
}

TEST(BatchInvariant, EveryRowOfTheCpu) {
    const carat::Context context = cpu();
    int ran = 0;
    for (const char* row : {"cpu_avx512_bf16", "cpu_avx512", "cpu_avx2", "cpu_portable", "cpu_reference"}) {
        const carat_problem p = carat::gemm_problem(1, kCols, kDepth, CARAT_BF16, "nt");
        const carat_plan_options options = Invariance::options(row);
        carat_plan_t plan = nullptr;
        const carat_status status = carat_plan_create(context.get(), &p, &options, &plan);
        carat_plan_destroy(plan);
        if (status == CARAT_NOT_SUPPORTED) continue;  // this CPU lacks it
        expect_invariant(context, {CARAT_BF16, true}, row);
        ++ran;
    }
    EXPECT_GE(ran, 2);
}

class BatchInvariantGpu : public ::testing::Test {
  protected:
    void SetUp() override {
        carat_context_options options = carat::Context::default_options();
        options.backend = CARAT_BACKEND_CUDA;
        try {
            context_.emplace(options);
        } catch (const carat::Error& error) {
            if (error.status() != CARAT_NOT_INITIALIZED) throw;
            GTEST_SKIP() << "no GPU: " << error.what();
        }
    }
    std::optional<carat::Context> context_;
};

TEST_F(BatchInvariantGpu, TheLibrarysChoice) {
    for (const carat_dtype dtype : {CARAT_BF16, CARAT_F16, CARAT_F32})
        for (const bool epilogue : {false, true}) expect_invariant(*context_, {dtype, epilogue});
    expect_invariant(*context_, {CARAT_BF16, false, CARAT_COL_MAJOR});
}

// Every tile, cluster and form that is offered at any size gives the rows of the whole product the same bits.
TEST_F(BatchInvariantGpu, EveryConfigurationThatIsOffered) {
    for (const bool epilogue : {false, true}) {
        Invariance test(*context_, {CARAT_BF16, epilogue});
        const Rows whole = test.run(0, kRows);
        for (const int64_t m : {1, 16, 64, 100, 129, 300}) {
            const auto json = nlohmann::json::parse(context_->explain(test.problem(m), Invariance::options()));
            for (const auto& row : json["rows"])
                for (const auto& candidate : row["candidates"]) {
                    const std::string kernel = candidate["kernel"];
                    EXPECT_EQ(test.first_other(whole, test.run(0, m, kernel.c_str()), 0), -1) << m << " by " << kernel;
                }
        }
        EXPECT_GE(test.kernels.size(), 20u);
        int swapped = 0;
        for (const std::string& kernel : test.kernels) swapped += kernel.ends_with("_swap");
        if (test.kernels.begin()->starts_with("sm90_ws")) EXPECT_GE(swapped, 1);
    }
}

}  // namespace
