// SPDX-License-Identifier: Apache-2.0
// reference_parts.cpp: cuts every mode of the contract into plain products. Group sizes come from memory that nobody
// could check beforehand: they are clamped to the operands' extents, so a bad value never leads outside them.
#include "cpu/reference_parts.hpp"

#include <algorithm>

#include "core/convert.hpp"

namespace carat::cpu {
namespace {

bool packed_rows(const Problem& p) {
    return p.mode == CARAT_GROUPED && (p.group_form == CARAT_GROUP_M_OFFSETS || p.group_form == CARAT_GROUP_M_INDICES);
}
bool packed_k(const Problem& p) {
    return p.mode == CARAT_GROUPED && p.group_form == CARAT_GROUP_K_OFFSETS;
}

Matrix matrix(const carat_matrix& x, const void* base, int64_t batch) {
    const Strides strides = Problem::strides(x);
    return {base, x.dtype, batch * strides.batch, strides.row, strides.col};
}

// A grid that runs along the dimension in which the groups are packed is one grid for all of them; else each batch
// entry or group has its own, batch_stride apart.
ScaleGrid grid(const carat_scale& scale, const float* data, const float* zeros, int64_t batch) {
    ScaleGrid g;
    if (scale.recipe == CARAT_SCALE_NONE) return g;
    const int64_t shift = batch * scale.batch_stride;
    g.data = data ? data + shift : nullptr;
    g.zeros = scale.zero_points && zeros ? zeros + shift : nullptr;
    g.row = scale.order == CARAT_ROW_MAJOR ? scale.ld : 1;
    g.col = scale.order == CARAT_ROW_MAJOR ? 1 : scale.ld;
    switch (scale.recipe) {
        case CARAT_SCALE_ROW_WISE:
            g.row_div = 1;
            break;
        case CARAT_SCALE_BLOCK_WISE_1X128:
            g.row_div = 1, g.k_div = 128;
            break;
        case CARAT_SCALE_BLOCK_WISE_128X128:
            g.row_div = 128, g.k_div = 128;
            break;
        case CARAT_SCALE_GROUP_WISE:
            g.row_div = 1, g.k_div = scale.group;
            break;
        default:
            break;
    }
    return g;
}

void set_scales(const Problem& p, const carat_operands& o, Part& part) {
    const bool a_rows = p.scale_a.recipe != CARAT_SCALE_TENSOR_WISE;
    const auto along_k = [](const carat_scale& s) {
        return s.recipe != CARAT_SCALE_TENSOR_WISE && s.recipe != CARAT_SCALE_ROW_WISE;
    };
    const bool one_a = (packed_rows(p) && a_rows) || (packed_k(p) && along_k(p.scale_a));
    const bool one_b = packed_k(p) && along_k(p.scale_b);
    part.scale_a = grid(p.scale_a, o.scale_a, nullptr, one_a ? 0 : part.index);
    part.scale_b = grid(p.scale_b, o.scale_b, o.zero_b, one_b ? 0 : part.index);
}

// Metadata has no stride of its own: packed for each matrix of the sparse operand, shared where the matrix is.
void set_sparsity(const Problem& p, const carat_operands& o, Part& part) {
    if (p.sparsity == CARAT_DENSE || !o.metadata) return;
    const bool is_a = p.sparsity == CARAT_SPARSE_A_24;
    const bool one = packed_k(p) || (is_a && packed_rows(p)) ||
                     (p.mode != CARAT_BATCHED_POINTERS && (is_a ? p.a : p.b).batch_stride == 0);
    const int64_t row_bytes = ceil_div(p.k, 8), own_rows = is_a ? p.m : p.n;
    const auto* data = static_cast<const uint8_t*>(o.metadata) + (one ? 0 : part.index * own_rows * row_bytes);
    (is_a ? part.sparse_a : part.sparse_b) = {data, row_bytes};
}

Matrix bias_of(const Problem& p, const void* base, int64_t batch) {
    const carat_epilogue& e = p.epilogue;
    if (e.bias == CARAT_BIAS_NONE) return {};
    return {base, e.bias_dtype, batch * e.bias_batch_stride, e.bias == CARAT_BIAS_M, e.bias == CARAT_BIAS_N};
}

// A group of GROUP_ARRAY: own pointers and leading dimensions; the scale grids keep the problem's.
Part array_part(const Problem& p, const carat_operands& o, int64_t index) {
    const carat_group& group = o.group_array[index];
    const auto lay = [](carat_matrix x, int64_t ld, int64_t rows, int64_t cols) {
        x.ld = ld != 0 ? ld : x.order == CARAT_ROW_MAJOR ? cols : rows;
        return x;
    };
    Part part;
    part.index = index;
    part.row_end = group.m, part.n = group.n, part.k_end = group.k;
    const int64_t d_cols = part_d_cols(p, part);
    part.a = matrix(lay(p.a, group.lda, group.m, group.k), group.a, 0);
    part.b = matrix(lay(p.b, group.ldb, group.k, group.n), group.b, 0);
    part.c = matrix(lay(p.c, group.ldc, group.m, group.n), group.c, 0);
    part.d = matrix(lay(p.d, group.ldd, group.m, d_cols), group.d, 0);
    part.bias = bias_of(p, group.bias, 0);
    part.scale_a = grid(p.scale_a, group.scale_a, nullptr, 0);
    part.scale_b = grid(p.scale_b, group.scale_b, nullptr, 0);
    part.first_row = index * p.m;
    return part;
}

}  // namespace

Part reference_part(const Problem& p, const carat_operands& o, int64_t index) {
    if (p.mode == CARAT_GROUPED && p.group_form == CARAT_GROUP_ARRAY) return array_part(p, o, index);
    Part part;
    part.index = index;
    part.row_end = p.m, part.n = p.n, part.k_end = p.k;
    if (p.mode == CARAT_BATCHED_POINTERS) {
        part.a = matrix(p.a, o.a_array ? o.a_array[index] : nullptr, 0);
        part.b = matrix(p.b, o.b_array ? o.b_array[index] : nullptr, 0);
        part.c = matrix(p.c, o.c_array ? o.c_array[index] : nullptr, 0);
        part.d = matrix(p.d, o.d_array[index], 0);
    } else {
        const int64_t a_index = packed_rows(p) || packed_k(p) ? 0 : index, b_index = packed_k(p) ? 0 : index;
        const int64_t d_index = packed_rows(p) ? 0 : index;
        part.a = matrix(p.a, o.a, a_index);
        part.b = matrix(p.b, o.b, b_index);
        part.c = matrix(p.c, o.c, d_index);
        part.d = matrix(p.d, o.d, d_index);
    }
    if (packed_k(p)) {
        const auto end = [&](int64_t g) { return g < 0 ? 0 : std::clamp<int64_t>(o.group_sizes[g], 0, p.k); };
        part.k_begin = end(index - 1);
        part.k_end = std::max(part.k_begin, end(index));
    }
    part.bias = bias_of(p, o.bias, index);
    part.first_row = packed_rows(p) ? 0 : index * p.m;
    set_scales(p, o, part);
    set_sparsity(p, o, part);
    return part;
}

std::vector<Part> reference_parts(const Problem& p, const carat_operands& o) {
    std::vector<Part> parts;
    if (p.empty()) return parts;
    const auto add = [&](int64_t index, int64_t row_begin, int64_t row_end) {
        Part part = reference_part(p, o, index);
        part.row_begin = row_begin;
        part.row_end = row_end;
        if (part.rows() > 0 && part_d_cols(p, part) > 0) parts.push_back(part);
    };
    if (p.mode == CARAT_GROUPED && p.group_form == CARAT_GROUP_M_INDICES) {
        for (int64_t row = 0, end; row < p.m; row = end) {  // a run of rows of one group is a part
            const int32_t group = o.group_sizes[row];
            for (end = row + 1; end < p.m && o.group_sizes[end] == group;) ++end;
            if (group >= 0 && group < p.batch) add(group, row, end);
        }
        return parts;
    }
    int64_t begin = 0;
    for (int64_t index = 0; index < p.batch; ++index) {
        int64_t end = p.m;
        if (p.mode == CARAT_GROUPED && p.group_form == CARAT_GROUP_M_OFFSETS) {
            end = std::clamp<int64_t>(o.group_sizes[index], begin, p.m);
            add(index, begin, end);
            begin = end;
            continue;
        }
        if (p.mode == CARAT_GROUPED && p.group_form == CARAT_GROUP_M_MASKED)
            end = std::clamp<int64_t>(o.group_sizes[index], 0, p.m);
        if (p.mode == CARAT_GROUPED && p.group_form == CARAT_GROUP_ARRAY) end = o.group_array[index].m;
        add(index, 0, end);
    }
    return parts;
}

Scalars reference_scalars(const Problem& p, const carat_operands& o) {
    // f32 unless the problem is f64, from either place, so that both give the same bits.
    const carat_dtype dtype = p.a.dtype == CARAT_F64 ? CARAT_F64 : CARAT_F32;
    const bool on_device = p.epilogue.scalars_on_device;
    const auto take = [&](const void* device, double host) {
        return on_device && device ? load_f64(device, dtype, 0) : round_to(dtype, host);
    };
    return {take(o.alpha_device, o.alpha), p.has_c() ? take(o.beta_device, o.beta) : 0};
}

std::vector<ReferenceTile> reference_tiles(const Problem& p, const std::vector<Part>& parts) {
    std::vector<ReferenceTile> tiles;
    for (size_t at = 0; at < parts.size(); ++at) {
        const Part& part = parts[at];
        const int64_t cols = part_d_cols(p, part);
        for (int64_t row = part.row_begin; row < part.row_end; row += kTileRows)
            for (int64_t col = 0; col < cols; col += kTileCols)
                tiles.push_back(
                    {int64_t(at), row, std::min(kTileRows, part.row_end - row), col, std::min(kTileCols, cols - col)});
    }
    return tiles;
}

}  // namespace carat::cpu
