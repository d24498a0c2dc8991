// SPDX-License-Identifier: Apache-2.0
// problem.hpp: a problem that passed the border (src/api): every leading dimension and stride is resolved, so nothing
// below has to check or guess. It is the public struct with the arithmetic that everybody needs.
#pragma once

#include <string>

#include "core/dtype.hpp"

namespace carat {

inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

inline int64_t round_up(int64_t value, int64_t step) {
    return ceil_div(value, step) * step;
}

// Element steps of a matrix along its logical rows and columns.
struct Strides {
    int64_t row = 0, col = 0, batch = 0;
};

struct Extents {
    int64_t rows, cols;
};

// The grid of an operand's scales: rows along its own extent (M for A, N for B), columns along K. 0 x 0 without a recipe.
Extents scale_grid(const carat_scale& scale, int64_t extent, int64_t k);
// The least leading dimension: what 0 stands for. Rows of 4-bit elements begin at whole bytes.
int64_t packed_ld(const carat_matrix& matrix, Extents extents);
// Elements from the first to the last of `count` matrices of these extents, 0 if there are none.
int64_t footprint(const carat_matrix& matrix, Extents extents, int64_t count = 1);

struct Problem : carat_problem {
    carat_numerics numerics = CARAT_DETERMINISTIC;  // of the plan's options

    // Columns of D: N, or N/2 under a gated epilogue. (C is added before the gate: it always has N.)
    int64_t d_cols() const { return epilogue.gate == CARAT_GATE_NONE ? n : n / 2; }
    // Stored K of an operand: K, or 2*ceil(K/4) of a 2:4 sparse one.
    int64_t a_cols() const { return sparsity == CARAT_SPARSE_A_24 ? 2 * ceil_div(k, 4) : k; }
    int64_t b_rows() const { return sparsity == CARAT_SPARSE_B_24 ? 2 * ceil_div(k, 4) : k; }
    // Matrices of a batch; 1 without one.
    int64_t entries() const { return mode == CARAT_SINGLE ? 1 : batch; }
    bool has_c() const { return c.dtype != CARAT_NONE; }
    bool empty() const { return m == 0 || n == 0 || batch == 0 || d_cols() == 0; }

    static Strides strides(const carat_matrix& x) {
        const bool row_major = x.order == CARAT_ROW_MAJOR;
        return {row_major ? x.ld : 1, row_major ? 1 : x.ld, x.batch_stride};
    }

    // "nt": letter 1 is n if A is row-major, letter 2 is n if B is row-major.
    std::string layout() const {
        return std::string{a.order == CARAT_ROW_MAJOR ? 'n' : 't', b.order == CARAT_ROW_MAJOR ? 'n' : 't'};
    }
    double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(multiplicity()); }
    // How often m x n x k is multiplied: the batch, or the groups where each may be full size.
    int64_t multiplicity() const {
        const bool grouped_once =
            mode == CARAT_GROUPED && group_form != CARAT_GROUP_M_MASKED && group_form != CARAT_GROUP_ARRAY;
        return mode == CARAT_SINGLE || grouped_once ? 1 : batch;
    }
};

// "deterministic", "batch_invariant", "fast".
const char* numerics_name(carat_numerics numerics);
// One line, for messages and keys: "bf16_bf16_bf16_nt m4096 n4096 k4096 bias_n_f32+silu". Equal problems give equal text,
// different ones different text; what is packed as usual is not mentioned.
std::string describe(const Problem& problem);
// The epilogue alone, "none" or e.g. "beta_f32+bias_n+silu+gate_split+out_row".
std::string describe_epilogue(const Problem& problem);
// "none", or e.g. "rowwise/rowwise".
std::string describe_recipe(const Problem& problem);

}  // namespace carat
