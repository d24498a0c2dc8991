// SPDX-License-Identifier: Apache-2.0
// gpu.hpp: runs GemmCases through the rows of the registry on a real GPU: memory, a watchdog, and the reason to skip.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "cuda/device.hpp"
#include "dispatch/aligned.hpp"
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
    DeviceMemory(const cuda::Device& device, const Buffer& buffer) : DeviceMemory(device, buffer.bytes.size()) {
        EXPECT_TRUE(device.copy(memory_, buffer.bytes.data(), buffer.bytes.size()).ok());
        offset_ = buffer.offset_bytes();
    }
    DeviceMemory(const DeviceMemory&) = delete;
    ~DeviceMemory() { device_.free(memory_); }
    char* base() const { return static_cast<char*>(memory_); }
    float* floats() const { return static_cast<float*>(memory_); }
    void* data() const { return base() + offset_; }  // the first element

  private:
    const cuda::Device& device_;
    void* memory_ = nullptr;
    int64_t offset_ = 0;
};

struct Kernel {
    const Row* row;
    Config config;
};

// Candidates of the CUDA rows that take the problem: all of them, or one of each row, another one each `turn`.
constexpr int kAllCandidates = -1;
inline std::vector<Kernel> cuda_kernels(const Problem& problem, const Target& target, int turn = kAllCandidates) {
    std::vector<Kernel> kernels;
    for (const Row& row : registry()) {
        Requirements requirements;
        if (row.backend != CARAT_BACKEND_CUDA) continue;
        row.require(problem, target, requirements);
        if (!requirements.ok()) continue;
        const std::vector<Config> configs = row.candidates(problem, target);
        for (size_t i = 0; i < configs.size(); ++i)
            if (turn == kAllCandidates || i == size_t(turn) % configs.size()) kernels.push_back({&row, configs[i]});
    }
    return kernels;
}

// What any of them needs of the workspace.
inline size_t most_workspace(const Problem& problem, const Target& target) {
    size_t most = 1;
    for (const Kernel& kernel : cuda_kernels(problem, target))
        if (kernel.row->workspace_bytes) most = std::max(most, kernel.row->workspace_bytes(problem, kernel.config));
    return most;
}

// The operands of a case in device memory.
class DeviceCase {
  public:
    // workspace_bytes: of kernels that are no candidates, whose workspaces are large enough anyway.
    DeviceCase(const cuda::Device& device, const GemmCase& gemm, size_t workspace_bytes = 0)
        : device_(device),
          a_(device, gemm.a),
          b_(device, gemm.b),
          c_(device, gemm.c),
          d_(device, gemm.d),
          bias_(device, gemm.bias),
          out_scale_(device, gemm.out_scale),
          d_scales_(device, gemm.d_scales),
          small_(device, 3 * sizeof(float)),
          workspace_bytes_(std::max(workspace_bytes, most_workspace(gemm.problem, device.target()))),
          workspace_(device, workspace_bytes_) {
        EXPECT_TRUE(device.fill(workspace_.base(), 0xff, workspace_bytes_).ok());  // NaN, and no count of turns
        reset(gemm);
    }

    // D and its scales as the host has them, and amax NaN: the library must not build on what is there.
    void reset(const GemmCase& gemm) const {
        const float small[3] = {gemm.scalars[0], gemm.scalars[1], NAN};
        EXPECT_TRUE(device_.copy(small_.floats(), small, sizeof small).ok());
        EXPECT_TRUE(device_.copy(d_.base(), gemm.d.bytes.data(), gemm.d.bytes.size()).ok());
        EXPECT_TRUE(device_.copy(d_scales_.base(), gemm.d_scales.bytes.data(), gemm.d_scales.bytes.size()).ok());
    }

    carat_operands operands(const GemmCase& gemm) const {
        carat_operands o{};
        o.struct_size = sizeof o;
        o.a = a_.data(), o.b = b_.data(), o.d = d_.data();
        o.c = gemm.problem.has_c() ? c_.data() : nullptr;
        o.alpha = gemm.alpha, o.beta = gemm.beta;
        o.bias = gemm.bias.empty() ? nullptr : bias_.data();
        o.out_scale = gemm.out_scale.empty() ? nullptr : static_cast<const float*>(out_scale_.data());
        o.d_scales = gemm.d_scales.empty() ? nullptr : static_cast<float*>(d_scales_.data());
        o.alpha_device = small_.floats(), o.beta_device = small_.floats() + 1;
        o.amax = gemm.problem.epilogue.amax ? small_.floats() + 2 : nullptr;
        o.workspace = workspace_.data(), o.workspace_bytes = workspace_bytes_;
        return o;
    }

    // Brings D and its scales back; gives amax.
    float fetch(GemmCase& gemm) const {
        float amax = 0;
        EXPECT_TRUE(device_.copy(gemm.d.bytes.data(), d_.base(), gemm.d.bytes.size()).ok());
        EXPECT_TRUE(device_.copy(gemm.d_scales.bytes.data(), d_scales_.base(), gemm.d_scales.bytes.size()).ok());
        EXPECT_TRUE(device_.copy(&amax, small_.floats() + 2, sizeof amax).ok());
        return amax;
    }

  private:
    const cuda::Device& device_;
    DeviceMemory a_, b_, c_, d_, bias_, out_scale_, d_scales_, small_;
    size_t workspace_bytes_;
    DeviceMemory workspace_;
};

// A kernel prepared for one problem.
struct Ready {
    Kernel kernel;
    std::unique_ptr<Executable> executable;
};

// A case to be made, and the candidates to run it on, unless kernels are named.
struct CaseSpec {
    Problem problem;
    Data data = Data::integers;
    double alpha = 1, beta = 0;
    Place place = Place::one_off;
    int turn = kAllCandidates;
    std::vector<Kernel> kernels = {};
};

// Of all the tests of a process. It takes kernels from the packs of CARAT_PACK, and gpu_pack.cpp writes such a pack.
inline const std::shared_ptr<jit::Jit>& gpu_jit() {
    static const auto jit = std::make_shared<jit::Jit>(jit::Options{CARAT_JIT_AUTO, ""});
    return jit;
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
        Runtime runtime;
        runtime.target = device->target();
        runtime.device = std::move(device);
        runtime.jit = gpu_jit();
        return runtime;
    }

    // Kernels for a problem, compiled on all cores. One that cannot be prepared is a failure and left out.
    static std::vector<Ready> make_ready(const std::vector<Kernel>& kernels, const Problem& problem, Runtime& runtime,
                                         bool parallel = true) {
        std::vector<Ready> ready;
        for (const Kernel& kernel : kernels) ready.push_back({kernel, nullptr});
        for_each_index(int64_t(ready.size()), parallel, [&](int64_t i) {
            Ready& one = ready[size_t(i)];
            auto executable = one.kernel.row->prepare(problem, one.kernel.config, runtime);
            EXPECT_TRUE(executable.ok()) << executable.status().sentence();
            if (executable.ok()) one.executable = std::move(*executable);
        });
        std::erase_if(ready, [](const Ready& one) { return one.executable == nullptr; });
        return ready;
    }
    static std::vector<Ready> ready_kernels(const Problem& problem, Runtime& runtime, int turn = kAllCandidates) {
        return make_ready(cuda_kernels(problem, runtime.target, turn), problem, runtime);
    }
    std::vector<Ready> ready_kernels(const Problem& problem, int turn = kAllCandidates) {
        return ready_kernels(problem, runtime_, turn);
    }

    // Executes and waits; "" or what is wrong.
    static std::string run(const Executable& executable, const cuda::Device& device, const carat_operands& operands,
                           void* stream = nullptr) {
        const Watchdog watchdog;
        if (executable.workspace_bytes() > operands.workspace_bytes) return "the test's workspace is too small";
        if (Status status = executable.execute(operands, stream); !status.ok()) return status.sentence();
        const Status status = device.stream_synchronize(stream);
        return status.ok() ? "" : status.sentence();
    }

    // Runs a case and verifies it.
    std::string check(const Ready& ready, GemmCase& gemm, const DeviceCase& memory, const carat_operands& operands) {
        std::string error = run(*ready.executable, *device_, operands);
        if (error.empty()) {
            const float amax = memory.fetch(gemm);
            error = gemm.verify(amax);
        }
        return named(ready.kernel, error);
    }

    static std::string named(const Kernel& kernel, const std::string& error) {
        return error.empty() ? "" : kernel.config.name() + ": " + error;
    }

    struct Prepared {
        std::unique_ptr<GemmCase> gemm;
        std::vector<Ready> kernels;
    };

    Prepared prepare(const CaseSpec& spec) {
        Prepared ready;
        ready.gemm = std::make_unique<GemmCase>(spec.problem, spec.data, 7, spec.alpha, spec.beta, spec.place);
        ready.gemm->expect();
        ready.kernels =
            make_ready(spec.kernels.empty() ? cuda_kernels(spec.problem, runtime_.target, spec.turn) : spec.kernels,
                       spec.problem, runtime_, false);
        return ready;
    }

    void run(Prepared& prepared) {
        GemmCase& gemm = *prepared.gemm;
        EXPECT_FALSE(prepared.kernels.empty()) << "no row takes " << gemm.text();
        size_t workspace_bytes = 0;
        for (const Ready& ready : prepared.kernels)
            workspace_bytes = std::max(workspace_bytes, ready.executable->workspace_bytes());
        const DeviceCase memory(*device_, gemm, workspace_bytes);
        for (const Ready& ready : prepared.kernels) {
            gemm.clear_d();
            memory.reset(gemm);
            EXPECT_EQ(check(ready, gemm, memory, memory.operands(gemm)), "");
        }
    }

    // Runs a case `repeats` times, D overwritten with canaries between; the bits of D, the same each time.
    void expect_same_bits(const Ready& ready, GemmCase& gemm, int repeats, std::vector<std::byte>& bits, float& amax) {
        const std::string name = ready.kernel.config.name();
        const DeviceCase memory(*device_, gemm, ready.executable->workspace_bytes());
        for (int repeat = 0; repeat < repeats; ++repeat) {
            gemm.clear_d();
            memory.reset(gemm);
            ASSERT_EQ(run(*ready.executable, *device_, memory.operands(gemm)), "");
            const float largest = memory.fetch(gemm);
            if (bits.empty()) bits = gemm.d.elements(), amax = largest;
            ASSERT_TRUE(bits == gemm.d.elements()) << name << ", repeat " << repeat << " of " << gemm.text();
            if (gemm.problem.epilogue.amax) {
                ASSERT_EQ(amax, largest) << name;
            }
        }
        EXPECT_EQ(gemm.verify(amax), "") << name;
    }

    // Every case on every kernel that takes it. All cores make the expectations and compile.
    void expect_right(const std::vector<CaseSpec>& specs) {
        constexpr size_t kAtOnce = 64;
        for (size_t first = 0; first < specs.size() && !HasFatalFailure(); first += kAtOnce) {
            std::vector<Prepared> ready(std::min(kAtOnce, specs.size() - first));
            for_each_index(int64_t(ready.size()), true,
                           [&](int64_t i) { ready[size_t(i)] = prepare(specs[first + size_t(i)]); });
            for (Prepared& one : ready) run(one);
        }
    }

    std::shared_ptr<cuda::Device> device_;
    Runtime runtime_;
};

}  // namespace carat::test
