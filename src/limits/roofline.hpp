// SPDX-License-Identifier: Apache-2.0
// roofline.hpp: FLOP per byte: what a kernel asks of memory for the work it does, and where a machine's bandwidths meet
// its rates. A kernel whose intensity lies left of a ridge is held up by that memory, one to the right by its units.
#pragma once

#include "limits/target.hpp"

namespace carat {

// How a kernel divides D among its blocks.
struct Tiling {
    int bm = 0, bn = 0;                // of D, one block
    int cluster_m = 1, cluster_n = 1;  // blocks that share what they load, by multicast
};

// Both operands are loaded for every multiply-add: 2 / (bytes of A + bytes of B). f32: 0.25.
double naive_intensity(carat_dtype a, carat_dtype b);
// Each operand is loaded once a tile: a step of K loads BM elements of A and BN of B for 2 BM BN FLOP. The blocks of a
// cluster share the rows of A along N and the columns of B along M, so the cluster's own tile takes the place of BM, BN.
double tiled_intensity(carat_dtype a, carat_dtype b, const Tiling& tiling);

// Terabytes a second of an endless stream: the last slope of the read curve. 0: not known.
double memory_tb_per_s(const Target& target);
// FLOP per byte at which a rate and a bandwidth meet. 0: one of them is not known.
double ridge(double tflops, double tb_per_s);

}  // namespace carat
