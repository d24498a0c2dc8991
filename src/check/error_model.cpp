// SPDX-License-Identifier: Apache-2.0
// error_model.cpp: the constants of the bound, each with its reason.
#include "check/error_model.hpp"

#include <algorithm>
#include <cmath>

#include "check/check.hpp"

namespace carat {
namespace check {
namespace {

bool is_integer(carat_dtype dtype) {
    return !info(dtype).is_float;
}
bool is_fp8(carat_dtype dtype) {
    return dtype == CARAT_E4M3 || dtype == CARAT_E5M2;
}

bool plain_s32(const Problem& p) {
    const carat_epilogue& e = p.epilogue;
    return is_integer(p.a.dtype) && is_integer(p.b.dtype) && p.d.dtype == CARAT_S32 && !e.scalars_on_device &&
           p.scale_a.recipe == CARAT_SCALE_NONE && p.scale_b.recipe == CARAT_SCALE_NONE && e.bias == CARAT_BIAS_NONE &&
           e.activation <= CARAT_ACT_RELU && e.gate == CARAT_GATE_NONE && !e.clamp &&
           e.out_scale == CARAT_OUT_SCALE_NONE;
}

// n roundings of relative size `unit` and random sign: a sum of n same-signed terms strays by unit * m * sqrt(n) / 3
// (one standard deviation, partial sums growing linearly); 4 sqrt(n) is twelve of them and covers other orders of
// summation. With few terms the 8 of the epilogue rules.
double random_walk(double unit, double n) {
    return 4 * std::sqrt(n) * unit;
}

double operand_error(const Problem& p) {
    switch (p.compute) {
        // Both operands are rounded to 11 significant bits.
        case CARAT_COMPUTE_TF32:
            return 2 * 0x1p-11 + 0x1p-22;
        // Two tf32 terms keep 22 bits of each operand, and the product of the two small terms is dropped.
        case CARAT_COMPUTE_3XTF32:
            return 3 * 0x1p-22;
        // Three bf16 terms keep all 24 bits but for the last half of a bit of each operand.
        case CARAT_COMPUTE_BF16X9:
            return 2 * 0x1p-24;
        default:
            return 0;
    }
}

}  // namespace

ErrorModel error_model(const Problem& p, bool trivial_scalars) {
    ErrorModel model;
    if (plain_s32(p) && trivial_scalars) {
        model.exact = true;
        model.unit = 0;
        return model;
    }
    const double k = double(p.k);
    if (p.a.dtype == CARAT_F64) model.unit = 2 * 0x1p-53;  // the kernel's roundings and as many of the reference
    model.epilogue = 8 * model.unit;
    model.absolute = p.a.dtype == CARAT_F64 ? 0 : (k + 8) * 0x1p-149;
    model.operands = operand_error(p);
    const bool scaled_sums = p.scale_a.recipe > CARAT_SCALE_ROW_WISE || p.scale_b.recipe > CARAT_SCALE_ROW_WISE;
    if (is_integer(p.a.dtype) && is_integer(p.b.dtype) && !scaled_sums) return model;  // s32 sums are exact
    model.summation = random_walk(model.unit, k);
    // A tensor core cuts off instead of rounding to nearest: a whole unit in the last place, 2 u, always towards zero.
    model.growth = 2 * model.unit;
    if (!is_fp8(p.a.dtype) || !is_fp8(p.b.dtype)) return model;
    // The FP8 tensor core keeps about 13 bits after the point of its largest term, and sums 32 of K at a time.
    constexpr double kFp8Unit = 0x1p-13, kFp8Step = 32;
    if (p.compute == CARAT_COMPUTE_FAST) {
        model.summation += 8 * kFp8Unit + random_walk(kFp8Unit, std::ceil(k / kFp8Step));
        model.growth += kFp8Unit / kFp8Step;
    } else {
        model.operands += 4 * kFp8Unit;  // promoted: four such steps, then the sum moves to f32
    }
    return model;
}

double ErrorModel::bound(double alpha, double m, double grown, double magnitude) const {
    if (exact) return 0;
    const double sum = operands * m + std::max(summation * m, growth * grown) + absolute;
    return std::fabs(alpha) * sum + epilogue * magnitude + absolute;
}

}  // namespace check

double error_bound(const Problem& problem) {
    const check::ErrorModel model = check::error_model(problem, !problem.has_c());
    return model.operands + model.summation + model.epilogue + info(problem.d.dtype).unit_roundoff;
}

}  // namespace carat
