// SPDX-License-Identifier: Apache-2.0
// The host side on a real GPU: threads and streams, two devices, graphs, contexts of the caller, tensor maps.
#include <thread>

#include "cuda/driver.hpp"
#include "cuda/tensor_map.hpp"
#include "dispatch/prepare.hpp"
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

using GpuHost = GpuTest;

// Kernels that store in place and kernels that copy in bulk, whose descriptors are made at each launch.
constexpr Types kBoth[] = {kF32, kBf16};

Problem small_problem(Types types) {
    return make_problem(types, 65, 136, 72, "nt");
}

// 50 launches on a stream of its own, the last one verified; "" or what is wrong.
std::string run_on_own_stream(const cuda::Device& device, const Executable& executable, unsigned seed,
                              const Problem& problem) {
    auto stream = device.stream_create();
    if (!stream.ok()) return stream.status().sentence();
    GemmCase gemm(problem, Data::integers, seed, 1, 0, Place::aligned);
    const DeviceCase memory(device, gemm);
    Status status;
    for (int i = 0; i < 50 && status.ok(); ++i) {
        status = executable.execute(memory.operands(gemm), *stream);
        if (status.ok()) status = device.stream_synchronize(*stream);
    }
    device.stream_destroy(*stream);
    if (!status.ok()) return status.sentence();
    memory.fetch(gemm);
    return gemm.verify();
}

TEST_F(GpuHost, EightThreadsOnStreamsOfTheirOwn) {
    for (const Types types : kBoth)
        for (const Ready& ready : ready_kernels(small_problem(types))) {
            const Problem p = small_problem(types);
            std::vector<std::string> errors(8);
            std::vector<std::thread> threads;
            for (unsigned t = 0; t < 8; ++t)
                threads.emplace_back([&, t] { errors[t] = run_on_own_stream(*device_, *ready.executable, t, p); });
            for (std::thread& thread : threads) thread.join();
            for (const std::string& error : errors) EXPECT_EQ(named(ready.kernel, error), "");
        }
}

TEST_F(GpuHost, TwoDevicesInOneProcess) {
    if (cuda::driver_info()->devices < 2) GTEST_SKIP() << "one GPU only";
    std::vector<std::thread> threads;
    std::vector<std::string> errors(2);
    for (int ordinal = 0; ordinal < 2; ++ordinal)
        threads.emplace_back([&, ordinal] {
            std::string& error = errors[size_t(ordinal)];
            auto device = cuda::Device::open(ordinal);
            if (!device.ok()) return void(error = device.status().sentence());
            Runtime runtime = runtime_for(*device);
            for (const Types types : kBoth)
                for (const Ready& ready : ready_kernels(small_problem(types), runtime))
                    if (error.empty())
                        error = named(ready.kernel, run_on_own_stream(**device, *ready.executable, unsigned(ordinal),
                                                                      small_problem(types)));
        });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_F(GpuHost, TheFirstLaunchCanBeCapturedAndReplayed) {
    for (const Types types : kBoth) {
        Problem p = small_problem(types);
        p.epilogue.amax = 1;
        for (const Ready& ready : ready_kernels(p)) {
            const Watchdog watchdog;
            GemmCase gemm(p, Data::integers, 1, 1, 0, Place::aligned);
            const DeviceCase memory(*device_, gemm);
            auto stream = device_->stream_create();
            ASSERT_TRUE(stream.ok());
            ASSERT_TRUE(device_->graph_begin(*stream).ok());
            const Status status = ready.executable->execute(memory.operands(gemm), *stream);
            EXPECT_TRUE(status.ok()) << status.sentence();
            auto graph = device_->graph_end(*stream);
            ASSERT_TRUE(graph.ok()) << graph.status().sentence();
            for (int replay = 0; replay < 3; ++replay) {
                gemm.clear_d();
                memory.reset(gemm);
                const auto elapsed = (*graph)->launch(*stream);
                ASSERT_TRUE(elapsed.ok()) << elapsed.status().sentence();
                EXPECT_GT(*elapsed, 0);
                const float amax = memory.fetch(gemm);
                EXPECT_EQ(named(ready.kernel, gemm.verify(amax)), "") << "replay " << replay;
            }
            device_->stream_destroy(*stream);
        }
    }
}

// In all three modes: loading what is compiled leaves the capture alone, and the graph runs.
TEST_F(GpuHost, APlanCanBeMadeWhileItsStreamIsCaptured) {
    const cuda::Driver& driver = **cuda::driver();
    for (const Types types : kBoth)
        for (int mode = 0; mode <= 2; ++mode) {
            const Watchdog watchdog;
            const Problem p = small_problem(types);
            const auto candidates = rank(p, runtime_.target);
            ASSERT_TRUE(candidates.ok());
            ASSERT_TRUE(prepare_best(*candidates, p, runtime_).ok());  // compiled, by another device object
            auto device = cuda::Device::open(-1);
            ASSERT_TRUE(device.ok());
            Runtime runtime = runtime_for(*device);
            runtime.may_compile = false;
            GemmCase gemm(p, Data::integers, 1, 1, 0, Place::aligned);
            const DeviceCase memory(**device, gemm);
            void* stream = *(*device)->stream_create();
            cuda::CuContext context = nullptr, popped = nullptr;
            ASSERT_EQ(driver.primary_retain(&context, 0), 0);
            ASSERT_EQ(driver.context_push(context), 0);
            ASSERT_EQ(driver.capture_begin(stream, mode), 0);
            EXPECT_TRUE(*(*device)->is_capturing(stream));
            const auto prepared = prepare_best(*candidates, p, runtime);
            EXPECT_TRUE(prepared.ok()) << prepared.status().sentence();
            if (prepared.ok()) {
                const Status status = prepared->executable->execute(memory.operands(gemm), stream);
                EXPECT_TRUE(status.ok()) << status.sentence();
            }
            auto graph = (*device)->graph_end(stream);
            ASSERT_TRUE(graph.ok()) << "mode " << mode << ": " << graph.status().sentence();
            ASSERT_TRUE((*graph)->launch(stream).ok());
            memory.fetch(gemm);
            EXPECT_EQ(gemm.verify(), "") << "mode " << mode;
            (*device)->stream_destroy(stream);
            driver.context_pop(&popped);
            driver.primary_release(0);
        }
}

TEST_F(GpuHost, ACallersOwnContextIsUsedAndLeftCurrent) {
    const cuda::Driver* driver = *cuda::driver();
    using Create = int(cuda::CuContext*, unsigned, cuda::CuDevice);
    using Destroy = int(cuda::CuContext);
    const auto create = reinterpret_cast<Create*>(driver->library.symbol("cuCtxCreate_v2"));
    const auto destroy = reinterpret_cast<Destroy*>(driver->library.symbol("cuCtxDestroy_v2"));
    ASSERT_NE(create, nullptr);
    cuda::CuContext mine = nullptr, now = nullptr;
    ASSERT_EQ(create(&mine, 0, 0), 0);  // and current
    {
        auto device = cuda::Device::open(-1);
        ASSERT_TRUE(device.ok()) << device.status().sentence();
        Runtime runtime = runtime_for(*device);
        for (const Types types : kBoth)
            for (const Ready& ready : ready_kernels(small_problem(types), runtime)) {
                GemmCase gemm(small_problem(types), Data::integers, 1, 1, 0, Place::aligned);
                const DeviceCase memory(**device, gemm);
                EXPECT_EQ(run(*ready.executable, **device, memory.operands(gemm)), "");
                memory.fetch(gemm);
                EXPECT_EQ(named(ready.kernel, gemm.verify()), "");
            }
        EXPECT_EQ(driver->context_current(&now), 0);
        EXPECT_EQ(now, mine);
    }
    EXPECT_EQ(destroy(mine), 0);
    EXPECT_EQ(driver->context_current(&now), 0);
    EXPECT_EQ(now, nullptr);
}

TEST_F(GpuHost, TensorMapsAndDeviceState) {
    if (runtime_.target.cc_major >= 9) {
        const DeviceMemory memory(*device_, 128 * 256 * 4);
        cuda::TensorMapDesc desc;
        desc.dtype = CARAT_F32;
        desc.address = memory.floats();
        desc.rank = 2;
        desc.dims[0] = 256, desc.dims[1] = 128;
        desc.strides_bytes[1] = 1024;
        desc.box[0] = 32, desc.box[1] = 64;
        desc.swizzle = cuda::Swizzle::bytes_128;
        const auto map = device_->tensor_map(desc);
        EXPECT_TRUE(map.ok()) << map.status().sentence();
    }
    const cuda::DeviceState state = device_->state();
    if (state.driver.empty()) GTEST_SKIP() << "NVML is not there";
    EXPECT_GT(state.sm_clock_mhz, 0);
    EXPECT_GT(state.temperature_c, 0);
}

}  // namespace
}  // namespace carat::test
