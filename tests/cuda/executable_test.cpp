// SPDX-License-Identifier: Apache-2.0
// A prepared kernel on the fake driver: maps of the copy engine are encoded with the plan and only moved at a launch, and
// operands that the engine cannot take go another way.
#include <cstring>
#include <thread>

#include "api/validate.hpp"
#include "cuda/device.hpp"
#include "cuda/fake.hpp"
#include "dispatch/aligned.hpp"
#include "dispatch/rows_wgmma.hpp"
#include "dispatch/rows_ws.hpp"
#include "dispatch/runtime.hpp"
#include "jit/jit.hpp"
#include "shared/gemm_params.h"

namespace carat::test {
namespace {

class ExecutableTest : public testing::Test {
  protected:
    void SetUp() override {
        static const auto compiler = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
        if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
        driver_ = open_fake();
        ASSERT_NE(driver_, nullptr);
        record(*driver_) = {};
        auto device = cuda::Device::open(*driver_, 0);
        ASSERT_TRUE(device.ok()) << device.status().sentence();
        runtime_.target = (*device)->target();
        runtime_.device = *device;
        runtime_.jit = compiler;
        prepare(kRowV7WarpSpecialized, false);
    }

    void prepare(const Row& row, bool with_c) {
        carat_problem p;
        ASSERT_EQ(carat_problem_init(&p, 256, 256, 64, CARAT_BF16, "nt"), CARAT_SUCCESS);
        if (with_c) p.c.dtype = CARAT_BF16;
        const Problem problem = *api::validate_problem(&p);
        const std::vector<Config> configs = row.candidates(problem, runtime_.target);
        // C comes in bulk to boxes that are whole and of one block.
        const auto config = std::find_if(configs.begin(), configs.end(),
                                         [](const Config& c) { return c.bm % 64 == 0 && c.split_k == 0; });
        ASSERT_NE(config, configs.end());
        auto made = row.prepare(problem, *config, runtime_);
        ASSERT_TRUE(made.ok()) << made.status().sentence();
        executable_ = std::move(*made);
    }

    static carat_operands operands_at(uintptr_t address) {
        carat_operands o{};
        o.struct_size = sizeof o;
        o.alpha = 1;
        o.a = reinterpret_cast<void*>(address);
        o.b = reinterpret_cast<void*>(address + 0x100000);
        o.d = reinterpret_cast<void*>(address + 0x200000);
        return o;
    }

    ScopedEnv real_code_{"FAKE_CUDA_ANY_CODE", "1"};
    std::unique_ptr<cuda::Driver> driver_;
    Runtime runtime_;
    std::unique_ptr<Executable> executable_;
};

TEST_F(ExecutableTest, MapsAreEncodedOnceAndMovedAtEachLaunch) {
    const FakeRecord& r = record(*driver_);
    EXPECT_EQ(r.maps_encoded, 3);  // A, B, D
    EXPECT_EQ(r.maps_moved, 0);
    for (int launch = 1; launch <= 4; ++launch) {
        ASSERT_TRUE(executable_->execute(operands_at(uintptr_t(launch) << 24), nullptr).ok());
        EXPECT_EQ(r.maps_moved, 3 * launch);
    }
    EXPECT_EQ(r.maps_encoded, 3);
    EXPECT_EQ(r.launches, 4);
}

TEST_F(ExecutableTest, OperandsThatTheEngineCannotTakeGoTheOtherWay) {
    const FakeRecord& r = record(*driver_);
    carat_operands none = operands_at(1 << 24), odd = none, odd_d = none;
    none.a = none.b = nullptr;  // as of alpha 0
    odd.b = static_cast<const char*>(odd.b) + 2;
    odd_d.d = static_cast<char*>(odd_d.d) + 8;
    for (const carat_operands& operands : {none, odd, odd_d}) EXPECT_TRUE(executable_->execute(operands, nullptr).ok());
    EXPECT_EQ(r.launches, 3);
    EXPECT_EQ(r.maps_moved, 0);
}

// In bulk with C, in bulk without it, and by threads. A C that is not there (beta 0) costs no bulk copy.
TEST_F(ExecutableTest, AnOddCIsLeftToThreadsAndNothingElse) {
    record(*driver_) = {};
    prepare(kRowWs, true);
    const FakeRecord& r = record(*driver_);
    EXPECT_EQ(r.maps_encoded, 4 + 3);
    carat_operands operands = operands_at(1 << 24);
    const auto moved = [&](uintptr_t c) {
        operands.c = reinterpret_cast<void*>(c);
        const int before = r.maps_moved;
        EXPECT_TRUE(executable_->execute(operands, nullptr).ok());
        return r.maps_moved - before;
    };
    EXPECT_EQ(moved(1 << 26), 4);
    EXPECT_EQ(moved(0), 3);
    EXPECT_EQ(moved((1 << 26) + 2), 3);
    operands.a = nullptr;
    EXPECT_EQ(moved(1 << 26), 0);
    EXPECT_EQ(r.launches, 4);
}

// A and B of odd pitch, copied to the workspace by a launch before: the product's maps are of the copies.
TEST_F(ExecutableTest, OddPitchesAreAlignedInTheWorkspace) {
    carat_problem raw;
    ASSERT_EQ(carat_problem_init(&raw, 256, 256, 65, CARAT_BF16, "nt"), CARAT_SUCCESS);
    const Problem p = *api::validate_problem(&raw);
    Config config = ws_configs(align_operands(p), runtime_.target).front();
    config.aligned = true;
    ASSERT_TRUE(kRowWs.has(p, config, runtime_.target));
    auto made = kRowWs.prepare(p, config, runtime_);
    ASSERT_TRUE(made.ok()) << made.status().sentence();
    const size_t each = 256 * 128 * 2;
    EXPECT_EQ((*made)->workspace_bytes(), 256 + 2 * each);
    EXPECT_EQ(kRowWs.workspace_bytes(p, config), (*made)->workspace_bytes());

    static std::vector<uintptr_t> from, to;
    static int aligned, multiplied;
    from.clear(), to.clear(), aligned = multiplied = 0;
    record(*driver_) = {};
    record(*driver_).on_launch = [](const void* parameters) {
        if (aligned++ % 2 == 0) {
            const auto& params = *static_cast<const carat_shared::AlignParams*>(parameters);
            for (const carat_shared::LinesToAlign& x : params.operands)
                from.push_back(uintptr_t(x.from)), to.push_back(uintptr_t(x.to));
            EXPECT_EQ(params.count, 2);
            EXPECT_EQ(params.operands[0].pitch, 65);
            EXPECT_EQ(params.operands[0].to_pitch, 128);
        } else {
            const auto& params = *static_cast<const carat_shared::BulkGemmParams*>(parameters);
            multiplied += uintptr_t(params.a) == to[0] && uintptr_t(params.b) == to[1] && params.a_strides.row == 128;
        }
    };
    carat_operands operands = operands_at((1 << 24) + 2);
    operands.d = reinterpret_cast<void*>(1 << 26);
    operands.workspace = reinterpret_cast<void*>((1 << 28) + 8), operands.workspace_bytes = (*made)->workspace_bytes();
    ASSERT_TRUE((*made)->execute(operands, nullptr).ok());
    EXPECT_EQ(from, (std::vector<uintptr_t>{uintptr_t(operands.a), uintptr_t(operands.b)}));
    EXPECT_EQ(to, (std::vector<uintptr_t>{(1 << 28) + 256, (1 << 28) + 256 + each}));
    EXPECT_EQ(multiplied, 1);
    EXPECT_EQ(record(*driver_).launches, 2);
    // Nothing is copied where nothing is read.
    record(*driver_) = {};
    operands.alpha = 0;
    ASSERT_TRUE((*made)->execute(operands, nullptr).ok());
    EXPECT_EQ(record(*driver_).launches, 1);
}

// The fake's maps start with their address.
bool maps_fit(const carat_shared::BulkGemmParams& params) {
    const auto fits = [](const carat_shared::BulkMap& map, const void* operand) {
        return std::memcmp(map.bytes, &operand, sizeof operand) == 0;
    };
    return fits(params.a_maps.whole, params.a) && fits(params.b_maps.whole, params.b) && fits(params.d_map, params.d);
}

TEST_F(ExecutableTest, ManyThreadsMoveTheirOwnCopies) {
    static int fitting;
    fitting = 0;
    record(*driver_).on_launch = [](const void* parameters) {
        fitting += maps_fit(*static_cast<const carat_shared::BulkGemmParams*>(parameters));
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 200; ++i)
                EXPECT_TRUE(executable_->execute(operands_at(uintptr_t(t + 1) << 24), nullptr).ok());
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(record(*driver_).launches, 1600);
    EXPECT_EQ(fitting, 1600);
}

}  // namespace
}  // namespace carat::test
