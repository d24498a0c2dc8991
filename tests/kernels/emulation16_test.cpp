// SPDX-License-Identifier: Apache-2.0
// The tensor-core rungs and their parts, compiled by g++ and run on emulated threads with the twins of the PTX wrappers
// (tests/kernels/host/ptx): tile copies, fragments, pipelines, edges, layouts, epilogues.
#include "kernels/host_cuda.hpp"
// After the language.
#include <ladder/v4_wmma.cuh>
#include <ladder/v5_mma.cuh>

#include <gtest/gtest.h>

#include <random>

#include "core/format.hpp"

namespace carat::test {
namespace {

using namespace carat_shared;
using carat_kernel::TileCopy;
using host_cuda::Order;

// ---------------------------------------------------------------- a problem

struct Shape {
    i64 m = 0, n = 0, k = 0, batch = 1;
    i64 pad = 0;     // elements added to each pitch
    i64 offset = 0;  // elements between a 16-byte boundary and each operand
    double alpha = 1, beta = 0;
};

// A matrix of some type whose every byte that is not an element is 0xff: NaN.
struct Matrix {
    int type = kTypeNone;
    i64 rows = 0, cols = 0;
    Strided strides = {};
    std::vector<unsigned char> bytes;
    i64 first = 0;  // byte of element (0, 0)

    Matrix() = default;
    Matrix(int type_, bool row_major, i64 rows_, i64 cols_, const Shape& s) : type(type_), rows(rows_), cols(cols_) {
        const i64 pitch = (row_major ? cols : rows) + s.pad, gap = s.pad * 3;
        strides = {row_major ? pitch : 1, row_major ? 1 : pitch, pitch * (row_major ? rows : cols) + gap};
        bytes.assign(size_t((strides.batch * s.batch + s.offset) * size() + 16), 0xff);
        first = -i64(reinterpret_cast<uintptr_t>(bytes.data()) % 16) & 15;
        first += s.offset * size();
    }
    Matrix(const Matrix&) = delete;
    Matrix& operator=(const Matrix&) = delete;
    Matrix(Matrix&&) = default;  // a vector keeps its address
    Matrix& operator=(Matrix&&) = default;

    i64 size() const { return type == kTypeF32 ? 4 : 2; }
    i64 index(i64 z, i64 i, i64 j) const { return z * strides.batch + i * strides.row + j * strides.col; }
    void* data() { return bytes.data() + first; }
    const void* data() const { return bytes.data() + first; }
    float at(i64 z, i64 i, i64 j) const {
        const i64 where = index(z, i, j);
        if (type == kTypeF32) return carat_kernel::load_element<kTypeF32>(data(), where);
        return type == kTypeF16 ? carat_kernel::load_element<kTypeF16>(data(), where)
                                : carat_kernel::load_element<kTypeBf16>(data(), where);
    }
    void set(i64 z, i64 i, i64 j, float value) {
        const i64 where = index(z, i, j);
        if (type == kTypeF32) return carat_kernel::store_element<kTypeF32>(data(), where, value);
        type == kTypeF16 ? carat_kernel::store_element<kTypeF16>(data(), where, value)
                         : carat_kernel::store_element<kTypeBf16>(data(), where, value);
    }
    // Small integers: every sum is exact in f32.
    void fill(std::mt19937& random, i64 batch) {
        for (i64 z = 0; z < batch; ++z)
            for (i64 i = 0; i < rows; ++i)
                for (i64 j = 0; j < cols; ++j) set(z, i, j, float(int(random() % 9) - 4));
    }
};

float round_to(int type, double value) {
    if (type == kTypeF32) return float(value);
    const unsigned short bits = carat_kernel::to_bits(type, float(value));
    return type == kTypeF16 ? carat_kernel::unpack<kTypeF16>(bits) : carat_kernel::unpack<kTypeBf16>(bits);
}

struct Plain {
    static constexpr bool kDeviceScalars = false, kHasC = false, kClamp = false, kAmax = false;
    static constexpr int kBias = kBiasNone, kActivation = kActNone, kGate = kGateNone, kOutScale = kOutScaleNone;
    static constexpr int kTypeC = kTypeF32, kTypeBias = kTypeF32;
};

template <int Input, int Output>
struct Types {
    static constexpr int kTypeA = Input, kTypeB = Input, kTypeD = Output;
};
using Bf16 = Types<kTypeBf16, kTypeBf16>;
using F16 = Types<kTypeF16, kTypeF16>;

template <int M, int N, int Threads, int Stages = 3>
struct TileOf {
    static constexpr int kBM = M, kBN = N, kBK = 64, kThreads = Threads, kStages = Stages;
};

template <bool A, bool B, bool D>
struct LayoutOf {
    static constexpr bool kRowMajorA = A, kRowMajorB = B, kRowMajorD = D;
};

template <class Tile, class Layout, class Type = Bf16, class Epilogue = Plain>
struct HostConfig : Tile, Layout, Type, Epilogue {};

// The operands of a problem, the launch, and the expectation: a product in f64, written down directly.
template <class Config>
struct Case {
    Shape shape;
    Matrix a, b, c, d;
    std::vector<float> bias, out_scale;
    GemmParams params = {};
    float amax = 0;

    explicit Case(const Shape& s) : shape(s) {
        std::mt19937 random(7);
        a = Matrix(Config::kTypeA, Config::kRowMajorA, s.m, s.k, s);
        b = Matrix(Config::kTypeB, Config::kRowMajorB, s.k, s.n, s);
        c = Matrix(Config::kTypeC, Config::kRowMajorD, s.m, s.n, s);
        d = Matrix(Config::kTypeD, Config::kRowMajorD, s.m, s.n, s);
        for (Matrix* x : {&a, &b, &c}) x->fill(random, s.batch);
        for (i64 i = 0; i < s.batch * std::max(s.m, s.n); ++i) {
            bias.push_back(float(int(random() % 9) - 4));
            out_scale.push_back(0.5f * float(1 + random() % 4));
        }
        params.m = s.m, params.n = s.n, params.k = s.k, params.batch = s.batch;
        params.a = a.data(), params.b = b.data(), params.c = c.data(), params.d = d.data();
        params.a_strides = a.strides, params.b_strides = b.strides;
        params.c_strides = c.strides, params.d_strides = d.strides;
        params.epilogue.alpha = s.alpha, params.epilogue.beta = s.beta;
        params.epilogue.bias = bias.data(), params.epilogue.bias_batch = Config::kBias == kBiasM ? s.m : s.n;
        params.epilogue.clamp_lo = -20, params.epilogue.clamp_hi = 30;
        params.epilogue.out_scale = out_scale.data();
        params.epilogue.amax = &amax;
    }

    // "" or what is wrong. blocks 0: one a tile.
    std::string run(void (*kernel)(const GemmParams&), unsigned blocks = 0, Order order = Order::forward) {
        const i64 down = (shape.m + Config::kBM - 1) / Config::kBM, across = (shape.n + Config::kBN - 1) / Config::kBN;
        const std::string error = host_cuda::launch(blocks ? blocks : unsigned(down * across * shape.batch),
                                                    Config::kThreads, order, [&] { kernel(params); });
        if (!error.empty()) return error;
        if (carat_kernel::copies_left_behind()) return "asynchronous copies outlive the kernel";
        return verify();
    }

    std::string verify() const {
        std::vector<bool> element(d.bytes.size());
        double largest = 0;
        for (i64 z = 0; z < shape.batch; ++z)
            for (i64 i = 0; i < shape.m; ++i)
                for (i64 j = 0; j < shape.n; ++j) {
                    for (i64 byte = 0; byte < d.size(); ++byte)
                        element[size_t(d.first + d.index(z, i, j) * d.size() + byte)] = true;
                    const double v = before_scale(z, i, j);
                    largest = std::max(largest, std::fabs(v));
                    double want = v;
                    if (Config::kOutScale == kOutScaleTensor) want *= out_scale[0];
                    if (Config::kOutScale == kOutScaleRow) want *= out_scale[size_t(i + z * shape.m)];
                    const float got = d.at(z, i, j), rounded = round_to(Config::kTypeD, want);
                    const double tolerance = Config::kActivation > kActRelu ? 0.01 * std::fabs(want) : 0;
                    if (!(std::fabs(double(got) - rounded) <= tolerance))
                        return fmt::format("D({}, {}) of {} is {}, wanted {} ({} x {} x {}, pad {}, offset {})", i, j,
                                           z, got, rounded, shape.m, shape.n, shape.k, shape.pad, shape.offset);
                }
        for (size_t byte = 0; byte < element.size(); ++byte)
            if (!element[byte] && d.bytes[byte] != 0xff) return fmt::format("byte {} around D was written", byte);
        if (Config::kAmax && std::fabs(amax - largest) > 1e-5 * largest)
            return fmt::format("amax is {}, wanted {}", amax, largest);
        return {};
    }

    double before_scale(i64 z, i64 i, i64 j) const {
        double v = 0;
        for (i64 k = 0; shape.alpha != 0 && k < shape.k; ++k) v += double(a.at(z, i, k)) * b.at(z, k, j);
        v *= shape.alpha;
        if (Config::kHasC && shape.beta != 0) v += shape.beta * c.at(z, i, j);
        if (Config::kBias == kBiasN) v += bias[size_t(j + z * shape.n)];
        if (Config::kBias == kBiasM) v += bias[size_t(i + z * shape.m)];
        if (Config::kActivation == kActRelu) v = std::max(v, 0.0);
        if (Config::kActivation == kActSilu) v = v / (1 + std::exp(-v));
        return Config::kClamp ? std::min(std::max(v, -20.0), 30.0) : v;
    }
};

// ---------------------------------------------------------------- tile copies

// The value that the copy should leave for element (mn, k) of a tile.
template <bool kKMajor, int kRows, int kThreads, int kPitch>
void expect_copied(bool async, i64 mn_extent, i64 k_extent, i64 pitch, i64 offset, i64 mn0, i64 k0) {
    using Copy = TileCopy<kKMajor, kRows, kThreads, kPitch>;
    Shape shape;
    shape.pad = pitch - (kKMajor ? k_extent : mn_extent), shape.offset = offset;
    Matrix matrix(kTypeBf16, kKMajor, mn_extent, k_extent, shape);
    for (i64 i = 0; i < mn_extent; ++i)
        for (i64 k = 0; k < k_extent; ++k) matrix.set(0, i, k, float(1 + (i * 31 + k * 7) % 251));
    const std::string error = host_cuda::launch(1, kThreads, Order::forward, [&] {
        Copy copy(matrix.data(), matrix.strides.row, matrix.strides.col, mn_extent, k_extent, mn0, k0 - 64,
                  int(threadIdx.x));
        copy.advance();
        EXPECT_EQ(Copy::aligned(matrix.data(), matrix.strides.row, matrix.strides.col, 0, mn_extent, k_extent), async);
        if (!async) return copy.copy(1024);
        for (int pass = 0; pass < Copy::kPasses; ++pass) copy.copy_async(pass, 1024);
        carat_kernel::cp_async_commit_group();
        carat_kernel::cp_async_wait_group<0>();
    });
    ASSERT_EQ(error, "");
    for (int mn = 0; mn < kRows; ++mn)
        for (int k = 0; k < 64; ++k) {
            const int line = kKMajor ? mn : mn / 64 * 64 + k, element = kKMajor ? k : mn % 64;
            const int place = kPitch == 0 ? swizzle_128(line, element / 8) : line * kPitch + element / 8 * 16;
            const float got = carat_kernel::load_element<kTypeBf16>(
                carat_kernel::shared_pointer(1024 + unsigned(place)), element % 8);
            const bool inside = mn0 + mn < mn_extent && k0 + k < k_extent;
            ASSERT_EQ(got, inside ? matrix.at(0, mn0 + mn, k0 + k) : 0.0f) << mn << ", " << k;
        }
}

TEST(TileCopy, BothMajorsWaysAndEdges) {
    for (const i64 mn0 : {0, 128})
        for (const i64 k0 : {0, 64, 192}) {
            expect_copied<true, 128, 256, 0>(true, 200, 200, 208, 0, mn0, k0);
            expect_copied<false, 128, 256, 0>(true, 200, 200, 208, 8, mn0, k0);
            expect_copied<true, 64, 128, 144>(true, 200, 200, 200, 0, mn0, k0);
            expect_copied<false, 64, 128, 144>(true, 200, 200, 200, 0, mn0, k0);
            for (const i64 offset : {0, 1, 4}) {
                expect_copied<true, 128, 256, 0>(false, 199, 199, 211, offset, mn0, k0);
                expect_copied<false, 128, 128, 0>(false, 199, 199, 211, offset, mn0, k0);
                expect_copied<true, 208, 128, 0>(false, 199, 199, 208, offset, mn0, k0);  // aligned, but not whole
                expect_copied<false, 64, 128, 144>(false, 199, 199, 208, offset, mn0, k0);
            }
        }
}

// ---------------------------------------------------------------- kernels

struct V4 {
    template <class Config>
    static void run(const GemmParams& params) {
        carat_kernel::v4_wmma<Config>(params);
    }
};
struct V5 {
    template <class Config>
    static void run(const GemmParams& params) {
        carat_kernel::v5_mma<Config>(params);
    }
};

template <class Kernel>
class TensorCoreEmulation : public testing::Test {
  protected:
    template <class Config>
    static void expect_right(const Shape& shape, unsigned blocks = 0, Order order = Order::forward) {
        Case<Config> gemm(shape);
        ASSERT_EQ(gemm.run(Kernel::template run<Config>, blocks, order), "");
    }

    template <class Layout, class Type>
    static void sweep() {
        using Config = HostConfig<TileOf<64, 64, 128>, Layout, Type>;
        constexpr i64 kEdges[] = {1, 64, 66};
        for (const i64 m : kEdges)
            for (const i64 n : kEdges)
                for (const i64 k : {0, 1, 64, 72, 200}) {
                    const i64 odd = (m + n + k) % 3;  // of three, one as aligned as its extents, two not
                    expect_right<Config>({.m = m, .n = n, .k = k, .pad = odd, .offset = odd});
                }
        expect_right<Config>({.m = 136, .n = 72, .k = 264, .batch = 2, .pad = 8}, 3);
    }

    template <class Config>
    static void sweep_epilogue() {
        for (const i64 pad : {0, 1, 2})
            for (const double beta : {0.0, -0.5}) {
                Case<Config> gemm(
                    {.m = 70, .n = 90, .k = 24, .batch = 2, .pad = pad, .offset = pad, .alpha = 0.25, .beta = beta});
                if (beta == 0) gemm.params.c = nullptr;  // reading it would crash
                EXPECT_EQ(gemm.run(Kernel::template run<Config>), "");
            }
        Case<Config> zero({.m = 70, .n = 90, .k = 24, .alpha = 0, .beta = 2});
        zero.params.a = zero.params.b = nullptr;
        EXPECT_EQ(zero.run(Kernel::template run<Config>), "");
    }
};

using Kernels = testing::Types<V4, V5>;
TYPED_TEST_SUITE(TensorCoreEmulation, Kernels);

using Nt = LayoutOf<true, false, true>;
using Tn = LayoutOf<false, true, true>;
using F32FromBf16 = Types<kTypeBf16, kTypeF32>;
using F32FromF16 = Types<kTypeF16, kTypeF32>;

TYPED_TEST(TensorCoreEmulation, RowMajorD) {
    this->template sweep<LayoutOf<true, true, true>, Bf16>();
    this->template sweep<LayoutOf<true, false, true>, F16>();
    this->template sweep<LayoutOf<false, true, true>, F32FromBf16>();
    this->template sweep<LayoutOf<false, false, true>, Bf16>();
}

TYPED_TEST(TensorCoreEmulation, ColumnMajorD) {
    this->template sweep<LayoutOf<true, true, false>, F16>();
    this->template sweep<LayoutOf<true, false, false>, Bf16>();
    this->template sweep<LayoutOf<false, true, false>, Bf16>();
    this->template sweep<LayoutOf<false, false, false>, F32FromF16>();
}

TYPED_TEST(TensorCoreEmulation, LargeTiles) {
    for (const i64 pad : {0, 1}) {
        this->template expect_right<HostConfig<TileOf<128, 128, 256, 4>, Nt>>({136, 136, 200, 1, pad});
        this->template expect_right<HostConfig<TileOf<128, 128, 256, 4>, Tn>>({136, 136, 200, 1, pad});
    }
}

TYPED_TEST(TensorCoreEmulation, AMissingBarrierOrWaitWouldShow) {
    for (const Order order : {Order::forward, Order::backward, Order::shuffled})
        for (const i64 pad : {0, 1})
            this->template expect_right<HostConfig<TileOf<128, 128, 256>, Nt>>({250, 100, 456, 1, pad}, 1, order);
}

struct AllSteps {
    static constexpr bool kDeviceScalars = false, kHasC = true, kClamp = true, kAmax = true;
    static constexpr int kBias = kBiasN, kActivation = kActSilu, kGate = kGateNone, kOutScale = kOutScaleRow;
    static constexpr int kTypeC = kTypeBf16, kTypeBias = kTypeF32;
};
struct OtherSteps : Plain {
    static constexpr bool kHasC = true;
    static constexpr int kBias = kBiasM, kActivation = kActRelu, kOutScale = kOutScaleTensor;
};

template <bool D>
using Nn = LayoutOf<true, true, D>;

TYPED_TEST(TensorCoreEmulation, EpiloguesInOrder) {
    using Small = TileOf<64, 64, 128>;
    this->template sweep_epilogue<HostConfig<Small, Nn<true>, Bf16, AllSteps>>();
    this->template sweep_epilogue<HostConfig<Small, Nn<false>, F32FromBf16, AllSteps>>();
    this->template sweep_epilogue<HostConfig<Small, Nn<true>, F16, OtherSteps>>();
    this->template sweep_epilogue<HostConfig<Small, Nn<false>, Bf16, OtherSteps>>();
}

TEST(V5Emulation, WideTiles) {
    for (const i64 pad : {0, 1}) {
        Case<HostConfig<TileOf<128, 256, 256, 4>, Nt>> wide({120, 264, 328, 1, pad});
        EXPECT_EQ(wide.run(V5::run<HostConfig<TileOf<128, 256, 256, 4>, Nt>>), "");
        Case<HostConfig<TileOf<256, 128, 256, 4>, Tn>> tall({264, 120, 328, 1, pad});
        EXPECT_EQ(tall.run(V5::run<HostConfig<TileOf<256, 128, 256, 4>, Tn>>), "");
    }
}

}  // namespace
}  // namespace carat::test
