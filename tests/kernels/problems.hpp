// SPDX-License-Identifier: Apache-2.0
// problems.hpp: the problems that kernels are tested with, a function for each property that one may have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/problem.hpp"

namespace carat::test {

// Of A and B, and of D; C and the bias follow D unless told otherwise.
struct Types {
    carat_dtype in = CARAT_F32, out = CARAT_F32;
};
inline constexpr Types kF32 = {CARAT_F32, CARAT_F32};
inline constexpr Types kBf16 = {CARAT_BF16, CARAT_BF16};

// A single problem in a layout ("nt") with everything packed, ready to be changed.
inline Problem make_problem(Types types, int64_t m, int64_t n, int64_t k, const std::string& layout = "nn",
                            bool d_row_major = true) {
    Problem p{};
    p.m = m, p.n = n, p.k = k, p.batch = 1;
    const auto matrix = [](carat_dtype dtype, bool row_major, int64_t rows, int64_t cols) {
        return carat_matrix{dtype, row_major ? CARAT_ROW_MAJOR : CARAT_COL_MAJOR,
                            std::max<int64_t>(1, row_major ? cols : rows), 0};
    };
    p.a = matrix(types.in, layout[0] == 'n', m, k);
    p.b = matrix(types.in, layout[1] == 'n', k, n);
    p.d = matrix(types.out, d_row_major, m, n);
    p.c = p.d;
    p.c.dtype = CARAT_NONE;
    return p;
}

inline Problem f32_problem(int64_t m, int64_t n, int64_t k, const std::string& layout = "nn", bool d_row_major = true) {
    return make_problem(kF32, m, n, k, layout, d_row_major);
}

inline void add_c(Problem& p, carat_dtype dtype = CARAT_NONE) {
    p.c = {dtype == CARAT_NONE ? p.d.dtype : dtype, p.d.order,
           std::max<int64_t>(1, p.d.order == CARAT_ROW_MAJOR ? p.n : p.m), p.d.batch_stride};
}

inline void add_bias(Problem& p, carat_bias bias, carat_dtype dtype = CARAT_NONE) {
    p.epilogue.bias = bias;
    p.epilogue.bias_dtype = dtype == CARAT_NONE ? p.d.dtype : dtype;
}

// The batch laid out one after the other with `gap` elements between.
inline void set_batch(Problem& p, int64_t batch, int64_t gap = 0) {
    p.mode = CARAT_BATCHED;
    p.batch = batch;
    const auto stride = [&](const carat_matrix& x, int64_t rows, int64_t cols) {
        return x.ld * (x.order == CARAT_ROW_MAJOR ? rows : cols) + gap;
    };
    p.a.batch_stride = stride(p.a, p.m, p.k), p.b.batch_stride = stride(p.b, p.k, p.n);
    p.c.batch_stride = stride(p.c, p.m, p.n), p.d.batch_stride = stride(p.d, p.m, p.n);
}

inline void pad(Problem& p, int64_t by) {
    p.a.ld += by, p.b.ld += by + 1, p.d.ld += by + 2;
    if (p.has_c()) p.c.ld += by + 3;
}

// Leading dimensions: as they are, multiples of 8 elements (16 bytes at 16 bits: bulk copies and vector loads), even but
// no multiple of 8, or odd.
enum class Pitch { packed, eights, even, odd };

inline void set_pitch(Problem& p, Pitch pitch) {
    for (carat_matrix* x : {&p.a, &p.b, &p.c, &p.d}) {
        if (pitch == Pitch::eights) x->ld = (x->ld + 7) / 8 * 8;
        if (pitch == Pitch::even) x->ld = x->ld / 8 * 8 + (x->ld % 8 < 2 ? 2 : x->ld % 8 < 6 ? 6 : 10);
        if (pitch == Pitch::odd) x->ld |= 1;
    }
}

}  // namespace carat::test
