// SPDX-License-Identifier: Apache-2.0
// validate_problem.cpp: the problem half of validate.hpp, from sizes to epilogue, one concern a function.
#include <cmath>
#include <limits>

#include "api/validate.hpp"

namespace carat::api {
namespace {

// Extents stay below this so that products of extents and strides cannot overflow 64 bits unnoticed.
constexpr int64_t kLargestExtent = int64_t(1) << 40;
constexpr int64_t kLargestOffset = int64_t(1) << 60;

Status invalid(std::string sentence) {
    return Status(CARAT_INVALID_VALUE, std::move(sentence));
}

Status check_enum(int value, int lowest, int highest, const char* field) {
    if (value >= lowest && value <= highest) return {};
    return fail(CARAT_INVALID_VALUE, "{} is {}, which is no value of its enumeration: use {} to {} of carat.h", field,
                value, lowest, highest);
}

Status check_order(carat_order order, const char* field) {
    if (order == CARAT_ROW_MAJOR || order == CARAT_COL_MAJOR) return {};
    return fail(CARAT_INVALID_VALUE, "{} is {}: it must be CARAT_ROW_MAJOR (101) or CARAT_COL_MAJOR (102)", field,
                int(order));
}

Status check_enums(const carat_problem& p) {
    CARAT_TRY(check_enum(p.mode, CARAT_SINGLE, CARAT_GROUPED, "mode"));
    CARAT_TRY(check_enum(p.group_form, CARAT_GROUP_NONE, CARAT_GROUP_ARRAY, "group_form"));
    CARAT_TRY(check_enum(p.compute, CARAT_COMPUTE_DEFAULT, CARAT_COMPUTE_FAST, "compute"));
    CARAT_TRY(check_enum(p.sparsity, CARAT_DENSE, CARAT_SPARSE_B_24, "sparsity"));
    CARAT_TRY(check_enum(p.scale_a.recipe, CARAT_SCALE_NONE, CARAT_SCALE_GROUP_WISE, "scale_a.recipe"));
    CARAT_TRY(check_enum(p.scale_b.recipe, CARAT_SCALE_NONE, CARAT_SCALE_GROUP_WISE, "scale_b.recipe"));
    CARAT_TRY(check_enum(p.epilogue.bias, CARAT_BIAS_NONE, CARAT_BIAS_M, "epilogue.bias"));
    CARAT_TRY(check_enum(p.epilogue.activation, CARAT_ACT_NONE, CARAT_ACT_SIGMOID, "epilogue.activation"));
    CARAT_TRY(check_enum(p.epilogue.gate, CARAT_GATE_NONE, CARAT_GATE_SPLIT, "epilogue.gate"));
    CARAT_TRY(
        check_enum(p.epilogue.out_scale, CARAT_OUT_SCALE_NONE, CARAT_OUT_SCALE_COMPUTED_1X128, "epilogue.out_scale"));
    CARAT_TRY(check_enum(p.a.dtype, CARAT_F64, CARAT_U4, "a.dtype"));
    CARAT_TRY(check_enum(p.b.dtype, CARAT_F64, CARAT_U4, "b.dtype"));
    CARAT_TRY(check_enum(p.c.dtype, CARAT_NONE, CARAT_U4, "c.dtype"));
    CARAT_TRY(check_enum(p.d.dtype, CARAT_F64, CARAT_U4, "d.dtype"));
    CARAT_TRY(check_order(p.a.order, "a.order"));
    CARAT_TRY(check_order(p.b.order, "b.order"));
    return check_order(p.d.order, "d.order");
}

Status check_extent(int64_t value, const char* field) {
    if (value < 0) return fail(CARAT_INVALID_VALUE, "{} is {}: it must be 0 or more", field, value);
    if (value > kLargestExtent) return fail(CARAT_INVALID_VALUE, "{} is {}: the largest extent is 2^40", field, value);
    return {};
}

Status check_sizes(Problem& p) {
    CARAT_TRY(check_extent(p.m, "m"));
    CARAT_TRY(check_extent(p.n, "n"));
    CARAT_TRY(check_extent(p.k, "k"));
    CARAT_TRY(check_extent(p.batch, "batch"));
    if (p.mode == CARAT_SINGLE) {
        if (p.batch > 1)
            return fail(CARAT_INVALID_VALUE,
                        "batch is {} in a single problem: set mode to CARAT_BATCHED, or batch to 1", p.batch);
        p.batch = 1;
    }
    if ((p.mode == CARAT_GROUPED) != (p.group_form != CARAT_GROUP_NONE))
        return fail(CARAT_INVALID_VALUE,
                    "mode is {} with group_form {}: a group form belongs to CARAT_GROUPED, and to nothing else",
                    int(p.mode), int(p.group_form));
    return {};
}

bool is_fp8(carat_dtype t) {
    return t == CARAT_E4M3 || t == CARAT_E5M2;
}
bool is_16_bit(carat_dtype t) {
    return t == CARAT_F16 || t == CARAT_BF16;
}
bool is_weight_only(const Problem& p) {
    return is_16_bit(p.a.dtype) &&
           (p.b.dtype == CARAT_S8 || p.b.dtype == CARAT_E4M3 || p.b.dtype == CARAT_S4 || p.b.dtype == CARAT_U4);
}

Status check_input_types(const Problem& p) {
    const carat_dtype a = p.a.dtype, b = p.b.dtype;
    const bool same = a == b && (a == CARAT_F64 || a == CARAT_F32 || is_16_bit(a) || a == CARAT_S8);
    if (same || (is_fp8(a) && is_fp8(b)) || is_weight_only(p)) return {};
    return fail(CARAT_INVALID_VALUE,
                "a.dtype {} with b.dtype {} is no pair that is multiplied: use one type of f64, f32, f16, bf16, s8 for "
                "both, any two of e4m3 and e5m2, or "
                "f16/bf16 with s8, e4m3, s4 or u4 weights in B",
                name(a), name(b));
}

Status check_output_type(const Problem& p, carat_dtype type, const char* field) {
    const bool integer_inputs = p.a.dtype == CARAT_S8;
    bool fits = true;
    switch (type) {
        case CARAT_F64:
            fits = p.a.dtype == CARAT_F64;
            break;
        case CARAT_S32:
            fits = integer_inputs;
            break;
        case CARAT_S4:
        case CARAT_U4:
            fits = false;
            break;
        default:
            break;
    }
    if (fits) return {};
    return fail(
        CARAT_INVALID_VALUE,
        "{} is {} with {} operands: f64 goes with f64 operands, s32 with s8 operands, and s4, u4 are for weights only",
        field, name(type), name(p.a.dtype));
}

Status check_compute(const Problem& p) {
    const bool for_f32 = p.compute >= CARAT_COMPUTE_F32 && p.compute <= CARAT_COMPUTE_BF16X9;
    const bool for_fp8 = p.compute == CARAT_COMPUTE_PROMOTED || p.compute == CARAT_COMPUTE_FAST;
    if (for_f32 && p.a.dtype != CARAT_F32)
        return fail(CARAT_INVALID_VALUE, "compute {} is for f32 operands, but A is {}: use CARAT_COMPUTE_DEFAULT",
                    int(p.compute), name(p.a.dtype));
    if (for_fp8 && !is_fp8(p.a.dtype))
        return fail(CARAT_INVALID_VALUE, "compute {} is for FP8 operands, but A is {}: use CARAT_COMPUTE_DEFAULT",
                    int(p.compute), name(p.a.dtype));
    return {};
}

// Resolves ld and batch_stride of one matrix of `count` in a row. `output`: its entries must not overlap.
Status resolve_matrix(carat_matrix& x, Extents extents, int64_t count, bool output, const char* who) {
    const bool row_major = x.order == CARAT_ROW_MAJOR;
    const int64_t inner = row_major ? extents.cols : extents.rows, outer = row_major ? extents.rows : extents.cols;
    if (x.ld == 0) x.ld = packed_ld(x, extents);
    if (x.ld < inner || x.ld < 0)
        return fail(CARAT_INVALID_VALUE,
                    "{}.ld is {}: {} is {} x {} {}-major, so it must be at least {} (or 0 for packed)", who, x.ld, who,
                    extents.rows, extents.cols, row_major ? "row" : "column", inner);
    if (x.ld > kLargestExtent || (outer > 0 && x.ld > kLargestOffset / outer))
        return fail(CARAT_INVALID_VALUE, "{}.ld is {}: with {} {} the matrix would not fit any memory", who, x.ld,
                    outer, row_major ? "rows" : "columns");
    const int64_t size = footprint(x, extents);
    if (x.batch_stride == CARAT_PACKED) x.batch_stride = outer * x.ld;
    if (x.batch_stride < 0)
        return fail(CARAT_INVALID_VALUE, "{}.batch_stride is {}: use 0 or more, or CARAT_PACKED (-1)", who,
                    x.batch_stride);
    if (count > 1 && x.batch_stride > kLargestOffset / count)
        return fail(CARAT_INVALID_VALUE, "{}.batch_stride is {}: {} entries would not fit any memory", who,
                    x.batch_stride, count);
    if (bits(x.dtype) == 4 && (x.ld % 2 || x.batch_stride % 2))
        return fail(CARAT_INVALID_VALUE, "{} is {}, two a byte: ld {} and batch_stride {} must be even", who,
                    name(x.dtype), x.ld, x.batch_stride);
    const bool apart =
        x.batch_stride >= size || (x.batch_stride >= inner && x.ld >= (count - 1) * x.batch_stride + inner);
    if (output && count > 1 && size > 0 && !apart)
        return fail(CARAT_INVALID_VALUE,
                    "{}.batch_stride is {}: entries of {} elements would overlap, so it must be at least that (or "
                    "CARAT_PACKED)",
                    who, x.batch_stride, size);
    return {};
}

// Which matrices come once for each batch entry or group.
struct Repeats {
    int64_t a = 1, b = 1, d = 1;
};
Repeats repeats_of(const Problem& p) {
    if (p.mode == CARAT_BATCHED) return {p.batch, p.batch, p.batch};
    if (p.mode != CARAT_GROUPED) return {};
    switch (p.group_form) {
        case CARAT_GROUP_M_OFFSETS:
        case CARAT_GROUP_M_INDICES:
            return {1, p.batch, 1};
        case CARAT_GROUP_M_MASKED:
            return {p.batch, p.batch, p.batch};
        case CARAT_GROUP_K_OFFSETS:
            return {1, 1, p.batch};
        default:
            return {};
    }
}

Status resolve_matrices(Problem& p) {
    const Repeats repeats = repeats_of(p);
    CARAT_TRY(resolve_matrix(p.a, {p.m, p.a_cols()}, repeats.a, false, "a"));
    CARAT_TRY(resolve_matrix(p.b, {p.b_rows(), p.n}, repeats.b, false, "b"));
    CARAT_TRY(resolve_matrix(p.d, {p.m, p.d_cols()}, repeats.d, true, "d"));
    if (!p.has_c()) {
        p.c = carat_matrix{CARAT_NONE, p.d.order, 0, 0};
        return {};
    }
    p.c.order = p.d.order;
    return resolve_matrix(p.c, {p.m, p.n}, repeats.d, false, "c");  // added before the gate halves the columns
}

Status resolve_scale(carat_scale& s, int64_t extent, const Problem& p, int64_t count, const char* who) {
    if (s.recipe == CARAT_SCALE_NONE) {
        s = carat_scale{CARAT_SCALE_NONE, 0, 0, CARAT_ROW_MAJOR, 0, 0};
        return {};
    }
    if (s.order == 0) s.order = CARAT_ROW_MAJOR;
    CARAT_TRY(check_order(s.order, who));
    if (s.recipe == CARAT_SCALE_GROUP_WISE && s.group < 1)
        return fail(CARAT_INVALID_VALUE, "{}.group is {}: it must be the elements of K under one scale, 1 or more", who,
                    s.group);
    if (s.zero_points && s.recipe != CARAT_SCALE_GROUP_WISE)
        return fail(CARAT_INVALID_VALUE, "{}.zero_points is set: zero points belong to CARAT_SCALE_GROUP_WISE", who);
    carat_matrix grid = {CARAT_F32, s.order, s.ld, s.batch_stride};
    CARAT_TRY(resolve_matrix(grid, scale_grid(s, extent, p.k), count, false, who));
    s.ld = grid.ld;
    s.batch_stride = grid.batch_stride;
    return {};
}

Status resolve_scales(Problem& p) {
    if (p.scale_b.zero_points && p.group_form == CARAT_GROUP_ARRAY)
        return invalid(
            "scale_b.zero_points is set in a grouped problem of form ARRAY: carat_group has no zero points; use "
            "another group form");
    if (p.scale_a.recipe != CARAT_SCALE_NONE && bits(p.a.dtype) > 8)
        return fail(CARAT_INVALID_VALUE,
                    "scale_a has a recipe but A is {}: scales belong to types of 8 bits and less; use alpha",
                    name(p.a.dtype));
    if (p.scale_b.recipe != CARAT_SCALE_NONE && bits(p.b.dtype) > 8)
        return fail(CARAT_INVALID_VALUE,
                    "scale_b has a recipe but B is {}: scales belong to types of 8 bits and less; use alpha",
                    name(p.b.dtype));
    if (p.scale_a.recipe == CARAT_SCALE_GROUP_WISE ||
        (p.scale_b.recipe == CARAT_SCALE_GROUP_WISE && !is_weight_only(p)))
        return invalid(
            "CARAT_SCALE_GROUP_WISE is for the B of a weight-only problem (f16 or bf16 A; s8, e4m3, s4 or u4 B): use a "
            "block-wise recipe");
    const Repeats repeats = repeats_of(p);
    CARAT_TRY(resolve_scale(p.scale_a, p.m, p, repeats.a, "scale_a"));
    return resolve_scale(p.scale_b, p.n, p, repeats.b, "scale_b");
}

Status check_sparsity(const Problem& p) {
    if (p.sparsity == CARAT_DENSE) return {};
    if (p.mode == CARAT_GROUPED)
        return invalid("sparsity is set in a grouped problem: 2:4 operands go with single and batched problems");
    if (bits(p.sparsity == CARAT_SPARSE_A_24 ? p.a.dtype : p.b.dtype) == 4)
        return invalid("sparsity is set on a 4-bit operand: 2:4 operands have 8 bits or more");
    return {};
}

Status check_bias(const Problem& p) {
    const carat_epilogue& e = p.epilogue;
    if (e.bias == CARAT_BIAS_NONE) return {};
    const bool fits = e.bias_dtype == CARAT_F32 || is_16_bit(e.bias_dtype) ||
                      (e.bias_dtype == CARAT_F64 && p.a.dtype == CARAT_F64) ||
                      (e.bias_dtype == CARAT_S32 && p.a.dtype == CARAT_S8);
    if (!fits)
        return fail(CARAT_INVALID_VALUE,
                    "epilogue.bias_dtype is {}: use f32, f16 or bf16 (f64 with f64 operands, s32 with s8)",
                    is_valid(e.bias_dtype) ? name(e.bias_dtype) : "no type");
    if (e.bias_batch_stride < 0)
        return fail(CARAT_INVALID_VALUE, "epilogue.bias_batch_stride is {}: it must be 0 (shared) or more",
                    e.bias_batch_stride);
    return {};
}

Status check_epilogue(const Problem& p) {
    const carat_epilogue& e = p.epilogue;
    CARAT_TRY(check_bias(p));
    if (e.gate != CARAT_GATE_NONE) {
        if (p.n % 2)
            return fail(CARAT_INVALID_VALUE,
                        "n is {} under a gated epilogue: gate and up columns come in pairs, so it must be even", p.n);
        if (e.activation != CARAT_ACT_SILU && e.activation != CARAT_ACT_GELU_ERF && e.activation != CARAT_ACT_GELU_TANH)
            return fail(CARAT_INVALID_VALUE,
                        "epilogue.activation is {} under a gate: it must be SILU, GELU_ERF or GELU_TANH",
                        int(e.activation));
    }
    if (e.clamp && !(e.clamp_lo <= e.clamp_hi))
        return fail(CARAT_INVALID_VALUE, "epilogue.clamp_lo {} and clamp_hi {}: lo must be at most hi, and neither NaN",
                    e.clamp_lo, e.clamp_hi);
    if (e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128 && bits(p.d.dtype) != 8)
        return fail(CARAT_INVALID_VALUE,
                    "epilogue.out_scale computes 1x128 scales but D is {}: D must be e4m3, e5m2 or s8",
                    name(p.d.dtype));
    return {};
}

}  // namespace

Status check_struct_size(size_t got, size_t wanted, const char* type) {
    if (got == wanted) return {};
    return fail(CARAT_INVALID_VALUE,
                "{}.struct_size is {}, this library's is {}: initialise the struct with its _init function, and build "
                "with this version's carat.h",
                type, got, wanted);
}

Result<Problem> validate_problem(const carat_problem* problem) {
    if (!problem) return fail(CARAT_INVALID_VALUE, "problem is NULL: pass a carat_problem made by carat_problem_init");
    CARAT_TRY(check_struct_size(problem->struct_size, sizeof(carat_problem), "carat_problem"));
    Problem p{*problem};
    CARAT_TRY(check_enums(p));
    CARAT_TRY(check_sizes(p));
    CARAT_TRY(check_input_types(p));
    CARAT_TRY(check_output_type(p, p.d.dtype, "d.dtype"));
    if (p.has_c()) CARAT_TRY(check_output_type(p, p.c.dtype, "c.dtype"));
    CARAT_TRY(check_compute(p));
    CARAT_TRY(check_sparsity(p));
    CARAT_TRY(check_epilogue(p));
    CARAT_TRY(resolve_matrices(p));
    CARAT_TRY(resolve_scales(p));
    return p;
}

}  // namespace carat::api
