// SPDX-License-Identifier: Apache-2.0
// emulated_ws.hpp: configurations of the Hopper kernel for its emulation: forms, tiles, layouts, types, and what they take of
// shared memory. After host_cuda.hpp and gemm_ws.cuh.
#pragma once

#include <algorithm>

#include "kernels/emulated_hopper.hpp"

namespace carat::test {

// Rows of D in a block's tile, consumers and strips of 64 rows of each, cluster.
template <int Consumers, int Strips, bool PingPong, int ClusterM = 1, int ClusterN = 1, int ClusterK = 1,
          int Rows = 64 * Strips*(PingPong ? 1 : Consumers)>
struct Form {
    static constexpr int kConsumers = Consumers, kTM = Strips, kBM = Rows;
    static constexpr bool kPingPong = PingPong;
    static constexpr int kClusterM = ClusterM, kClusterN = ClusterN, kClusterK = ClusterK;
    static constexpr int kSerialParts = 1, kSeparateParts = 1;
    static constexpr bool kStreamK = false;
    static constexpr int kThreads = 128 * (1 + Consumers), kFillThreads = 128, kMinBlocks = 1;
    static constexpr int kProducerRegisters = Consumers == 3 ? 32 : 40, kConsumerRegisters = Consumers == 3 ? 160 : 232;
};
using Cooperative = Form<2, 1, false>;
using PingPong = Form<2, 1, true>;

template <bool A, bool B>
struct Bulk {
    static constexpr bool kBulkA = A, kBulkB = B;
};

// What a consumer receives from the other blocks of a tile whose K is split.
template <class Shape, class Types, int N>
constexpr int exchange_of = [] {
    constexpr int kCols = 128 / carat_shared::type_bytes(Types::kTypeD);
    return carat_shared::exchange_bytes(Shape::kTM * ((N + kCols - 1) / kCols), std::min(N, kCols) / 2,
                                        Shape::kClusterK);
}();

template <class Shape, int N, int Stages, class Layout, class Types, class Copy = Bulk<true, true>,
          class Epilogue = NoEpilogue, int Depth = 64>
struct ConfigOf : Shape, Layout, Types, Copy, Epilogue {
    static constexpr int kBN = N, kBK = Depth, kStages = Stages;
    static constexpr bool kBulkStore = Copy::kBulkA && Copy::kBulkB && takes_bulk_stores<Types, Layout>;
    static constexpr bool kBulkC = Shape::kClusterK == 1 && kBulkStore && Epilogue::kHasC &&
                                   Epilogue::kGate == CARAT_GATE_NONE && Shape::kBM % 64 == 0 &&
                                   carat_shared::type_bytes(Types::kTypeC) == carat_shared::type_bytes(Types::kTypeD);
    static constexpr bool kStageBoxA = Depth > 64 && Copy::kBulkA&& Layout::kRowMajorA&& Shape::kClusterN == 1;
    static constexpr bool kStageBoxB = Depth > 64 && Copy::kBulkB && !Layout::kRowMajorB && Shape::kClusterM == 1 &&
                                       Epilogue::kGate != CARAT_GATE_SPLIT;
    static constexpr int kLinesB = Layout::kRowMajorB ? (N + 63) / 64 * 64 : N;
    static constexpr int kRowsAtOnce = 64 * Shape::kTM;
    static constexpr int kLinesBeyond =
        std::max((Shape::kBM + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce - Shape::kBM - kLinesB, 0);
    static constexpr unsigned kSharedBytes =
        Stages * ((Shape::kBM + kLinesB) * Depth * 2 + 16) + kLinesBeyond * 128 +
        Shape::kConsumers *
            (16384 + (kBulkC ? 16 : 0) + shared_bias_bytes<Epilogue, N, Shape::kTM>)+(Shape::kPingPong ? 16 : 0) +
        (Shape::kClusterK > 1 ? Shape::kConsumers * (exchange_of<Shape, Types, N> + 16) : 0);

    template <class Config>
    static void run(const BulkGemmParams& params) {
        carat_kernel::gemm_ws<Config>(params);
    }
    static inline int strip = 2;
};

using Bf16 = TypesOf<CARAT_BF16, CARAT_BF16>;
using F16 = TypesOf<CARAT_F16, CARAT_F16>;
using Bf16ToF32 = TypesOf<CARAT_BF16, CARAT_F32>;
using F16ToBf16 = TypesOf<CARAT_F16, CARAT_BF16>;
// D of 8 bits; C and the bias, which no kernel reads in 8 bits, of the operands' type.
template <carat_dtype In, carat_dtype Out>
struct NarrowOf : TypesOf<In, Out> {
    static constexpr int kTypeC = In, kTypeBias = In;
};
using Bf16ToE4m3 = NarrowOf<CARAT_BF16, CARAT_E4M3>;
using F16ToE5m2 = NarrowOf<CARAT_F16, CARAT_E5M2>;
using Bf16ToS8 = NarrowOf<CARAT_BF16, CARAT_S8>;
using Nt = LayoutOf<true, false, true>;

}  // namespace carat::test
