// SPDX-License-Identifier: Apache-2.0
// floor_test.cpp: bytes, FLOPs and least times against hand-computed values and against floors published beside
// measurements of other libraries on an H200.
#include <gtest/gtest.h>

#include "limits/target.hpp"

namespace carat {
namespace {

carat_matrix matrix(carat_dtype dtype, carat_order order, int64_t batch_stride = -1) {
    carat_matrix x = {};
    x.dtype = dtype;
    x.order = order;
    x.batch_stride = batch_stride;
    return x;
}

Problem problem(int64_t m, int64_t n, int64_t k, carat_dtype ab, carat_dtype d) {
    Problem p = {};
    p.mode = CARAT_SINGLE;
    p.m = m;
    p.n = n;
    p.k = k;
    p.batch = 1;
    p.a = matrix(ab, CARAT_ROW_MAJOR);
    p.b = matrix(ab, CARAT_COL_MAJOR);
    p.d = matrix(d, CARAT_ROW_MAJOR);
    return p;
}

double bytes(const Problem& p, bool reads_c = false) {
    return floor_of(p, known_gpus()[0], reads_c).bytes;
}

struct Row {
    const char* type;
    int64_t m, n, k;
    double floor_us;
};

TEST(Floor, AgreesWithThePublishedTable) {
    const Row rows[] = {
        {"bf16", 1, 2112, 7168, 8.29},       {"bf16", 1, 6144, 4096, 12.72},     {"bf16", 1, 128256, 4096, 231.48},
        {"bf16", 64, 8192, 28672, 106.05},   {"bf16", 127, 130, 4104, 1.97},     {"bf16", 33, 3000, 2050, 4.51},
        {"bf16", 512, 7168, 2048, 18.79},    {"bf16", 128, 10240, 8192, 39.82},  {"fp8", 1, 2112, 7168, 5.04},
        {"fp8", 1, 8192, 28672, 53.59},      {"fp8", 64, 24576, 1536, 10.65},    {"fp8", 1024, 1024, 1024, 2.52},
        {"fp8", 4096, 28672, 4096, 601.30},  {"fp8b", 16, 7168, 16384, 27.78},   {"fp8b", 128, 4096, 7168, 8.52},
        {"fp8b", 4096, 10240, 8192, 429.50}, {"int8", 1, 4096, 14336, 14.58},    {"int8", 64, 6144, 4096, 7.58},
        {"int8", 1024, 1024, 1024, 3.08},    {"int8", 8192, 8192, 8192, 687.19}, {"fp32", 1, 6144, 4096, 23.94},
        {"fp32", 64, 7168, 2048, 30.31},     {"fp32", 4096, 4096, 4096, 2216.8}, {"tf32", 64, 6144, 4096, 24.51},
        {"tf32", 2048, 2048, 2048, 42.95},
    };
    for (const Row& row : rows) {
        const std::string type = row.type;
        const bool fp8 = type == "fp8" || type == "fp8b", f32 = type == "fp32" || type == "tf32";
        const carat_dtype ab = fp8 ? CARAT_E4M3 : type == "int8" ? CARAT_S8 : f32 ? CARAT_F32 : CARAT_BF16;
        Problem p = problem(row.m, row.n, row.k, ab, type == "int8" ? CARAT_S32 : f32 ? CARAT_F32 : CARAT_BF16);
        if (type == "tf32") p.compute = CARAT_COMPUTE_TF32;
        if (type == "fp8b") {
            p.scale_a.recipe = CARAT_SCALE_BLOCK_WISE_1X128;
            p.scale_b.recipe = CARAT_SCALE_BLOCK_WISE_128X128;
        }
        const Floor f = floor_of(p, *find_gpu("h200"));
        EXPECT_NEAR(f.us, row.floor_us, 0.01 * row.floor_us)
            << row.type << " " << row.m << " " << row.n << " " << row.k;
    }
}

TEST(Floor, PlainBf16) {
    const Floor f = floor_of(problem(3, 5, 7, CARAT_BF16, CARAT_F32), *find_gpu("h200"));
    EXPECT_EQ(f.bytes, 2 * (3 * 7 + 7 * 5) + 4 * 3 * 5);
    EXPECT_EQ(f.flops, 2 * 3 * 5 * 7);
    EXPECT_DOUBLE_EQ(f.intensity, 210.0 / 172);
    EXPECT_EQ(f.bound, Bound::memory);
    EXPECT_GT(f.us, 0.57);  // even a few bytes cost a launch
    EXPECT_STREQ(name(f.bound), "memory");
}

TEST(Floor, ComputeBound) {
    const Floor f = floor_of(problem(8192, 8192, 8192, CARAT_BF16, CARAT_BF16), *find_gpu("h200"));
    EXPECT_NEAR(f.us, 2 * 8192.0 * 8192 * 8192 / 800e6, 1e-9);
    EXPECT_EQ(f.us, f.compute_us);
    EXPECT_EQ(f.bound, Bound::compute);
}

TEST(Floor, NothingIsLaunchedForAnEmptyProblem) {
    for (const Problem& p : {problem(0, 5, 7, CARAT_F32, CARAT_F32), problem(5, 0, 7, CARAT_F32, CARAT_F32)}) {
        const Floor f = floor_of(p, *find_gpu("h200"));
        EXPECT_EQ(f.bytes, 0);
        EXPECT_EQ(f.us, 0);
    }
}

TEST(Floor, KZeroOnlyWritesD) {
    Problem p = problem(16, 32, 0, CARAT_E4M3, CARAT_BF16);
    p.scale_a.recipe = p.scale_b.recipe = CARAT_SCALE_TENSOR_WISE;
    EXPECT_EQ(bytes(p), 16 * 32 * 2);
    EXPECT_EQ(floor_of(p, *find_gpu("h200")).flops, 0);
}

TEST(Floor, CIsCountedOnlyWhenRead) {
    Problem p = problem(16, 32, 8, CARAT_BF16, CARAT_BF16);
    const double plain = bytes(p);
    EXPECT_EQ(bytes(p, true), plain);  // there is no C
    p.c = matrix(CARAT_F32, CARAT_ROW_MAJOR);
    EXPECT_EQ(bytes(p, false), plain);
    EXPECT_EQ(bytes(p, true), plain + 16 * 32 * 4);
}

TEST(Floor, ScaleRecipes) {
    Problem p = problem(130, 257, 300, CARAT_E4M3, CARAT_BF16);
    const double plain = 130 * 300 + 300 * 257 + 2 * 130 * 257;
    EXPECT_EQ(bytes(p), plain);
    p.scale_a.recipe = p.scale_b.recipe = CARAT_SCALE_TENSOR_WISE;
    EXPECT_EQ(bytes(p), plain + 8);
    p.scale_a.recipe = p.scale_b.recipe = CARAT_SCALE_ROW_WISE;
    EXPECT_EQ(bytes(p), plain + 4 * (130 + 257));
    p.scale_a.recipe = CARAT_SCALE_BLOCK_WISE_1X128;    // 130 x 3
    p.scale_b.recipe = CARAT_SCALE_BLOCK_WISE_128X128;  // 3 x 3
    EXPECT_EQ(bytes(p), plain + 4 * (130 * 3 + 9));
}

TEST(Floor, WeightOnlyFourBitsWithZeroPoints) {
    Problem p = problem(16, 4096, 4096, CARAT_BF16, CARAT_BF16);
    p.b.dtype = CARAT_U4;
    p.scale_b.recipe = CARAT_SCALE_GROUP_WISE;
    p.scale_b.group = 128;
    const double plain = 2 * 16 * 4096 + 4096 * 4096 / 2 + 2 * 16 * 4096;
    EXPECT_EQ(bytes(p), plain + 4 * 4096 * 32);
    p.scale_b.zero_points = 1;
    EXPECT_EQ(bytes(p), plain + 2 * 4 * 4096 * 32);
    p = problem(1, 3, 3, CARAT_F16, CARAT_F16);
    p.b.dtype = CARAT_S4;
    EXPECT_EQ(bytes(p), 2 * 3 + 4.5 + 2 * 3);
}

TEST(Floor, Sparse) {
    Problem p = problem(64, 128, 4096, CARAT_BF16, CARAT_BF16);
    const double dense_us = floor_of(p, *find_gpu("h200")).compute_us;
    p.sparsity = CARAT_SPARSE_B_24;
    EXPECT_EQ(bytes(p), 2 * 64 * 4096 + 2 * 2048 * 128 + 128 * 512 + 2 * 64 * 128);
    EXPECT_EQ(floor_of(p, *find_gpu("h200")).compute_us, dense_us / 2);
    EXPECT_EQ(floor_of(p, *find_gpu("h200")).flops, 2.0 * 64 * 128 * 4096);
    p.sparsity = CARAT_SPARSE_A_24;
    p.k = 5;  // two groups of four: four values stored, one byte of metadata
    EXPECT_EQ(bytes(p), 64 * 4 * 2 + 64 * 1 + 5 * 128 * 2 + 64 * 128 * 2);
}

TEST(Floor, Epilogue) {
    Problem p = problem(16, 256, 64, CARAT_BF16, CARAT_E4M3);
    const double inputs = 2 * (16 * 64 + 64 * 256);
    EXPECT_EQ(bytes(p), inputs + 16 * 256);
    p.epilogue.gate = CARAT_GATE_SPLIT;  // D has half the columns
    EXPECT_EQ(bytes(p), inputs + 16 * 128);
    p.epilogue.bias = CARAT_BIAS_N;
    p.epilogue.bias_dtype = CARAT_F32;
    EXPECT_EQ(bytes(p), inputs + 16 * 128 + 4 * 256);
    p.epilogue.bias = CARAT_BIAS_M;
    EXPECT_EQ(bytes(p), inputs + 16 * 128 + 4 * 16);
    p.epilogue.bias = CARAT_BIAS_NONE;
    p.epilogue.out_scale = CARAT_OUT_SCALE_TENSOR;
    EXPECT_EQ(bytes(p), inputs + 16 * 128 + 4);
    p.epilogue.out_scale = CARAT_OUT_SCALE_ROW;
    EXPECT_EQ(bytes(p), inputs + 16 * 128 + 4 * 16);
    p.epilogue.gate = CARAT_GATE_NONE;
    p.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
    p.epilogue.amax = 1;
    EXPECT_EQ(bytes(p), inputs + 16 * 256 + 4 * 16 * 2 + 4);
}

TEST(Floor, Batches) {
    Problem p = problem(8, 16, 32, CARAT_BF16, CARAT_BF16);
    p.mode = CARAT_BATCHED;
    p.batch = 10;
    const double a = 8 * 32 * 2, b = 32 * 16 * 2, d = 8 * 16 * 2;
    EXPECT_EQ(bytes(p), 10 * (a + b + d));
    p.b.batch_stride = 0;
    EXPECT_EQ(bytes(p), 10 * (a + d) + b);
    p.a.batch_stride = 0;
    EXPECT_EQ(bytes(p), 10 * d + a + b);
    EXPECT_EQ(floor_of(p, *find_gpu("h200")).flops, 10 * 2.0 * 8 * 16 * 32);
    p.c = matrix(CARAT_BF16, CARAT_ROW_MAJOR, 0);
    EXPECT_EQ(bytes(p, true), 10 * d + a + b + d);
    p.epilogue.bias = CARAT_BIAS_N;
    p.epilogue.bias_dtype = CARAT_BF16;
    EXPECT_EQ(bytes(p), 10 * d + a + b + 16 * 2);
    p.epilogue.bias_batch_stride = 16;
    EXPECT_EQ(bytes(p), 10 * d + a + b + 10 * 16 * 2);
    p = problem(8, 16, 32, CARAT_BF16, CARAT_BF16);
    p.mode = CARAT_BATCHED_POINTERS;
    p.batch = 10;
    p.a.batch_stride = p.b.batch_stride = 0;  // says nothing about pointers
    EXPECT_EQ(bytes(p), 10 * (a + b + d));
    p.batch = 0;
    EXPECT_EQ(floor_of(p, *find_gpu("h200")).us, 0);
}

Problem grouped(carat_group_form form, int64_t m, int64_t groups) {
    Problem p = problem(m, 16, 32, CARAT_BF16, CARAT_BF16);
    p.mode = CARAT_GROUPED;
    p.group_form = form;
    p.batch = groups;
    return p;
}

TEST(Floor, Groups) {
    const double b = 32 * 16 * 2;
    for (carat_group_form form : {CARAT_GROUP_M_OFFSETS, CARAT_GROUP_M_INDICES}) {
        EXPECT_EQ(bytes(grouped(form, 100, 4)), 100 * 32 * 2 + 4 * b + 100 * 16 * 2);
        EXPECT_EQ(floor_of(grouped(form, 100, 4), known_gpus()[0]).flops, 2.0 * 100 * 16 * 32);
        // Three rows can belong to three groups at most.
        EXPECT_EQ(bytes(grouped(form, 3, 128)), 3 * 32 * 2 + 3 * b + 3 * 16 * 2);
    }
    EXPECT_EQ(bytes(grouped(CARAT_GROUP_M_MASKED, 8, 4)), 4 * (8 * 32 * 2 + b + 8 * 16 * 2));
    EXPECT_EQ(floor_of(grouped(CARAT_GROUP_M_MASKED, 8, 4), known_gpus()[0]).flops, 4 * 2.0 * 8 * 16 * 32);
    EXPECT_EQ(bytes(grouped(CARAT_GROUP_K_OFFSETS, 8, 4)), 8 * 32 * 2 + b + 4 * 8 * 16 * 2);
    EXPECT_EQ(bytes(grouped(CARAT_GROUP_ARRAY, 8, 4)), 4 * (8 * 32 * 2 + b + 8 * 16 * 2));
}

TEST(Floor, GroupedScalesAndBias) {
    Problem p = grouped(CARAT_GROUP_M_OFFSETS, 100, 4);
    const double plain = bytes(p);
    p.scale_a.recipe = CARAT_SCALE_ROW_WISE;
    p.scale_b.recipe = CARAT_SCALE_ROW_WISE;
    p.scale_b.batch_stride = 16;
    EXPECT_EQ(bytes(p), plain + 4 * (100 + 4 * 16));
    p.scale_b.batch_stride = 0;
    EXPECT_EQ(bytes(p), plain + 4 * (100 + 16));
    p.epilogue.bias = CARAT_BIAS_N;
    p.epilogue.bias_dtype = CARAT_F32;
    p.epilogue.bias_batch_stride = 16;
    EXPECT_EQ(bytes(p), plain + 4 * (100 + 16) + 4 * 4 * 16);
}

TEST(Floor, ATargetWithoutNumbersBoundsByLaunch) {
    Target t;
    t.launch_us = 2;
    const Floor f = floor_of(problem(8, 8, 8, CARAT_F32, CARAT_F32), t);
    EXPECT_EQ(f.us, 2);
    EXPECT_EQ(f.compute_us, 0);
    t.read_curve = {{1e6, 1}};
    EXPECT_EQ(floor_of(problem(8, 8, 8, CARAT_F32, CARAT_F32), t).bound, Bound::launch);
}

}  // namespace
}  // namespace carat
