// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_cpu.hpp"

#include <algorithm>

#include "cpu/fast.hpp"
#include "cpu/reference.hpp"
#include "dispatch/runtime.hpp"

namespace carat {
namespace {

void require_cpu(const Target& target, Requirements& r) {
    r.require(target.backend == CARAT_BACKEND_CPU,
              "it runs on the CPU, and this context's operands are in the memory of {}", target.full_name);
}

Config plain_config(const char* family, const Problem& p, int bm, int bn, int bk) {
    Config config;
    config.family = family;
    config.a = p.a.dtype, config.b = p.b.dtype, config.d = p.d.dtype;
    config.layout = p.layout();
    config.bm = bm, config.bn = bn, config.bk = bk;
    return config;
}

// ---- fast

using cpu::Isa;

template <Isa isa>
void fast_require(const Problem& p, const Target& target, Requirements& r) {
    require_cpu(target, r);
    const bool has_isa = std::find(target.isas.begin(), target.isas.end(), cpu::name(isa)) != target.isas.end();
    r.require(has_isa, "this CPU has no {} (or CARAT_CPU_ISA forbids it)", cpu::name(isa));
    cpu::fast_require(isa, p, r);
}

// The register tile of the micro-kernel and its block along K: what the name shows of a CPU configuration.
template <Isa isa>
std::vector<Config> fast_candidates(const Problem& p, const Target&) {
    const cpu::MicroTile tile = cpu::micro_tile(isa, p);
    return {plain_config(fmt::format("cpu_{}", cpu::name(isa)).c_str(), p, tile.m, tile.n, tile.k)};
}

// Share of the machine's peak that the packed kernels reach on large problems (bench/results/cpu), and how the narrower
// instruction sets compare with the widest.
template <Isa isa>
Prediction fast_predict(const Problem& p, const Config&, const Target& target) {
    constexpr double kEfficiency = 0.85;
    const double relative = isa == Isa::avx512_bf16 || isa == Isa::avx512 ? 1.0 : isa == Isa::avx2 ? 0.7 : 0.15;
    // Only the bf16 instruction set multiplies bf16 pairs; the others widen to f32 first.
    const double rate = isa == Isa::avx512_bf16  ? target.rate_tflops(p.a.dtype, p.b.dtype, p.compute)
                        : p.a.dtype == CARAT_F64 ? target.f64_tflops
                                                 : target.f32_tflops;
    const Floor floor = floor_of(p, target, p.has_c());
    const double compute_us = floor.flops / (rate * 1e6 * kEfficiency * relative);
    return compute_us > floor.memory_us ? Prediction{compute_us, "compute"} : Prediction{floor.memory_us, "memory"};
}

class FastExecutable : public Executable {
  public:
    FastExecutable(Isa isa, const Problem& problem, std::shared_ptr<cpu::ThreadPool> threads)
        : isa_(isa), problem_(problem), threads_(std::move(threads)) {}
    KernelFacts facts() const override { return built_in_facts(); }
    Status execute(const carat_operands& operands, void*) const override {
        return cpu::fast_execute(isa_, problem_, operands, *threads_);
    }

    static KernelFacts built_in_facts() {
        KernelFacts facts;
        facts.source = "built in";
        return facts;
    }

  private:
    Isa isa_;
    Problem problem_;
    std::shared_ptr<cpu::ThreadPool> threads_;
};

template <Isa isa>
Result<std::unique_ptr<Executable>> fast_prepare(const Problem& p, const Config&, Runtime& runtime) {
    return std::unique_ptr<Executable>(new FastExecutable(isa, p, runtime.threads));
}

// ---- reference

void reference_require(const Problem&, const Target& target, Requirements& r) {
    require_cpu(target, r);
}

std::vector<Config> reference_candidates(const Problem& p, const Target&) {
    return {plain_config("cpu_reference", p, 1, 1, 1)};
}

// About 0.3 G multiply-adds a second and thread: f64 sums over converted panels.
Prediction reference_predict(const Problem& p, const Config&, const Target& target) {
    constexpr double kMultiplyAddsPerUs = 300;
    return {double(p.m) * double(p.n) * double(p.k) * double(p.multiplicity()) /
                    (kMultiplyAddsPerUs * std::max(target.units, 1)) +
                1,
            "compute"};
}

class ReferenceExecutable : public Executable {
  public:
    ReferenceExecutable(const Problem& problem, std::shared_ptr<cpu::ThreadPool> threads)
        : problem_(problem), threads_(std::move(threads)) {}
    KernelFacts facts() const override { return FastExecutable::built_in_facts(); }
    Status execute(const carat_operands& operands, void*) const override {
        return cpu::reference_execute(problem_, operands, *threads_);
    }

  private:
    Problem problem_;
    std::shared_ptr<cpu::ThreadPool> threads_;
};

Result<std::unique_ptr<Executable>> reference_prepare(const Problem& p, const Config&, Runtime& runtime) {
    return std::unique_ptr<Executable>(new ReferenceExecutable(p, runtime.threads));
}

// The order of sums depends on K and the instruction set; the shortcut for few rows is not taken in this mode (cpu/fast.cpp).
// The reference adds in the order of K.
bool batch_invariant(const Problem&, const Config&) {
    return true;
}

template <Isa isa>
constexpr Row fast_row(const char* name, const char* summary, const char* source) {
    return {name,
            summary,
            source,
            CARAT_BACKEND_CPU,
            fast_require<isa>,
            fast_candidates<isa>,
            fast_predict<isa>,
            fast_prepare<isa>,
            nullptr,
            false,
            nullptr,
            batch_invariant};
}

}  // namespace

const Row kRowCpuAvx512Bf16 = fast_row<Isa::avx512_bf16>(
    "cpu_avx512_bf16", "Packed panels of bf16 pairs, AVX-512 BF16 dot products, f32 accumulation.",
    "src/cpu/isa_avx512_bf16.cpp");
const Row kRowCpuAvx512 =
    fast_row<Isa::avx512>("cpu_avx512", "Packed f32 or f64 panels, AVX-512 micro-kernel.", "src/cpu/isa_avx512.cpp");
const Row kRowCpuAvx2 =
    fast_row<Isa::avx2>("cpu_avx2", "Packed f32 or f64 panels, AVX2 micro-kernel.", "src/cpu/isa_avx2.cpp");
const Row kRowCpuPortable = fast_row<Isa::portable>("cpu_portable", "Packed f32 or f64 panels, plain C++ micro-kernel.",
                                                    "src/cpu/isa_portable.cpp");
const Row kRowCpuReference = {
    "cpu_reference",
    "The definition: f64 accumulation in plain loops, every type, epilogue, recipe, batch and group.",
    "src/cpu/reference.cpp",
    CARAT_BACKEND_CPU,
    reference_require,
    reference_candidates,
    reference_predict,
    reference_prepare,
    nullptr,
    false,
    nullptr,
    batch_invariant};

}  // namespace carat
