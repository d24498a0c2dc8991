// SPDX-License-Identifier: Apache-2.0
// The fast CPU backend, every instruction set of this machine: against the reference (exactly where sums are exact,
// within the f32 bound elsewhere), against each other, with any number of threads, and in the corners of the contract.
#include "cpu/fast.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "core/log.hpp"
#include "cpu/fast_cases.hpp"
#include "cpu/gemm.hpp"

namespace carat::cpu {
namespace {

using testing::Case;
using testing::Operand;
using testing::Rng;

std::string refusal(Isa isa, const Problem& p) {
    Requirements requirements;
    fast_require(isa, p, requirements);
    return requirements.refusal();
}

bool same_float(float a, float b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

// D's bytes must agree; where a transcendental function or a computed scale is in the way, elements within one rounding
// step (and the padding to the byte).
void expect_same(const Case& t, const Case::Output& got, const Case::Output& want, const std::string& what) {
    ASSERT_EQ(got.d.size(), want.d.size()) << what;
    ASSERT_EQ(got.d_scales.size(), want.d_scales.size());
    for (size_t i = 0; i < got.d_scales.size(); ++i)
        ASSERT_NEAR(got.d_scales[i], want.d_scales[i], 1e-5 * std::fabs(want.d_scales[i]) + 1e-37)
            << what << ": scale " << i;
    ASSERT_TRUE(same_float(got.amax, want.amax) || std::fabs(got.amax - want.amax) <= 1e-5 * want.amax)
        << what << ": amax " << got.amax << " for " << want.amax;
    if (got.d == want.d) return;
    ASSERT_TRUE(t.inexact) << what;
    const carat_dtype dtype = t.p.d.dtype;
    const int64_t count = int64_t(got.d.size()) * 8 / bits(dtype);
    const double step = 2 * info(dtype).unit_roundoff + 4e-6;
    for (int64_t i = 0; i < count; ++i) {
        const double x = load_f64(got.d.data(), dtype, i), y = load_f64(want.d.data(), dtype, i);
        if (std::isnan(x) && std::isnan(y)) continue;
        const double slack = info(dtype).is_float ? info(dtype).smallest : 1;
        ASSERT_LE(std::fabs(x - y), step * std::fabs(y) + std::max(slack, 1e-5)) << what << ": element " << i;
    }
}

class FastTest : public ::testing::TestWithParam<Isa> {
  protected:
    ThreadPool one{1}, three{3};
};

TEST_P(FastTest, AgreesWithTheReferenceOnRandomProblems) {
    int ran = 0;
    std::set<std::string> types, modes;
    for (uint64_t seed = 0; seed < 2500; ++seed) {
        const auto t = testing::random_case(seed);
        if (!refusal(GetParam(), t->p).empty()) continue;
        const auto want =
            t->run([&](const Problem& p, const carat_operands& o) { return reference_execute(p, o, one); });
        const auto got = t->run([&](const Problem& p, const carat_operands& o) {
            return fast_execute(GetParam(), p, o, seed % 2 ? one : three);
        });
        expect_same(*t, got, want, fmt::format("seed {}: {}", seed, describe(t->p)));
        if (HasFatalFailure()) return;
        ++ran;
        types.insert(fmt::format("{}x{}", carat::name(t->p.a.dtype), carat::name(t->p.b.dtype)));
        modes.insert(fmt::format("{}.{}", int(t->p.mode), int(t->p.group_form)));
    }
    RecordProperty("problems", ran);
    EXPECT_GE(ran, GetParam() == Isa::avx512_bf16 ? 400 : 1000);
    EXPECT_GE(types.size(), GetParam() == Isa::avx512_bf16 ? 5u : 12u);
    EXPECT_EQ(modes.size(), 7u);
}

struct Plain {
    Case t;
    Plain(carat_dtype ab, carat_dtype d, int64_t m, int64_t n, int64_t k, const char* layout, uint64_t seed,
          bool integers, int64_t pad = 3) {
        Rng rng(seed);
        Problem& p = t.p;
        p.batch = 1, p.m = m, p.n = n, p.k = k;
        const auto order = [](char c) { return c == 'n' ? CARAT_ROW_MAJOR : CARAT_COL_MAJOR; };
        t.a.lay_out(ab, order(layout[0]), m, k, 1, pad, false);
        t.b.lay_out(ab, order(layout[1]), k, n, 1, pad, false);
        t.d.lay_out(d, CARAT_ROW_MAJOR, m, n, 1, pad, false);
        p.a = t.a.desc, p.b = t.b.desc, p.d = t.d.desc;
        p.c = {CARAT_NONE, CARAT_ROW_MAJOR, 1, 0};
        const auto value = [&] { return integers ? double(rng.in(-3, 3)) : rng.normal(); };
        t.a.fill(value);
        t.b.fill(value);
        t.o.alpha = 1;
        testing::point(t);
    }
};

TEST_P(FastTest, TailsAroundEveryTileEdge) {
    for (const carat_dtype dtype : {CARAT_F32, CARAT_BF16, CARAT_S8, CARAT_F64}) {
        if (GetParam() == Isa::avx512_bf16 && (dtype == CARAT_F32 || dtype == CARAT_F64)) continue;
        const bool pairs = GetParam() == Isa::avx512_bf16;
        const Panel panel = dtype == CARAT_F64 ? Panel::f64 : pairs ? Panel::bf16 : Panel::f32;
        const auto [mr, nr, kc] = kernels_of(GetParam()).geometry(panel);
        const carat_dtype d = dtype == CARAT_S8 ? CARAT_S32 : dtype == CARAT_F64 ? CARAT_F64 : CARAT_F32;
        int which = 0;
        for (const int64_t m : {0, 1, 8, 9, mr - 1, mr, mr + 1, 2 * mr + 1, 37})
            for (const int64_t n : {0, 1, nr - 1, nr, nr + 1, 2 * nr + 1, 127, 129})
                for (const int64_t k : {0, 1, 2, 7, 31, 64, kc - 1, kc, kc + 1}) {
                    const char* layout = std::array{"nt", "nn", "tn", "tt"}[size_t(which++ % 4)];
                    Plain plain(dtype, d, m, n, k, layout, uint64_t(which), true);
                    const auto want = plain.t.run(
                        [&](const Problem& p, const carat_operands& o) { return reference_execute(p, o, one); });
                    const auto got = plain.t.run(
                        [&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, one); });
                    expect_same(plain.t, got, want, describe(plain.t.p));
                    if (HasFatalFailure()) return;
                }
    }
}

TEST_P(FastTest, StaysWithinTheF32BoundOnNormalData) {
    for (const carat_dtype dtype : {CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_E5M2, CARAT_F64}) {
        for (const int64_t m : {1, 3, 7, 40}) {
            for (const char* layout : {"nt", "nn", "tn", "tt"}) {
                const carat_dtype d = dtype == CARAT_F64 ? CARAT_F64 : CARAT_F32;
                Plain plain(dtype, d, m, 70, 1031, layout, uint64_t(m), false);
                if (!refusal(GetParam(), plain.t.p).empty()) continue;
                const auto got = plain.t.run(
                    [&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, three); });
                for (int64_t i = 0; i < m; ++i) {
                    for (int64_t j = 0; j < 70; j += 3) {
                        const Accumulated want = reference_accumulate(plain.t.p, plain.t.o, 0, i, j);
                        const double unit = info(d).unit_roundoff;
                        // sqrt(K) u is what is typical, K u the guarantee.
                        ASSERT_LE(std::fabs(load_f64(got.d.data(), d, plain.t.d.index(0, i, j)) - want.value),
                                  40 * unit * want.magnitude + (dtype == CARAT_F64 ? 1e-13 * want.magnitude : 0))
                            << describe(plain.t.p) << " at " << i << ", " << j;
                    }
                }
            }
        }
    }
}

TEST_P(FastTest, SameBitsAgainAndWithAnyNumberOfThreads) {
    for (const carat_dtype dtype : {CARAT_F32, CARAT_BF16, CARAT_E4M3, CARAT_F64}) {
        for (const auto& [m, n, k] :
             {std::array<int64_t, 3>{1, 3000, 900}, {5, 700, 900}, {300, 700, 900}, {1100, 150, 300}}) {
            Plain plain(dtype, dtype == CARAT_F64 ? CARAT_F64 : CARAT_F32, m, n, k, m == 5 ? "nn" : "nt", 5, false);
            if (!refusal(GetParam(), plain.t.p).empty()) continue;
            const auto first = plain.t.run(
                [&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, one); });
            for (const int threads : {1, 2, 3, 7, 16}) {
                ThreadPool pool(threads);
                const auto again = plain.t.run(
                    [&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, pool); });
                ASSERT_TRUE(first.d == again.d) << describe(plain.t.p) << " with " << threads << " threads";
            }
        }
    }
}

// bf16's pair product takes subnormal inputs as zero; the backend must not.
TEST_P(FastTest, SubnormalInputsCount) {
    for (const char* layout : {"nt", "nn", "tn"}) {
        Plain plain(CARAT_BF16, CARAT_F32, 20, 70, 33, layout, 1, true);
        plain.t.a.fill([] { return 0x1p-130; });
        plain.t.b.fill([] { return 0x1p120; });
        const auto got =
            plain.t.run([&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, one); });
        for (int64_t i = 0; i < 20; ++i)
            for (int64_t j = 0; j < 70; ++j)
                ASSERT_EQ(load_f64(got.d.data(), CARAT_F32, plain.t.d.index(0, i, j)), 33 * 0x1p-10) << layout;
    }
}

// Every code of a narrow type, read: D = A x 1 in f32.
TEST_P(FastTest, ReadsEveryCodeExactly) {
    for (const carat_dtype dtype : {CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_E5M2, CARAT_S8}) {
        const int64_t codes = int64_t{1} << bits(dtype);
        Plain plain(dtype, CARAT_F32, codes, 1, 1, "nt", 1, true, 0);
        if (!refusal(GetParam(), plain.t.p).empty()) continue;
        for (int64_t i = 0; i < codes; ++i) {
            if (bits(dtype) == 8) plain.t.a.bytes[size_t(i)] = uint8_t(i);
            if (bits(dtype) == 16) reinterpret_cast<uint16_t*>(plain.t.a.bytes.data())[i] = uint16_t(i);
        }
        plain.t.b.fill([] { return 1.0; });
        const auto got =
            plain.t.run([&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, one); });
        for (int64_t i = 0; i < codes; ++i) {
            const float want = float(load_f64(plain.t.a.bytes.data(), dtype, i));
            const float x = float(load_f64(got.d.data(), CARAT_F32, i));
            // The pair product's sums flush below the smallest normal number; SubnormalInputsCount covers those.
            ASSERT_TRUE(same_float(x, want)) << carat::name(dtype) << " code " << i << ": " << x << " for " << want;
        }
    }
}

// f32 patterns around everything that matters, written: D = round(A x 1).
TEST_P(FastTest, RoundsToEveryOutputTypeExactly) {
    if (GetParam() == Isa::avx512_bf16) GTEST_SKIP() << "takes no f32 operands; its epilogue is avx512's";
    constexpr int64_t kCount = 1 << 17;
    for (const carat_dtype dtype : {CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_E5M2, CARAT_S8, CARAT_S32, CARAT_F64}) {
        Plain plain(CARAT_F32, dtype, 16, kCount / 16, 1, "nn", 1, true, 0);
        plain.t.a.fill([] { return 1.0; });
        plain.t.o.b = plain.t.b.bytes.data();
        Rng rng(3);
        std::vector<float> values(kCount / 16);
        auto* b = reinterpret_cast<float*>(plain.t.b.bytes.data());
        for (int64_t j = 0; j < kCount / 16; ++j) {
            uint32_t pattern = uint32_t(rng.engine());
            if (j % 2) pattern = (pattern & 0x80000000u) | uint32_t(rng.in(100, 160)) << 23 | (pattern & 0x7fffffu);
            if (j % 4 == 1) pattern &= 0xfff80000u | uint32_t(rng.pick({0, 0x1000, 0x8000, 0x40000}));  // ties
            std::memcpy(&values[size_t(j)], &pattern, 4);
            b[j] = values[size_t(j)];
        }
        const auto got =
            plain.t.run([&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, one); });
        std::vector<uint8_t> want(8);
        for (int64_t j = 0; j < kCount / 16; ++j) {
            if (values[size_t(j)] == 0) continue;  // -0 + 0 is +0 in any sum
            store_f64(want.data(), dtype, 0, values[size_t(j)]);
            const size_t size = size_t(bits(dtype)) / 8;
            ASSERT_EQ(std::memcmp(want.data(), got.d.data() + size_t(j) * size,
                                  dtype == CARAT_F64 && std::isnan(values[size_t(j)]) ? 0 : size),
                      0)
                << carat::name(dtype) << " of " << values[size_t(j)];
        }
    }
}

TEST_P(FastTest, IntegerSumsAreExactBeyondF32) {
    Plain plain(CARAT_S8, CARAT_S32, 20, 33, 5000, "nt", 1, true);
    plain.t.a.fill([] { return 127.0; });
    plain.t.b.fill([] { return 127.0; });
    store_f64(plain.t.b.bytes.data(), CARAT_S8, plain.t.b.index(0, 17, 5), 126);
    const auto got =
        plain.t.run([&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, one); });
    EXPECT_EQ(load_f64(got.d.data(), CARAT_S32, plain.t.d.index(0, 3, 4)), 127 * 127 * 5000);
    EXPECT_EQ(load_f64(got.d.data(), CARAT_S32, plain.t.d.index(0, 3, 5)), 127 * 127 * 5000 - 127);
    plain.t.p.k = 131072;
    EXPECT_NE(refusal(GetParam(), plain.t.p), "");
}

TEST_P(FastTest, ReadsNothingItNeedNot) {
    Plain plain(CARAT_BF16, CARAT_F32, 20, 40, 30, "nt", 1, true);
    Case& t = plain.t;
    t.o.alpha = 0;
    t.o.a = t.o.b = nullptr;
    const auto zero =
        t.run([&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, one); });
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(load_f64(zero.d.data(), CARAT_F32, t.d.index(0, i, i)), 0);
    t.o.alpha = 1;
    t.p.k = 0;
    t.p.scale_a = t.p.scale_b = {CARAT_SCALE_TENSOR_WISE, 0, 0, CARAT_ROW_MAJOR, 1, 0};
    const float infinite = INFINITY;
    t.o.scale_a = t.o.scale_b = &infinite;
    const auto empty =
        t.run([&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, one); });
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(load_f64(empty.d.data(), CARAT_F32, t.d.index(0, i, i)), 0);
    t.p.m = 0;
    t.o = {};
    EXPECT_TRUE(fast_execute(GetParam(), t.p, t.o, one).ok());
}

TEST_P(FastTest, LargeBatchOfSmallProblems) {
    constexpr int64_t kBatch = 70001;
    std::vector<float> a(kBatch * 2), b(kBatch * 2), d(kBatch);
    std::vector<uint16_t> a16(kBatch * 2), b16(kBatch * 2);
    for (int64_t i = 0; i < kBatch * 2; ++i) {
        a16[size_t(i)] = bf16_from_f32(a[size_t(i)] = float(i % 7));
        b16[size_t(i)] = bf16_from_f32(b[size_t(i)] = float(i % 5));
    }
    Problem p{};
    p.mode = CARAT_BATCHED;
    p.batch = kBatch, p.m = p.n = 1, p.k = 2;
    const carat_dtype dtype = GetParam() == Isa::avx512_bf16 ? CARAT_BF16 : CARAT_F32;
    p.a = {dtype, CARAT_ROW_MAJOR, 2, 2}, p.b = {dtype, CARAT_COL_MAJOR, 2, 2};
    p.d = {CARAT_F32, CARAT_ROW_MAJOR, 1, 1}, p.c = {CARAT_NONE, CARAT_ROW_MAJOR, 1, 0};
    carat_operands o{};
    o.a = dtype == CARAT_BF16 ? static_cast<void*>(a16.data()) : a.data();
    o.b = dtype == CARAT_BF16 ? static_cast<void*>(b16.data()) : b.data();
    o.d = d.data();
    o.alpha = 1;
    ASSERT_TRUE(fast_execute(GetParam(), p, o, three).ok());
    for (size_t i = 0; i < size_t(kBatch); ++i) ASSERT_EQ(d[i], a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1]) << i;
}

TEST_P(FastTest, OperandsBeyondTwoToThe31) {
    constexpr int64_t kLd = (int64_t{1} << 31) + 64;
    const size_t bytes = size_t(kLd) * 3;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no 6 GB of address space";
    Problem p{};
    p.batch = 1, p.m = 3, p.n = 3, p.k = 40;
    p.a = {CARAT_E4M3, CARAT_ROW_MAJOR, kLd, 0}, p.b = {CARAT_E4M3, CARAT_COL_MAJOR, kLd, 0};
    p.c = {CARAT_NONE, CARAT_ROW_MAJOR, 1, 0}, p.d = {CARAT_F32, CARAT_ROW_MAJOR, 3, 0};
    for (int64_t i = 0; i < 3; ++i)
        for (int64_t k = 0; k < 40; ++k) store_f64(memory, CARAT_E4M3, i * kLd + k, double(i + 1));
    float d[9];
    carat_operands o{};
    o.a = o.b = memory, o.d = d, o.alpha = 1;
    const Status status = fast_execute(GetParam(), p, o, one);
    munmap(memory, bytes);
    ASSERT_TRUE(status.ok());
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) EXPECT_EQ(d[i * 3 + j], float(40 * (i + 1) * (j + 1)));
}

TEST_P(FastTest, ManyCallersAtOnce) {
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int caller = 0; caller < 4; ++caller) {
        callers.emplace_back([&, caller] {
            Plain plain(CARAT_BF16, CARAT_F32, 33, 300, 200, "nt", uint64_t(caller), true);
            const auto want = plain.t.run(
                [&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, one); });
            for (int round = 0; round < 20; ++round) {
                const auto got = plain.t.run(
                    [&](const Problem& p, const carat_operands& o) { return fast_execute(GetParam(), p, o, three); });
                wrong += got.d != want.d;
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(wrong.load(), 0);
}

TEST_P(FastTest, RefusesWhatItCannotDoWithASentence) {
    const auto base = [] { return Plain(CARAT_BF16, CARAT_BF16, 20, 40, 256, "nt", 1, true).t.p; };
    ASSERT_EQ(refusal(GetParam(), base()), "");
    Problem p = base();
    p.sparsity = CARAT_SPARSE_A_24;
    EXPECT_NE(refusal(GetParam(), p).find("2:4"), std::string::npos);
    p = base();
    p.a.dtype = CARAT_F64;
    EXPECT_NE(refusal(GetParam(), p).find("f64"), std::string::npos);
    p = base();
    p.mode = CARAT_GROUPED, p.group_form = CARAT_GROUP_ARRAY;
    EXPECT_NE(refusal(GetParam(), p).find("unlike"), std::string::npos);
    p = base();
    p.d.order = CARAT_COL_MAJOR, p.epilogue.gate = CARAT_GATE_SPLIT;
    EXPECT_NE(refusal(GetParam(), p).find("row-major"), std::string::npos);
    p = base();
    p.a.dtype = CARAT_F32;
    EXPECT_EQ(refusal(GetParam(), p).empty(), GetParam() != Isa::avx512_bf16);
}

INSTANTIATE_TEST_SUITE_P(Isas, FastTest, ::testing::ValuesIn(supported_isas().begin(), supported_isas().end()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST(FastIsas, DifferByRoundingOnly) {
    ThreadPool pool(2);
    for (uint64_t seed = 0; seed < 20; ++seed) {
        Plain plain(CARAT_BF16, CARAT_F32, 9 + int64_t(seed), 65, 700, seed % 2 ? "nt" : "tn", seed, false);
        std::vector<uint8_t> first;
        for (const Isa isa : supported_isas()) {
            const auto got =
                plain.t.run([&](const Problem& p, const carat_operands& o) { return fast_execute(isa, p, o, pool); });
            if (first.empty()) first = got.d;
            for (int64_t i = 0; i < plain.t.p.m; ++i)
                for (int64_t j = 0; j < 65; ++j) {
                    const int64_t at = plain.t.d.index(0, i, j);
                    ASSERT_NEAR(load_f64(got.d.data(), CARAT_F32, at), load_f64(first.data(), CARAT_F32, at),
                                40 * 0x1p-24 * 700)
                        << name(isa);
                }
        }
    }
}

TEST(FastIsas, ListIsInOrderAndLimitedByName) {
    const std::vector<Isa> all = allowed_isas(std::nullopt);
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.back(), Isa::portable);
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
    EXPECT_EQ(allowed_isas("portable"), std::vector<Isa>{Isa::portable});
    for (const Isa isa : all) EXPECT_EQ(allowed_isas(name(isa)).front(), isa);
    static int warnings;
    warnings = 0;
    carat::log::set_callback(
        [](carat_log_level, const char* text, void*) { warnings += std::strstr(text, "avx9000") != nullptr; }, nullptr,
        CARAT_LOG_WARN);
    EXPECT_EQ(allowed_isas("avx9000"), all);
    EXPECT_EQ(allowed_isas("avx9000"), all);
    carat::log::set_callback(nullptr, nullptr, CARAT_LOG_OFF);
    EXPECT_EQ(warnings, 1);
}

}  // namespace
}  // namespace carat::cpu
