// SPDX-License-Identifier: Apache-2.0
// Sixteen threads on one context: they plan, execute, explain and destroy, each problem in turn with its neighbours, and every
// result is right. On the CPU here; on one GPU, and on two at once, where there are some. For a build with
// -DCARAT_SANITIZE=thread, too.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "carat/carat.hpp"

namespace {

constexpr int kThreads = 16, kRounds = 12;

// A problem with its operands and the exact result: of small integers, D of f32.
struct Work {
    carat_problem problem;
    std::vector<uint16_t> a16, b16;  // bf16 as its upper half of an f32
    std::vector<float> a, b, want;
};

uint16_t bf16(float value) {
    uint32_t bits;
    static_assert(sizeof bits == sizeof value);
    std::memcpy(&bits, &value, sizeof bits);
    return uint16_t(bits >> 16);  // exact for small integers
}

Work make_work(int64_t m, int64_t n, int64_t k, carat_dtype dtype, bool relu) {
    Work work{carat::gemm_problem(m, n, k, dtype, "nt"), {}, {}, {}, {}, std::vector<float>(size_t(m * n))};
    work.problem.d.dtype = CARAT_F32;
    if (relu) work.problem.epilogue.activation = CARAT_ACT_RELU;
    std::mt19937 random(unsigned(m * 7919 + n * 31 + k));
    for (auto [values, halves, count] : {std::tuple(&work.a, &work.a16, m * k), std::tuple(&work.b, &work.b16, n * k)})
        for (int64_t i = 0; i < count; ++i) {
            values->push_back(float(int(random() % 7) - 3));
            halves->push_back(bf16(values->back()));
        }
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int64_t x = 0; x < k; ++x) sum += work.a[size_t(i * k + x)] * work.b[size_t(j * k + x)];
            work.want[size_t(i * n + j)] = relu ? std::max(sum, 0.0f) : sum;
        }
    return work;
}

std::vector<Work> all_work() {
    std::vector<Work> all;
    for (const carat_dtype dtype : {CARAT_F32, CARAT_BF16})
        for (const auto& [m, n, k] : {std::tuple(1, 96, 64), std::tuple(17, 40, 72), std::tuple(130, 136, 64)})
            for (const bool relu : {false, true}) all.push_back(make_work(m, n, k, dtype, relu));
    return all;
}

// One turn of a thread: by a plan of its own, or by the one call; "" or what is wrong.
std::string run_once(const carat::Context& context, const carat::Stream& stream, const Work& work, bool planned) {
    const bool half = work.problem.a.dtype == CARAT_BF16;
    const auto upload = [&](const void* values, size_t bytes) {
        carat::Buffer buffer(context, bytes);
        buffer.upload(values, bytes);
        return buffer;
    };
    const auto a = half ? upload(work.a16.data(), work.a16.size() * 2) : upload(work.a.data(), work.a.size() * 4);
    const auto b = half ? upload(work.b16.data(), work.b16.size() * 2) : upload(work.b.data(), work.b.size() * 4);
    std::vector<float> got(work.want.size(), NAN);
    carat::Buffer d = upload(got.data(), got.size() * 4);
    carat::Operands operands = {.a = a.data(), .b = b.data(), .d = d.data()};
    if (planned) {
        const carat::Plan plan = context.plan(work.problem);
        carat::Buffer workspace(context, plan.workspace_bytes() + 1);
        operands.workspace = workspace.data(), operands.workspace_bytes = workspace.size();
        plan.execute(operands, stream.get());
        stream.synchronize();
    } else {
        gemm(context, work.problem, operands, stream.get());
        stream.synchronize();
    }
    d.download(got.data(), got.size() * 4);
    return got == work.want ? "" : "a result is wrong: " + context.plan(work.problem).kernel();
}

std::string run_thread(const carat::Context& context, const std::vector<Work>& all, int thread) try {
    const carat::Stream stream(context);
    for (int round = 0; round < kRounds; ++round) {
        const Work& work = all[size_t(round * 5 + thread) % all.size()];
        if (std::string error = run_once(context, stream, work, (round + thread) % 2 == 0); !error.empty())
            return error;
        if (round % 4 == 0 && context.explain(work.problem).empty()) return "an explanation is empty";
    }
    return "";
} catch (const carat::Error& error) {
    return error.what();
}

void stress(const std::vector<const carat::Context*>& contexts) {
    const std::vector<Work> all = all_work();
    std::vector<std::string> errors(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back(
            [&, t] { errors[size_t(t)] = run_thread(*contexts[size_t(t) % contexts.size()], all, t); });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) EXPECT_EQ(error, "");
}

carat::Context open(carat_backend backend, int device = -1) {
    carat_context_options options = carat::Context::default_options();
    options.backend = backend, options.device = device;
    return carat::Context(options);
}

// Null where there is no such GPU.
std::optional<carat::Context> open_gpu(int device) try {
    return open(CARAT_BACKEND_CUDA, device);
} catch (const carat::Error&) {
    return std::nullopt;
}

TEST(Stress, OneContextOfTheCpu) {
    const carat::Context context = open(CARAT_BACKEND_CPU);
    stress({&context});
}

TEST(Stress, OneGpu) {
    const auto gpu = open_gpu(0);
    if (!gpu) GTEST_SKIP() << "no GPU: " << carat_last_error();
    stress({&*gpu});
}

TEST(Stress, TwoGpus) {
    const auto first = open_gpu(0), second = open_gpu(1);
    if (!first || !second) GTEST_SKIP() << "no two GPUs: " << carat_last_error();
    stress({&*first, &*second});
}

}  // namespace
