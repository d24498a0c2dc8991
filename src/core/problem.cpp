// SPDX-License-Identifier: Apache-2.0
#include "core/problem.hpp"

#include <algorithm>

namespace carat {
namespace {

std::string recipe_name(const carat_scale& scale) {
    switch (scale.recipe) {
        case CARAT_SCALE_NONE:
            return "none";
        case CARAT_SCALE_TENSOR_WISE:
            return "tensorwise";
        case CARAT_SCALE_ROW_WISE:
            return "rowwise";
        case CARAT_SCALE_BLOCK_WISE_1X128:
            return "1x128";
        case CARAT_SCALE_BLOCK_WISE_128X128:
            return "128x128";
        case CARAT_SCALE_GROUP_WISE:
            return fmt::format("groupwise{}{}", scale.group, scale.zero_points ? "z" : "");
    }
    return "?";
}

const char* activation_name(carat_activation activation) {
    static constexpr const char* kNames[] = {"", "relu", "gelu_erf", "gelu_tanh", "silu", "sigmoid"};
    return kNames[activation];
}

void add(std::string& text, std::string_view word) {
    if (!text.empty()) text += '+';
    text += word;
}

// What of a matrix's place in memory is not the packed default: " lda72 stride_a0".
std::string describe_memory(const Problem& p, const char* which, const carat_matrix& x, int64_t rows, int64_t cols) {
    const bool row_major = x.order == CARAT_ROW_MAJOR;
    std::string text;
    if (x.ld != (row_major ? cols : rows)) text += fmt::format(" ld{}{}", which, x.ld);
    const bool strided = p.mode == CARAT_BATCHED || p.mode == CARAT_GROUPED;
    if (strided && x.batch_stride != x.ld * (row_major ? rows : cols))
        text += fmt::format(" stride_{}{}", which, x.batch_stride);
    return text;
}

std::string describe_grid(const char* which, const carat_scale& scale, int64_t extent, int64_t k) {
    if (scale.recipe == CARAT_SCALE_NONE) return {};
    const bool row_major = scale.order == CARAT_ROW_MAJOR;
    int64_t rows = extent, cols = 1;
    if (scale.recipe == CARAT_SCALE_TENSOR_WISE) rows = 1;
    if (scale.recipe == CARAT_SCALE_BLOCK_WISE_128X128) rows = ceil_div(extent, 128);
    if (scale.recipe == CARAT_SCALE_BLOCK_WISE_1X128 || scale.recipe == CARAT_SCALE_BLOCK_WISE_128X128)
        cols = ceil_div(k, 128);
    if (scale.recipe == CARAT_SCALE_GROUP_WISE && scale.group > 0) cols = ceil_div(k, scale.group);
    std::string text;
    if (!row_major) text += fmt::format(" grid_{}_col", which);
    if (scale.ld != (row_major ? cols : rows)) text += fmt::format(" grid_{}_ld{}", which, scale.ld);
    if (scale.batch_stride != 0) text += fmt::format(" grid_{}_stride{}", which, scale.batch_stride);
    return text;
}

}  // namespace

const char* numerics_name(carat_numerics numerics) {
    static constexpr const char* kNames[] = {"deterministic", "batch_invariant", "fast"};
    return kNames[numerics];
}

Extents scale_grid(const carat_scale& s, int64_t extent, int64_t k) {
    switch (s.recipe) {
        case CARAT_SCALE_NONE:
            return {0, 0};
        case CARAT_SCALE_TENSOR_WISE:
            return {1, 1};
        case CARAT_SCALE_ROW_WISE:
            return {extent, 1};
        case CARAT_SCALE_BLOCK_WISE_1X128:
            return {extent, ceil_div(k, 128)};
        case CARAT_SCALE_BLOCK_WISE_128X128:
            return {ceil_div(extent, 128), ceil_div(k, 128)};
        case CARAT_SCALE_GROUP_WISE:
            return {extent, ceil_div(k, s.group)};
    }
    return {0, 0};
}

int64_t packed_ld(const carat_matrix& matrix, Extents extents) {
    const int64_t inner = matrix.order == CARAT_ROW_MAJOR ? extents.cols : extents.rows;
    return std::max<int64_t>(inner, 1) + (bits(matrix.dtype) == 4 ? inner % 2 : 0);
}

int64_t footprint(const carat_matrix& matrix, Extents extents, int64_t count) {
    if (extents.rows == 0 || extents.cols == 0 || count == 0) return 0;
    const bool row_major = matrix.order == CARAT_ROW_MAJOR;
    const int64_t inner = row_major ? extents.cols : extents.rows, outer = row_major ? extents.rows : extents.cols;
    return (count - 1) * matrix.batch_stride + (outer - 1) * matrix.ld + inner;
}

std::string describe_epilogue(const Problem& p) {
    const carat_epilogue& e = p.epilogue;
    std::string text;
    if (p.has_c()) add(text, fmt::format("c_{}", name(p.c.dtype)));
    if (e.scalars_on_device) add(text, "device_scalars");
    if (e.bias != CARAT_BIAS_NONE) {
        add(text, fmt::format("bias_{}_{}", e.bias == CARAT_BIAS_N ? "n" : "m", name(e.bias_dtype)));
        if (e.bias_batch_stride != 0) text += fmt::format("_stride{}", e.bias_batch_stride);
    }
    if (e.activation != CARAT_ACT_NONE) add(text, activation_name(e.activation));
    if (e.gate != CARAT_GATE_NONE) add(text, e.gate == CARAT_GATE_INTERLEAVED ? "gate_interleaved" : "gate_split");
    if (e.clamp) add(text, fmt::format("clamp[{},{}]", e.clamp_lo, e.clamp_hi));
    if (e.out_scale != CARAT_OUT_SCALE_NONE) {
        static constexpr const char* kNames[] = {"", "out_tensor", "out_row", "out_1x128"};
        add(text, kNames[e.out_scale]);
    }
    if (e.amax) add(text, "amax");
    return text.empty() ? "none" : text;
}

std::string describe_recipe(const Problem& p) {
    if (p.scale_a.recipe == CARAT_SCALE_NONE && p.scale_b.recipe == CARAT_SCALE_NONE) return "none";
    return fmt::format("{}/{}", recipe_name(p.scale_a), recipe_name(p.scale_b));
}

std::string describe(const Problem& p) {
    std::string text = fmt::format("{}_{}_{}_{} m{} n{} k{}", name(p.a.dtype), name(p.b.dtype), name(p.d.dtype),
                                   p.layout(), p.m, p.n, p.k);
    if (p.d.order == CARAT_COL_MAJOR) text += " d_col";
    static constexpr const char* kForms[] = {"", "m_offsets", "m_indices", "m_masked", "k_offsets", "array"};
    if (p.mode == CARAT_BATCHED) text += fmt::format(" batch{}", p.batch);
    if (p.mode == CARAT_BATCHED_POINTERS) text += fmt::format(" pointers{}", p.batch);
    if (p.mode == CARAT_GROUPED) text += fmt::format(" groups{}_{}", p.batch, kForms[p.group_form]);
    static constexpr const char* kCompute[] = {"", "f32", "tf32", "3xtf32", "bf16x9", "promoted", "fast"};
    if (p.compute != CARAT_COMPUTE_DEFAULT) text += fmt::format(" {}", kCompute[p.compute]);
    if (const std::string recipe = describe_recipe(p); recipe != "none") text += " " + recipe;
    if (p.sparsity != CARAT_DENSE) text += p.sparsity == CARAT_SPARSE_A_24 ? " sparse_a" : " sparse_b";
    text += describe_memory(p, "a", p.a, p.m, p.a_cols());
    text += describe_memory(p, "b", p.b, p.b_rows(), p.n);
    if (p.has_c()) text += describe_memory(p, "c", p.c, p.m, p.n);
    text += describe_memory(p, "d", p.d, p.m, p.d_cols());
    text += describe_grid("a", p.scale_a, p.m, p.k) + describe_grid("b", p.scale_b, p.n, p.k);
    if (const std::string epilogue = describe_epilogue(p); epilogue != "none") text += " " + epilogue;
    if (p.numerics != CARAT_DETERMINISTIC) text += fmt::format(" {}", numerics_name(p.numerics));
    return text;
}

}  // namespace carat
