// SPDX-License-Identifier: Apache-2.0
// reports.hpp: problems that users of other libraries reported as wrong, each named after what it guards here.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/gpu.hpp"

namespace carat::test {

struct Report {
    std::string guards;
    CaseSpec spec;
    std::function<void(GemmCase&)> change = [](GemmCase&) {};  // of the random operands
    bool of_grids = false;                                     // nothing that a CPU could get wrong
};

// Row-major elements of an operand.
inline void set_all(Buffer& buffer, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) buffer.set(int64_t(i), values[i]);
}

inline std::vector<Report> reports() {
    constexpr Types kF16 = {CARAT_F16, CARAT_F16};
    std::vector<Report> all;
    const auto add = [&](const char* guards, CaseSpec spec) -> Report& {
        spec.place = Place::aligned;
        return all.emplace_back(Report{guards, spec});
    };

    // pytorch#25241: entry 65535 was all zeros.
    Problem batch = make_problem(kF16, 8, 8, 64, "nn");
    set_batch(batch, 65536);
    add("TheLastOf65536Entries", {batch}).of_grids = true;

    // flashinfer#4724: 0 times NaN.
    Problem square = make_problem(kF16, 512, 512, 512, "nn");
    add_c(square);
    add("NanInCWhereBetaIsZero", {square, Data::integers, 1.5, 0}).change = [](GemmCase& gemm) {
        gemm.c.fill(nan_bits(CARAT_F16));
    };
    add("HalfOfAFiniteC", {square, Data::integers, 1.5, 0.5});

    // pytorch#57347: all zeros.
    add("TheSmallestMatrices", {make_problem(kF32, 2, 2, 2), Data::normal}).change = [](GemmCase& gemm) {
        set_all(gemm.a, {1, 0, 0, 1});
        set_all(gemm.b, {1, 2, 3, 4});
    };
    // pytorch#65416: all zeros, where rows 0 and 2 should be 71.61855 and 87.0423, 87.0403, 87.0384, 87.0364.
    Problem one = make_problem(kF32, 4, 4, 4);
    set_batch(one, 1);
    add("ABatchOfOne", {one, Data::normal}).change = [](GemmCase& gemm) {
        set_all(gemm.a, {143.2371, 0, 0, 0, -143.2371, 0, 0, 0, 0, 86.5423, 0, 1, 0, 0, 0, 1});
        set_all(gemm.b, {0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1, 0, 0, 0, 0, 0.5, 0.498, 0.4961, 0.4941});
    };

    // pytorch PR#192497: strides of an operand without elements were refused.
    Problem nothing = make_problem(kBf16, 224, 256, 0, "nn");
    add("ZerosWhereKIsZero", {nothing});
    set_batch(nothing, 4);
    add("ZerosWhereKIsZeroInABatch", {nothing});
    return all;
}

inline std::string report_name(const testing::TestParamInfo<Report>& info) {
    return info.param.guards;
}

}  // namespace carat::test
