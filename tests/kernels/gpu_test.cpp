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

// Compiling takes most of the time, so types that differ from bf16 in a constant or two see a part.
struct Variant {
    Types types;
    int every;            // of the eight combinations of a layout and D's order, one in so many
    bool all_candidates;  // or one a row and combination
};
constexpr Variant kVariants[] = {{kF32, 1, true},
                                 {kBf16, 1, true},
                                 {{CARAT_BF16, CARAT_F32}, 3, false},
                                 {{CARAT_F16, CARAT_F16}, 3, false},
                                 {{CARAT_F16, CARAT_F32}, 5, false}};

// Pairs of M and N such that `count` of them see every edge of both; K, pitch and place walk on their own.
void add_edges(std::vector<CaseSpec>& specs, const Variant& variant, int combination, size_t count) {
    constexpr size_t kCount = std::size(kEdges);
    for (size_t i = 0; i < count; ++i) {
        const size_t turn = i + size_t(combination) * 7;
        const int64_t m = kEdges[turn % kCount], n = kEdges[(turn * 5 + turn / kCount) % kCount];
        const int64_t k = kEdgesK[turn * 5 % std::size(kEdgesK)];
        CaseSpec spec = {make_problem(variant.types, m, n, k, kLayouts[combination / 2], combination % 2 == 0)};
        spec.turn = variant.all_candidates ? kAllCandidates : combination;
        set_pitch(spec.problem, kPitches[(turn / 2) % 4]);
        // Aligned more often than not where the pitch allows bulk copies.
        spec.place = turn % 5 < 3 ? Place::aligned : Place::one_off;
        specs.push_back(spec);
    }
}

TEST_F(GpuContract, EveryLayoutAtEveryEdgeIsExact) {
    std::vector<CaseSpec> specs;
    for (const Variant& variant : kVariants)
        for (int combination = 0; combination < 8; combination += variant.every)
            add_edges(specs, variant, combination, 2 * std::size(kEdges));
    expect_right(specs);
}

// What bulk copies can take, at sizes around the boxes: all three of K, the pitches and the pointers fit.
TEST_F(GpuContract, AlignedOperandsOfAnyExtentAreExact) {
    std::vector<CaseSpec> specs;
    for (const Types types : {kF32, kBf16})
        for (const int64_t m : {1, 64, 129, 300})
            for (const int64_t n : {8, 127, 256, 264, 513})
                for (const int64_t k : {8, 64, 72, 320}) {
                    const size_t turn = specs.size();
                    CaseSpec spec = {make_problem(types, m, n, k, kLayouts[turn % 4], turn / 4 % 3 != 0)};
                    set_pitch(spec.problem, Pitch::eights);
                    spec.place = Place::aligned;
                    specs.push_back(spec);
                }
    expect_right(specs);
}

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
    // C and the bias as wide as D, or f32 beside a narrow D.
    const carat_dtype other = variant % 4 < 2 ? p.d.dtype : CARAT_F32;
    if (variant % 2) add_c(p, other);
    if (variant % 3) add_bias(p, carat_bias(variant % 3), other);
    e.scalars_on_device = variant % 3 == 1;
    e.clamp = variant % 4 == 2, e.clamp_lo = -1.25f, e.clamp_hi = 3;
    e.out_scale = carat_out_scale(variant / 2 % 3);
    e.amax = variant / 3 % 2;
    return p;
}

TEST_F(GpuContract, EpiloguesInEveryCombination) {
    std::vector<CaseSpec> specs;
    const auto add = [&](Types types, carat_activation activation, carat_gate gate, int variant) {
        const Problem p = with_epilogue(types, activation, gate, variant);
        const Place place = variant % 4 == 1 ? Place::aligned : Place::one_off;
        specs.push_back({p, Data::normal, 0.5, p.has_c() && variant % 4 != 3 ? -0.75 : 0, place, variant});
    };
    for (int activation = CARAT_ACT_NONE; activation <= CARAT_ACT_SIGMOID; ++activation)
        for (int variant = 0; variant < 6; ++variant) {
            const auto act = carat_activation(activation);
            add(kF32, act, CARAT_GATE_NONE, variant + activation);
            if (activation > CARAT_ACT_RELU && variant > 2) continue;  // each is a compilation
            add(variant % 2 ? kBf16 : Types{CARAT_F16, CARAT_F16}, act, CARAT_GATE_NONE, variant + activation);
            add({CARAT_BF16, CARAT_F32}, act, CARAT_GATE_NONE, variant + activation + 1);
        }
    for (const carat_gate gate : {CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT})
        for (const carat_activation activation : {CARAT_ACT_SILU, CARAT_ACT_GELU_ERF, CARAT_ACT_GELU_TANH})
            for (int variant = 0; variant < 6; ++variant) add(kF32, activation, gate, variant);
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
