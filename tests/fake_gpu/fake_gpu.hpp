// SPDX-License-Identifier: Apache-2.0
// fake_gpu.hpp: a context of the C ABI whose driver is the fake one: kernels are compiled, loaded and launched, and none runs.
// Operands are addresses that nobody reads.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "carat/carat.hpp"
#include "cuda/fake.hpp"
#include "jit/jit.hpp"

namespace carat::test {

class FakeGpuTest : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        setenv("CARAT_CUDA_PATH", fake_path().c_str(), 1);  // the driver of the process is opened once
        setenv("FAKE_CUDA_ANY_CODE", "1", 1);
    }
    void SetUp() override {
        if (!jit::nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << jit::nvrtc_info().status().sentence();
        context_.emplace(options());
        fake() = {};
    }

    static carat_context_options options() {
        carat_context_options options = Context::default_options();
        options.backend = CARAT_BACKEND_CUDA;
        options.cache_dir = "";
        return options;
    }
    static FakeRecord& fake() { return record(driver()); }
    static const cuda::Driver& driver() { return **cuda::driver(); }

    static carat_problem problem(int64_t m) { return gemm_problem(m, 256, 128, CARAT_BF16, "nt"); }

    static void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }
    static Operands operands() {
        return {.a = at(1 << 24), .b = at(2 << 24), .c = at(3 << 24), .d = at(4 << 24), .bias = at(5 << 24)};
    }

    std::optional<Context> context_;
};

}  // namespace carat::test
