// SPDX-License-Identifier: Apache-2.0
#include "dispatch/ladder.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch/cuda_kernel.hpp"

namespace carat {
namespace {

void require_common(const Problem& p, const Target& target, Requirements& r) {
    require_cuda(p, target, r);
    r.require(p.mode == CARAT_SINGLE || p.mode == CARAT_BATCHED,
              "it takes single and strided batched problems, not arrays of pointers and not groups");
}

void require_plain(const Problem& p, Requirements& r) {
    r.require(p.scale_a.recipe == CARAT_SCALE_NONE && p.scale_b.recipe == CARAT_SCALE_NONE,
              "it takes no scales of A and B, but the recipe is {}", describe_recipe(p));
    r.require(p.sparsity == CARAT_DENSE, "it takes dense operands, not 2:4 sparse ones");
}

void require_given_scales(const Problem& p, Requirements& r) {
    r.require(p.epilogue.out_scale != CARAT_OUT_SCALE_COMPUTED_1X128,
              "it does not compute output scales (out_scale 1x128), which only narrow types of D need");
}

}  // namespace

void require_f32_rung(const Problem& p, const Target& target, Requirements& r) {
    const carat_epilogue& e = p.epilogue;
    require_common(p, target, r);
    r.require(p.a.dtype == CARAT_F32 && p.b.dtype == CARAT_F32, "A and B must be f32, but are {} and {}",
              name(p.a.dtype), name(p.b.dtype));
    r.require(p.d.dtype == CARAT_F32, "D must be f32, but is {}", name(p.d.dtype));
    r.require(p.c.dtype == CARAT_F32 || !p.has_c(), "C must be f32, but is {}", name(p.c.dtype));
    r.require(p.compute == CARAT_COMPUTE_DEFAULT || p.compute == CARAT_COMPUTE_F32,
              "it computes in exact f32 only, not in another compute mode");
    r.require(e.bias == CARAT_BIAS_NONE || e.bias_dtype == CARAT_F32, "the bias must be f32, but is {}",
              name(e.bias_dtype));
    require_plain(p, r);
    require_given_scales(p, r);
}

void require_16bit(const Problem& p, const Target& target, int cc, Requirements& r) {
    require_common(p, target, r);
    r.require(target.cc_major * 10 + target.cc_minor >= cc,
              "it needs compute capability {}.{} or newer, but {} has {}.{}", cc / 10, cc % 10, target.name,
              target.cc_major, target.cc_minor);
    r.require(p.a.dtype == p.b.dtype && (p.a.dtype == CARAT_F16 || p.a.dtype == CARAT_BF16),
              "A and B must both be f16 or both bf16, but are {} and {}", name(p.a.dtype), name(p.b.dtype));
    r.require(p.compute == CARAT_COMPUTE_DEFAULT, "it accumulates in f32 and knows no other compute mode");
    require_plain(p, r);
}

void require_16bit_rung(const Problem& p, const Target& target, int cc, Requirements& r) {
    const carat_epilogue& e = p.epilogue;
    const auto is_output = [&](carat_dtype type) { return type == CARAT_F32 || type == p.a.dtype; };
    require_16bit(p, target, cc, r);
    r.require(is_output(p.d.dtype), "D must be f32 or the type of A, but is {}", name(p.d.dtype));
    r.require(!p.has_c() || is_output(p.c.dtype), "C must be f32 or the type of A, but is {}", name(p.c.dtype));
    r.require(e.bias == CARAT_BIAS_NONE || is_output(e.bias_dtype),
              "the bias must be f32 or of the type of A, but is {}", name(e.bias_dtype));
    r.require(e.gate == CARAT_GATE_NONE, "it has no gated epilogue");
    require_given_scales(p, r);
}

void require_16bit_gemm(const Problem& p, const Target& target, int cc, Requirements& r) {
    const carat_epilogue& e = p.epilogue;
    const auto is_float = [](carat_dtype type) { return type == CARAT_F32 || type == CARAT_F16 || type == CARAT_BF16; };
    const bool fp8 = p.d.dtype == CARAT_E4M3 || p.d.dtype == CARAT_E5M2;
    require_16bit(p, target, cc, r);
    r.require(is_float(p.d.dtype) || fp8 || p.d.dtype == CARAT_S8,
              "D must be f32, f16, bf16, e4m3, e5m2 or s8, but is {}", name(p.d.dtype));
    r.require(!fp8 || target.cc_major * 10 + target.cc_minor >= 89,
              "the instruction that rounds to FP8 exists from compute capability 8.9 on, but {} has {}.{} and D is {}",
              target.name, target.cc_major, target.cc_minor, name(p.d.dtype));
    r.require(!p.has_c() || is_float(p.c.dtype), "C must be f32, f16 or bf16, but is {}", name(p.c.dtype));
    r.require(e.bias == CARAT_BIAS_NONE || is_float(e.bias_dtype), "the bias must be f32, f16 or bf16, but is {}",
              name(e.bias_dtype));
}

Config rung_config(const char* family, const Problem& p, int bm, int bn, int bk) {
    Config config;
    config.family = family;
    config.a = p.a.dtype;
    config.b = p.b.dtype;
    config.d = p.d.dtype;
    config.layout = p.layout();
    config.bm = bm;
    config.bn = bn;
    config.bk = bk;
    return config;
}

int tile_cols_of_b(const Problem& p, const Config& config) {
    const bool counts_d = p.epilogue.gate != CARAT_GATE_NONE && config.family != "sm90_ws";
    return config.bn * (counts_d ? 2 : 1);
}

int64_t tile_cols(const Problem& p, const Config& config) {
    return p.epilogue.gate == CARAT_GATE_NONE ? config.bn : config.bn / 2;
}

int64_t tile_count(const Problem& p, const Config& config) {
    const int64_t batch = p.entries();
    return ceil_div(p.m, config.bm) * ceil_div(p.d_cols(), config.bn) * batch;
}

Prediction predict_pipes(const Problem& p, const Config& config, const Target& target, const TileCost& cost) {
    const Floor floor = floor_of(p, target, p.has_c());
    const int units = std::max(target.units, 1);
    const double rate_tflops = target.rate_tflops(p.a.dtype, p.b.dtype, p.compute);
    const double clk_per_us = rate_tflops * 1e6 / (cost.flops_per_clk * units);
    const double tiles = double(ceil_div(tile_count(p, config), units));
    const double steps = tiles * double(ceil_div(p.k, config.bk));
    const double around_us = (std::ceil(tiles / cost.blocks) * cost.around_clk + cost.start_clk) / clk_per_us;
    const auto pipe = [&](double clk, const char* bound) {
        return Prediction{steps * clk / clk_per_us + around_us, bound};
    };
    // The L2 has a clock of its own: it does not slow down with SMs that are at the power limit. Where it was not measured,
    // it is taken to give an SM as much a clock as an H200's.
    const double l2_bytes_per_us =
        target.l2_tb_per_s > 0 ? target.l2_tb_per_s * 1e6 / units : kH200L2BytesPerClk * clk_per_us;
    const Prediction candidates[] = {pipe(cost.math_clk, cost.math),
                                     pipe(cost.shared_clk, "shared memory"),
                                     pipe(cost.copy_clk, "copies by threads, for want of 16-byte pitches"),
                                     {steps * cost.global_bytes / l2_bytes_per_us + around_us, "L2"},
                                     {floor.memory_us + around_us, "memory"},
                                     {target.launch_us, "launch"}};
    return *std::max_element(std::begin(candidates), std::end(candidates),
                             [](const Prediction& x, const Prediction& y) { return x.us < y.us; });
}

}  // namespace carat
