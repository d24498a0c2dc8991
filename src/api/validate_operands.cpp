// SPDX-License-Identifier: Apache-2.0
// validate_operands.cpp: the pointer half of validate.hpp. It runs on every execution, so it is a handful of compares.
#include "api/validate.hpp"

namespace carat::api {
namespace {

Status missing(const char* field, const char* why) {
    return fail(CARAT_INVALID_VALUE, "operands.{} is NULL: {}", field, why);
}

Status check_aligned(const void* pointer, carat_dtype dtype, const char* field) {
    const auto bytes = uintptr_t(bits(dtype) < 8 ? 1 : bits(dtype) / 8);
    if (uintptr_t(pointer) % bytes == 0) return {};
    return fail(CARAT_INVALID_VALUE, "operands.{} is {}: {} elements need an address that is a multiple of {}", field,
                pointer, name(dtype), bytes);
}

Status check_inputs(const Problem& p, const carat_operands& o) {
    if (p.mode == CARAT_BATCHED_POINTERS) {
        if (!o.a_array) return missing("a_array", "a problem of mode BATCHED_POINTERS reads A through it");
        return o.b_array ? Status() : missing("b_array", "a problem of mode BATCHED_POINTERS reads B through it");
    }
    if (p.group_form == CARAT_GROUP_ARRAY) return {};
    if (!o.a) return missing("a", "A is read, since K > 0 and alpha is not 0");
    if (!o.b) return missing("b", "B is read, since K > 0 and alpha is not 0");
    CARAT_TRY(check_aligned(o.a, p.a.dtype, "a"));
    CARAT_TRY(check_aligned(o.b, p.b.dtype, "b"));
    if (p.sparsity != CARAT_DENSE && !o.metadata) return missing("metadata", "a 2:4 sparse operand needs it");
    return {};
}

Status check_scales(const Problem& p, const carat_operands& o) {
    if (p.group_form == CARAT_GROUP_ARRAY) return {};
    if (p.scale_a.recipe != CARAT_SCALE_NONE && !o.scale_a) return missing("scale_a", "the problem has a recipe for A");
    if (p.scale_b.recipe != CARAT_SCALE_NONE && !o.scale_b) return missing("scale_b", "the problem has a recipe for B");
    if (p.scale_b.zero_points && !o.zero_b) return missing("zero_b", "the problem's scale_b has zero points");
    return {};
}

Status check_c(const Problem& p, const carat_operands& o) {
    const bool beta_may_count = p.epilogue.scalars_on_device ? p.has_c() : o.beta != 0;
    if (!beta_may_count) return {};
    if (!p.has_c())
        return fail(CARAT_INVALID_VALUE,
                    "operands.beta is {} but the problem has no C: set c.dtype when the plan is made, or beta to 0",
                    o.beta);
    if (p.mode == CARAT_BATCHED_POINTERS)
        return o.c_array ? Status() : missing("c_array", "beta is not 0, so C is read");
    if (p.group_form == CARAT_GROUP_ARRAY) return {};
    if (!o.c) return missing("c", "beta is not 0 (or on the device), so C may be read");
    CARAT_TRY(check_aligned(o.c, p.c.dtype, "c"));
    if (o.c == o.d && p.epilogue.gate != CARAT_GATE_NONE)
        return fail(
            CARAT_INVALID_VALUE,
            "operands.c equals operands.d under a gate: C has N columns and D half as many, so they cannot be one");
    if (o.c == o.d &&
        (p.c.dtype != p.d.dtype || p.c.ld != p.d.ld || (p.batch > 1 && p.c.batch_stride != p.d.batch_stride)))
        return fail(CARAT_INVALID_VALUE,
                    "operands.c equals operands.d, but C ({}, ld {}) and D ({}, ld {}) lie differently: in place they "
                    "must agree",
                    name(p.c.dtype), p.c.ld, name(p.d.dtype), p.d.ld);
    return {};
}

Status check_outputs(const Problem& p, const carat_operands& o) {
    if (p.mode == CARAT_BATCHED_POINTERS)
        return o.d_array ? Status() : missing("d_array", "a problem of mode BATCHED_POINTERS writes D through it");
    if (p.group_form == CARAT_GROUP_ARRAY)
        return o.group_array ? Status() : missing("group_array", "the group form ARRAY describes its problems there");
    if (!o.d) return missing("d", "D has elements to write");
    CARAT_TRY(check_aligned(o.d, p.d.dtype, "d"));
    if (o.d == o.a || o.d == o.b)
        return fail(CARAT_INVALID_VALUE, "operands.d equals operands.{}: D may be C, but not an input",
                    o.d == o.a ? "a" : "b");
    return {};
}

Status check_epilogue_pointers(const Problem& p, const carat_operands& o) {
    const carat_epilogue& e = p.epilogue;
    if (e.scalars_on_device && !o.alpha_device) return missing("alpha_device", "epilogue.scalars_on_device is set");
    if (e.scalars_on_device && p.has_c() && !o.beta_device)
        return missing("beta_device", "epilogue.scalars_on_device is set and there is a C");
    if (e.bias != CARAT_BIAS_NONE && p.group_form != CARAT_GROUP_ARRAY) {
        if (!o.bias) return missing("bias", "the problem has a bias");
        CARAT_TRY(check_aligned(o.bias, e.bias_dtype, "bias"));
    }
    const bool given_scale = e.out_scale == CARAT_OUT_SCALE_TENSOR || e.out_scale == CARAT_OUT_SCALE_ROW;
    if (given_scale && !o.out_scale) return missing("out_scale", "the problem has an output scale");
    if (e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128 && !o.d_scales)
        return missing("d_scales", "the computed 1x128 scales are written there");
    if (e.amax && !o.amax) return missing("amax", "the problem asks for amax");
    return {};
}

}  // namespace

Status validate_operands(const Problem& p, const carat_operands* operands, size_t workspace_bytes) {
    if (!operands)
        return fail(CARAT_INVALID_VALUE, "operands is NULL: pass a carat_operands made by carat_operands_init");
    const carat_operands& o = *operands;
    CARAT_TRY(check_struct_size(o.struct_size, sizeof(carat_operands), "carat_operands"));
    if (p.empty()) return {};
    CARAT_TRY(check_outputs(p, o));
    const bool reads_inputs = p.k > 0 && (p.epilogue.scalars_on_device || o.alpha != 0);
    if (reads_inputs) {
        CARAT_TRY(check_inputs(p, o));
        CARAT_TRY(check_scales(p, o));
    }
    CARAT_TRY(check_c(p, o));
    CARAT_TRY(check_epilogue_pointers(p, o));
    const bool needs_sizes = p.mode == CARAT_GROUPED && p.group_form != CARAT_GROUP_ARRAY;
    if (needs_sizes && !o.group_sizes) return missing("group_sizes", "a grouped problem reads its sizes there");
    if (workspace_bytes > 0 && (!o.workspace || o.workspace_bytes < workspace_bytes))
        return fail(CARAT_INVALID_VALUE,
                    "operands.workspace has {} bytes{}: this plan needs {} (carat_plan_workspace_bytes)",
                    o.workspace_bytes, o.workspace ? "" : " at NULL", workspace_bytes);
    return {};
}

}  // namespace carat::api
