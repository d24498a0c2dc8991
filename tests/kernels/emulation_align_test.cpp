// SPDX-License-Identifier: Apache-2.0
// align_lines on emulated threads: lines at any address and pitch, copied to pitches of 16 bytes. Around every line lies
// what must not be copied, and around the operand what must not be read.
#include "kernels/host_cuda.hpp"
// After the language.
#include <align_lines.cuh>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace carat::test {
namespace {

using carat_shared::AlignParams;
using carat_shared::LinesToAlign;

struct Config {
    static constexpr int kThreads = 64;
};

// Memory that ends, or begins, with a page that may not be touched.
class Fenced {
  public:
    Fenced(size_t bytes, size_t offset, bool at_end) {
        const size_t page = 4096, inside = (bytes + offset + page - 1) / page * page;
        size_ = inside + 2 * page;
        base_ = static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        EXPECT_NE(base_, MAP_FAILED);
        EXPECT_EQ(mprotect(base_ + page, inside, PROT_READ | PROT_WRITE), 0);
        data_ = at_end ? base_ + page + inside - bytes : base_ + page + offset;
    }
    Fenced(const Fenced&) = delete;
    ~Fenced() { munmap(base_, size_); }
    unsigned short* data() const { return reinterpret_cast<unsigned short*>(data_); }

  private:
    size_t size_;
    char *base_, *data_;
};

struct Shape {
    int64_t length, lines, batch, pitch, batch_stride;
    size_t offset;  // bytes from 16-byte alignment
    bool at_end;    // of readable memory
};

void expect_copied(const Shape& s) {
    const int64_t elements = (s.batch - 1) * s.batch_stride + (s.lines - 1) * s.pitch + s.length;
    const Fenced from(size_t(elements) * 2, s.offset, s.at_end);
    for (int64_t i = 0; i < elements; ++i) from.data()[i] = static_cast<unsigned short>(i * 7 + 1);
    const int64_t to_pitch = (s.length + 7) / 8 * 8, copied = s.batch * s.lines * to_pitch;
    std::vector<carat_kernel::Chunk> to(size_t(copied / 8) + 1);
    std::memset(to.data(), 0xee, to.size() * sizeof to[0]);
    AlignParams params = {};
    params.count = 1;
    params.operands[0] = {from.data(), to.data(), s.pitch, s.batch_stride, to_pitch, s.length, s.lines, s.batch};
    ASSERT_EQ(host_cuda::launch(3, Config::kThreads, host_cuda::Order::forward,
                                [&] { carat_kernel::align_lines<Config>(params); }),
              "");
    const auto* got = reinterpret_cast<const unsigned short*>(to.data());
    for (int64_t z = 0; z < s.batch; ++z)
        for (int64_t line = 0; line < s.lines; ++line)
            for (int64_t i = 0; i < to_pitch; ++i) {
                const int64_t at = z * s.batch_stride + line * s.pitch + i;
                const auto want = i < s.length ? static_cast<unsigned short>(at * 7 + 1) : 0;
                ASSERT_EQ(got[(z * s.lines + line) * to_pitch + i], want)
                    << "element " << i << " of line " << line << " of " << z << ", length " << s.length;
            }
    EXPECT_EQ(got[copied], 0xeeee) << "beyond the copy";
}

TEST(AlignLines, AnyPitchAddressAndLength) {
    for (const bool at_end : {false, true})
        for (const size_t offset : {0, 2, 6, 14}) {
            expect_copied({1, 1, 1, 1, 0, offset, at_end});
            expect_copied({7, 5, 1, 7, 0, offset, at_end});
            expect_copied({9, 40, 1, 11, 0, offset, at_end});
            expect_copied({65, 9, 3, 67, 9 * 67 + 1, offset, at_end});
            expect_copied({1025, 3, 1, 1025, 0, offset, at_end});
            expect_copied({2056, 2, 2, 2057, 5001, offset, at_end});
        }
}

TEST(AlignLines, TwoOperandsAndNothingWhereAlphaIsZero) {
    unsigned short a[3 * 5], b[2 * 9];
    for (int i = 0; i < 15; ++i) a[i] = static_cast<unsigned short>(100 + i);
    for (int i = 0; i < 18; ++i) b[i] = static_cast<unsigned short>(200 + i);
    for (const float alpha : {0.0f, 0.5f}) {
        std::vector<carat_kernel::Chunk> to_a(3), to_b(4);
        AlignParams params = {};
        params.count = 2;
        params.operands[0] = {a, to_a.data(), 5, 0, 8, 5, 3, 1};
        params.operands[1] = {b, to_b.data(), 9, 0, 16, 9, 2, 1};
        params.alpha_device = &alpha;
        ASSERT_EQ(host_cuda::launch(1, Config::kThreads, host_cuda::Order::forward,
                                    [&] { carat_kernel::align_lines<Config>(params); }),
                  "");
        const auto* got_a = reinterpret_cast<const unsigned short*>(to_a.data());
        const auto* got_b = reinterpret_cast<const unsigned short*>(to_b.data());
        EXPECT_EQ(got_a[2 * 8 + 4], alpha == 0 ? 0 : 114);
        EXPECT_EQ(got_b[16 + 8], alpha == 0 ? 0 : 217);
    }
}

}  // namespace
}  // namespace carat::test
