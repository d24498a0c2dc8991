// SPDX-License-Identifier: Apache-2.0
// cpu_peers.cpp: the fast CPU backend beside OpenBLAS and oneDNN on one core: square products of random normal data,
// D in f32. Every contestant's result is checked against sampled f64 dot products before it is timed.
// tools/cpu_bench.sh runs it the right way: pinned, interleaved, without the variables that make OpenBLAS slower.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/convert.hpp"
#include "cpu/fast.hpp"

#if CARAT_HAVE_OPENBLAS
#include <cblas.h>
extern "C" char* openblas_get_config();
extern "C" char* openblas_get_corename();
#endif
#if CARAT_HAVE_ONEDNN
#include <dnnl.hpp>
#endif

namespace {

using carat::cpu::Isa;

// A [n, n] row-major; B [n, n] column-major ("nt") or row-major ("nn").
struct Data {
    int64_t n;
    std::vector<float> a, b, d;
    std::vector<uint16_t> a16, b16;

    explicit Data(int64_t size) : n(size), a(size_t(n * n)), b(a.size()), d(a.size()), a16(a.size()), b16(a.size()) {
        std::mt19937_64 engine{uint64_t(n)};
        std::normal_distribution<float> normal;
        // Values that bf16 holds, so that both types compute the same product.
        for (size_t i = 0; i < a.size(); ++i) {
            a[i] = carat::f32_from_bf16(a16[i] = carat::bf16_from_f32(normal(engine)));
            b[i] = carat::f32_from_bf16(b16[i] = carat::bf16_from_f32(normal(engine)));
        }
    }
    // The largest error of 200 entries, relative to sum |a||b|.
    double error(bool nt) const {
        std::mt19937_64 engine{7};
        double worst = 0;
        for (int sample = 0; sample < 200; ++sample) {
            const int64_t i = int64_t(engine() % uint64_t(n)), j = int64_t(engine() % uint64_t(n));
            double sum = 0, magnitude = 0;
            for (int64_t k = 0; k < n; ++k) {
                const double product = double(a[size_t(i * n + k)]) * b[size_t(nt ? j * n + k : k * n + j)];
                sum += product;
                magnitude += std::fabs(product);
            }
            const double error = std::fabs(d[size_t(i * n + j)] - sum) / magnitude;
            if (!(error <= worst)) worst = error;
        }
        return worst;
    }
};

Data& data_of(int64_t n) {
    static std::map<int64_t, std::unique_ptr<Data>> all;
    std::unique_ptr<Data>& data = all[n];
    if (!data) data = std::make_unique<Data>(n);
    return *data;
}

// `run` computes data.d once.
template <class F>
void time_it(benchmark::State& state, Data& data, bool nt, F run) {
    std::fill(data.d.begin(), data.d.end(), NAN);
    run();
    if (const double error = data.error(nt); !(error < 1e-6)) {
        state.SkipWithError(("wrong result, relative error " + std::to_string(error)).c_str());
        return;
    }
    for (auto _ : state) run();
    const double flops = 2.0 * double(data.n) * double(data.n) * double(data.n);
    state.counters["GFLOPS"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void carat_product(benchmark::State& state, Isa isa, bool bf16, bool nt) {
    Data& data = data_of(state.range(0));
    const int64_t n = data.n;
    const carat_dtype dtype = bf16 ? CARAT_BF16 : CARAT_F32;
    carat::Problem p{};
    p.batch = 1, p.m = p.n = p.k = n;
    p.a = {dtype, CARAT_ROW_MAJOR, n, 0}, p.b = {dtype, nt ? CARAT_COL_MAJOR : CARAT_ROW_MAJOR, n, 0};
    p.c = {CARAT_NONE, CARAT_ROW_MAJOR, n, 0}, p.d = {CARAT_F32, CARAT_ROW_MAJOR, n, 0};
    carat::Operands o{};
    o.a = bf16 ? static_cast<const void*>(data.a16.data()) : data.a.data();
    o.b = bf16 ? static_cast<const void*>(data.b16.data()) : data.b.data();
    o.d = data.d.data();
    o.alpha = 1;
    carat::cpu::ThreadPool one(1);
    time_it(state, data, nt, [&] {
        if (!carat::cpu::fast_execute(isa, p, o, one).ok()) state.SkipWithError("fast_execute failed");
    });
}

#if CARAT_HAVE_OPENBLAS
void openblas_product(benchmark::State& state, bool nt) {
    Data& data = data_of(state.range(0));
    const int n = int(data.n);
    time_it(state, data, nt, [&] {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, nt ? CblasTrans : CblasNoTrans, n, n, n, 1, data.a.data(), n,
                    data.b.data(), n, 0, data.d.data(), n);
    });
}
#endif

#if CARAT_HAVE_ONEDNN
void onednn_product(benchmark::State& state, bool bf16, bool nt) {
    using dnnl::memory;
    Data& data = data_of(state.range(0));
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    const memory::dims size = {data.n, data.n};
    const auto type = bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const auto b_tag = nt ? memory::format_tag::ba : memory::format_tag::ab;
    const memory::desc a_desc(size, type, memory::format_tag::ab), b_desc(size, type, b_tag);
    const memory::desc d_desc(size, memory::data_type::f32, memory::format_tag::ab);
    memory a(a_desc, engine, bf16 ? static_cast<void*>(data.a16.data()) : data.a.data());
    memory b(b_desc, engine, bf16 ? static_cast<void*>(data.b16.data()) : data.b.data());
    memory d(d_desc, engine, data.d.data());
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a_desc, b_desc, d_desc), engine);
    state.SetLabel(description.impl_info_str());
    const dnnl::matmul product(description);
    time_it(state, data, nt, [&] {
        product.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, d}});
        stream.wait();
    });
}
#endif

template <class F>
void add(const std::string& name, F run) {
    for (const int64_t n : {1024, 1536, 2048}) {
        // About 60 ms a repetition; many repetitions in random order are worth more than long ones.
        const int64_t iterations = n == 1024 ? 3 : 1;
        benchmark::RegisterBenchmark(name.c_str(), run)->Arg(n)->Iterations(iterations)->Unit(benchmark::kMillisecond);
    }
}

void register_all() {
    for (const bool nt : {true, false}) {
        const std::string layout = nt ? "/nt" : "/nn";
        for (const Isa isa : carat::cpu::supported_isas()) {
            const bool bf16 = isa == Isa::avx512_bf16;
            add(std::string(bf16 ? "bf16/carat_" : "f32/carat_") + carat::cpu::name(isa) + layout,
                [=](benchmark::State& state) { carat_product(state, isa, bf16, nt); });
        }
#if CARAT_HAVE_OPENBLAS
        add("f32/openblas" + layout, [=](benchmark::State& state) { openblas_product(state, nt); });
#endif
#if CARAT_HAVE_ONEDNN
        add("f32/onednn" + layout, [=](benchmark::State& state) { onednn_product(state, false, nt); });
        add("bf16/onednn" + layout, [=](benchmark::State& state) { onednn_product(state, true, nt); });
#endif
    }
}

void describe_machine() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name")) {
            benchmark::AddCustomContext("cpu", line.substr(line.find(": ") + 2));
            break;
        }
    }
    benchmark::AddCustomContext("carat",
                                fmt::format("{}.{}.{}", CARAT_VERSION_MAJOR, CARAT_VERSION_MINOR, CARAT_VERSION_PATCH));
#if CARAT_HAVE_OPENBLAS
    benchmark::AddCustomContext("openblas", std::string(openblas_get_config()) + " core " + openblas_get_corename());
#endif
#if CARAT_HAVE_ONEDNN
    const dnnl_version_t* version = dnnl_version();
    benchmark::AddCustomContext("onednn", fmt::format("{}.{}.{}", version->major, version->minor, version->patch));
#endif
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    describe_machine();
    register_all();
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
