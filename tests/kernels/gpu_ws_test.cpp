// SPDX-License-Identifier: Apache-2.0
// The Hopper kernel on a real GPU: every tile and cluster that it has, not only those that the row offers, around its own
// edges; many of them at once; the same bits again and again; and kernels that begin before their inputs are there.
#include <set>

#include "dispatch/rows_ws.hpp"
#include "dispatch/swapped.hpp"
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

constexpr const char* kLayouts[] = {"nt", "nn", "tt", "tn"};
constexpr Types kTypes[] = {kBf16, {CARAT_F16, CARAT_F16}, {CARAT_BF16, CARAT_F32}, {CARAT_BF16, CARAT_E4M3}};

class GpuWs : public GpuTest {
  protected:
    void SetUp() override {
        GpuTest::SetUp();
        if (device_ == nullptr) return;
        Requirements requirements;
        kRowWs.require(make_problem(kBf16, 8, 8, 8, "nt"), runtime_.target, requirements);
        if (!requirements.ok()) GTEST_SKIP() << requirements.refusal();
    }

    // A tile is the configuration of one block that has it.
    std::vector<Config> tiles() const {
        std::vector<Config> all = ws_configs(make_problem(kBf16, 4096, 4096, 4096, "nt"), runtime_.target);
        std::erase_if(all,
                      [](const Config& c) { return c.cluster_m * c.cluster_n > 1 || c.split_k > 0 || c.bm % 64 != 0; });
        return all;
    }

    // The kernels for a problem that have a tile, on their own or in clusters.
    std::vector<Kernel> kernels(const Problem& p, const Config& tile, bool clusters) const {
        std::vector<Kernel> found;
        for (const Config& c : ws_configs(p, runtime_.target))
            if (c.bm == tile.bm && c.bn == tile.bn && c.pingpong == tile.pingpong && c.split_k == 0 &&
                (c.cluster_m * c.cluster_n > 1) == clusters)
                found.push_back({&kRowWs, c});
        return found;
    }

    // A layout, an order and types of D that change with `turn`, and pitches that suit the copy engine.
    static Problem problem(size_t turn, const Config& tile, int64_t m, int64_t n, int64_t k) {
        // Row-major B comes in boxes of 64 columns.
        const bool boxes = tile.bn <= 64 || tile.bn % 64 == 0;
        const char* layout = kLayouts[turn / 2 % 2 * 2 + (boxes ? turn % 2 : 0)];
        Problem p = make_problem(kTypes[turn / 3 % std::size(kTypes)], m, n, k, layout, turn % 5 < 3);
        set_pitch(p, Pitch::eights);
        p.d.ld = (p.d.ld + 15) / 16 * 16;
        return p;
    }

    // Sizes around a tile: one short of it, one more, more than two; and one whose D leaves in bulk.
    void add_edges(std::vector<CaseSpec>& specs, const Config& tile, size_t turn, bool clusters) const {
        const int64_t m = tile.bm, n = tile.bn;
        const int64_t sizes[][3] = {
            {m - 1, n + 1, 65}, {m + 1, 2 * n + 9, 63}, {2 * m + 9, n - 1, 137}, {2 * m + 8, 2 * n + 16, 200}};
        for (const auto& [rows, cols, depth] : sizes) {
            Problem p = problem(turn, tile, rows, cols, depth);
            std::vector<Kernel> with = kernels(p, tile, clusters);
            if (with.empty() && bits(p.d.dtype) == 8) {  // the largest tiles leave no registers to make it
                p.d.dtype = CARAT_BF16;
                with = kernels(p, tile, clusters);
            }
            EXPECT_TRUE(clusters || with.size() == 1) << tile.name() << " for " << describe(p);
            if (with.empty()) continue;  // no block of the cluster but one would have work
            // Where the address is odd the threads copy all.
            for (const Place place : {Place::aligned, Place::one_off})
                if (place == Place::aligned || !clusters)
                    specs.push_back({p, Data::integers, 1, 0, place, kAllCandidates, with});
        }
    }

    // Of a problem: some with whole tiles in turn, some together, some in clusters.
    std::vector<Kernel> one_of_each_kind(const Problem& p) const {
        std::vector<Kernel> all;
        for (const Config& c : ws_configs(p, runtime_.target))
            if (c.split_k > 0 ? c.split_k == 3 && c.bm == 64 && (c.bn == 16 || c.bn == 96)
                              : (c.bm == 128 && c.bn == 128 && !c.pingpong && c.cluster_m * c.cluster_n != 2) ||
                                    (c.bm == 64 && c.bn == 32 && c.cluster_m * c.cluster_n == 1) ||
                                    (c.bm == 128 && c.bn == 96 && c.pingpong && c.cluster_m == 2 && c.cluster_n == 1) ||
                                    (c.bm == 256 && c.bn == 64 && c.cluster_m == 1 && c.cluster_n == 2))
                all.push_back({&kRowWs, c});
        return all;
    }
};

// Bits of D of a case that has run.
std::vector<std::byte> fetched_bits(const DeviceCase& memory, GemmCase& gemm) {
    memory.fetch(gemm);
    return gemm.d.elements();
}

// In pieces, since compiling takes most of the time and processes share the cases.
constexpr int kPieces = 24;
class GpuWsTiles : public GpuWs, public testing::WithParamInterface<int> {};

TEST_P(GpuWsTiles, AreExactAroundTheirEdges) {
    const std::vector<Config> all = tiles();
    EXPECT_GE(all.size(), size_t(kPieces));
    std::vector<CaseSpec> specs;
    for (size_t i = size_t(GetParam()); i < all.size(); i += kPieces) add_edges(specs, all[i], i, false);
    expect_right(specs);
}
INSTANTIATE_TEST_SUITE_P(Gpu, GpuWsTiles, testing::Range(0, kPieces));

// Both forms, each at its smallest, a middle and its largest.
struct Shape {
    int bm, bn;
    bool pingpong;
};
constexpr Shape kClustered[] = {{128, 16, false},  {128, 128, false}, {128, 256, false}, {256, 64, false},
                                {256, 192, false}, {192, 128, false}, {64, 64, true},    {64, 256, true},
                                {128, 96, true},   {128, 192, true}};
class GpuWsClusters : public GpuWs, public testing::WithParamInterface<int> {};

TEST_P(GpuWsClusters, AreExactAroundTheirEdges) {
    const Shape& shape = kClustered[GetParam()];
    Config tile;
    tile.bm = shape.bm, tile.bn = shape.bn, tile.pingpong = shape.pingpong;
    std::vector<CaseSpec> specs;
    for (size_t turn : {0, 1, 2, 3}) add_edges(specs, tile, turn + size_t(GetParam()), true);
    EXPECT_GE(specs.size(), 8u);
    expect_right(specs);
}
INSTANTIATE_TEST_SUITE_P(Gpu, GpuWsClusters, testing::Range(0, int(std::size(kClustered))));

// K in parts in a cluster: every number of them, more parts than steps, tails, tiles of any rows, also a lone tile.
TEST_F(GpuWs, PartsOfKInACluster) {
    constexpr int kParts[] = {2, 3, 4, 5, 6, 8};
    std::vector<CaseSpec> specs;
    std::set<int> seen_parts;
    size_t turn = 0;
    const int64_t sizes[][3] = {{300, 200, 1100}, {64, 64, 1030}, {1, 1, 4096}, {130, 500, 200}, {70, 70, 64}};
    for (const auto& [m, n, k] : sizes)
        for (const bool row_major_d : {true, false}) {
            ++turn;
            Problem p = make_problem(kTypes[turn % 3], m, n, k, turn % 2 ? "nt" : "nn", row_major_d);
            set_pitch(p, Pitch::eights);
            add_bias(p, CARAT_BIAS_N);
            if (turn % 4 < 2) add_c(p, CARAT_BF16);
            std::vector<Kernel> some;
            for (const int64_t cols : {16, 64, 128, 256}) {
                const int parts = kParts[(turn + some.size()) % std::size(kParts)];
                // Its tiles are of a deep problem that fills the GPU, so that every number of parts is on offer.
                Problem deep = p;
                deep.m = 1000 * int64_t(turn), deep.n = cols, deep.k = 8192;
                const std::vector<Config> offers = ws_configs(deep, runtime_.target);
                const auto one =
                    std::find_if(offers.begin(), offers.end(), [&](const Config& c) { return c.split_k == parts; });
                if (one == offers.end()) continue;
                some.push_back({&kRowWs, *one});
                seen_parts.insert(parts);
            }
            specs.push_back({p, Data::integers, 1, p.has_c() ? 2.0 : 0.0, Place::aligned, kAllCandidates, some});
        }
    EXPECT_EQ(seen_parts.size(), std::size(kParts));
    expect_right(specs);
}

// K in parts that come together through L2, in each form.
class GpuWsSplit : public GpuWs {
  protected:
    static constexpr int kParts[] = {1, 2, 3, 7, 16, 80};

    // Some tiles of a problem, in so many parts, and with the last ones dealt out in steps.
    std::vector<Kernel> split(const Problem& p, int parts) const {
        std::vector<Kernel> found;
        for (Config c : ws_configs(p, runtime_.target))
            for (const SplitForm form : {SplitForm::serial, SplitForm::workspace, SplitForm::stream_k}) {
                const bool some = (c.bm == 64 && c.bn == 32) || (c.bm == 128 && (c.bn == 128 || c.bn == 256)) ||
                                  (c.bm == 256 && c.bn == 128) || (c.bm == 192 && c.bn == 128);
                Config one = c;
                one.split_k = form == SplitForm::stream_k ? 0 : parts, one.split_form = form;
                if (some && c.split_k == 0 && kRowWs.has(p, one, runtime_.target)) found.push_back({&kRowWs, one});
            }
        return found;
    }

    void add(std::vector<CaseSpec>& specs, const Problem& p, int parts) const {
        const std::vector<Kernel> kernels = split(p, parts);
        EXPECT_FALSE(kernels.empty()) << describe(p);
        specs.push_back({p, Data::integers, 1, p.has_c() ? 2.0 : 0.0, Place::aligned, kAllCandidates, kernels});
    }
};

TEST_F(GpuWsSplit, AnyNumberOfPartsOfAnyK) {
    std::vector<CaseSpec> specs;
    for (const int parts : kParts)
        for (const int64_t k : {0, 8, 64, 1000})
            for (const auto& [m, n] : {std::pair<int64_t, int64_t>{40, 24}, {300, 280}, {1500, 1304}}) {
                const size_t turn = specs.size();
                Problem p = make_problem(kTypes[turn % 3], m, n, k, "nt", turn % 4 != 3);
                set_pitch(p, Pitch::eights);
                add(specs, p, parts);
            }
    expect_right(specs);
}

TEST_F(GpuWsSplit, EveryEpilogue) {
    std::vector<CaseSpec> specs;
    for (const int parts : {2, 5})
        for (const carat_gate gate : {CARAT_GATE_NONE, CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT}) {
            Problem p = make_problem(kBf16, 300, 512, 1000, "nt");
            p.epilogue.gate = gate, p.epilogue.activation = CARAT_ACT_RELU;
            if (gate == CARAT_GATE_NONE) add_c(p, CARAT_F32);
            add_bias(p, CARAT_BIAS_N);
            p.epilogue.amax = 1, p.epilogue.scalars_on_device = 1;
            add(specs, p, parts);
            Problem scaled = make_problem({CARAT_BF16, CARAT_E4M3}, 300, 512, 1000, "nt");
            scaled.epilogue.gate = gate;
            scaled.epilogue.out_scale = CARAT_OUT_SCALE_COMPUTED_1X128;
            add(specs, scaled, parts);
        }
    expect_right(specs);
}

TEST_F(GpuWsSplit, SwappedAndAlignedOperandsAndBatches) {
    std::vector<CaseSpec> specs;
    for (const char* layout : kLayouts) {
        Problem p = make_problem(kBf16, 301, 137, 1030, layout);
        set_pitch(p, specs.size() % 2 ? Pitch::odd : Pitch::eights);
        if (specs.size() % 2) set_batch(p, 3, 5);
        const bool aligned = can_align(p);
        const Problem copies = aligned ? align_operands(p) : p, other = swap_operands(copies);
        std::vector<Kernel> kernels;
        for (Kernel kernel : split(copies, 3)) {
            kernel.config.aligned = aligned;
            kernels.push_back(kernel);
        }
        for (Kernel kernel : split(other, 3)) {
            kernel.config = swapped(kernel.config, p);
            kernel.config.aligned = aligned;
            kernels.push_back(kernel);
        }
        EXPECT_FALSE(kernels.empty());
        for (const Kernel& kernel : kernels)
            EXPECT_TRUE(kRowWs.has(p, kernel.config, runtime_.target)) << kernel.config.name();
        for (const Place place : {Place::aligned, Place::one_off})
            specs.push_back({p, Data::integers, 1, 0, place, kAllCandidates, kernels});
    }
    expect_right(specs);
}

TEST_F(GpuWsSplit, TheSameBits50TimesAndInReplayedGraphs) {
    Problem p = make_problem({CARAT_F16, CARAT_F32}, 700, 520, 4104, "nt");
    p.epilogue.activation = CARAT_ACT_SILU, p.epilogue.amax = 1;
    for (const Ready& ready : make_ready(split(p, 7), p, runtime_)) {
        GemmCase gemm(p, Data::normal, 7, 1, 0, Place::aligned);
        std::vector<std::byte> bits;
        float amax = 0;
        expect_same_bits(ready, gemm, 50, bits, amax);
        const Watchdog watchdog;
        const DeviceCase memory(*device_, gemm, ready.executable->workspace_bytes());
        auto stream = device_->stream_create();
        ASSERT_TRUE(stream.ok()) << stream.status().sentence();
        ASSERT_TRUE(device_->graph_begin(*stream).ok());
        EXPECT_TRUE(ready.executable->execute(memory.operands(gemm), *stream).ok());
        auto graph = device_->graph_end(*stream);
        ASSERT_TRUE(graph.ok()) << graph.status().sentence();
        for (int replay = 0; replay < 2; ++replay) {
            gemm.clear_d();
            memory.reset(gemm);
            ASSERT_TRUE((*graph)->launch(*stream).ok());
            memory.fetch(gemm);
            EXPECT_TRUE(bits == gemm.d.elements()) << ready.kernel.config.name() << ", replay " << replay;
        }
        device_->stream_destroy(*stream);
    }
}

// Many items on two streams at once: no block may wait for one that finds no place.
TEST_F(GpuWsSplit, TwoStreamsThatFillTheGpu) {
    const Problem p = make_problem(kBf16, 2048, 2048, 2048, "nt");
    std::vector<Kernel> waiting;
    for (const Kernel& kernel : split(p, 7)) {
        const bool waits = kernel.config.split_form != SplitForm::workspace && kernel.config.bn == 128;
        if (waits) waiting.push_back(kernel);
    }
    ASSERT_GE(waiting.size(), 2u);
    for (const Ready& ready : make_ready(waiting, p, runtime_)) {
        GemmCase gemm(p, Data::integers, 7, 1, 0, Place::aligned);
        std::vector<std::unique_ptr<DeviceCase>> memory;
        std::vector<void*> streams;
        for (int i = 0; i < 2; ++i) {
            memory.push_back(std::make_unique<DeviceCase>(*device_, gemm, ready.executable->workspace_bytes()));
            auto stream = device_->stream_create();
            ASSERT_TRUE(stream.ok()) << stream.status().sentence();
            streams.push_back(*stream);
        }
        {
            const Watchdog watchdog;  // not of the host's own products
            for (int i = 0; i < 100; ++i)
                ASSERT_TRUE(
                    ready.executable->execute(memory[size_t(i % 2)]->operands(gemm), streams[size_t(i % 2)]).ok());
            for (void* stream : streams) {
                EXPECT_TRUE(device_->stream_synchronize(stream).ok());
                device_->stream_destroy(stream);
            }
        }
        EXPECT_TRUE(fetched_bits(*memory[0], gemm) == fetched_bits(*memory[1], gemm)) << ready.kernel.config.name();
        EXPECT_EQ(gemm.verify(0), "") << ready.kernel.config.name();
    }
}

// Pitches that the copy engine takes, and a bias and a maximum in turn.
void vary(Problem& p, size_t turn) {
    set_pitch(p, Pitch::eights);
    p.d.ld = (p.d.ld + 7) / 8 * 8;
    add_bias(p, turn % 4 < 2 ? CARAT_BIAS_M : CARAT_BIAS_N);
    p.epilogue.amax = turn % 3 == 0;
}

// Tiles of fewer rows than their products have, of every number that is a multiple of 8 in turn, with and without K in parts.
TEST_F(GpuWs, RowsDealtEvenly) {
    std::vector<CaseSpec> specs;
    for (int64_t m = 64; m < 16000; m += m / 4 + 8) {
        Problem p = make_problem(kTypes[specs.size() % 3], m + int64_t(specs.size()) % 9, 10 + m % 240, 520, "nt",
                                 specs.size() % 2 == 0);
        vary(p, specs.size());
        std::vector<Kernel> some;
        for (const Config& c : ws_configs(p, runtime_.target))
            if (c.bm % 64 != 0 && (c.bm / 8 + c.split_k) % 2 == 0) some.push_back({&kRowWs, c});
        if (!some.empty()) specs.push_back({p, Data::integers, 1, 0, Place::aligned, kAllCandidates, some});
    }
    EXPECT_GE(specs.size(), 12u);
    expect_right(specs);
}

// The same of columns, for few rows: tiles of any number of rows, with columns in 16s, with and without K in parts.
TEST_F(GpuWs, ColumnsDealtEvenly) {
    std::vector<CaseSpec> specs;
    for (int64_t n = 900; n < 40000; n += n / 3 + 8) {
        const int64_t m = 1 + int64_t(specs.size()) * 37 % 216;
        Problem p = make_problem(kTypes[specs.size() % 3], m, n, 520, specs.size() % 4 == 3 ? "nn" : "nt",
                                 specs.size() % 3 != 2);
        vary(p, specs.size());
        std::vector<Kernel> some;
        for (const Config& c : ws_configs(p, runtime_.target))
            if ((c.bm % 64 != 0 || c.split_k > 0) && (c.bm / 8 + c.bn / 16 + c.split_k) % 3 == 0)
                some.push_back({&kRowWs, c});
        if (!some.empty()) specs.push_back({p, Data::integers, 1, 0, Place::aligned, kAllCandidates, some});
    }
    EXPECT_GE(specs.size(), 10u);
    expect_right(specs);
}

// Operands swapped, with everything that may be in an epilogue then.
TEST_F(GpuWs, SwappedOperands) {
    std::vector<CaseSpec> specs;
    for (const char* layout : kLayouts)
        for (const auto& [m, n, k] : {std::array<int64_t, 3>{301, 137, 200}, {137, 301, 65}, {7, 520, 1030}}) {
            Problem p = make_problem(kBf16, m, n, k, layout, specs.size() % 2 == 0);
            set_pitch(p, specs.size() % 3 == 2 ? Pitch::odd : Pitch::eights);
            add_c(p, specs.size() % 4 < 2 ? CARAT_BF16 : CARAT_F32);
            add_bias(p, specs.size() % 5 < 2 ? CARAT_BIAS_M : CARAT_BIAS_N);
            p.epilogue.activation = CARAT_ACT_RELU;
            p.epilogue.amax = 1;
            std::vector<Kernel> some;
            const Problem other = swap_operands(p);
            for (const Config& c : ws_configs(other, runtime_.target))
                if ((c.bm == 64 && c.bn == 256) || (c.bm == 128 && c.bn == 64))
                    some.push_back({&kRowWs, swapped(c, p)});
            ASSERT_FALSE(some.empty());
            specs.push_back({p, Data::integers, 1, 2, Place::aligned, kAllCandidates, some});
        }
    expect_right(specs);
}

// Operands copied to pitches of 16 bytes first, from any address, and swapped.
TEST_F(GpuWs, AlignedOperands) {
    std::vector<CaseSpec> specs;
    for (const char* layout : kLayouts)
        for (const bool batched : {false, true}) {
            Problem p = make_problem(kBf16, 301, 137, batched ? 65 : 1030, layout, specs.size() % 3 != 0);
            set_pitch(p, specs.size() % 2 ? Pitch::odd : Pitch::even);
            if (batched) set_batch(p, 3, 5);
            add_c(p, CARAT_F32);
            p.epilogue.scalars_on_device = specs.size() % 4 == 3;
            std::vector<Kernel> some;
            for (const Config& c : kRowWs.candidates(p, runtime_.target))
                if (c.aligned) some.push_back({&kRowWs, c});
            for (Config c : ws_configs(align_operands(p), runtime_.target)) {
                c.aligned = true;
                if (c.bm == 128 && c.bn == 128) some.push_back({&kRowWs, c});
            }
            ASSERT_FALSE(some.empty());
            for (const Place place : {Place::aligned, Place::one_off})
                specs.push_back({p, Data::integers, specs.size() % 5 == 4 ? 0.0 : 1.0, 2, place, kAllCandidates, some});
        }
    expect_right(specs);
}

// More tiles of clusters of four than any GPU runs at once, odd counts of them, in every order.
TEST_F(GpuWs, ClustersOfFourWalkOverManyTiles) {
    const Problem p = make_problem(kBf16, 2200, 2104, 72, "nt");
    std::vector<Kernel> kernels;
    for (Config c : ws_configs(p, runtime_.target))
        for (const int strip : {1, 3, -1, -4}) {
            c.strip = strip;
            if (c.cluster_m * c.cluster_n == 4 && c.bm <= 128 && c.bn <= 128 && c.bn % 64 == 0)
                kernels.push_back({&kRowWs, c});
        }
    EXPECT_GE(kernels.size(), 16u);
    expect_right({{p, Data::integers, 1, 0, Place::aligned, kAllCandidates, kernels}});
}

// Kernels of different shapes share the SMs: what one leaves in shared memory or in barriers must not reach another.
TEST_F(GpuWs, EveryCandidateAtOnceGivesTheBitsThatItGivesAlone) {
    Problem p = make_problem(kBf16, 1030, 1544, 520, "nt");
    p.epilogue.activation = CARAT_ACT_SILU;
    const std::vector<Ready> kernels = make_ready(cuda_kernels(p, runtime_.target), p, runtime_);
    GemmCase gemm(p, Data::normal, 7, 1, 0, Place::aligned);
    std::vector<std::unique_ptr<DeviceCase>> memory;
    std::vector<std::vector<std::byte>> alone;
    for (const Ready& ready : kernels) {
        gemm.clear_d();
        memory.push_back(std::make_unique<DeviceCase>(*device_, gemm));
        ASSERT_EQ(check(ready, gemm, *memory.back(), memory.back()->operands(gemm)), "");
        alone.push_back(gemm.d.elements());
        gemm.clear_d();
        memory.back()->reset(gemm);
    }
    const Watchdog watchdog;
    std::vector<void*> streams;
    for (int i = 0; i < 6; ++i) {
        auto stream = device_->stream_create();
        ASSERT_TRUE(stream.ok()) << stream.status().sentence();
        streams.push_back(*stream);
    }
    for (size_t round = 0; round < 20; ++round)
        for (size_t i = 0; i < kernels.size(); ++i) {
            // A kernel keeps its stream, since it keeps its D.
            const carat_operands operands = memory[i]->operands(gemm);
            ASSERT_TRUE(kernels[i].executable->execute(operands, streams[i % streams.size()]).ok());
        }
    for (void* stream : streams) {
        EXPECT_TRUE(device_->stream_synchronize(stream).ok());
        device_->stream_destroy(stream);
    }
    for (size_t i = 0; i < kernels.size(); ++i)
        EXPECT_TRUE(fetched_bits(*memory[i], gemm) == alone[i]) << kernels[i].kernel.config.name();
}

TEST_F(GpuWs, TheSameBits50Times) {
    Problem p = make_problem({CARAT_F16, CARAT_F32}, 1000, 776, 1032, "nt");
    p.epilogue.activation = CARAT_ACT_SILU, p.epilogue.amax = 1;
    const std::vector<Ready> kernels = make_ready(one_of_each_kind(p), p, runtime_);
    EXPECT_GE(kernels.size(), 5u);
    for (const Ready& ready : kernels) {
        GemmCase gemm(p, Data::normal, 7, 1, 0, Place::aligned);
        std::vector<std::byte> bits;
        float amax = 0;
        expect_same_bits(ready, gemm, 50, bits, amax);
    }
}

// A chain on one stream: A, or its negative in every second link, times B is H; H times C is a D of the link's own. A
// kernel begins while the one before it ends: if it read H too early, or wrote H while that one still reads it, a D would
// be wrong.
class GpuWsChain : public GpuWs {
  protected:
    static constexpr int kLinks = 100;

    // Of -1, 0 and 1: sums over 136 are exact in bf16.
    static void make_small(Buffer& values, int64_t count) {
        for (int64_t i = 0; i < count; ++i) values.set(i, double(int(values.at(i)) % 2));
    }

    void expect_right_chain(const Kernel& first_kernel, const Kernel& second_kernel, const Problem& first_problem,
                            const Problem& second_problem) {
        const Ready first = std::move(make_ready({first_kernel}, first_problem, runtime_).at(0));
        const Ready second = std::move(make_ready({second_kernel}, second_problem, runtime_).at(0));
        std::vector<std::unique_ptr<GemmCase>> hidden, out;
        std::vector<std::unique_ptr<DeviceCase>> hidden_memory;
        for (const double sign : {1.0, -1.0}) {
            GemmCase& h = *hidden.emplace_back(
                std::make_unique<GemmCase>(first_problem, Data::integers, 7, 1, 0, Place::aligned));
            make_small(h.a, first_problem.m * first_problem.k), make_small(h.b, first_problem.k * first_problem.n);
            for (int64_t i = 0; i < first_problem.m * first_problem.k; ++i) h.a.set(i, sign * h.a.at(i));
            h.expect();
            const DeviceCase& memory = *hidden_memory.emplace_back(std::make_unique<DeviceCase>(*device_, h));
            ASSERT_EQ(check(first, h, memory, memory.operands(h)), "");
            GemmCase& d =
                *out.emplace_back(std::make_unique<GemmCase>(second_problem, Data::integers, 8, 1, 0, Place::aligned));
            for (int64_t i = 0; i < second_problem.m * second_problem.k; ++i) d.a.set(i, h.d.at(i));
            d.expect();
        }
        run_chain(first, second, hidden, hidden_memory, out);
    }

    void run_chain(const Ready& first, const Ready& second, const std::vector<std::unique_ptr<GemmCase>>& hidden,
                   const std::vector<std::unique_ptr<DeviceCase>>& hidden_memory,
                   const std::vector<std::unique_ptr<GemmCase>>& out) {
        const Watchdog watchdog;
        std::vector<std::unique_ptr<DeviceCase>> links;
        for (int i = 0; i < kLinks; ++i) links.push_back(std::make_unique<DeviceCase>(*device_, *out[size_t(i % 2)]));
        auto stream = device_->stream_create();
        ASSERT_TRUE(stream.ok()) << stream.status().sentence();
        void* const h = hidden_memory[0]->operands(*hidden[0]).d;
        for (size_t i = 0; i < kLinks; ++i) {
            carat_operands one = hidden_memory[i % 2]->operands(*hidden[i % 2]);
            carat_operands two = links[i]->operands(*out[i % 2]);
            one.d = h, two.a = h;
            ASSERT_TRUE(first.executable->execute(one, *stream).ok());
            ASSERT_TRUE(second.executable->execute(two, *stream).ok());
        }
        EXPECT_TRUE(device_->stream_synchronize(*stream).ok());
        device_->stream_destroy(*stream);
        for (size_t i = 0; i < kLinks; ++i) {
            GemmCase& d = *out[i % 2];
            d.clear_d();
            links[i]->fetch(d);
            ASSERT_EQ(named(second.kernel, d.verify()), "") << "link " << i << " after " << first.kernel.config.name();
        }
    }
};

TEST_F(GpuWsChain, KernelsThatBeginBeforeTheirInputsAreThere) {
    const Problem first = make_problem(kBf16, 520, 1032, 136, "nt");
    const Problem second = make_problem({CARAT_BF16, CARAT_F32}, 520, 264, 1032, "nt");
    const std::vector<Kernel> firsts = one_of_each_kind(first), seconds = one_of_each_kind(second);
    ASSERT_EQ(firsts.size(), seconds.size());
    // Each with itself and each with another one.
    for (size_t i = 0; i < firsts.size(); ++i) {
        expect_right_chain(firsts[i], seconds[i], first, second);
        expect_right_chain(firsts[i], seconds[(i + 1) % seconds.size()], first, second);
    }
}

}  // namespace
}  // namespace carat::test
