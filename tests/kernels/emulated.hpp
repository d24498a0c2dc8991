// SPDX-License-Identifier: Apache-2.0
// emulated.hpp: configurations and parameters of kernels that run on emulated threads, as code generation and the rows
// make them for a GPU. After host_cuda.hpp and the kernels.
#pragma once

#include <shared/gemm_params.h>

#include "kernels/gemm_case.hpp"

namespace carat::test {

template <bool A, bool B, bool D>
struct LayoutOf {
    static constexpr bool kRowMajorA = A, kRowMajorB = B, kRowMajorD = D;
    static std::string layout() { return std::string{A ? 'n' : 't', B ? 'n' : 't'}; }
};

template <carat_dtype In, carat_dtype Out>
struct TypesOf {
    static constexpr int kTypeA = In, kTypeB = In, kTypeC = Out, kTypeD = Out, kTypeBias = Out;
    static constexpr Types types = {In, Out};
};

struct NoEpilogue {
    static constexpr bool kDeviceScalars = false, kHasC = false, kClamp = false, kAmax = false;
    static constexpr int kBias = CARAT_BIAS_NONE, kActivation = CARAT_ACT_NONE, kGate = CARAT_GATE_NONE;
    static constexpr int kOutScale = CARAT_OUT_SCALE_NONE;
};

inline carat_shared::Strided strided(const carat_matrix& matrix) {
    const Strides s = Problem::strides(matrix);
    return {s.row, s.col, s.batch};
}

inline carat_shared::GemmParams params_of(const Problem& p, const carat_operands& o) {
    carat_shared::GemmParams params = {};
    params.a = o.a, params.b = o.b, params.c = o.c, params.d = o.d;
    params.m = p.m, params.n = p.n, params.k = p.k, params.batch = p.batch;
    params.a_strides = strided(p.a), params.b_strides = strided(p.b);
    params.c_strides = strided(p.c), params.d_strides = strided(p.d);
    params.epilogue = {o.alpha,
                       o.beta,
                       o.alpha_device,
                       o.beta_device,
                       o.bias,
                       p.epilogue.bias_batch_stride,
                       p.epilogue.clamp_lo,
                       p.epilogue.clamp_hi,
                       o.out_scale,
                       o.d_scales,
                       o.amax};
    return params;
}

}  // namespace carat::test
