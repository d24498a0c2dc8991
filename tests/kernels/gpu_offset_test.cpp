// SPDX-License-Identifier: Apache-2.0
// Operands beyond 2^31 elements on a real GPU. Everything but the elements in use is NaN, so only a right address gives a
// number.
#include "kernels/gpu.hpp"

namespace carat::test {
namespace {

constexpr int64_t kLd = 32768, kLines = 70000, kLast = 64;  // the last lines lie beyond 2^31 elements
constexpr int64_t kShort = 4, kDepth = 8;

// One operand and D have kLines lines with kLd elements from one to the next; the other operand is small.
class GpuOffsets : public GpuTest {
  protected:
    static double long_value(int64_t line, int64_t k) { return double((line + k) % 5); }
    static double short_value(int64_t line, int64_t k) { return double((line * kDepth + k) % 7) - 3; }

    // Packs `kDepth` elements of a line at `line * ld` of a device operand.
    void write_line(const DeviceMemory& memory, carat_dtype dtype, int64_t ld, int64_t line, bool is_long) {
        unsigned char values[kDepth * 4];
        for (int64_t k = 0; k < kDepth; ++k)
            store_f64(values, dtype, k, is_long ? long_value(line, k) : short_value(line, k));
        ASSERT_TRUE(device_->copy(memory.base() + bytes_of(dtype, line * ld), values, bytes_of(dtype, kDepth)).ok());
    }

    void expect_last_lines(const DeviceMemory& d, carat_dtype dtype, const std::string& kernel) {
        for (int64_t line = kLines - kLast; line < kLines; ++line) {
            unsigned char got[(kShort + 1) * 4];
            const int64_t elements = kShort + (line + 1 < kLines);  // one more: the padding
            ASSERT_TRUE(
                device_->copy(got, d.base() + bytes_of(dtype, line * kLd), size_t(bytes_of(dtype, elements))).ok());
            for (int64_t j = 0; j < kShort; ++j) {
                double want = 0;
                for (int64_t k = 0; k < kDepth; ++k) want += long_value(line, k) * short_value(j, k);
                ASSERT_EQ(load_f64(got, dtype, j), want) << kernel << " line " << line;
            }
            if (elements > kShort) {
                ASSERT_TRUE(std::isnan(load_f64(got, dtype, kShort))) << kernel << " line " << line;
            }
        }
    }

    // tall: A and D (row-major) are long; else B and D (column-major).
    void expect_right_beyond(Types types, bool tall) {
        Problem p = make_problem(types, tall ? kLines : kShort, tall ? kShort : kLines, kDepth, "nt", tall);
        (tall ? p.a : p.b).ld = kLd;
        p.d.ld = kLd;
        const size_t in_bytes = size_t(bytes_of(types.in, kLines * kLd));
        const size_t out_bytes = size_t(bytes_of(types.out, kLines * kLd));
        if (*device_->free_bytes() < in_bytes + out_bytes + (size_t(1) << 30))
            GTEST_SKIP() << "needs " << in_bytes + out_bytes << " bytes of GPU memory";
        const DeviceMemory lines(*device_, in_bytes), few(*device_, size_t(bytes_of(types.in, kShort * kDepth)));
        const DeviceMemory d(*device_, out_bytes);
        ASSERT_TRUE(device_->fill(lines.base(), 0xff, in_bytes).ok());
        for (int64_t line = kLines - kLast; line < kLines; ++line) write_line(lines, types.in, kLd, line, true);
        for (int64_t line = 0; line < kShort; ++line) write_line(few, types.in, kDepth, line, false);
        carat_operands operands{};
        operands.a = tall ? lines.base() : few.base(), operands.b = tall ? few.base() : lines.base();
        operands.d = d.base(), operands.alpha = 1;
        for (const Ready& ready : ready_kernels(p)) {
            ASSERT_TRUE(device_->fill(d.base(), 0xff, out_bytes).ok());
            ASSERT_EQ(run(*ready.executable, *device_, operands), "");
            expect_last_lines(d, types.out, ready.kernel.config.name());
        }
    }
};

TEST_F(GpuOffsets, Beyond31BitsOfElements) {
    for (const bool tall : {true, false}) {
        expect_right_beyond(kBf16, tall);
        expect_right_beyond({CARAT_F16, CARAT_F32}, tall);
        expect_right_beyond(kF32, tall);
    }
}

}  // namespace
}  // namespace carat::test
