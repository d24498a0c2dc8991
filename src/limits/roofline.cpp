// SPDX-License-Identifier: Apache-2.0
#include "limits/roofline.hpp"

namespace carat {

double naive_intensity(carat_dtype a, carat_dtype b) {
    return 2 / (bits(a) / 8.0 + bits(b) / 8.0);
}

double tiled_intensity(carat_dtype a, carat_dtype b, const Tiling& tiling) {
    const double rows = double(tiling.bm) * tiling.cluster_m, columns = double(tiling.bn) * tiling.cluster_n;
    return 2 * rows * columns / (rows * bits(a) / 8 + columns * bits(b) / 8);
}

double memory_tb_per_s(const Target& target) {
    const std::vector<ReadPoint>& curve = target.read_curve;
    if (curve.size() < 2) return 0;
    const ReadPoint &before = curve[curve.size() - 2], &last = curve.back();
    return last.us > before.us ? (last.bytes - before.bytes) / (last.us - before.us) * 1e-6 : 0;
}

double ridge(double tflops, double tb_per_s) {
    return tb_per_s > 0 ? tflops / tb_per_s : 0;
}

}  // namespace carat
