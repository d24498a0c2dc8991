// SPDX-License-Identifier: Apache-2.0
// reference_tile.cpp: panels of any operand as f64, and the triple loop over them. The sum of each entry runs in order
// of k whatever the blocking, so the reference is one function of its inputs.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/convert.hpp"
#include "cpu/reference_parts.hpp"

namespace carat::cpu {
namespace {

template <class T, class Convert>
void load_as(const Matrix& m, int64_t index, int64_t step, int64_t count, double* out, int64_t out_step, Convert as) {
    const char* from = static_cast<const char*>(m.base) + index * int64_t(sizeof(T));
    for (int64_t i = 0; i < count; ++i, from += step * int64_t(sizeof(T))) {
        T stored;
        std::memcpy(&stored, from, sizeof(T));
        out[i * out_step] = as(stored);
    }
}

// `count` elements, `step` apart, from `index`. The switch stands outside of the loop.
void load_run(const Matrix& m, int64_t index, int64_t step, int64_t count, double* out, int64_t out_step) {
    const auto same = [](auto stored) { return double(stored); };
    switch (m.dtype) {
        case CARAT_F64:
            return load_as<double>(m, index, step, count, out, out_step, same);
        case CARAT_F32:
            return load_as<float>(m, index, step, count, out, out_step, same);
        case CARAT_F16:
            return load_as<uint16_t>(m, index, step, count, out, out_step, f32_from_f16);
        case CARAT_BF16:
            return load_as<uint16_t>(m, index, step, count, out, out_step, f32_from_bf16);
        case CARAT_E4M3:
            return load_as<uint8_t>(m, index, step, count, out, out_step, f32_from_e4m3);
        case CARAT_E5M2:
            return load_as<uint8_t>(m, index, step, count, out, out_step, f32_from_e5m2);
        case CARAT_S8:
            return load_as<int8_t>(m, index, step, count, out, out_step, same);
        case CARAT_S32:
            return load_as<int32_t>(m, index, step, count, out, out_step, same);
        default:
            for (int64_t i = 0; i < count; ++i) out[i * out_step] = load_f64(m.base, m.dtype, index + i * step);
    }
}

// value = (stored - zero) * scale, over the elements k ... k + depth of one own row of the operand.
void dequantise(const ScaleGrid& grid, int64_t own_row, int64_t k, int64_t depth, double* out, int64_t out_step) {
    if (!grid.data) return;
    const int64_t at = grid.row_offset(own_row), end = k + depth;
    for (int64_t begin = k, next; begin < end; begin = next) {
        const int64_t block = begin / grid.k_div;
        next = grid.k_div >= end ? end : std::min(end, (block + 1) * grid.k_div);
        const double scale = grid.data[at + block * grid.col];
        const double zero = grid.zeros ? grid.zeros[at + block * grid.col] : 0;
        for (int64_t i = begin - k; i < next - k; ++i) out[i * out_step] = (out[i * out_step] - zero) * scale;
    }
}

// One own row of a 2:4 operand: stored element 2 * (k / 4) + slot, `step` apart.
void load_sparse(const Matrix& m, int64_t first, int64_t step, const Metadata& metadata, int64_t own_row, int64_t k,
                 int64_t depth, double* out, uint8_t* kept, int64_t out_step) {
    for (int64_t i = 0; i < depth; ++i) {
        const int slot = metadata.slot(own_row, k + i);
        kept[i * out_step] = slot >= 0;
        out[i * out_step] = slot >= 0 ? load_f64(m.base, m.dtype, first + (2 * ((k + i) / 4) + slot) * step) : 0;
    }
}

struct Block {
    const double* a;
    const double* b;
    const uint8_t* a_kept;  // nullptr: all
    const uint8_t* b_kept;
    int64_t depth, cols;
};

// The plain loop, four k at a time to spare loads and stores of the sums; each sum still grows in order of k.
void multiply_row(const Block& block, double* __restrict sum) {
    int64_t k = 0;
    for (; k + 4 <= block.depth; k += 4) {
        const double a0 = block.a[k], a1 = block.a[k + 1], a2 = block.a[k + 2], a3 = block.a[k + 3];
        const double* __restrict b = block.b + k * kTileCols;
        for (int64_t j = 0; j < block.cols; ++j)
            sum[j] = (((sum[j] + a0 * b[j]) + a1 * b[kTileCols + j]) + a2 * b[2 * kTileCols + j]) +
                     a3 * b[3 * kTileCols + j];
    }
    for (; k < block.depth; ++k)
        for (int64_t j = 0; j < block.cols; ++j) sum[j] += block.a[k] * block.b[k * kTileCols + j];
}

// With masks, and optionally with what error bounds need.
void multiply_row_general(const Block& block, double* sum, double* magnitude, double* growth) {
    for (int64_t k = 0; k < block.depth; ++k) {
        if (block.a_kept && !block.a_kept[k]) continue;
        const double a = block.a[k];
        const double* b = block.b + k * kTileCols;
        const uint8_t* kept = block.b_kept ? block.b_kept + k * kTileCols : nullptr;
        for (int64_t j = 0; j < block.cols; ++j) {
            const double product = !kept || kept[j] ? a * b[j] : 0;
            sum[j] += product;
            if (!magnitude) continue;
            magnitude[j] += std::fabs(product);
            growth[j] += std::fabs(sum[j]);
        }
    }
}

void multiply_row_bounds(const Block& block, double* __restrict sum, double* __restrict magnitude,
                         double* __restrict growth) {
    for (int64_t k = 0; k < block.depth; ++k) {
        const double a = block.a[k];
        const double* __restrict b = block.b + k * kTileCols;
        for (int64_t j = 0; j < block.cols; ++j) {
            const double product = a * b[j];
            sum[j] += product;
            magnitude[j] += std::fabs(product);
            growth[j] += std::fabs(sum[j]);
        }
    }
}

}  // namespace

void Panels::load_a(const Part& part, int64_t row, int64_t rows, int64_t k, int64_t depth) {
    for (int64_t i = 0; i < rows; ++i) {
        double* out = a.get() + i * kTileDepth;
        if (part.sparse_a.data)
            load_sparse(part.a, part.a.index(row + i, 0), part.a.col, part.sparse_a, row + i, k, depth, out,
                        a_kept.get() + i * kTileDepth, 1);
        else
            load_run(part.a, part.a.index(row + i, k), part.a.col, depth, out, 1);
        dequantise(part.scale_a, row + i, k, depth, out, 1);
    }
}

void Panels::load_b(const Part& part, Columns columns, int64_t k, int64_t depth) {
    if (!part.sparse_b.data && part.b.col == 1) {  // along memory
        for (int64_t i = 0; i < depth; ++i)
            load_run(part.b, part.b.index(k + i, columns.first), columns.step, columns.count, b.get() + i * kTileCols,
                     1);
    }
    for (int64_t j = 0; j < columns.count; ++j) {
        const int64_t col = columns.first + j * columns.step;
        double* out = b.get() + j;
        if (part.sparse_b.data)
            load_sparse(part.b, part.b.index(0, col), part.b.row, part.sparse_b, col, k, depth, out, b_kept.get() + j,
                        kTileCols);
        else if (part.b.col != 1)
            load_run(part.b, part.b.index(k, col), part.b.row, depth, out, kTileCols);
        dequantise(part.scale_b, col, k, depth, out, kTileCols);
    }
}

void accumulate_tile(const Part& part, int64_t row, int64_t rows, Columns columns, bool multiply, Panels& panels,
                     TileSums& sums) {
    const bool bounds = sums.magnitude != nullptr, masked = part.sparse_a.data || part.sparse_b.data;
    for (double* plane : {sums.value.get(), sums.magnitude.get(), sums.growth.get()})
        if (plane) std::fill(plane, plane + rows * kTileCols, 0.0);
    if (!multiply) return;
    for (int64_t k = part.k_begin; k < part.k_end; k += kTileDepth) {
        const int64_t depth = std::min(kTileDepth, part.k_end - k);
        panels.load_a(part, row, rows, k, depth);
        panels.load_b(part, columns, k, depth);
        for (int64_t i = 0; i < rows; ++i) {
            const Block block = {panels.a.get() + i * kTileDepth,
                                 panels.b.get(),
                                 part.sparse_a.data ? panels.a_kept.get() + i * kTileDepth : nullptr,
                                 part.sparse_b.data ? panels.b_kept.get() : nullptr,
                                 depth,
                                 columns.count};
            double* value = sums.value.get() + i * kTileCols;
            double* magnitude = bounds ? sums.magnitude.get() + i * kTileCols : nullptr;
            double* growth = bounds ? sums.growth.get() + i * kTileCols : nullptr;
            if (masked)
                multiply_row_general(block, value, magnitude, growth);
            else if (bounds)
                multiply_row_bounds(block, value, magnitude, growth);
            else
                multiply_row(block, value);
        }
    }
}

}  // namespace carat::cpu
