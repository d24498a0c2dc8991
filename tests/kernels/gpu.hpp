// SPDX-License-Identifier: Apache-2.0
// gpu.hpp: runs a GemmCase through a row of the registry on a real GPU: memory, a watchdog, and the reason to skip.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "cuda/device.hpp"
#include "dispatch/registry.hpp"
#include "dispatch/runtime.hpp"
#include "jit/jit.hpp"
#include "kernels/gemm_case.hpp"

namespace carat::test {

// Aborts the process if a kernel hangs: no GPU step of a test may take 20 s.
class Watchdog {
  public:
    Watchdog() {
        std::signal(SIGALRM, [](int) {
            constexpr char kText[] = "watchdog: a GPU step took more than 20 s; aborting\n";
            [[maybe_unused]] const auto written = write(2, kText, sizeof kText - 1);
            abort();
        });
        alarm(20);
    }
    ~Watchdog() { alarm(0); }
};

class DeviceMemory {
  public:
    DeviceMemory(const cuda::Device& device, size_t bytes) : device_(device) {
        auto memory = device.alloc(bytes);
        EXPECT_TRUE(memory.ok()) << memory.status().sentence();
        if (memory.ok()) memory_ = *memory;
    }
    DeviceMemory(const cuda::Device& device, const Buffer& buffer) : DeviceMemory(device, buffer.bytes()) {
        EXPECT_TRUE(device.copy(memory_, buffer.floats.data(), buffer.bytes()).ok());
    }
    DeviceMemory(const DeviceMemory&) = delete;
    ~DeviceMemory() { device_.free(memory_); }
    float* floats() const { return static_cast<float*>(memory_); }

  private:
    const cuda::Device& device_;
    void* memory_ = nullptr;
};

// The operands of a case in device memory.
class DeviceCase {
  public:
    DeviceCase(const cuda::Device& device, const GemmCase& gemm)
        : device_(device),
          a_(device, gemm.a),
          b_(device, gemm.b),
          c_(device, gemm.c),
          d_(device, gemm.d),
          bias_(device, gemm.bias),
          out_scale_(device, gemm.out_scale),
          small_(device, 3 * sizeof(float)) {
        // amax starts as NaN: the library must not build on what is there.
        const float small[3] = {gemm.scalars[0], gemm.scalars[1], NAN};
        EXPECT_TRUE(device.copy(small_.floats(), small, sizeof small).ok());
    }

    carat_operands operands(const GemmCase& gemm) const {
        carat_operands o{};
        o.struct_size = sizeof o;
        o.a = a_.floats() + kGuard, o.b = b_.floats() + kGuard, o.d = d_.floats() + kGuard;
        o.c = gemm.problem.has_c() ? c_.floats() + kGuard : nullptr;
        o.alpha = gemm.alpha, o.beta = gemm.beta;
        o.bias = gemm.bias.floats.empty() ? nullptr : bias_.floats() + kGuard;
        o.out_scale = gemm.out_scale.floats.empty() ? nullptr : out_scale_.floats() + kGuard;
        o.alpha_device = small_.floats(), o.beta_device = small_.floats() + 1;
        o.amax = gemm.problem.epilogue.amax ? small_.floats() + 2 : nullptr;
        return o;
    }

    // Brings D back; gives amax.
    float fetch(GemmCase& gemm) const {
        float amax = 0;
        EXPECT_TRUE(device_.copy(gemm.d.floats.data(), d_.floats(), gemm.d.bytes()).ok());
        EXPECT_TRUE(device_.copy(&amax, small_.floats() + 2, sizeof amax).ok());
        return amax;
    }

  private:
    const cuda::Device& device_;
    DeviceMemory a_, b_, c_, d_, bias_, out_scale_, small_;
};

struct Kernel {
    const Row* row;
    Config config;
};

// Every candidate of every CUDA row that takes the problem.
inline std::vector<Kernel> cuda_kernels(const Problem& problem, const Target& target) {
    std::vector<Kernel> kernels;
    for (const Row& row : registry()) {
        Requirements requirements;
        if (row.backend != CARAT_BACKEND_CUDA) continue;
        row.require(problem, target, requirements);
        if (!requirements.ok()) continue;
        for (const Config& config : row.candidates(problem, target)) kernels.push_back({&row, config});
    }
    return kernels;
}

class GpuTest : public testing::Test {
  protected:
    void SetUp() override {
        auto device = cuda::Device::open(-1);
        if (!device.ok()) GTEST_SKIP() << "no GPU: " << device.status().sentence();
        device_ = *device;
        runtime_ = runtime_for(device_);
    }

    static Runtime runtime_for(std::shared_ptr<cuda::Device> device) {
        static const auto compiler = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
        Runtime runtime;
        runtime.target = device->target();
        runtime.device = std::move(device);
        runtime.jit = compiler;
        return runtime;
    }

    static std::unique_ptr<Executable> prepare(const Kernel& kernel, const Problem& problem, Runtime& runtime) {
        auto executable = kernel.row->prepare(problem, kernel.config, runtime);
        EXPECT_TRUE(executable.ok()) << executable.status().sentence();
        return executable.ok() ? std::move(*executable) : nullptr;
    }

    // Executes and waits; "" or what is wrong.
    static std::string run(const Executable& executable, const cuda::Device& device, const carat_operands& operands,
                           void* stream = nullptr) {
        const Watchdog watchdog;
        if (Status status = executable.execute(operands, stream); !status.ok()) return status.sentence();
        const Status status = device.stream_synchronize(stream);
        return status.ok() ? "" : status.sentence();
    }

    // One case on one kernel, verified.
    std::string check(const Kernel& kernel, GemmCase& gemm) {
        const auto executable = prepare(kernel, gemm.problem, runtime_);
        if (!executable) return "not prepared";
        const DeviceCase memory(*device_, gemm);
        std::string error = run(*executable, *device_, memory.operands(gemm));
        if (error.empty()) {
            const float amax = memory.fetch(gemm);
            error = gemm.verify(amax);
        }
        return error.empty() ? "" : kernel.config.name() + ": " + error;
    }

    // The case on every kernel that takes it.
    void expect_right(const Problem& problem, Data data, double alpha = 1, double beta = 0) {
        const auto kernels = cuda_kernels(problem, runtime_.target);
        EXPECT_FALSE(kernels.empty()) << describe(problem);
        for (const Kernel& kernel : kernels) {
            GemmCase gemm(problem, data, 7, alpha, beta);
            EXPECT_EQ(check(kernel, gemm), "");
        }
    }

    std::shared_ptr<cuda::Device> device_;
    Runtime runtime_;
};

}  // namespace carat::test
