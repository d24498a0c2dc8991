// SPDX-License-Identifier: Apache-2.0
#include "core/problem.hpp"

namespace carat {
namespace {

const char* recipe_name(const carat_scale& scale) {
    switch (scale.recipe) {
        case CARAT_SCALE_NONE: return "none";
        case CARAT_SCALE_TENSOR_WISE: return "tensorwise";
        case CARAT_SCALE_ROW_WISE: return "rowwise";
        case CARAT_SCALE_BLOCK_WISE_1X128: return "1x128";
        case CARAT_SCALE_BLOCK_WISE_128X128: return "128x128";
        case CARAT_SCALE_GROUP_WISE: return "groupwise";
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

}  // namespace

std::string describe_epilogue(const Problem& p) {
    const carat_epilogue& e = p.epilogue;
    std::string text;
    if (p.has_c()) add(text, fmt::format("c_{}", name(p.c.dtype)));
    if (e.scalars_on_device) add(text, "device_scalars");
    if (e.bias != CARAT_BIAS_NONE) add(text, fmt::format("bias_{}_{}", e.bias == CARAT_BIAS_N ? "n" : "m", name(e.bias_dtype)));
    if (e.activation != CARAT_ACT_NONE) add(text, activation_name(e.activation));
    if (e.gate != CARAT_GATE_NONE) add(text, e.gate == CARAT_GATE_INTERLEAVED ? "gate_interleaved" : "gate_split");
    if (e.clamp) add(text, "clamp");
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
    std::string text = fmt::format("{}_{}_{}_{} m{} n{} k{}", name(p.a.dtype), name(p.b.dtype), name(p.d.dtype), p.layout(), p.m, p.n, p.k);
    if (p.d.order == CARAT_COL_MAJOR) text += " d_col";
    static constexpr const char* kForms[] = {"", "m_offsets", "m_indices", "m_masked", "k_offsets", "array"};
    if (p.mode == CARAT_BATCHED) text += fmt::format(" batch{}", p.batch);
    if (p.mode == CARAT_BATCHED_POINTERS) text += fmt::format(" pointers{}", p.batch);
    if (p.mode == CARAT_GROUPED) text += fmt::format(" groups{}_{}", p.batch, kForms[p.group_form]);
    static constexpr const char* kCompute[] = {"", "f32", "tf32", "3xtf32", "bf16x9", "promoted", "fast"};
    if (p.compute != CARAT_COMPUTE_DEFAULT) text += fmt::format(" {}", kCompute[p.compute]);
    if (const std::string recipe = describe_recipe(p); recipe != "none") text += " " + recipe;
    if (p.sparsity != CARAT_DENSE) text += p.sparsity == CARAT_SPARSE_A_24 ? " sparse_a" : " sparse_b";
    if (const std::string epilogue = describe_epilogue(p); epilogue != "none") text += " " + epilogue;
    return text;
}

}  // namespace carat
