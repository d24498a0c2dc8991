// SPDX-License-Identifier: Apache-2.0
// K in parts that come together through L2, on emulated threads and units: one part after the other, by a second kernel, and
// stream-K.
// Blocks run one after the other, so that one that waited for a later one would hang, or all together in any order.
#include "kernels/host_cuda.hpp"
// After the language.
#include <gemm_ws.cuh>
#include <reduce_splits.cuh>

#include <gtest/gtest.h>

#include "dispatch/config.hpp"
#include "kernels/emulated_ws.hpp"

namespace carat::test {
namespace {

using host_cuda::Copies;
using host_cuda::Order;

template <class Base, int Serial, int Separate>
struct Split : Base {
    static constexpr int kSerialParts = Serial, kSeparateParts = Separate, kParts = Serial * Separate;
};

// The first of two kernels stores nothing.
template <class Base>
struct ProductsOnly : Base {
    static constexpr bool kBulkStore = false, kBulkC = false, kHasC = false, kClamp = false, kAmax = false;
    static constexpr int kBias = CARAT_BIAS_NONE, kActivation = CARAT_ACT_NONE, kOutScale = CARAT_OUT_SCALE_NONE;
};

// The second one.
template <class Base, int Cols>
struct Reduce : Base {
    static constexpr int kBM = 64, kBN = Cols, kThreads = 128, kTileM = Base::kBM, kTileN = Base::kBN;
    static constexpr int kStrips = Base::kConsumers * Base::kTM;
};

// A workspace with anything in it, but the words that a launch finds zeroed.
struct Workspace {
    std::vector<float> sums;
    std::vector<unsigned> turns;

    template <class Config>
    carat_shared::SplitParams make(int slots) {
        sums.assign(size_t(4 * carat_shared::slot_quads(Config::kConsumers * Config::kTM, Config::kBN)) * size_t(slots),
                    NAN);
        turns.assign(size_t(slots * carat_shared::turns_of_tile(Config::kConsumers)), 0);
        return {sums.data(), turns.data()};
    }
};

enum class Blocks { one_after_the_other, together };

Launch launch_of(unsigned blocks, unsigned threads, unsigned shared_bytes, Blocks run, Launch launch = {}) {
    launch.blocks = blocks, launch.threads = threads, launch.shared_bytes = shared_bytes;
    launch.cluster = run == Blocks::together ? blocks : 1;
    return launch;
}

// In so many blocks (0: one for each item); "" or what is wrong.
template <class Config>
std::string run_split(GemmCase& gemm, unsigned blocks = 0, Blocks order = Blocks::one_after_the_other,
                      const Launch& launch = {}) {
    if constexpr (Config::kBulkStore)
        if (!store_map(gemm.problem)) return run_split<WithoutBulkStore<Config>>(gemm, blocks, order, launch);
    if constexpr (Config::kBulkC)
        if (!residual_map(gemm.problem)) return run_split<WithoutBulkC<Config>>(gemm, blocks, order, launch);
    constexpr bool kReduced = Config::kSeparateParts > 1;
    using First = std::conditional_t<kReduced, ProductsOnly<Config>, Config>;
    float amax = 0;
    carat_operands given = gemm.operands();
    if (gemm.problem.epilogue.amax) given.amax = &amax;
    BulkGemmParams params = bulk_params<First>(gemm, given);
    Workspace workspace;
    params.split = workspace.template make<Config>(params.walk.count * Config::kSeparateParts);
    const unsigned items = unsigned(params.walk.count) * Config::kParts;
    std::string error =
        host_cuda::launch(launch_of(blocks ? blocks : items, Config::kThreads, Config::kSharedBytes, order, launch),
                          [&] { carat_kernel::gemm_ws<First>(params); });
    if constexpr (kReduced) {
        constexpr int kTileCols = Config::kBN / (Config::kGate == CARAT_GATE_NONE ? 1 : 2);
        constexpr bool kScaled = Config::kOutScale == CARAT_OUT_SCALE_COMPUTED_1X128;
        using Second = Reduce<Config, kScaled ? 128 : kTileCols % 32 == 0 ? 32 : 16>;
        const unsigned count = unsigned(params.walk.count) * carat_kernel::ReduceSplits<Second>::kBlocksOfTile;
        if (error.empty())
            error = host_cuda::launch(
                launch_of(count, 128, carat_kernel::StagedTile<Second>::kBytes, Blocks::one_after_the_other, launch),
                [&] { carat_kernel::reduce_splits<Second>(params); });
    }
    return error.empty() ? gemm.verify(amax) : error;
}

template <class Config>
void expect_split(int64_t m, int64_t n, int64_t k, unsigned blocks = 0, Blocks order = Blocks::one_after_the_other,
                  const Launch& launch = {}) {
    GemmCase gemm = case_of<Config>(m, n, k);
    EXPECT_EQ((run_split<Config>(gemm, blocks, order, launch)), "")
        << Config::kParts << " parts, " << m << " x " << n << " x " << k;
}

// Parts without a step, of one, and uneven ones; a lone tile and several, whole and not; one block for all, a block an item.
template <class Base, int Parts>
void expect_parts(const std::vector<int64_t>& depths) {
    using Serial = Split<Base, Parts, 1>;
    using Separate = Split<Base, 1, Parts>;
    for (const int64_t k : depths) {
        expect_split<Serial>(Base::kBM + 8, Base::kBN + 9, k);
        expect_split<Serial>(Base::kBM, Base::kBN, k, 1);
        expect_split<Separate>(Base::kBM + 8, Base::kBN + 9, k, 3);
        expect_split<Separate>(1, 1, k);
    }
}

template <int Consumers, int Strips, int N, class Types = Bf16, class Layout = Nt, int Rows = 64 * Strips* Consumers>
using Tile = ConfigOf<Form<Consumers, Strips, false, 1, 1, 1, Rows>, N, 3, Layout, Types>;

TEST(SplitEmulation, AnyNumberOfParts) {
    const std::vector<int64_t> all = {0, 8, 64, 1000};
    expect_parts<Tile<1, 1, 16>, 1>(all);
    expect_parts<Tile<1, 1, 48>, 2>(all);
    expect_parts<Tile<2, 1, 64>, 3>(all);
    expect_parts<Tile<1, 1, 32, Bf16ToF32>, 7>(all);
    expect_parts<Tile<1, 1, 16, F16>, 16>(all);
    expect_parts<Tile<1, 1, 16>, 80>(all);
}
TEST(SplitEmulation, TilesLayoutsAndTypes) {
    expect_parts<Tile<2, 2, 128>, 2>({200});
    expect_parts<Tile<3, 1, 128>, 2>({200});
    expect_parts<Tile<2, 1, 96, Bf16, LayoutOf<true, false, false>>, 3>({200});
    expect_parts<Tile<2, 1, 64, Bf16, LayoutOf<false, true, true>>, 3>({200});
    expect_parts<Tile<1, 1, 32, Bf16ToE4m3>, 4>({200});
    expect_parts<Tile<2, 1, 96, Bf16, Nt, 88>, 3>({200});  // of fewer rows than its products have
    expect_parts<Tile<2, 2, 64, Bf16, LayoutOf<true, false, false>, 200>, 2>({200});
}

TEST(SplitEmulation, BlocksInAnyOrderOfEvents) {
    using Serial = Split<Tile<1, 1, 16>, 3, 1>;
    for (const Copies copies : {Copies::early, Copies::late, Copies::random})
        for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
            Launch launch;
            launch.copies = copies, launch.order = order;
            expect_split<Serial>(100, 20, 520, 0, Blocks::together, launch);
            expect_split<Split<Tile<2, 1, 32>, 1, 3>>(130, 40, 520, 5, Blocks::together, launch);
        }
}

// A batch, whose tiles are numbered over all of it.
TEST(SplitEmulation, Batches) {
    for (const bool shared_b : {false, true}) {
        Problem p = make_problem(kBf16, 130, 72, 200, "nt");
        set_batch(p, 3, 16);
        if (shared_b) p.b.batch_stride = 0;
        GemmCase serial(p, Data::integers, 7, 1, 0, Place::aligned);
        EXPECT_EQ((run_split<Split<Tile<2, 1, 64>, 3, 1>>(serial)), "");
        GemmCase separate(p, Data::integers, 7, 1, 0, Place::aligned);
        EXPECT_EQ((run_split<Split<Tile<2, 1, 64>, 1, 3>>(separate)), "");
    }
}

// ---------------------------------------------------------------- stream-K

template <class Base>
struct StreamK : Base {
    static constexpr bool kStreamK = true;
    static constexpr unsigned kBlocks = Base::kClusterM * Base::kClusterN;
};

// In so many clusters; "" or what is wrong.
template <class Config>
std::string run_stream_k(GemmCase& gemm, unsigned clusters, Blocks order = Blocks::one_after_the_other,
                         Launch launch = {}) {
    if constexpr (Config::kBulkStore)
        if (!store_map(gemm.problem)) return run_stream_k<WithoutBulkStore<Config>>(gemm, clusters, order, launch);
    if constexpr (Config::kBulkC)
        if (!residual_map(gemm.problem)) return run_stream_k<WithoutBulkC<Config>>(gemm, clusters, order, launch);
    float amax = 0;
    carat_operands given = gemm.operands();
    if (gemm.problem.epilogue.amax) given.amax = &amax;
    BulkGemmParams params = bulk_params<Config>(gemm, given);
    const unsigned blocks = clusters * Config::kBlocks;
    Workspace workspace;
    params.split = workspace.template make<Config>(int(blocks));
    launch = launch_of(blocks, Config::kThreads, Config::kSharedBytes, order, launch);
    if (order == Blocks::one_after_the_other) launch.cluster = Config::kBlocks;
    const std::string error = host_cuda::launch(launch, [&] { carat_kernel::gemm_ws<Config>(params); });
    return error.empty() ? gemm.verify(amax) : error;
}

template <class Config>
void expect_stream_k(int64_t m, int64_t n, int64_t k, unsigned clusters, Blocks order = Blocks::one_after_the_other,
                     const Launch& launch = {}) {
    GemmCase gemm = case_of<Config>(m, n, k);
    EXPECT_EQ((run_stream_k<Config>(gemm, clusters, order, launch)), "")
        << clusters << " clusters, " << m << " x " << n << " x " << k;
}

// Less than a wave of tiles, one wave, one and a part, whole ones, and whole ones and a part; more clusters than steps.
TEST(StreamKEmulation, AnyNumberOfTilesAndClusters) {
    using One = StreamK<Tile<1, 1, 16>>;
    for (const int64_t tiles : {1, 2, 3, 5, 7, 9})
        for (const int64_t k : {0, 8, 64, 328, 1000})
            for (const unsigned clusters : {1u, 2u, 3u, 4u, 8u}) expect_stream_k<One>(40, 16 * tiles, k, clusters);
    expect_stream_k<StreamK<Tile<2, 1, 64>>>(300, 70, 1000, 4);
    expect_stream_k<StreamK<Tile<2, 1, 64>>>(1, 1, 5000, 61);  // most of which have the middle of the one tile
}
TEST(StreamKEmulation, TilesLayoutsAndTypes) {
    expect_stream_k<StreamK<Tile<2, 2, 128>>>(300, 150, 328, 5);
    expect_stream_k<StreamK<Tile<3, 1, 128>>>(300, 150, 328, 5);
    expect_stream_k<StreamK<Tile<2, 1, 96, Bf16ToF32, LayoutOf<true, false, false>>>>(300, 150, 328, 5);
    expect_stream_k<StreamK<Tile<2, 1, 64, F16, LayoutOf<false, true, true>>>>(300, 150, 328, 5);
    expect_stream_k<StreamK<Tile<2, 1, 96, Bf16, Nt, 88>>>(300, 150, 328, 5);
}

// Blocks that share copies have the same steps.
TEST(StreamKEmulation, ClustersThatShareOperands) {
    for (const unsigned clusters : {1u, 2u, 3u, 5u}) {
        expect_stream_k<StreamK<ConfigOf<Form<2, 1, false, 2, 1>, 64, 3, Nt, Bf16>>>(500, 150, 328, clusters);
        expect_stream_k<StreamK<ConfigOf<Form<2, 1, false, 1, 2>, 64, 3, Nt, Bf16>>>(300, 200, 328, clusters);
        expect_stream_k<StreamK<ConfigOf<Form<1, 1, false, 2, 2>, 32, 3, Nt, Bf16>>>(300, 200, 200, clusters);
    }
}

TEST(StreamKEmulation, BlocksInAnyOrderOfEvents) {
    for (const Copies copies : {Copies::early, Copies::late, Copies::random})
        for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
            Launch launch;
            launch.copies = copies, launch.order = order;
            expect_stream_k<StreamK<Tile<1, 1, 16>>>(100, 40, 520, 4, Blocks::together, launch);
            expect_stream_k<StreamK<Tile<2, 1, 32>>>(130, 40, 520, 7, Blocks::together, launch);
        }
}

TEST(StreamKEmulation, Batches) {
    Problem p = make_problem(kBf16, 130, 72, 200, "nt");
    set_batch(p, 3, 16);
    GemmCase gemm(p, Data::integers, 7, 1, 0, Place::aligned);
    EXPECT_EQ((run_stream_k<StreamK<Tile<2, 1, 64>>>(gemm, 5)), "");
}

// ---------------------------------------------------------------- epilogues

struct Everything : NoEpilogue {
    static constexpr bool kHasC = true, kClamp = true, kAmax = true;
    static constexpr int kBias = CARAT_BIAS_N, kActivation = CARAT_ACT_RELU;
};
struct Gated : NoEpilogue {
    static constexpr int kGate = CARAT_GATE_SPLIT, kActivation = CARAT_ACT_RELU;
};
struct GatedPairs : NoEpilogue {
    static constexpr int kGate = CARAT_GATE_INTERLEAVED, kActivation = CARAT_ACT_RELU;
};
struct Scaled : NoEpilogue {
    static constexpr int kOutScale = CARAT_OUT_SCALE_COMPUTED_1X128;
};

template <class Base>
void expect_epilogue(int64_t m, int64_t n, int64_t k, double beta = 0) {
    for (const SplitForm form : {SplitForm::serial, SplitForm::workspace, SplitForm::stream_k}) {
        Problem p = make_problem(Base::types, m, n, k, Base::layout(), Base::kRowMajorD);
        set_pitch(p, Pitch::eights);
        if (Base::kHasC) add_c(p);
        if (Base::kBias) add_bias(p, carat_bias(Base::kBias));
        p.epilogue.activation = carat_activation(Base::kActivation);
        p.epilogue.gate = carat_gate(Base::kGate);
        if (Base::kGate) p.d.ld = p.n;
        p.epilogue.out_scale = carat_out_scale(Base::kOutScale);
        p.epilogue.amax = Base::kAmax;
        if (Base::kClamp) p.epilogue.clamp = 1, p.epilogue.clamp_lo = -9, p.epilogue.clamp_hi = 40;
        GemmCase gemm(p, Data::integers, 7, 1, beta, Place::aligned);
        const std::string error = form == SplitForm::serial      ? run_split<Split<Base, 3, 1>>(gemm)
                                  : form == SplitForm::workspace ? run_split<Split<Base, 1, 3>>(gemm)
                                                                 : run_stream_k<StreamK<Base>>(gemm, 5);
        EXPECT_EQ(error, "") << describe(p);
    }
}
template <int N, class Types, class Epilogue>
using With = ConfigOf<Form<2, 1, false>, N, 2, Nt, Types, Bulk<true, true>, Epilogue>;

TEST(SplitEmulation, EveryEpilogue) {
    expect_epilogue<With<64, Bf16, Everything>>(136, 72, 200, 2);
    expect_epilogue<With<64, Bf16, Everything>>(136, 72, 200, 0);
    expect_epilogue<With<128, Bf16, Gated>>(136, 160, 200);
    expect_epilogue<With<96, Bf16, GatedPairs>>(136, 224, 200);
    expect_epilogue<With<128, Bf16ToE4m3, Scaled>>(136, 272, 200);
}

}  // namespace
}  // namespace carat::test
