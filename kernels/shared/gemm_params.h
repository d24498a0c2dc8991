// SPDX-License-Identifier: Apache-2.0
// gemm_params.h: the plain structs that host and device share. Included by g++ and by NVRTC, so: no include, no host
// type, only fixed-size members, and the enumerators' values are those of carat.h (static_asserts on the host side).
#pragma once

namespace carat_shared {

using i64 = long long;
using u64 = unsigned long long;

// Element steps: element (i, j) of batch entry z lies at i * row + j * col + z * batch.
struct Strided {
    i64 row, col, batch;
};

// Values of carat_dtype that kernels read and write.
enum Type : int { kTypeNone = 0, kTypeF32 = 2, kTypeF16 = 3, kTypeBf16 = 4, kTypeE4m3 = 5, kTypeE5m2 = 6, kTypeS8 = 7 };

constexpr int type_bytes(int type) {
    return type == kTypeF32 ? 4 : type <= kTypeBf16 ? 2 : 1;
}

// Values of carat_activation, carat_gate, carat_bias, carat_out_scale, as code generation writes them into Config.
// Enumerators and not constants: those would take device memory in every kernel.
enum Activation : int { kActNone = 0, kActRelu = 1, kActGeluErf = 2, kActGeluTanh = 3, kActSilu = 4, kActSigmoid = 5 };
enum Gate : int { kGateNone = 0, kGateInterleaved = 1, kGateSplit = 2 };
enum Bias : int { kBiasNone = 0, kBiasN = 1, kBiasM = 2 };
enum OutScale : int { kOutScaleNone = 0, kOutScaleTensor = 1, kOutScaleRow = 2, kOutScaleComputed = 3 };

struct EpilogueParams {
    double alpha, beta;
    const void* alpha_device;  // one f32 each, read if Config::kDeviceScalars
    const void* beta_device;
    const void* bias;
    i64 bias_batch;
    float clamp_lo, clamp_hi;
    const float* out_scale;
    float* d_scales;  // computed 1x128: [batch x M][ceil(columns of D / 128)]
    float* amax;      // zeroed on the same stream before the launch
};

struct GemmParams {
    const void* a;
    const void* b;
    const void* c;
    void* d;
    i64 m, n, k, batch;
    Strided a_strides, b_strides, c_strides, d_strides;
    EpilogueParams epilogue;
};

// A descriptor of the bulk copy engine (TMA), encoded by the driver. 64 bytes satisfy the hardware; 128 is what cuda.h of
// CUDA 13 gives its type.
struct alignas(128) BulkMap {
    unsigned char bytes[128];
};

// Of an operand: in boxes of all of a tile's rows (or a block's part of them), and in one of as many as its last tile has.
struct OperandMaps {
    BulkMap whole, last;
};

// How a kernel walks the tiles of D (tile_walk.h): strips of lines of tiles, step by step.
struct TileWalk {
    int lines, steps;  // of tiles of a cluster: lines lie side by side in a strip, steps one after the other
    int count;         // of all
    int strip;         // lines in a strip
    int along_n;       // 1: lines are rows of tiles, steps go along N; 0: columns, along M
};

// Where the sums of parts of K come together in the caller's workspace (split_sums.h), if they do.
struct SplitParams {
    float* sums;
    unsigned* turns;
};

// What kernels that copy in bulk take. The maps are set where Config has kBulkA, kBulkB, kBulkC and
// kBulkStore.
struct BulkGemmParams : GemmParams {
    OperandMaps a_maps, b_maps;
    BulkMap c_map, d_map;
    TileWalk walk;
    // 1: one tile alone reads its rows of A, or its columns of B: nothing of it need stay in L2.
    int once_a, once_b;
    int early_bytes;  // of each such row of a block's first tile, on their way to L2 early (mainloop/fetch_early.cuh)
    SplitParams split;
};

// Lines of 16-bit elements and where their copies go (align_lines.cuh): pitches and strides in elements, to_pitch a multiple
// of 8. The copies follow each other without gaps.
struct LinesToAlign {
    const void* from;
    void* to;
    i64 pitch, batch_stride, to_pitch;
    i64 length, lines, batch;
};
struct AlignParams {
    LinesToAlign operands[2];
    int count;
    const float* alpha_device;  // null: alpha is known and not 0
};

}  // namespace carat_shared
