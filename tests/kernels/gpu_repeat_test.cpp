// SPDX-License-Identifier: Apache-2.0
// The same bits again and again on a real GPU: races show as differences. And the cases that run under
// compute-sanitizer, which is slow: small, but every row.
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

class GpuRepeat : public GpuTest {
  protected:
    Problem activated(Types types, int64_t m, int64_t n, int64_t k) {
        Problem p = make_problem(types, m, n, k, "nt");
        p.epilogue.activation = CARAT_ACT_SILU;
        p.epilogue.amax = 1;
        return p;
    }
};

// The f32 rungs accumulate in one order, so they agree with each other, too.
TEST_F(GpuRepeat, F32RungsGiveTheSameBits) {
    const Problem p = activated(kF32, 129, 257, 300);
    std::vector<std::byte> bits;
    float amax = 0;
    for (const Place place : {Place::aligned, Place::one_off})
        for (const Ready& ready : ready_kernels(p)) {
            GemmCase gemm(p, Data::normal, 7, 1, 0, place);
            expect_same_bits(ready, gemm, 20, bits, amax);
        }
}

TEST_F(GpuRepeat, SixteenBitRowsGiveTheSameBitsEachTime) {
    // Of packed and odd rows: what goes by bulk copies and what does not.
    for (const Problem& p : {activated(kBf16, 1000, 776, 520), activated({CARAT_F16, CARAT_F32}, 513, 391, 517)}) {
        for (const Ready& ready : ready_kernels(p)) {
            GemmCase gemm(p, Data::normal, 7, 1, 0, Place::aligned);
            std::vector<std::byte> bits;
            float amax = 0;
            expect_same_bits(ready, gemm, 200, bits, amax);
        }
    }
}

// Two launches share the SMs: what one leaves in shared memory or in barriers must not reach the other.
TEST_F(GpuRepeat, TwoStreamsAtOnce) {
    for (const Types types : {kF32, kBf16}) {
        const Problem p = make_problem(types, 520, 776, 264, "nt");
        for (const Ready& ready : ready_kernels(p)) {
            const Watchdog watchdog;
            GemmCase first(p, Data::integers, 1, 1, 0, Place::aligned),
                second(p, Data::integers, 2, 1, 0, Place::aligned);
            const DeviceCase first_memory(*device_, first), second_memory(*device_, second);
            auto first_stream = device_->stream_create(), second_stream = device_->stream_create();
            ASSERT_TRUE(first_stream.ok() && second_stream.ok());
            for (int i = 0; i < 50; ++i) {
                ASSERT_TRUE(ready.executable->execute(first_memory.operands(first), *first_stream).ok());
                ASSERT_TRUE(ready.executable->execute(second_memory.operands(second), *second_stream).ok());
            }
            for (void* stream : {*first_stream, *second_stream}) {
                EXPECT_TRUE(device_->stream_synchronize(stream).ok());
                device_->stream_destroy(stream);
            }
            first_memory.fetch(first), second_memory.fetch(second);
            EXPECT_EQ(named(ready.kernel, first.verify()), "");
            EXPECT_EQ(named(ready.kernel, second.verify()), "");
        }
    }
}

class GpuSanitizer : public GpuTest {};

TEST_F(GpuSanitizer, EveryRowOnce) {
    std::vector<CaseSpec> specs;
    for (const Types types : {kF32, kBf16}) {
        // Everything aligned, with tails of every tile; then nothing aligned, all of the epilogue and one candidate a row.
        specs.push_back({make_problem(types, 136, 264, 136, "nt"), Data::integers, 1, 0, Place::aligned});
        Problem p = make_problem(types, 37, 71, 83, "tn", false);
        pad(p, 1);
        add_c(p);
        add_bias(p, CARAT_BIAS_M);
        p.epilogue.activation = CARAT_ACT_RELU;
        p.epilogue.amax = 1;
        specs.push_back({p, Data::integers, 1, -1, Place::one_off, 0});
    }
    expect_right(specs);
}

}  // namespace
}  // namespace carat::test
