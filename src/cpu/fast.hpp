// SPDX-License-Identifier: Apache-2.0
// fast.hpp: the fast CPU backend: packing converts any type into panels, one register-tiled micro-kernel an instruction
// set does the rest. One row of the registry each, in priority order.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "cpu/threads.hpp"
#include "dispatch/registry.hpp"

namespace carat::cpu {

enum class Isa { avx512_bf16, avx512, avx2, portable };  // priority order

// What this machine can run, best first. Never empty: portable is always there.
std::span<const Isa> supported_isas();
bool supported(Isa isa);
const char* name(Isa isa);  // "avx512_bf16"
// What supported_isas() is for a value of CARAT_CPU_ISA: none better than `best`; an unknown name is logged and
// ignored.
std::vector<Isa> allowed_isas(const std::optional<std::string>& best);
struct IsaKernels;  // gemm.hpp
const IsaKernels& kernels_of(Isa isa);

// The register tile (m x n) of the micro-kernel and its block along K, for display in configuration names.
struct MicroTile {
    int m, n, k;
};
MicroTile micro_tile(Isa isa, const Problem& problem);

// What the fast backend takes, whether or not this machine has the ISA; the bf16 ISA takes 16-bit and FP8 operands that are exact in bf16.
void fast_require(Isa isa, const Problem& problem, Requirements& requirements);
Status fast_execute(Isa isa, const Problem& problem, const carat_operands& operands, ThreadPool& threads);

// The machine's limits, measured once a process (about 0.2 s): peak f32 and bf16 rate and the streaming-read curve,
// with `threads` threads.
Target measure_cpu(ThreadPool& threads);

}  // namespace carat::cpu
