// SPDX-License-Identifier: Apache-2.0
// The streaming kernel on a real GPU: every number of rows, every configuration that the row has and rings of other
// lengths, odd sizes, layouts and places, every epilogue, swapped operands, the same bits again and again, and links of a
// chain that begin before their inputs are there.
#include "dispatch/rows_stream.hpp"
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

constexpr const char* kLayouts[] = {"nt", "nn", "tt", "tn"};
constexpr Types kTypes[] = {kBf16, {CARAT_F16, CARAT_F16}, {CARAT_BF16, CARAT_F32}, {CARAT_F16, CARAT_BF16}};

class GpuStream : public GpuTest {
  protected:
    void SetUp() override {
        GpuTest::SetUp();
        if (device_ == nullptr) return;
        Requirements requirements;
        kRowStream.require(make_problem(kBf16, 8, 8, 8, "nt"), runtime_.target, requirements);
        if (!requirements.ok()) GTEST_SKIP() << requirements.refusal();
    }

    std::vector<Kernel> kernels(const Problem& p) const {
        std::vector<Kernel> all;
        for (const Config& config : kRowStream.candidates(p, runtime_.target)) all.push_back({&kRowStream, config});
        EXPECT_FALSE(all.empty()) << describe(p);
        return all;
    }
    // One of them, another one each `turn`.
    std::vector<Kernel> one(const Problem& p, size_t turn) const {
        const std::vector<Kernel> all = kernels(p);
        return {all.at(turn % all.size())};
    }
};

// A case is compiled for its types, layout and epilogue, so that many sizes are few compilations.
TEST_F(GpuStream, EveryNumberOfRowsByOddSizes) {
    std::vector<CaseSpec> specs;
    for (int64_t m = 1; m <= 16; ++m)
        for (const auto& [n, k] : {std::array<int64_t, 2>{1, 1}, {7, 4097}, {577, 136}, {2112, 7168}, {4099, 1000}}) {
            const size_t turn = specs.size();
            Problem p = make_problem(kTypes[turn / 5 % 4], m, n, k, "nt", turn % 3 != 0);
            set_pitch(p, turn % 2 ? Pitch::eights : Pitch::odd);
            specs.push_back({p, Data::integers, 1, 0, turn % 4 < 2 ? Place::aligned : Place::one_off, kAllCandidates,
                             one(p, turn)});
        }
    expect_right(specs);
}

TEST_F(GpuStream, TailsOfK) {
    std::vector<CaseSpec> specs;
    for (const int64_t k : {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 511, 512, 513})
        for (const char* layout : {"nt", "nn"}) {
            const size_t turn = specs.size();
            Problem p = make_problem(kBf16, 1 + int64_t(turn) % 16, 600, k, layout);
            set_pitch(p, turn % 3 ? Pitch::packed : Pitch::eights);
            specs.push_back({p, Data::integers, 1, 0, turn % 4 < 2 ? Place::aligned : Place::one_off, kAllCandidates,
                             one(p, turn / 2)});
        }
    expect_right(specs);
}

TEST_F(GpuStream, EveryConfigurationInEveryLayout) {
    std::vector<CaseSpec> specs;
    for (const char* layout : kLayouts)
        for (const bool row_major : {true, false})
            for (const int64_t m : {5, 16}) {
                const size_t turn = specs.size();
                Problem p = make_problem(kTypes[turn % 4], m, 2600, 1032, layout, row_major);
                set_pitch(p, turn % 3 ? Pitch::eights : Pitch::odd);
                specs.push_back(
                    {p, Data::integers, 1, 0, turn % 2 ? Place::one_off : Place::aligned, kAllCandidates, kernels(p)});
            }
    expect_right(specs);
}

// Rings from the shortest to the longest, by their full names.
TEST_F(GpuStream, RingsOfAnyLength) {
    const Problem p = make_problem(kBf16, 7, 1031, 2048, "nt");
    std::vector<Kernel> all;
    for (const Kernel& kernel : kernels(p))
        for (Config config = kernel.config; const int stages : {2, 3, 5, 8, 13}) {
            config.stages = stages;
            if (kRowStream.has(p, config, runtime_.target)) all.push_back({&kRowStream, config});
        }
    EXPECT_GE(all.size(), 12u);
    expect_right({{p, Data::integers, 1, 0, Place::aligned, kAllCandidates, all}});
}

TEST_F(GpuStream, EpiloguesAndBatches) {
    std::vector<CaseSpec> specs;
    for (const carat_gate gate : {CARAT_GATE_NONE, CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT})
        for (const char* layout : {"nt", "nn"})
            for (const carat_dtype d : {CARAT_BF16, CARAT_F32, CARAT_E4M3, CARAT_S8}) {
                const size_t turn = specs.size();
                Problem p = make_problem({CARAT_BF16, d}, 3 + int64_t(turn) % 14, 514, 200, layout, turn % 3 != 0);
                p.epilogue.gate = gate;
                if (p.d.order == CARAT_ROW_MAJOR) p.d.ld = p.d_cols();
                set_pitch(p, turn % 2 ? Pitch::eights : Pitch::odd);
                if (turn % 2) set_batch(p, 3, 8);
                add_c(p, turn % 4 < 2 ? CARAT_F32 : CARAT_BF16);
                if (turn % 2) p.c.batch_stride = p.c.ld * (p.c.order == CARAT_ROW_MAJOR ? p.m : p.n);
                add_bias(p, turn % 5 < 3 ? CARAT_BIAS_N : CARAT_BIAS_M, CARAT_F32);
                p.epilogue.activation = turn % 2 ? CARAT_ACT_SILU : CARAT_ACT_GELU_ERF;
                p.epilogue.scalars_on_device = turn % 3 == 1;
                p.epilogue.amax = 1;
                p.epilogue.out_scale = bits(d) == 8 ? CARAT_OUT_SCALE_COMPUTED_1X128
                                       : turn % 2   ? CARAT_OUT_SCALE_ROW
                                                    : CARAT_OUT_SCALE_TENSOR;
                specs.push_back({p, Data::normal, turn % 7 == 6 ? 0 : 0.5, turn % 5 == 4 ? 0 : -2.0, Place::aligned,
                                 kAllCandidates, one(p, turn)});
            }
    expect_right(specs);
}

TEST_F(GpuStream, SwappedOperands) {
    std::vector<CaseSpec> specs;
    for (const char* layout : kLayouts)
        for (const auto& [m, n, k] : {std::array<int64_t, 3>{1301, 1, 200}, {520, 16, 1030}, {77, 9, 65}}) {
            const size_t turn = specs.size();
            Problem p = make_problem(kBf16, m, n, k, layout, turn % 2 == 0);
            set_pitch(p, turn % 3 == 2 ? Pitch::odd : Pitch::eights);
            add_c(p, turn % 4 < 2 ? CARAT_BF16 : CARAT_F32);
            add_bias(p, turn % 5 < 2 ? CARAT_BIAS_M : CARAT_BIAS_N);
            p.epilogue.activation = CARAT_ACT_RELU;
            specs.push_back({p, Data::integers, 1, 2, Place::aligned, kAllCandidates, one(p, turn)});
        }
    expect_right(specs);
}

TEST_F(GpuStream, TheSameBits50Times) {
    Problem p = make_problem({CARAT_F16, CARAT_F32}, 13, 2113, 7168, "nt");
    p.epilogue.activation = CARAT_ACT_SILU, p.epilogue.amax = 1;
    for (const Ready& ready : make_ready(kernels(p), p, runtime_)) {
        GemmCase gemm(p, Data::normal, 7, 1, 0, Place::aligned);
        std::vector<std::byte> bits;
        float amax = 0;
        expect_same_bits(ready, gemm, 50, bits, amax);
    }
}

// Two products in turn on one stream, each of which reads what the other one wrote: a kernel begins while the one before it
// ends, and must not read its A too early. What comes out is what comes out with a wait after each.
TEST_F(GpuStream, KernelsThatBeginBeforeTheirInputsAreThere) {
    const Problem first = make_problem(kBf16, 16, 1024, 1024, "nt");
    const Ready ready = std::move(make_ready(one(first, 0), first, runtime_).at(0));
    GemmCase gemm(first, Data::integers, 7, 1.0 / 64, 0, Place::aligned);
    const auto bits_after = [&](bool wait) {
        const DeviceCase there(*device_, gemm), back(*device_, gemm);
        carat_operands to = there.operands(gemm), from = to;
        from.a = to.d, from.d = back.operands(gemm).d;
        auto stream = device_->stream_create();
        EXPECT_TRUE(stream.ok()) << stream.status().sentence();
        const Watchdog watchdog;
        const auto execute = [&](const carat_operands& operands) {
            EXPECT_TRUE(ready.executable->execute(operands, *stream).ok());
            const Status waited = wait ? device_->stream_synchronize(*stream) : Status();
            EXPECT_TRUE(waited.ok()) << waited.sentence();
        };
        for (int i = 0; i < 100; ++i) {
            execute(to);
            execute(from);
            to.a = from.d;
        }
        EXPECT_TRUE(device_->stream_synchronize(*stream).ok());
        device_->stream_destroy(*stream);
        back.fetch(gemm);
        return gemm.d.elements();
    };
    EXPECT_TRUE(bits_after(true) == bits_after(false));
}

}  // namespace
}  // namespace carat::test
