// SPDX-License-Identifier: Apache-2.0
// ops.cuh: what happens to an f32 accumulator on its way to D, in the fixed order of the contract:
//     v = alpha acc + beta C + bias;  v = clamp(activation(v)), or clamp(activation(gate) * up)
//     amax of |v|;  D = v out_scale, rounded once
// Config chooses the steps at compile time: kDeviceScalars, kHasC, kTypeC, kBias, kTypeBias, kActivation, kGate, kClamp,
// kAmax, kOutScale, kTypeD.
// A kernel whose threads hold one element each calls finish(). One that holds fragments calls, for each element,
// epilogue_value(), Largest::note() and output_value(), stores as it likes, and publishes the Largest once a tile.
// Math is accurate to what D holds: full functions for a D of f32, an exponential of two instructions for narrower ones, and
// one rounding more for a reciprocal (ptx/math.cuh). Additions are fused on purpose and in a fixed order, so every kernel
// that accumulates in the same order gives the same bits.
#pragma once

#include <shared/gemm_params.h>
#include <ptx/convert.cuh>
#include <ptx/math.cuh>
#include <ptx/warp.cuh>

namespace carat_kernel {

using namespace carat_shared;

struct Scalars {
    float alpha, beta;
};

template <class Config>
__device__ Scalars load_scalars(const EpilogueParams& epilogue) {
    if constexpr (Config::kDeviceScalars) {
        const float alpha = *static_cast<const float*>(epilogue.alpha_device);
        if constexpr (!Config::kHasC) return {alpha, 0.0f};  // beta_device may be null
        return {alpha, *static_cast<const float*>(epilogue.beta_device)};
    } else {
        return {static_cast<float>(epilogue.alpha), static_cast<float>(epilogue.beta)};
    }
}

// How much of K is multiplied: nothing where alpha is 0, since A and B are not read then.
__device__ inline i64 depth_of(const GemmParams& params, const Scalars& scalars) {
    return scalars.alpha == 0.0f ? 0 : params.k;
}

template <class Config>
__device__ float exponential(float x) {
    if constexpr (type_bytes(Config::kTypeD) <= 2) return exp_for_16_bits(x);
    return expf(x);
}

// NaN stays NaN in each: comparisons with NaN are false.
template <class Config>
__device__ float activate(float v) {
    constexpr int kActivation = Config::kActivation;
    if constexpr (kActivation == kActRelu) return v < 0.0f ? 0.0f : v;
    // erfc, not 1 + erf: the sum would cancel for v < -2 and lose the small result.
    if constexpr (kActivation == kActGeluErf) return 0.5f * v * erfcf(v * -0.70710678118654752f);
    // 0.5 (1 + tanh(u)) = sigmoid(2 u), again without cancellation.
    if constexpr (kActivation == kActGeluTanh) {
        const float u2 = 1.5957691216057308f * v * fmaf(0.044715f * v, v, 1.0f);
        return v * reciprocal(1.0f + exponential<Config>(-u2));
    }
    if constexpr (kActivation == kActSilu) return v * reciprocal(1.0f + exponential<Config>(-v));
    if constexpr (kActivation == kActSigmoid) return reciprocal(1.0f + exponential<Config>(-v));
    return v;
}

// B's column that feeds column j of D; part 0 is the gate (or all there is), part 1 what it multiplies.
template <class Config>
__device__ i64 source_column(const GemmParams& params, i64 j, int part) {
    if constexpr (Config::kGate == kGateInterleaved) return 2 * j + part;
    if constexpr (Config::kGate == kGateSplit) return j + part * (params.n / 2);
    return j;
}

// alpha acc + beta c + bias, where c counts only if beta is not 0.
template <class Config>
__device__ float linear_value(const Scalars& scalars, float accumulator, float c, float bias) {
    float v = scalars.alpha * accumulator;
    if constexpr (Config::kHasC)
        if (scalars.beta != 0.0f) v = fmaf(scalars.beta, c, v);
    if constexpr (Config::kBias != kBiasNone) v += bias;
    return v;
}

// The activation, the gated product and the clamp. up: what a gate multiplies, else unused.
template <class Config>
__device__ float activated_value(const GemmParams& params, float v, float up) {
    v = activate<Config>(v);
    if constexpr (Config::kGate != kGateNone) v *= up;
    if constexpr (Config::kClamp) {
        v = v < params.epilogue.clamp_lo ? params.epilogue.clamp_lo : v;
        v = v > params.epilogue.clamp_hi ? params.epilogue.clamp_hi : v;
    }
    return v;
}

// alpha acc + beta C + bias, at B's column: under a gate C is as wide as B. C is not read where beta is 0, so a NaN
// there cannot leak.
template <class Config>
__device__ float linear_step(const GemmParams& params, const Scalars& scalars, float accumulator, i64 batch, i64 i,
                             i64 j, int part) {
    const i64 column = source_column<Config>(params, j, part);
    float c = 0.0f, bias = 0.0f;
    if constexpr (Config::kHasC) {
        const Strided& s = params.c_strides;
        if (scalars.beta != 0.0f)
            c = load_element<Config::kTypeC>(params.c, i * s.row + column * s.col + batch * s.batch);
    }
    if constexpr (Config::kBias != kBiasNone)
        bias = load_element<Config::kTypeBias>(
            params.epilogue.bias, (Config::kBias == kBiasM ? i : column) + batch * params.epilogue.bias_batch);
    return linear_value<Config>(scalars, accumulator, c, bias);
}

// The value of element (i, j) of D, which must be inside of D, before its output scale.
template <class Config>
__device__ float epilogue_value(const GemmParams& params, const Scalars& scalars, const float (&accumulators)[2],
                                i64 batch, i64 i, i64 j) {
    const float v = linear_step<Config>(params, scalars, accumulators[0], batch, i, j, 0);
    float up = 0.0f;
    if constexpr (Config::kGate != kGateNone)
        up = linear_step<Config>(params, scalars, accumulators[1], batch, i, j, 1);
    return activated_value<Config>(params, v, up);
}

template <class Config>
__device__ float output_value(const GemmParams& params, float v, i64 batch, i64 i) {
    if constexpr (Config::kOutScale == kOutScaleTensor) v *= params.epilogue.out_scale[0];
    if constexpr (Config::kOutScale == kOutScaleRow) v *= params.epilogue.out_scale[i + batch * params.m];
    return v;
}

// The scale of values of which `top` is the largest: what they are divided by to fill the range of the type.
template <int kType>
__device__ float computed_scale(float top) {
    const float scale = top / largest_finite<kType>();
    return scale == 0.0f ? 1.0f : scale;
}

// The largest |v| that a thread has seen. The bits of |v| order as integers do, with NaN above infinity, and a maximum
// does not depend on the order.
template <class Config>
struct Largest {
    unsigned bits = 0;

    __device__ void note(float v) {
        if constexpr (Config::kAmax) {
            const unsigned size = __float_as_uint(fabsf(v));
            bits = size > bits ? size : bits;
        }
    }
    // All threads of a warp must call it: one atomic for 32 of them.
    __device__ void publish(const GemmParams& params) const {
        if constexpr (Config::kAmax) {
            const unsigned largest = warp_max(bits);
            if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned*>(params.epilogue.amax), largest);
        }
    }
};

// From the accumulators of element (i, j) of D to memory. `inside` is false for threads that have no element; all
// threads of a warp must call it.
template <class Config>
__device__ void finish(const GemmParams& params, const Scalars& scalars, const float (&accumulators)[2], i64 batch,
                       i64 i, i64 j, bool inside) {
    Largest<Config> largest;
    float v = 0.0f;
    if (inside) v = epilogue_value<Config>(params, scalars, accumulators, batch, i, j);
    largest.note(v);
    largest.publish(params);
    if (!inside) return;
    const Strided& s = params.d_strides;
    store_element<Config::kTypeD>(params.d, i * s.row + j * s.col + batch * s.batch,
                                  output_value<Config>(params, v, batch, i));
}

}  // namespace carat_kernel
