// SPDX-License-Identifier: Apache-2.0
// floor.cpp: the least time a problem can take on a target. Every operand is counted once, in the bytes it occupies
// without padding, because a perfect kernel would move exactly that.
#include <algorithm>

#include "limits/target.hpp"

namespace carat {
namespace {

// How often each kind of array exists.
struct Copies {
    double a = 1, b = 1, d = 1;
};

Copies copies_of(const Problem& p) {
    const double batch = double(p.batch);
    switch (p.mode) {
        case CARAT_SINGLE:
            return {};
        case CARAT_BATCHED:
            return {p.a.batch_stride == 0 ? 1 : batch, p.b.batch_stride == 0 ? 1 : batch, batch};
        case CARAT_BATCHED_POINTERS:
            return {batch, batch, batch};
        case CARAT_GROUPED:
            break;
    }
    switch (p.group_form) {
        case CARAT_GROUP_M_OFFSETS:
        case CARAT_GROUP_M_INDICES:
            // A group without rows needs no B, and m rows fill at most m groups.
            return {1, p.b.batch_stride == 0 ? 1 : double(std::min(p.batch, p.m)), 1};
        case CARAT_GROUP_M_MASKED:
            return {batch, p.b.batch_stride == 0 ? 1 : batch, batch};
        case CARAT_GROUP_K_OFFSETS:
            return {1, 1, batch};
        case CARAT_GROUP_ARRAY:
            return {batch, batch, batch};
        case CARAT_GROUP_NONE:
            break;
    }
    return {};
}

double matrix_bytes(carat_dtype dtype, int64_t rows, int64_t cols) {
    return double(rows) * double(cols) * bits(dtype) / 8;
}

double scale_bytes(const carat_scale& s, int64_t extent, int64_t k) {
    const Extents grid = scale_grid(s, extent, k);
    return 4 * double(grid.rows) * double(grid.cols) * (s.zero_points ? 2 : 1);
}

double scale_copies(const Problem& p, const carat_scale& s, double operand_copies) {
    const bool shared = s.batch_stride == 0 && p.group_form != CARAT_GROUP_ARRAY;
    return shared ? std::min(operand_copies, 1.0) : operand_copies;
}

double input_bytes(const Problem& p, const Copies& copies) {
    if (p.k == 0) return 0;  // A, B and their scales are never read
    double bytes =
        copies.a * matrix_bytes(p.a.dtype, p.m, p.a_cols()) + copies.b * matrix_bytes(p.b.dtype, p.b_rows(), p.n);
    bytes += scale_copies(p, p.scale_a, copies.a) * scale_bytes(p.scale_a, p.m, p.k);
    bytes += scale_copies(p, p.scale_b, copies.b) * scale_bytes(p.scale_b, p.n, p.k);
    if (p.sparsity == CARAT_SPARSE_A_24) bytes += copies.a * double(p.m) * double(ceil_div(p.k, 8));
    if (p.sparsity == CARAT_SPARSE_B_24) bytes += copies.b * double(p.n) * double(ceil_div(p.k, 8));
    return bytes;
}

double bias_bytes(const Problem& p, const Copies& copies) {
    const carat_epilogue& e = p.epilogue;
    if (e.bias == CARAT_BIAS_NONE) return 0;
    const double elements = double(e.bias == CARAT_BIAS_N ? p.n : p.m);
    // A bias of M groups belongs to a group like its B; everywhere else to a D.
    const bool per_b = p.group_form == CARAT_GROUP_M_OFFSETS || p.group_form == CARAT_GROUP_M_INDICES;
    const double own = per_b ? double(std::min(p.batch, p.m)) : copies.d;
    return (e.bias_batch_stride == 0 && p.group_form != CARAT_GROUP_ARRAY ? 1 : own) * elements * bits(e.bias_dtype) /
           8;
}

double output_bytes(const Problem& p, const Copies& copies, bool reads_c) {
    const carat_epilogue& e = p.epilogue;
    const int64_t cols = p.d_cols();
    double bytes = copies.d * matrix_bytes(p.d.dtype, p.m, cols);
    if (reads_c && p.has_c()) {
        const bool shared = p.mode == CARAT_BATCHED && p.c.batch_stride == 0;
        bytes += (shared ? 1 : copies.d) * matrix_bytes(p.c.dtype, p.m, p.n);
    }
    if (e.out_scale == CARAT_OUT_SCALE_TENSOR) bytes += 4;
    if (e.out_scale == CARAT_OUT_SCALE_ROW) bytes += 4 * double(p.m);
    if (e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128)
        bytes += copies.d * 4 * double(p.m) * double(ceil_div(cols, 128));
    if (e.amax) bytes += 4;
    return bytes;
}

}  // namespace

Floor floor_of(const Problem& p, const Target& target, bool reads_c) {
    Floor f;
    if (p.empty()) {
        f.bound = Bound::launch;
        return f;  // nothing is launched
    }
    const Copies copies = copies_of(p);
    f.bytes = input_bytes(p, copies) + bias_bytes(p, copies) + output_bytes(p, copies, reads_c);
    f.flops = p.flops();
    f.intensity = f.bytes > 0 ? f.flops / f.bytes : 0;
    f.memory_us = target.read_us(f.bytes);
    // 2:4 sparsity halves the multiplications; flops still counts the problem's.
    const double work = p.sparsity == CARAT_DENSE ? f.flops : f.flops / 2;
    const double rate = target.rate_tflops(p.a.dtype, p.b.dtype, p.compute);
    f.compute_us = rate > 0 ? work / (rate * 1e6) : 0;
    f.us = std::max({f.memory_us, f.compute_us, target.launch_us});
    f.bound = f.us == f.memory_us ? Bound::memory : f.us == f.compute_us ? Bound::compute : Bound::launch;
    return f;
}

}  // namespace carat
