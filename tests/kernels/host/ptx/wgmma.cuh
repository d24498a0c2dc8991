// SPDX-License-Identifier: Apache-2.0
// wgmma.cuh: Hopper's tensor cores in the emulation. Nothing is read or added before the warp waits for the group, so that
// a stage that is given back too soon shows; then each thread computes its own accumulators, in f32.
#pragma once

#include <shared/gemm_params.h>
#include <ptx/convert.cuh>
#include <ptx/shared.cuh>

#include <deque>

namespace carat_kernel {

using namespace carat_shared;

// An operand in shared memory, by its 64-bit descriptor.
class MatrixView {
  public:
    MatrixView(u64 descriptor, bool k_major)
        : k_major_(k_major),
          start_(field(descriptor, 0)),
          leading_(field(descriptor, 16)),
          stride_(field(descriptor, 32)) {
        constexpr unsigned kSwizzle128 = 1;
        if (descriptor >> 62 != kSwizzle128)
            host_cuda::fail(fmt::format("wgmma by a descriptor of swizzle {}: only 1 (128 bytes) is emulated",
                                        unsigned(descriptor >> 62)));
        if (descriptor >> 49 & 7) host_cuda::fail("wgmma by a descriptor with a base offset, which is not emulated");
    }

    // Of the element at `mn` (row of A, column of B) and `k`: lines of 128 bytes, 8 a group; the address that comes out is
    // swizzled.
    unsigned address(unsigned mn, unsigned k) const {
        const unsigned offset = k_major_ ? mn / 8 * stride_ + mn % 8 * 128 + k * 2
                                         : mn / 64 * leading_ + mn % 64 * 2 + k / 8 * stride_ + k % 8 * 128;
        const unsigned straight = start_ + offset;
        return straight ^ (straight >> 7 & 7) << 4;
    }

    // The 16 of K at one `mn`.
    template <int kType>
    void read_line(float (&values)[16], unsigned mn) const {
        for (unsigned k = 0; k < 16; ++k) {
            const unsigned at = address(mn, k);
            if (at + 2 > bytes_) shared_pointer(at, 2);  // says why not
            writes_.check(at, "wgmma reads");
            unsigned short bits;
            std::memcpy(&bits, memory_ + at, 2);
            values[k] = unpack<kType>(bits);
        }
    }

  private:
    static unsigned field(u64 descriptor, int bit) { return unsigned(descriptor >> bit & 0x3fff) << 4; }

    bool k_major_;
    unsigned start_, leading_, stride_;
    const char* memory_ = dynamic_shared();
    unsigned bytes_ = host_cuda::shared_bytes();
    const UnfencedWrites& writes_ = unfenced_writes(host_cuda::cluster_rank());
};

struct HostProduct {
    void (*run)(float*, u64, u64);
    float* d;
    u64 a, b;
};
// The products of a thread: not committed yet, and in groups.
struct HostProducts {
    struct Thread {
        bool fenced = false;
        std::vector<HostProduct> open;
        std::deque<std::vector<HostProduct>> groups;
    };
    std::vector<Thread> threads = std::vector<Thread>(host_cuda::block_threads());
};
inline HostProducts::Thread& my_products() {
    return host_cuda::block_local<HostProducts>(host_cuda::cluster_rank()).threads[threadIdx.x];
}

inline void wgmma_fence() {
    host_cuda::warp_barrier("wgmma.fence");
    my_products().fenced = true;
}

inline void wgmma_commit() {
    HostProducts::Thread& mine = my_products();
    mine.groups.push_back(std::move(mine.open));
    mine.open.clear();
    host_cuda::warp_barrier("wgmma.commit_group");
}

template <int kPending>
void wgmma_wait() {
    HostProducts::Thread& mine = my_products();
    for (; mine.groups.size() > kPending; mine.groups.pop_front())
        for (const HostProduct& product : mine.groups.front()) product.run(product.d, product.a, product.b);
    if (kPending == 0) mine.fenced = false;
    host_cuda::warp_barrier("wgmma.wait_group");
}

template <int kN, int kType, bool kKMajorA, bool kKMajorB>
struct Wgmma {
    static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256);

    static void multiply(float (&d)[kN / 2], u64 a, u64 b) {
        if (!my_products().fenced) host_cuda::fail("wgmma without a wgmma_fence() since its registers were touched");
        my_products().open.push_back({run, d, a, b});
    }

  private:
    static void run(float* d, u64 a, u64 b) {
        const MatrixView view_a(a, kKMajorA), view_b(b, kKMajorB);
        const unsigned lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
        float rows[2][16], column[16];
        view_a.read_line<kType>(rows[0], row);
        view_a.read_line<kType>(rows[1], row + 8);
        for (unsigned group = 0; group < kN / 8; ++group)
            for (unsigned e = 0; e < 2; ++e) {
                view_b.read_line<kType>(column, group * 8 + lane % 4 * 2 + e);
                for (unsigned half = 0; half < 2; ++half) {
                    float& sum = d[group * 4 + half * 2 + e];
                    for (int k = 0; k < 16; ++k) sum = fmaf(rows[half][k], column[k], sum);
                }
            }
    }
};

}  // namespace carat_kernel
