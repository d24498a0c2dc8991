// SPDX-License-Identifier: Apache-2.0
// Devices and modules on the fake driver: contexts are restored, memory, graphs, launch attributes, several devices.
#include <cstring>
#include <thread>

#include "cuda/device.hpp"
#include "cuda/fake.hpp"
#include "cuda/nvml.hpp"

namespace carat::test {
namespace {

using cuda::Device;
using cuda::Module;

class DeviceTest : public testing::Test {
  protected:
    void SetUp() override {
        driver_ = open_fake();
        ASSERT_NE(driver_, nullptr);
        record(*driver_) = {};
    }

    std::shared_ptr<Device> open(int ordinal) {
        auto device = Device::open(*driver_, ordinal);
        EXPECT_TRUE(device.ok()) << device.status().sentence();
        return device.ok() ? *device : nullptr;
    }

    cuda::CuContext current() {
        cuda::CuContext context = nullptr;
        driver_->context_current(&context);
        return context;
    }

    std::unique_ptr<cuda::Driver> driver_;
};

std::vector<std::byte> cubin(const char* text = "cubin") {
    std::vector<std::byte> bytes(std::strlen(text) + 1);
    std::memcpy(bytes.data(), text, bytes.size());
    return bytes;
}

TEST_F(DeviceTest, TargetHasTheDriversFacts) {
    const auto device = open(1);
    EXPECT_EQ(device->ordinal(), 1);
    EXPECT_EQ(device->target().backend, CARAT_BACKEND_CUDA);
    EXPECT_EQ(device->target().arch(), "sm_90a");
    EXPECT_EQ(device->target().units, 132);
    EXPECT_EQ(device->target().shared_bytes_per_block, 232448);
    EXPECT_EQ(device->target().memory_bytes, int64_t(141) << 30);
}

TEST_F(DeviceTest, AnOrdinalThatIsNotThere) {
    for (const int ordinal : {-2, 2, 99}) {
        const auto device = Device::open(*driver_, ordinal);
        ASSERT_FALSE(device.ok());
        EXPECT_EQ(device.status().code(), CARAT_INVALID_VALUE);
        EXPECT_TRUE(contains(device.status().sentence(), "the ordinals are 0 to 1"));
    }
}

TEST_F(DeviceTest, AnOldGpuIsRefused) {
    const ScopedEnv cc("FAKE_CUDA_CC", "70");
    const auto device = Device::open(*driver_, 0);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.status().code(), CARAT_NOT_INITIALIZED);
    EXPECT_TRUE(contains(device.status().sentence(), "compute capability 7.0, but 7.5 (Turing) or newer"));
}

TEST_F(DeviceTest, ThePrimaryContextIsRetainedAndReleasedAndTheCallersRestored) {
    {
        const auto device = open(-1);
        EXPECT_EQ(device->ordinal(), 0);
        EXPECT_EQ(record(*driver_).retained, 1);
        auto memory = device->alloc(64);
        ASSERT_TRUE(memory.ok());
        EXPECT_TRUE(device->fill(*memory, 0x5a, 64).ok());
        device->free(*memory);
        EXPECT_EQ(current(), nullptr);
        EXPECT_EQ(record(*driver_).pushed, 3);
    }
    EXPECT_EQ(record(*driver_).released, 1);
}

TEST_F(DeviceTest, TheCallersContextIsUsedAndDecidesTheDevice) {
    const cuda::CuContext mine = foreign_context(*driver_, 1);
    driver_->context_push(mine);
    record(*driver_) = {};
    {
        const auto device = open(-1);
        EXPECT_EQ(device->ordinal(), 1);
        EXPECT_EQ(record(*driver_).retained, 0);
        EXPECT_TRUE(device->stream_synchronize(nullptr).ok());
        EXPECT_EQ(record(*driver_).pushed, 0) << "the context was current already";
        std::thread([&] {
            EXPECT_TRUE(device->stream_synchronize(nullptr).ok());
            EXPECT_EQ(record(*driver_).pushed, 1) << "a thread without a context works in the device's";
            EXPECT_EQ(current(), nullptr);
        }).join();
    }
    EXPECT_EQ(record(*driver_).released, 0);
    EXPECT_EQ(current(), mine);
    cuda::CuContext popped = nullptr;
    driver_->context_pop(&popped);
}

TEST_F(DeviceTest, AContextOfAnotherDeviceIsPutAsideAndRestored) {
    const cuda::CuContext other = foreign_context(*driver_, 0);
    driver_->context_push(other);
    const auto device = open(1);
    auto module = Module::load(*device, cubin(), 0, "k");
    ASSERT_TRUE(module.ok()) << module.status().sentence();
    const uint64_t parameter = 42;
    EXPECT_TRUE((*module)->launch({}, &parameter, sizeof parameter, nullptr).ok());
    EXPECT_EQ(record(*driver_).last_device, 1);
    EXPECT_EQ(current(), other);
    cuda::CuContext popped = nullptr;
    driver_->context_pop(&popped);
}

TEST_F(DeviceTest, MemoryRoundTrip) {
    const auto device = open(0);
    const std::vector<int> in = {1, 2, 3, 4};
    std::vector<int> out(4);
    auto memory = device->alloc(16);
    ASSERT_TRUE(memory.ok());
    EXPECT_TRUE(device->copy(*memory, in.data(), 16).ok());
    EXPECT_TRUE(device->fill_async(static_cast<int*>(*memory) + 2, 7, 1, nullptr).ok());
    EXPECT_TRUE(device->copy(out.data(), *memory, 16).ok());
    EXPECT_EQ(out, (std::vector<int>{1, 2, 7, 4}));
    device->free(*memory);
    auto nothing = device->alloc(0);
    ASSERT_TRUE(nothing.ok());
    EXPECT_EQ(*nothing, nullptr);
    device->free(nullptr);
    EXPECT_TRUE(device->copy(nullptr, nullptr, 0).ok());
    EXPECT_TRUE(device->fill(nullptr, 1, 0).ok());
    EXPECT_GT(*device->free_bytes(), 0u);
}

TEST_F(DeviceTest, OutOfMemorySaysHowMuchAndWhere) {
    const auto memory = open(1)->alloc(size_t(1) << 40);
    ASSERT_FALSE(memory.ok());
    EXPECT_EQ(memory.status().code(), CARAT_ALLOC_FAILED);
    EXPECT_TRUE(contains(memory.status().sentence(), "cuMemAlloc of 1099511627776 bytes on device 1"));
}

TEST_F(DeviceTest, GraphsAreLaunchedTimedAndDestroyed) {
    const auto device = open(0);
    EXPECT_EQ(device->graph_begin(nullptr).code(), CARAT_INVALID_VALUE);
    auto stream = device->stream_create();
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE(device->graph_begin(*stream).ok());
    auto graph = device->graph_end(*stream);
    ASSERT_TRUE(graph.ok()) << graph.status().sentence();
    const auto elapsed = (*graph)->launch(*stream);
    ASSERT_TRUE(elapsed.ok());
    EXPECT_DOUBLE_EQ(*elapsed, 250.0);
    EXPECT_EQ(record(*driver_).graph_launches, 1);
    graph->reset();
    EXPECT_EQ(record(*driver_).graphs_destroyed, 1);
    device->stream_destroy(*stream);
}

TEST_F(DeviceTest, ALaunchCarriesItsShapeAndAttributes) {
    const auto device = open(0);
    auto module = Module::load(*device, cubin(), 100000, "k");
    ASSERT_TRUE(module.ok()) << module.status().sentence();
    cuda::LaunchShape shape;
    shape.grid_x = 6, shape.grid_y = 4, shape.grid_z = 2, shape.threads = 384;
    shape.cluster_x = 2, shape.cluster_y = 1, shape.dynamic_shared_bytes = 100000, shape.programmatic = true;
    const uint64_t parameter = 0x1234567890;
    int stream = 0;
    ASSERT_TRUE((*module)->launch(shape, &parameter, sizeof parameter, &stream).ok());
    const FakeRecord& r = record(*driver_);
    EXPECT_EQ(r.first_parameter, parameter);
    EXPECT_EQ(r.last.grid_x, 6u);
    EXPECT_EQ(r.last.grid_y, 4u);
    EXPECT_EQ(r.last.grid_z, 2u);
    EXPECT_EQ(r.last.block_x, 384u);
    EXPECT_EQ(r.last.block_y * r.last.block_z, 1u);
    EXPECT_EQ(r.last.shared, 100000u);
    EXPECT_EQ(r.last.stream, &stream);
    ASSERT_EQ(r.last.attribute_count, 2u);
    EXPECT_EQ(r.attributes[0].id, 4u);
    EXPECT_EQ(r.attributes[0].cluster[0], 2u);
    EXPECT_EQ(r.attributes[0].cluster[1] * r.attributes[0].cluster[2], 1u);
    EXPECT_EQ(r.attributes[1].id, 6u);
    EXPECT_EQ(r.attributes[1].programmatic, 1);
    // A plain launch has none.
    ASSERT_TRUE((*module)->launch({}, &parameter, sizeof parameter, nullptr).ok());
    EXPECT_EQ(r.last.attribute_count, 0u);
    module->reset();
    EXPECT_EQ(r.unloaded, 1);
}

TEST_F(DeviceTest, ModulesThatCannotBeLoadedOrLaunched) {
    const auto device = open(0);
    const auto bad = Module::load(*device, cubin("no code"), 0, "kernel_name");
    ASSERT_FALSE(bad.ok());
    EXPECT_TRUE(contains(bad.status().sentence(), "cuLibraryLoadData of kernel_name"));
    EXPECT_TRUE(contains(bad.status().sentence(), "CARAT_JIT=force"));

    const auto large = Module::load(*device, cubin(), 232448, "kernel_name");
    ASSERT_FALSE(large.ok());
    EXPECT_EQ(large.status().code(), CARAT_NOT_SUPPORTED);
    EXPECT_TRUE(contains(large.status().sentence(), "needs 232512 bytes of shared memory"));

    auto module = Module::load(*device, cubin(), 64, "kernel_name");
    ASSERT_TRUE(module.ok());
    const std::vector<std::byte> parameters(5000);
    EXPECT_EQ((*module)->launch({}, parameters.data(), parameters.size(), nullptr).code(), CARAT_INTERNAL_ERROR);
    cuda::LaunchShape shape;
    shape.dynamic_shared_bytes = 65;
    EXPECT_EQ((*module)->launch(shape, parameters.data(), 8, nullptr).code(), CARAT_INTERNAL_ERROR);

    const ScopedEnv broken("FAKE_CUDA_LAUNCH", "700");
    const Status status = (*module)->launch({}, parameters.data(), 8, nullptr);
    EXPECT_EQ(status.code(), CARAT_EXECUTION_FAILED);
    EXPECT_TRUE(contains(status.sentence(), "cuLaunchKernelEx of kernel_name failed with CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_F(DeviceTest, ManyThreadsOnTwoDevices) {
    const std::shared_ptr<Device> devices[] = {open(0), open(1)};
    std::vector<std::unique_ptr<Module>> modules;
    for (const auto& device : devices) modules.push_back(Module::load(*device, cubin(), 0, "k").value());
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (uint64_t i = 0; i < 500; ++i)
                EXPECT_TRUE(modules[size_t(t % 2)]->launch({}, &i, sizeof i, nullptr).ok());
            EXPECT_EQ(current(), nullptr);
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(record(*driver_).launches, 4000);
}

// By what is in them and the shared memory that they are launched with.
TEST_F(DeviceTest, ModulesAreLoadedOnceForAllAndKept) {
    const auto load = [](const Device& device, const char* text, unsigned shared) {
        return device.module(cubin(text), shared, "k").value();
    };
    auto device = open(0);
    const std::shared_ptr<const Module> one = load(*device, "cubin", 64);
    EXPECT_EQ(load(*device, "cubin", 64), one);
    EXPECT_NE(load(*device, "cubin", 128), one);
    EXPECT_NE(load(*device, "cubin 2", 64), one);
    EXPECT_NE(load(*open(1), "cubin", 64), one);
    EXPECT_EQ(record(*driver_).loaded, 4);
    EXPECT_EQ(record(*driver_).unloaded, 1) << "those of device 1, which is closed";
    EXPECT_FALSE(device->module(cubin("no code"), 0, "k").ok());

    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) threads.emplace_back([&] { load(*device, "cubin 3", 0); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(record(*driver_).loaded, 5);
    device.reset();
    EXPECT_EQ(record(*driver_).unloaded, 4) << "all but the one that is held here";
    const uint64_t parameter = 7;
    EXPECT_TRUE(one->launch({}, &parameter, sizeof parameter, nullptr).ok());
}

TEST_F(DeviceTest, StateIsReadableOrMarkedUnknown) {
    const cuda::DeviceState state = cuda::read_device_state("0000:ff:1f.7");  // there is no such device
    EXPECT_EQ(state.sm_clock_mhz, -1);
    EXPECT_EQ(state.power_w, -1);
    EXPECT_EQ(state.throttle_reasons, -1);
}

}  // namespace
}  // namespace carat::test
