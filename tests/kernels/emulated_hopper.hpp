// SPDX-License-Identifier: Apache-2.0
// emulated_hopper.hpp: kernels with bulk copies on emulated threads and units: descriptors, launch, verification. After
// host_cuda.hpp and the kernels.
#pragma once

#include "dispatch/bulk_map.hpp"
#include "kernels/emulated.hpp"
#include "shared/tile_walk.h"

namespace carat::test {

using carat_shared::BulkGemmParams;
using carat_shared::BulkMap;
using host_cuda::Launch;

// Kinds of D that leave in boxes of the copy engine, if their pitch allows it.
template <class Types, class Layout>
constexpr bool takes_bulk_stores = Layout::kRowMajorD || carat_shared::type_bytes(Types::kTypeD) == 2;

// What a consumer keeps of a tile's bias.
template <class Epilogue, int N, int Strips>
constexpr unsigned shared_bias_bytes = Epilogue::kBias == CARAT_BIAS_N   ? 4 * N
                                       : Epilogue::kBias == CARAT_BIAS_M ? 4 * 64 * Strips
                                                                         : 0;

inline BulkMap at_address(cuda::TensorMapDesc desc, void* address) {
    desc.address = address;
    return carat_kernel::make_bulk_map(desc);
}

template <class Config>
BulkGemmParams bulk_params(GemmCase& gemm, const carat_operands& operands) {
    const Problem& p = gemm.problem;
    BulkGemmParams params = {params_of(p, operands), {}, {}, {}, {}, {}, 0, 0, 0, {}};
    const auto operand = [&](const carat_matrix& x, Extents extents, void* address, bool k_major, int64_t end, int rows,
                             int tile, bool stage_box) {
        const auto map = [&](int rows_of_box) {
            return at_address(operand_map(x, extents, p.batch, k_major, rows_of_box), address);
        };
        carat_shared::OperandMaps maps = {map(rows), {}};
        if (stage_box) maps.whole = at_address(panels_map(x, extents, p.batch, rows, Config::kBK / 64), address);
        if (k_major && end % rows != 0 && rows == tile) maps.last = map(int(end % rows));
        return maps;
    };
    const int parts_of_b = Config::kClusterM * (Config::kGate == CARAT_GATE_SPLIT ? 2 : 1);
    if (Config::kBulkA && p.k > 0)
        params.a_maps = operand(p.a, {p.m, p.k}, gemm.a.data(), Config::kRowMajorA, p.m,
                                Config::kBM / Config::kClusterN, Config::kBM, Config::kStageBoxA);
    if (Config::kBulkB && p.k > 0)
        params.b_maps = operand(p.b, {p.k, p.n}, gemm.b.data(), !Config::kRowMajorB, p.n, Config::kBN / parts_of_b,
                                Config::kBN, Config::kStageBoxB);
    const int cols = Config::kBN / (Config::kGate == CARAT_GATE_NONE ? 1 : 2) * Config::kClusterN;
    params.walk =
        carat_shared::make_tile_walk(p.m, p.d_cols(), p.batch, Config::kBM * Config::kClusterM, cols, Config::strip);
    if (Config::kBulkC && operands.c) params.c_map = at_address(*residual_map(p), const_cast<void*>(operands.c));
    if (Config::kBulkStore) params.d_map = at_address(*store_map(p), operands.d);
    params.once_a = p.d_cols() <= cols, params.once_b = p.m <= Config::kBM && Config::kGate != CARAT_GATE_SPLIT;
    params.early_bytes = 256;
    return params;
}

// What the rows take where D's rows are no multiple of 16 bytes.
template <class Config>
struct WithoutBulkStore : Config {
    static constexpr bool kBulkStore = false, kBulkC = false;
};

// And where C's are none, or its elements are not of D's size.
template <class Config>
struct WithoutBulkC : Config {
    static constexpr bool kBulkC = false;
};

// And where K ends within a line of it.
template <class Config>
struct WithoutStageBoxes : Config {
    static constexpr bool kStageBoxA = false, kStageBoxB = false;
};

// In so many clusters (0: as many as there are tiles); "" or what is wrong.
template <class Config>
std::string run(GemmCase& gemm, unsigned clusters = 0, Launch launch = {}, const carat_operands* operands = nullptr) {
    const Problem& p = gemm.problem;
    if constexpr (Config::kStageBoxA || Config::kStageBoxB)
        if (p.k % 64 != 0) return run<WithoutStageBoxes<Config>>(gemm, clusters, launch, operands);
    if constexpr (Config::kBulkStore)
        if (!store_map(p)) return run<WithoutBulkStore<Config>>(gemm, clusters, launch, operands);
    if constexpr (Config::kBulkC)
        if (!residual_map(p)) return run<WithoutBulkC<Config>>(gemm, clusters, launch, operands);
    float amax = 0;
    carat_operands given = operands ? *operands : gemm.operands();
    if (p.epilogue.amax) given.amax = &amax;
    const BulkGemmParams params = bulk_params<Config>(gemm, given);
    const int64_t cols = Config::kBN / (Config::kGate == CARAT_GATE_NONE ? 1 : 2) * Config::kClusterN;
    const int64_t tiles = ceil_div(p.m, Config::kBM * Config::kClusterM) * ceil_div(p.d_cols(), cols) * p.batch;
    launch.cluster = Config::kClusterM * Config::kClusterN * Config::kClusterK;
    launch.blocks = (clusters ? clusters : unsigned(tiles)) * launch.cluster;
    launch.threads = Config::kThreads;
    launch.shared_bytes = Config::kSharedBytes;
    const std::string error = host_cuda::launch(launch, [&] { Config::template run<Config>(params); });
    return error.empty() ? gemm.verify(amax) : error;
}

// A problem that suits the configuration; aligned to 16 bytes if it copies in bulk, else by no means.
template <class Config>
GemmCase case_of(int64_t m, int64_t n, int64_t k, double alpha = 1, double beta = 0) {
    Problem p = make_problem(Config::types, m, n, k, Config::layout(), Config::kRowMajorD);
    set_pitch(p, Config::kBulkA || Config::kBulkB ? Pitch::eights : Pitch::odd);
    if (Config::kHasC) add_c(p);
    return GemmCase(p, Data::integers, 7, alpha, beta,
                    Config::kBulkA || Config::kBulkB ? Place::aligned : Place::one_off);
}

template <class Config>
void expect_right(int64_t m, int64_t n, int64_t k, unsigned clusters = 0, const Launch& launch = {}) {
    GemmCase gemm = case_of<Config>(m, n, k);
    EXPECT_EQ(run<Config>(gemm, clusters, launch), "");
}

// A batch of three, its matrices apart and with a B for all.
template <class Config>
void expect_batches() {
    for (const bool shared_b : {false, true}) {
        Problem p = make_problem(Config::types, 130, 72, 72, "nt");
        set_batch(p, 3, 16);
        if (shared_b) p.b.batch_stride = 0;
        GemmCase gemm(p, Data::integers, 7, 1, 0, Place::aligned);
        EXPECT_EQ(run<Config>(gemm, 2), "");
    }
}

}  // namespace carat::test
