// SPDX-License-Identifier: Apache-2.0
// Planning while a stream is captured, on the fake driver, in all three modes: what is compiled is loaded and the capture goes
// on; what would have to be compiled is NOT_PREPARED, and the capture goes on, too.
#include <future>
#include <thread>

#include "api/validate.hpp"
#include "cuda/device.hpp"
#include "cuda/fake.hpp"
#include "dispatch/prepare.hpp"
#include "dispatch/runtime.hpp"
#include "jit/jit.hpp"

namespace carat::test {
namespace {

enum class Mode { global = 0, thread_local_ = 1, relaxed = 2 };
constexpr Mode kModes[] = {Mode::global, Mode::thread_local_, Mode::relaxed};

class CaptureTest : public testing::Test {
  protected:
    void SetUp() override {
        driver_ = open_fake();
        ASSERT_NE(driver_, nullptr);
        record(*driver_) = {};
        device_ = *cuda::Device::open(*driver_, 0);
        stream_ = *device_->stream_create();
        driver_->context_push(foreign_context(*driver_, 0));
    }
    void TearDown() override {
        cuda::CuContext popped = nullptr;
        driver_->context_pop(&popped);
        device_->stream_destroy(stream_);
    }

    void begin(Mode mode) { ASSERT_EQ(driver_->capture_begin(stream_, int(mode)), 0); }
    // 0, or the driver's error where the capture was lost.
    int end() {
        cuda::CuGraph graph = nullptr;
        return driver_->capture_end(stream_, &graph);
    }

    // A plan, prepared as the library does.
    Status plan(std::shared_ptr<jit::Jit> compiler, bool may_compile) {
        carat_problem raw;
        EXPECT_EQ(carat_problem_init(&raw, 256, 256, 64, CARAT_BF16, "nt"), CARAT_SUCCESS);
        const Problem p = *api::validate_problem(&raw);
        Runtime runtime;
        runtime.target = device_->target();
        runtime.device = device_;
        runtime.jit = std::move(compiler);
        runtime.may_compile = may_compile;
        const auto candidates = rank(p, runtime.target, "v4_wmma");
        return prepare_best(*candidates, p, runtime).status();
    }

    ScopedEnv real_code_{"FAKE_CUDA_ANY_CODE", "1"};
    std::unique_ptr<cuda::Driver> driver_;
    std::shared_ptr<cuda::Device> device_;
    void* stream_ = nullptr;
};

TEST_F(CaptureTest, TheFakeRefusesWhatTheDriverRefuses) {
    for (const Mode mode : kModes) {
        begin(mode);
        EXPECT_TRUE(*device_->is_capturing(stream_));
        EXPECT_EQ(device_->alloc(16).ok(), mode == Mode::relaxed);
        EXPECT_EQ(end() == 0, mode == Mode::relaxed);
        EXPECT_FALSE(*device_->is_capturing(stream_));
    }
    EXPECT_FALSE(*device_->is_capturing(nullptr));
}

TEST_F(CaptureTest, RelaxedForItsScopeAlone) {
    begin(Mode::global);
    {
        const cuda::RelaxedCapture relaxed(device_.get());
        EXPECT_TRUE(device_->alloc(16).ok());
        std::thread([&] {
            const cuda::RelaxedCapture of_this_thread(device_.get());
            EXPECT_TRUE(device_->alloc(16).ok());
        }).join();
    }
    EXPECT_EQ(record(*driver_).captures_lost, 0);
    EXPECT_FALSE(device_->alloc(16).ok());
    EXPECT_NE(end(), 0);
    const cuda::RelaxedCapture nothing(nullptr);
}

TEST_F(CaptureTest, WhatIsCompiledIsLoadedAndTheCaptureGoesOn) {
    if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
    const auto compiler = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
    ASSERT_TRUE(plan(compiler, true).ok());
    for (const Mode mode : kModes) {
        device_ = *cuda::Device::open(*driver_, 0);  // with nothing loaded yet
        const int loaded = record(*driver_).loaded;
        begin(mode);
        const Status status = plan(compiler, false);
        EXPECT_TRUE(status.ok()) << status.sentence();
        EXPECT_EQ(record(*driver_).loaded, loaded + 1);
        EXPECT_EQ(end(), 0) << "mode " << int(mode);
    }
    // Another thread's capture in global mode forbids this one's calls, too.
    device_ = *cuda::Device::open(*driver_, 0);
    begin(Mode::global);
    std::thread([&] { EXPECT_TRUE(plan(compiler, true).ok()); }).join();
    EXPECT_EQ(end(), 0);
}

TEST_F(CaptureTest, WhatIsNotCompiledIsNotPreparedAndTheCaptureGoesOn) {
    if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
    const auto compiler = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
    for (const Mode mode : kModes) {
        begin(mode);
        const Status status = plan(compiler, false);
        EXPECT_EQ(status.code(), CARAT_NOT_PREPARED);
        for (const char* part :
             {"v4_wmma_bf16", "its stream is being captured", "before the capture begins", "carat prepare"})
            EXPECT_TRUE(contains(status.sentence(), part));
        EXPECT_EQ(end(), 0);
    }
    // Who may compile does so, also while others may not, and then all have it.
    std::vector<std::future<Status>> all;
    for (int i = 0; i < 8; ++i)
        all.push_back(std::async(std::launch::async, [&, i] { return plan(compiler, i % 2 == 0); }));
    for (int i = 0; i < 8; ++i) {
        const Status status = all[size_t(i)].get();
        EXPECT_TRUE(status.ok() || (i % 2 == 1 && status.code() == CARAT_NOT_PREPARED)) << i << status.sentence();
    }
    EXPECT_TRUE(plan(compiler, false).ok());
}

}  // namespace
}  // namespace carat::test
