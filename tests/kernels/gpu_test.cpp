// SPDX-License-Identifier: Apache-2.0
// Every CUDA row on a real GPU: edges, layouts, epilogues, what must not be read, big offsets.
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

using GpuContract = GpuTest;

// Around every tile and box: 8, 16, 32, 64, 128 and 256.
constexpr int64_t kEdges[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257};
constexpr int64_t kEdgesK[] = {0, 1, 8, 15, 16, 17, 63, 64, 65, 127, 129, 200};
constexpr int64_t kPrimes[] = {2, 7, 53, 97, 131};
constexpr const char* kLayouts[] = {"nn", "nt", "tn", "tt"};
constexpr Pitch kPitches[] = {Pitch::eights, Pitch::odd, Pitch::packed, Pitch::even};

// A test case for each layout of each type, since compiling takes most of the time and processes share the cases. Types
// that differ from bf16 in a constant or two see a part of the layouts, and one candidate of each row.
struct Variant {
    Types types;
    int combination;  // of a layout and D's order, 0 to 7
    bool all_candidates;
};

std::vector<Variant> variants() {
    std::vector<Variant> all;
    const auto add = [&](Types types, int every, bool all_candidates) {
        for (int combination = 0; combination < 8; combination += every)
            all.push_back({types, combination, all_candidates});
    };
    add(kF32, 1, true);
    add(kBf16, 1, true);
    add({CARAT_BF16, CARAT_F32}, 3, false);
    add({CARAT_F16, CARAT_F16}, 3, false);
    add({CARAT_F16, CARAT_F32}, 5, false);
    return all;
}

std::string variant_name(const testing::TestParamInfo<Variant>& info) {
    const Variant& v = info.param;
    return fmt::format("{}_{}_{}_{}", name(v.types.in), name(v.types.out), kLayouts[v.combination / 2],
                       v.combination % 2 == 0 ? "row" : "column");
}

class GpuLayouts : public GpuTest, public testing::WithParamInterface<Variant> {
  protected:
    static CaseSpec spec_of(const Variant& v, int64_t m, int64_t n, int64_t k, Pitch pitch, Place place) {
        CaseSpec spec = {make_problem(v.types, m, n, k, kLayouts[v.combination / 2], v.combination % 2 == 0)};
        set_pitch(spec.problem, pitch);
        spec.place = place;
        spec.turn = v.all_candidates ? kAllCandidates : v.combination;
        return spec;
    }
};

// Pairs of M and N that together see every edge of both, twice; K, pitch and place walk on their own.
TEST_P(GpuLayouts, AreExactAtEveryEdge) {
    constexpr size_t kCount = std::size(kEdges);
    std::vector<CaseSpec> specs;
    for (size_t i = 0; i < 2 * kCount; ++i) {
        const size_t turn = i + size_t(GetParam().combination) * 7;
        const int64_t m = kEdges[turn % kCount], n = kEdges[(turn * 5 + turn / kCount) % kCount];
        const int64_t k = kEdgesK[turn * 5 % std::size(kEdgesK)];
        // Aligned more often than not where the pitch allows bulk copies.
        const Place place = turn % 5 < 3 ? Place::aligned : Place::one_off;
        specs.push_back(spec_of(GetParam(), m, n, k, kPitches[turn / 2 % 4], place));
    }
    // What bulk copies can take, at sizes around the boxes.
    for (const int64_t m : {1, 64, 129, 300})
        for (const int64_t n : {8, 127, 264, 513})
            specs.push_back(spec_of(GetParam(), m, n, m % 2 ? 320 : 72, Pitch::eights, Place::aligned));
    expect_right(specs);
}
INSTANTIATE_TEST_SUITE_P(Gpu, GpuLayouts, testing::ValuesIn(variants()), variant_name);

TEST_F(GpuContract, PrimesOfRandomDataStayWithinTheBound) {
    std::vector<CaseSpec> specs;
    for (const Types types : {kF32, kBf16, Types{CARAT_F16, CARAT_F16}, Types{CARAT_BF16, CARAT_F32}}) {
        const int turn = types.in == types.out && types.in != CARAT_F16 ? kAllCandidates : 1;
        for (const int64_t m : kPrimes)
            for (const int64_t k : kPrimes) {
                const char* layout = kLayouts[size_t(m + k) % 4];
                specs.push_back({make_problem(types, m, 89, k, layout), Data::normal, 0.75, 0, Place::one_off, turn});
            }
        specs.push_back({make_problem(types, 257, 509, 1021, "nt"), Data::normal, 1, 0, Place::one_off, turn});
        specs.push_back({make_problem(types, 264, 512, 1032, "nt"), Data::normal, -0.5, 0, Place::aligned, turn});
    }
    expect_right(specs);
}

// More tiles than any GPU holds blocks at once, so that a persistent kernel walks over several; odd counts of them.
TEST_F(GpuContract, SeveralTilesForEachBlock) {
    for (const Types types : {kF32, kBf16}) {
        Problem large = make_problem(types, 4500, 2900, 72, "nt"),
                batch = make_problem(types, 500, 700, 40, "tn", false);
        set_batch(batch, 33, 8);
        for (const Place place : {Place::aligned, Place::one_off})
            expect_right({{large, Data::integers, 1, 0, place}, {batch, Data::integers, 1, 0, place}});
    }
}

Problem with_epilogue(Types types, carat_activation activation, carat_gate gate, int variant) {
    Problem p = make_problem(types, 37, 70, 41, kLayouts[variant % 4], variant % 3 != 0);
    pad(p, 1 + variant % 2);
    if (variant % 4 == 1) set_pitch(p, Pitch::eights);
    carat_epilogue& e = p.epilogue;
    e.activation = activation;
    e.gate = gate;
    // C and the bias of D's type, or f32 beside a narrower D; no kernel reads those of 8 bits.
    const carat_dtype other = variant % 4 < 2 ? (bits(p.d.dtype) == 8 ? CARAT_F16 : p.d.dtype) : CARAT_F32;
    if (variant % 2) add_c(p, other);
    if (variant % 3) add_bias(p, carat_bias(variant % 3), other);
    e.scalars_on_device = variant % 3 == 1;
    e.clamp = variant % 4 == 2, e.clamp_lo = -1.25f, e.clamp_hi = 3;
    e.out_scale = carat_out_scale(variant / 2 % 3);
    e.amax = variant / 3 % 2;
    return p;
}

CaseSpec epilogue_case(Types types, carat_activation activation, carat_gate gate, int variant) {
    const Problem p = with_epilogue(types, activation, gate, variant);
    const Place place = variant % 4 == 1 ? Place::aligned : Place::one_off;
    return {p, Data::normal, 0.5, p.has_c() && variant % 4 != 3 ? -0.75 : 0, place, variant};
}

class GpuEpilogues : public GpuTest, public testing::WithParamInterface<int> {};

TEST_P(GpuEpilogues, InEveryCombination) {
    std::vector<CaseSpec> specs;
    const auto activation = carat_activation(GetParam());
    for (int variant = 0; variant < 6; ++variant) {
        const int turn = variant + activation;
        specs.push_back(epilogue_case(kF32, activation, CARAT_GATE_NONE, turn));
        if (activation > CARAT_ACT_RELU && variant > 2) continue;  // each is a compilation
        const Types narrow = variant % 2 ? kBf16 : Types{CARAT_F16, CARAT_F16};
        specs.push_back(epilogue_case(narrow, activation, CARAT_GATE_NONE, turn));
        specs.push_back(epilogue_case({CARAT_BF16, CARAT_F32}, activation, CARAT_GATE_NONE, turn + 1));
    }
    expect_right(specs);
}
INSTANTIATE_TEST_SUITE_P(Gpu, GpuEpilogues, testing::Range(int(CARAT_ACT_NONE), int(CARAT_ACT_SIGMOID) + 1));

TEST_F(GpuContract, GatedEpilogues) {
    std::vector<CaseSpec> specs;
    for (const carat_gate gate : {CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT})
        for (const carat_activation activation : {CARAT_ACT_SILU, CARAT_ACT_GELU_ERF, CARAT_ACT_GELU_TANH})
            for (int variant = 0; variant < 6; ++variant) {
                specs.push_back(epilogue_case(kF32, activation, gate, variant));
                if (variant % 2 == activation % 2) continue;  // each is a compilation
                specs.push_back(
                    epilogue_case(variant % 3 ? kBf16 : Types{CARAT_F16, CARAT_F32}, activation, gate, variant));
            }
    expect_right(specs);
}

// Of 16-bit operands, as far as the GPU can round to them.
std::vector<Types> narrow_types(const Target& target) {
    std::vector<Types> types = {{CARAT_BF16, CARAT_S8}};
    if (target.cc_major * 10 + target.cc_minor < 89) return types;
    types.push_back({CARAT_BF16, CARAT_E4M3});
    types.push_back({CARAT_F16, CARAT_E5M2});
    return types;
}

TEST_F(GpuContract, NarrowOutputs) {
    std::vector<CaseSpec> specs;
    for (const Types types : narrow_types(runtime_.target))
        for (int variant = 0; variant < 6; ++variant) {
            const carat_gate gate = variant < 3   ? CARAT_GATE_NONE
                                    : variant % 2 ? CARAT_GATE_INTERLEAVED
                                                  : CARAT_GATE_SPLIT;
            specs.push_back(epilogue_case(types, variant < 2 ? CARAT_ACT_NONE : CARAT_ACT_SILU, gate, variant));
            // Exact, and beyond the range of s8.
            Problem p = make_problem(types, 131, 264, 200, kLayouts[variant % 4], variant % 2 == 0);
            set_pitch(p, kPitches[variant % 4]);
            specs.push_back({p, Data::integers, 1, 0, variant % 3 ? Place::aligned : Place::one_off, variant});
        }
    expect_right(specs);
}

// Over whole blocks of 128 columns of D, and ends of 1 and of 72.
TEST_F(GpuContract, ComputedScales) {
    std::vector<CaseSpec> specs;
    for (const Types types : narrow_types(runtime_.target))
        for (const carat_gate gate : {CARAT_GATE_NONE, CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT})
            for (int variant = 0; variant < 3; ++variant) {
                const int64_t cols = variant == 0 ? 256 : variant == 1 ? 129 : 200;
                Problem p = make_problem(types, 130, gate == CARAT_GATE_NONE ? cols : 2 * cols, 72,
                                         kLayouts[variant % 4], variant != 1);
                p.epilogue.gate = gate;
                p.epilogue.activation = gate == CARAT_GATE_NONE ? CARAT_ACT_NONE : CARAT_ACT_SILU;
                p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
                p.epilogue.amax = variant == 2;
                if (variant == 2) set_batch(p, 3, 8);
                specs.push_back({p, Data::normal, 0.5, 0, variant ? Place::one_off : Place::aligned, variant});
            }
    expect_right(specs);
}

// The same on aligned operands of several tiles, where D may leave in bulk.
TEST_F(GpuContract, EpiloguesOfAlignedOperands) {
    std::vector<CaseSpec> specs;
    for (const Types types : {kBf16, Types{CARAT_BF16, CARAT_F32}})
        for (int variant = 0; variant < 6; ++variant) {
            Problem p = make_problem(types, 200, 328, 136, kLayouts[variant % 4], variant % 3 != 1);
            if (variant % 2) add_c(p);
            if (variant % 3) add_bias(p, carat_bias(variant % 3));
            p.epilogue.activation = variant > 3 ? CARAT_ACT_SILU : CARAT_ACT_RELU;
            p.epilogue.out_scale = carat_out_scale(variant % 3);
            p.epilogue.amax = variant / 2 % 2;
            specs.push_back(
                {p, variant > 3 ? Data::normal : Data::integers, 1, p.has_c() ? 2.0 : 0, Place::aligned, variant});
        }
    expect_right(specs);
}

class GpuNotRead : public GpuTest {
  protected:
    // Shapes with tails, one of them in a form that bulk copies can take.
    static std::vector<CaseSpec> cases(int64_t k) {
        std::vector<CaseSpec> specs;
        for (const Types types : {kF32, kBf16, Types{CARAT_F16, CARAT_F32}})
            for (const Place place : {Place::aligned, Place::one_off}) {
                CaseSpec spec = {make_problem(types, 65, 136, k, "nt")};
                if (place == Place::one_off) pad(spec.problem, 0);
                add_c(spec.problem);
                spec.place = place;
                if (types.in == CARAT_F16) spec.turn = 1;
                specs.push_back(spec);
            }
        return specs;
    }

    // Each candidate on a case that `change` has seen, with operands that `hide` may have nulled.
    template <class Change, class Hide>
    void expect_right_without(const CaseSpec& spec, const Change& change, const Hide& hide) {
        for (const Ready& ready : ready_kernels(spec.problem, spec.turn)) {
            GemmCase gemm(spec.problem, Data::integers, 7, spec.alpha, spec.beta, spec.place);
            change(gemm);
            const DeviceCase memory(*device_, gemm);
            carat_operands operands = memory.operands(gemm);
            hide(operands);
            EXPECT_EQ(check(ready, gemm, memory, operands), "");
        }
    }
};

TEST_F(GpuNotRead, CWhereBetaIsZero) {
    for (CaseSpec& spec : cases(40))
        for (const bool on_device : {false, true}) {
            spec.problem.epilogue.scalars_on_device = on_device;
            const auto poison = [&](GemmCase& gemm) { gemm.c.fill(nan_bits(gemm.problem.c.dtype)); };
            expect_right_without(spec, poison, [](carat_operands&) {});
            expect_right_without(spec, poison, [](carat_operands& operands) { operands.c = nullptr; });
        }
}

TEST_F(GpuNotRead, AAndBWhereAlphaOrKIsZero) {
    for (const int64_t k : {int64_t(0), int64_t(40)})
        for (CaseSpec& spec : cases(k))
            for (const bool on_device : {false, true}) {
                spec.problem.epilogue.scalars_on_device = on_device;
                spec.alpha = k == 0 ? 1 : 0, spec.beta = -2;
                const auto poison = [&](GemmCase& gemm) {
                    if (k == 0) return;
                    gemm.a.fill(nan_bits(gemm.problem.a.dtype)), gemm.b.fill(nan_bits(gemm.problem.b.dtype));
                };
                expect_right_without(spec, poison, [](carat_operands& o) { o.a = o.b = nullptr; });
                // With pointers, too: a kernel may not conclude it from null.
                expect_right_without(spec, poison, [](carat_operands&) {});
            }
}

TEST_F(GpuNotRead, AnythingOfAnEmptyProblem) {
    for (const Types types : {kF32, kBf16})
        for (const Problem& p :
             {make_problem(types, 0, 5, 5), make_problem(types, 5, 0, 5), make_problem(types, 0, 0, 0)})
            for (const Ready& ready : ready_kernels(p)) {
                carat_operands nothing{};
                EXPECT_EQ(run(*ready.executable, *device_, nothing), "");
            }
}

TEST_F(GpuNotRead, DMayBeC) {
    for (CaseSpec& spec : cases(40)) {
        spec.alpha = 2, spec.beta = -1;
        spec.problem.c.ld = spec.problem.d.ld;
        const auto merge = [](GemmCase& gemm) { gemm.start_d_as_c(); };
        expect_right_without(spec, merge, [](carat_operands& operands) { operands.c = operands.d; });
    }
}

TEST_F(GpuContract, BatchesBeyondGridLimits) {
    for (const Types types : {kF32, kBf16, Types{CARAT_F16, CARAT_F32}}) {
        Problem p = make_problem(types, 3, 2, 5, "nt");
        set_batch(p, 65537, 1);
        p.epilogue.amax = 1;
        add_bias(p, CARAT_BIAS_N);
        p.epilogue.bias_batch_stride = 2;
        CaseSpec spec = {p};
        if (types.in == CARAT_F16) spec.turn = 0;
        expect_right({spec});
        spec.problem.b.batch_stride = 0;
        expect_right({spec});
    }
}

TEST_F(GpuContract, BatchesOfBulkCopies) {
    std::vector<CaseSpec> specs;
    for (const char* layout : kLayouts)
        for (const bool shared_b : {false, true}) {
            Problem p = make_problem(kBf16, 72, 136, 80, layout);
            set_batch(p, 5, 16);
            if (shared_b) p.b.batch_stride = 0;
            specs.push_back({p, Data::integers, 1, 0, Place::aligned});
        }
    expect_right(specs);
}

}  // namespace
}  // namespace carat::test
