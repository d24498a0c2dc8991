// SPDX-License-Identifier: Apache-2.0
// Opening the driver: the search, and the sentence of each way in which it can be missing, wrong, old or unusable.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "core/env.hpp"
#include "cuda/device.hpp"
#include "cuda/fake.hpp"

namespace carat::test {
namespace {

using cuda::Driver;

Status open_status(const std::vector<std::string>& candidates) {
    auto driver = Driver::open(candidates);
    return driver.ok() ? Status() : driver.status();
}

TEST(DriverSearch, TheNamedLibraryIsTheOnlyCandidate) {
    const ScopedEnv path("CARAT_CUDA_PATH", "/opt/somewhere/libcuda.so.1");
    EXPECT_EQ(cuda::driver_candidates(), std::vector<std::string>{"/opt/somewhere/libcuda.so.1"});
}

TEST(DriverSearch, LoadedThenSonameThenContainerPlace) {
    if (env::get("CARAT_CUDA_PATH")) GTEST_SKIP() << "CARAT_CUDA_PATH is set";
    const std::vector<std::string> want = {"loaded:libcuda.so.1", "libcuda.so.1",
                                           "/usr/local/nvidia/lib64/libcuda.so.1"};
    EXPECT_EQ(cuda::driver_candidates(), want);
}

TEST(DriverOpen, AMissingLibraryNamesEveryPlace) {
    const Status status = open_status({"loaded:libnothing.so.1", "/nowhere/libcuda.so.1", "libnothing.so.2"});
    EXPECT_EQ(status.code(), CARAT_NOT_INITIALIZED);
    EXPECT_TRUE(contains(status.sentence(), "/nowhere/libcuda.so.1"));
    EXPECT_TRUE(contains(status.sentence(), "libnothing.so.2"));
    EXPECT_TRUE(contains(status.sentence(), "install the NVIDIA driver"));
}

TEST(DriverOpen, AStubIsNotTakenAndTheNextCandidateIs) {
    const std::filesystem::path directory = std::filesystem::temp_directory_path() / fmt::format("carat_{}", getpid());
    const std::filesystem::path stub = directory / "stubs" / "libcuda.so.1";
    std::filesystem::create_directories(stub.parent_path());
    std::filesystem::copy_file(fake_path(), stub, std::filesystem::copy_options::overwrite_existing);
    EXPECT_TRUE(contains(open_status({stub.string()}).sentence(), "is the CUDA toolkit's stub"));
    auto driver = Driver::open({stub.string(), fake_path()});
    ASSERT_TRUE(driver.ok()) << driver.status().sentence();
    EXPECT_EQ((*driver)->library.path(), fake_path());
    std::filesystem::remove_all(directory);
}

TEST(DriverOpen, ALibraryThatIsNoDriver) {
    EXPECT_TRUE(contains(open_status({"libm.so.6"}).sentence(), "is no CUDA driver"));
}

TEST(DriverOpen, AnOldDriverSaysWhatIsNeeded) {
    const ScopedEnv version("FAKE_CUDA_VERSION", "11080");
    const Status status = open_status({fake_path()});
    EXPECT_EQ(status.code(), CARAT_NOT_INITIALIZED);
    EXPECT_TRUE(contains(status.sentence(), "CUDA 11.8, but 12.0 or newer"));
}

TEST(DriverOpen, AMissingFunctionIsNamedWithTheVersion) {
    const Status status = open_status({fake_path("libfake_cuda_incomplete.so")});
    EXPECT_EQ(status.code(), CARAT_NOT_INITIALIZED);
    EXPECT_TRUE(contains(status.sentence(), "lacks the function cuTensorMapEncodeTiled"));
    EXPECT_TRUE(contains(status.sentence(), "CUDA 13.0"));
}

TEST(DriverOpen, NoDevice) {
    {
        const ScopedEnv init("FAKE_CUDA_INIT", "100");
        const Status status = open_status({fake_path()});
        EXPECT_EQ(status.code(), CARAT_NOT_INITIALIZED);
        EXPECT_TRUE(
            contains(status.sentence(), "cuInit failed with CUDA_ERROR_NO_DEVICE (100: no CUDA-capable device"));
        EXPECT_TRUE(contains(status.sentence(), "CUDA_VISIBLE_DEVICES"));
    }
    const ScopedEnv devices("FAKE_CUDA_DEVICES", "0");
    EXPECT_TRUE(contains(open_status({fake_path()}).sentence(), "no GPU is visible"));
}

TEST(DriverErrors, EachCodeHasAStatusAndAdvice) {
    const auto driver = open_fake();
    ASSERT_NE(driver, nullptr);
    EXPECT_TRUE(driver->check(0, "cuInit").ok());
    EXPECT_EQ(driver->failure(cuda::kOutOfMemory, "x").code(), CARAT_ALLOC_FAILED);
    EXPECT_EQ(driver->failure(cuda::kStubLibrary, "x").code(), CARAT_NOT_INITIALIZED);
    EXPECT_TRUE(contains(driver->failure(700, "cuStreamSynchronize").sentence(), "restart the process"));
    EXPECT_TRUE(contains(driver->failure(901, "cuMemAlloc").sentence(), "captured"));
    for (const int code : {1, 3, 46, 101, 200, 201, 209, 218, 222, 400, 500, 701, 702, 719, 802, 804, 999, 12345}) {
        const Status status = driver->failure(code, "cuSomething");
        EXPECT_NE(status.code(), CARAT_SUCCESS);
        EXPECT_TRUE(contains(status.sentence(), fmt::format("cuSomething failed with CUDA_ERROR_FAKE ({}", code)));
    }
}

TEST(DriverErrors, AForkedProcessIsTold) {
    const auto driver = open_fake();
    ASSERT_NE(driver, nullptr);
    EXPECT_TRUE(driver->usable().ok());
    auto device = cuda::Device::open(*driver, 0);
    ASSERT_TRUE(device.ok());
    const pid_t child = fork();
    if (child == 0) {
        const auto memory = (*device)->alloc(16);
        const bool told = !memory.ok() && memory.status().code() == CARAT_NOT_INITIALIZED &&
                          memory.status().sentence().find("was forked from process") != std::string::npos &&
                          !cuda::Device::open(*driver, 0).ok();
        _exit(told ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

TEST(ProcessDriver, IsOpenedOnceAndGivesTheSameAnswerToEveryThread) {
    const auto first = cuda::driver_info();
    std::vector<std::string> answers(8);
    std::vector<std::thread> threads;
    for (std::string& answer : answers)
        threads.emplace_back([&] {
            const auto info = cuda::driver_info();
            answer = info.ok() ? info->path : info.status().sentence();
        });
    for (std::thread& thread : threads) thread.join();
    const std::string want = first.ok() ? first->path : first.status().sentence();
    for (const std::string& answer : answers) EXPECT_EQ(answer, want);
    if (!first.ok()) {
        EXPECT_EQ(first.status().code(), CARAT_NOT_INITIALIZED);
        EXPECT_TRUE(contains(want, "install the NVIDIA driver") || contains(want, "failed with CUDA_ERROR")) << want;
    } else {
        EXPECT_GE(first->version, Driver::kOldest);
        EXPECT_GE(first->devices, 1);
    }
}

}  // namespace
}  // namespace carat::test
