// SPDX-License-Identifier: Apache-2.0
// The C ABI and its C++ layer as a user meets them, on the CPU: plans, one-call gemm, the BLAS-like shim, errors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "carat/carat.hpp"

namespace {

carat_context_options cpu_options() {
    carat_context_options options = carat::Context::default_options();
    options.backend = CARAT_BACKEND_CPU;
    return options;
}

std::vector<float> integers(size_t count, int seed) {
    std::mt19937 random(seed);
    std::vector<float> values(count);
    for (float& value : values) value = float(int(random() % 9) - 4);
    return values;
}

// Row-major A [m,k] times B [k,n].
std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, int64_t m, int64_t n, int64_t k) {
    std::vector<float> d(m * n);
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t x = 0; x < k; ++x) sum += double(a[i * k + x]) * b[x * n + j];
            d[i * n + j] = float(sum);
        }
    return d;
}

TEST(Api, PlansAndExecutes) {
    carat::Context context(cpu_options());
    EXPECT_EQ(context.backend(), CARAT_BACKEND_CPU);
    const auto a = integers(5 * 9, 1), b = integers(9 * 7, 2);
    std::vector<float> d(5 * 7, NAN);
    const carat::Plan plan = context.plan(carat::gemm_problem(5, 7, 9, CARAT_F32));
    EXPECT_GT(plan.predicted_us(), 0);
    plan.execute({.a = a.data(), .b = b.data(), .d = d.data()});
    EXPECT_EQ(d, product(a, b, 5, 7, 9));
}

TEST(Api, ForcesAKernelAndNamesUnknownOnes) {
    carat::Context context(cpu_options());
    const auto problem = carat::gemm_problem(5, 7, 9, CARAT_F32);
    EXPECT_EQ(context.plan(problem, "cpu_reference").kernel(), "cpu_reference_f32_f32_f32_nn_1x1x1");
    EXPECT_EQ(context.plan(problem, "cpu_reference_f32_f32_f32_nn_1x1x1").kernel(),
              "cpu_reference_f32_f32_f32_nn_1x1x1");
    try {
        context.plan(problem, "no_such_kernel");
        FAIL() << "an unknown kernel was accepted";
    } catch (const carat::Error& error) {
        EXPECT_EQ(error.status(), CARAT_INVALID_VALUE);
        EXPECT_NE(std::string(error.what()).find("cpu_reference"), std::string::npos) << error.what();
    }
    try {
        context.plan(problem, "v0_naive");
        FAIL() << "a CUDA kernel was accepted on the CPU";
    } catch (const carat::Error& error) {
        EXPECT_EQ(error.status(), CARAT_NOT_SUPPORTED);
    }
}

// All storage orders and transposes of the shim against the plain product, in place on C with beta.
TEST(Api, SgemmIsBlas) {
    const int64_t m = 6, n = 5, k = 7;
    const auto a = integers(m * k, 3), b = integers(k * n, 4), c = integers(m * n, 5);
    const auto expected = product(a, b, m, n, k);
    carat::Context context(cpu_options());
    const auto store = [](const std::vector<float>& x, int64_t rows, int64_t cols, bool col_major, int64_t ld) {
        std::vector<float> out((col_major ? cols : rows) * ld, NAN);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < cols; ++j) out[col_major ? j * ld + i : i * ld + j] = x[i * cols + j];
        return out;
    };
    for (const bool col_major : {false, true})
        for (const bool trans_a : {false, true})
            for (const bool trans_b : {false, true}) {
                const bool a_col = col_major != trans_a, b_col = col_major != trans_b;
                const int64_t lda = (a_col ? m : k) + 3, ldb = (b_col ? k : n) + 1, ldc = (col_major ? m : n) + 2;
                const auto a_in = store(a, m, k, a_col, lda), b_in = store(b, k, n, b_col, ldb);
                auto c_io = store(c, m, n, col_major, ldc);
                const auto transpose = [](bool t) { return t ? CARAT_TRANS : CARAT_NO_TRANS; };
                const carat_order order = col_major ? CARAT_COL_MAJOR : CARAT_ROW_MAJOR;
                ASSERT_EQ(carat_sgemm(context.get(), order, transpose(trans_a), transpose(trans_b), m, n, k, 2,
                                      a_in.data(), lda, b_in.data(), ldb, -3, c_io.data(), ldc, nullptr),
                          CARAT_SUCCESS)
                    << carat_last_error();
                for (int64_t i = 0; i < m; ++i)
                    for (int64_t j = 0; j < n; ++j)
                        ASSERT_EQ(c_io[col_major ? j * ldc + i : i * ldc + j],
                                  2 * expected[i * n + j] - 3 * c[i * n + j])
                            << col_major << trans_a << trans_b;
            }
}

TEST(Api, ShimRefusesBadArguments) {
    carat::Context context(cpu_options());
    float x = 0;
    const auto call = [&](carat_order order, carat_transpose trans_a, int64_t lda) {
        return carat_sgemm(context.get(), order, trans_a, CARAT_NO_TRANS, 1, 1, 1, 1, &x, lda, &x, 1, 0, &x, 1,
                           nullptr);
    };
    EXPECT_EQ(call(carat_order(1), CARAT_NO_TRANS, 1), CARAT_INVALID_VALUE);
    EXPECT_EQ(call(CARAT_ROW_MAJOR, carat_transpose(5), 1), CARAT_INVALID_VALUE);
    EXPECT_NE(std::string(carat_last_error()).find("trans_a is 5"), std::string::npos);
    EXPECT_EQ(call(CARAT_ROW_MAJOR, CARAT_NO_TRANS, 0), CARAT_INVALID_VALUE);
}

TEST(Api, EveryCallRefusesNull) {
    EXPECT_EQ(carat_context_create(nullptr, nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_context_options_init(nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_problem_init(nullptr, 1, 1, 1, CARAT_F32, "nn"), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_operands_init(nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_plan_create(nullptr, nullptr, nullptr, nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_plan_execute(nullptr, nullptr, nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_gemm(nullptr, nullptr, nullptr, nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_tuning(nullptr, nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_tuning_read(nullptr, nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_tuning_candidates(nullptr, nullptr, nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_list(nullptr), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_memory_alloc(nullptr, 1, nullptr), CARAT_INVALID_VALUE);
    carat_context_destroy(nullptr);
    carat_plan_destroy(nullptr);
    carat_text_destroy(nullptr);
    carat_graph_destroy(nullptr);
}

TEST(Api, StatusTableIsComplete) {
    for (int value = CARAT_SUCCESS; value <= CARAT_INTERNAL_ERROR; ++value) {
        EXPECT_EQ(std::string(carat_status_name(carat_status(value))).substr(0, 6), "CARAT_");
        EXPECT_GT(std::string(carat_status_sentence(carat_status(value))).size(), 10u);
    }
    EXPECT_STREQ(carat_status_name(carat_status(77)), "CARAT_UNKNOWN_STATUS");
}

TEST(Api, LastErrorBelongsToTheThread) {
    ASSERT_EQ(carat_problem_init(nullptr, 1, 1, 1, CARAT_F32, "nn"), CARAT_INVALID_VALUE);
    const std::string mine = carat_last_error();
    std::string other = "unset";
    std::thread([&] { other = carat_last_error(); }).join();
    EXPECT_NE(mine, "");
    EXPECT_EQ(other, "");
}

TEST(Api, OneContextServesManyThreads) {
    carat::Context context(cpu_options());
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 16; ++t)
        threads.emplace_back([&, t] {
            for (int round = 0; round < 20; ++round) {
                const int64_t m = 1 + (t + round) % 7, n = 9, k = 5 + round % 3;
                const auto a = integers(m * k, t), b = integers(k * n, round);
                std::vector<float> d(m * n, NAN);
                carat::gemm(context, carat::gemm_problem(m, n, k, CARAT_F32),
                            {.a = a.data(), .b = b.data(), .d = d.data()});
                if (d != product(a, b, m, n, k)) ++wrong;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

TEST(Api, VerifiesAResultAndFindsAWrongOne) {
    carat::Context context(cpu_options());
    const auto a = integers(64 * 64, 6), b = integers(64 * 64, 7);
    std::vector<float> d(64 * 64);
    const auto problem = carat::gemm_problem(64, 64, 64, CARAT_F32);
    const carat::Operands operands = {.a = a.data(), .b = b.data(), .d = d.data()};
    carat::gemm(context, problem, operands);
    const auto right = context.verify(problem, operands);
    EXPECT_TRUE(right.ok);
    EXPECT_LE(right.error, right.bound);
    d[5 * 64 + 9] += 1;
    const auto wrong = context.verify(problem, operands);
    EXPECT_FALSE(wrong.ok);
    EXPECT_EQ(wrong.bad_row, 5);
    EXPECT_EQ(wrong.bad_col, 9);
}

// A target needs no GPU: what an H200 would run can be planned and explained anywhere, and only that.
TEST(Api, PlansForAGpuThatIsNotHere) {
    carat_context_options options = carat::Context::default_options();
    options.target = "h200";
    options.cache_dir = "";
    carat::Context context(options);
    const auto json = nlohmann::json::parse(context.explain(carat::gemm_problem(512, 512, 512, CARAT_F32)));
    EXPECT_EQ(json["schema"], "carat.explain/1");
    EXPECT_EQ(json["target"], "h200");
    EXPECT_EQ(json["chosen"]["row"], "v3_double_buffer");
    for (const auto& row : json["rows"]) {
        if (row["backend"] != "cpu") continue;
        EXPECT_NE(row["refusal"].get<std::string>().find("runs on the CPU"), std::string::npos);
    }
    void* memory = nullptr;
    EXPECT_EQ(carat_memory_alloc(context.get(), 16, &memory), CARAT_NOT_INITIALIZED);

    options.target = "h9000";
    carat_context_t none = nullptr;
    EXPECT_EQ(carat_context_create(&options, &none), CARAT_INVALID_VALUE);
    EXPECT_NE(std::string(carat_last_error()).find("h200"), std::string::npos) << "the sentence lists the known names";
}

// A tile of sm90_ws counts B's columns, one of mma D's: both take 128 rows of A and 128 columns of B here, 64 FLOP a byte.
TEST(Api, ATileUnderAGateHasTheIntensityOfItsColumnsOfB) {
    carat_context_options options = carat::Context::default_options();
    options.target = "h200";
    const carat::Context context(options);
    carat_problem problem = carat::gemm_problem(4096, 4096, 4096, CARAT_BF16, "nt");
    problem.epilogue.gate = CARAT_GATE_SPLIT;
    problem.epilogue.activation = CARAT_ACT_SILU;
    int seen = 0;
    const auto json = nlohmann::json::parse(context.explain(problem));
    for (const auto& row : json["rows"])
        for (const auto& candidate : row["candidates"]) {
            const auto& tile = candidate["tile"];
            const int cols_of_b = int(tile["bn"]) * (row["row"] == "mma" ? 2 : 1);
            if (tile["bm"] != 128 || cols_of_b != 128 || (tile["cluster_m"] == 2 || tile["cluster_n"] == 2)) continue;
            EXPECT_DOUBLE_EQ(candidate["intensity"], 64) << candidate["kernel"];
            ++seen;
        }
    EXPECT_GE(seen, 2);
}

TEST(Api, ReportsWhatAPlanForAGpuIsMadeOf) {
    carat_context_options options = carat::Context::default_options();
    options.target = "h200";
    options.cache_dir = "";
    carat::Context context(options);
    nlohmann::json json;
    try {
        json = nlohmann::json::parse(context.plan(carat::gemm_problem(512, 512, 512, CARAT_F32), "v1_shared").report());
    } catch (const carat::Error& error) {
        if (error.status() != CARAT_COMPILE_FAILED) throw;
        GTEST_SKIP() << "there is no NVRTC here: " << error.what();
    }
    EXPECT_EQ(json["schema"], "carat.plan/1");
    EXPECT_EQ(json["row"], "v1_shared");
    EXPECT_EQ(json["target"], "h200");
    const int side = json["tile"]["bm"];
    EXPECT_EQ(json["kernel"], fmt::format("v1_shared_f32_f32_f32_nn_{0}x{0}x{0}", side));
    EXPECT_DOUBLE_EQ(json["intensity"], side / 4.0);
    EXPECT_TRUE(json["tile"]["cluster_m"].is_null());
    EXPECT_EQ(json["threads"], side * side);
    EXPECT_EQ(json["spill_bytes"], 0);
    EXPECT_TRUE(json["warnings"].is_null());
    EXPECT_EQ(json["refused"], nlohmann::json::array());
    EXPECT_GT(json["registers"], 16);
    EXPECT_GT(json["static_shared_bytes"].get<int>() + json["dynamic_shared_bytes"].get<int>(),
              2 * 4 * side * side - 1);
    EXPECT_GE(json["blocks_per_unit"], 2);
    EXPECT_DOUBLE_EQ(json["occupancy"], json["blocks_per_unit"].get<int>() * side * side / 2048.0);
    EXPECT_EQ(json["compiled_from"], "compiled");
    EXPECT_GT(json["compile_ms"], 0);
    EXPECT_GT(json["predicted_us"], 0);
    EXPECT_EQ(json["workspace_bytes"], 0);
}

TEST(Api, ReportsOfCpuAndEmptyPlansSayWhatIsNotThere) {
    carat::Context context(cpu_options());
    for (const int64_t m : {5, 0}) {
        const auto json =
            nlohmann::json::parse(context.plan(carat::gemm_problem(m, 7, 9, CARAT_F32), "cpu_reference").report());
        EXPECT_EQ(json["kernel"], "cpu_reference_f32_f32_f32_nn_1x1x1");
        for (const char* name : {"threads", "registers", "blocks_per_unit", "occupancy", "compile_ms", "intensity"})
            EXPECT_TRUE(json.contains(name) && json[name].is_null()) << name;
    }
    EXPECT_EQ(carat_plan_report(nullptr, nullptr), CARAT_INVALID_VALUE);
    const carat::Plan plan = context.plan(carat::gemm_problem(5, 7, 9, CARAT_F32));
    EXPECT_EQ(carat_plan_report(plan.get(), nullptr), CARAT_INVALID_VALUE);
}

TEST(Api, KnowsTheLimitsOfADevice) {
    carat_context_options options = carat::Context::default_options();
    options.target = "h200";
    const auto h200 = nlohmann::json::parse(carat::Context(options).limits());
    EXPECT_EQ(h200["schema"], "carat.limits/1");
    EXPECT_EQ(h200["device"], "NVIDIA H200");
    EXPECT_NEAR(h200["memory_tb_per_s"], 4.59, 0.01);
    EXPECT_NEAR(h200["rates"]["f16"]["memory_ridge"], 800 / 4.594, 0.1);
    options.target = "a100";
    const auto a100 = nlohmann::json::parse(carat::Context(options).limits());
    EXPECT_TRUE(a100["l2_tb_per_s"].is_null()) << "nobody measured it";
    EXPECT_TRUE(a100["rates"]["fp8"]["tflops"].is_null());
    EXPECT_EQ(nlohmann::json::parse(carat::Context(cpu_options()).limits())["backend"], "cpu");
    EXPECT_EQ(carat_limits(nullptr, nullptr), CARAT_INVALID_VALUE);
}

TEST(Api, RefusalsNameEveryRow) {
    carat_context_options options = carat::Context::default_options();
    options.target = "h200";
    carat::Context context(options);
    try {
        context.plan(carat::gemm_problem(16, 16, 16, CARAT_F64));
        FAIL() << "no CUDA row takes f64 yet";
    } catch (const carat::Error& error) {
        EXPECT_EQ(error.status(), CARAT_NOT_SUPPORTED);
        for (const char* row : {"v0_naive", "v1_shared"})
            EXPECT_NE(std::string(error.what()).find(row), std::string::npos) << error.what();
    }
}

TEST(Api, ListDescribesEveryRow) {
    const auto json = nlohmann::json::parse(carat::list());
    EXPECT_EQ(json["schema"], "carat.list/1");
    EXPECT_EQ(json["rows"].back()["name"], "cpu_reference") << "the registry ends in the reference";
    for (const auto& row : json["rows"]) EXPECT_FALSE(row["supports"].empty()) << row["name"];
    // The reference takes every combination that the border lets through.
    const auto& all = json["rows"].back()["supports"];
    const auto same = [](const auto& x, const auto& y) {
        return x["a"] == y["a"] && x["b"] == y["b"] && x["d"] == y["d"];
    };
    for (const auto& row : json["rows"])
        for (const auto& entry : row["supports"])
            EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const auto& x) { return same(x, entry); }))
                << row["name"] << entry;
}

TEST(Api, ParsesTypeNames) {
    EXPECT_EQ(carat::dtype("bf16"), CARAT_BF16);
    EXPECT_THROW(carat::dtype("bf17"), carat::Error);
    EXPECT_STREQ(carat_dtype_name(CARAT_E4M3), "e4m3");
    EXPECT_EQ(carat_dtype_bits(CARAT_U4), 4);
}

}  // namespace
