// SPDX-License-Identifier: Apache-2.0
// gpu_pack.cpp: GPU_TEST_PACK=FILE writes the kernels that the tests of this process have prepared into a pack. Compiling takes
// most of the time of the tests on a GPU, and needs none: on the fake driver, where no kernel runs and every result is wrong, they
// are compiled ahead; CARAT_PACK then brings them to a machine with a GPU (HACKING.md).
#include <cstdlib>

#include "jit/key.hpp"
#include "jit/pack.hpp"
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

class GpuPack : public testing::Environment {
    void TearDown() override {
        const char* path = std::getenv("GPU_TEST_PACK");
        if (path == nullptr) return;
        const std::vector<jit::PreparedKernel> kernels = gpu_jit()->prepared();
        ASSERT_FALSE(kernels.empty()) << "GPU_TEST_PACK is set, but no test has prepared a kernel";
        const Status status = jit::write_pack(path, kernels.front().compiler, kernels);
        EXPECT_TRUE(status.ok()) << status.sentence();
    }
};

const testing::Environment* const kGpuPack = testing::AddGlobalTestEnvironment(new GpuPack);

}  // namespace
}  // namespace carat::test
