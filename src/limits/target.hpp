// SPDX-License-Identifier: Apache-2.0
// target.hpp: what a machine can do at most, as plain numbers: the GPUs we know from their data and our measurements,
// and CPUs as measured at run time. `limits` needs core alone.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "limits/cost_parameters.hpp"

namespace carat {

// One point of the measured streaming-read curve: reading `bytes` once from memory takes `us`.
struct ReadPoint {
    double bytes, us;
};

// Bytes a clock of its highest clock that the L2 of an H200 gives each SM when all of them pull at once: 38 to 40.
inline constexpr double kH200L2BytesPerClk = 39;

struct Target {
    carat_backend backend = CARAT_BACKEND_CPU;
    std::string name;                    // "h200", "cpu"
    std::string full_name;               // "NVIDIA H200", "AMD EPYC 9654 ..."
    int cc_major = 0, cc_minor = 0;      // CUDA compute capability, 0 on a CPU
    std::vector<std::string> isas;       // CPU: instruction sets of the fast backend that may be used, best first
    int units = 0;                       // SMs, or CPU threads in use
    int64_t shared_bytes_per_block = 0;  // opt-in maximum
    int64_t registers_per_unit = 0;
    int64_t l2_bytes = 0;  // L2 (GPU) or last-level cache (CPU)
    int64_t memory_bytes = 0;
    double launch_us = 0;               // an empty kernel inside a CUDA graph
    std::vector<ReadPoint> read_curve;  // ascending
    // What the L2 delivers when every SM pulls at once, at the highest clock; 0: not measured.
    double l2_tb_per_s = 0;
    // Sustained rate in TFLOP/s (2 per multiply-add) for operands of a type; 0: the type has no unit of its own.
    double f64_tflops = 0, f32_tflops = 0, tf32_tflops = 0, f16_tflops = 0, fp8_tflops = 0, s8_tflops = 0;
    std::string source;  // where the numbers come from: "measured on an H200, ...", "datasheet"
    CostParameters cost;

    std::string arch() const;  // "sm_90a"; "" on a CPU
    double rate_tflops(carat_dtype a, carat_dtype b, carat_compute compute) const;
    // Time in us to stream `bytes` once: read_curve, interpolated; beyond its end at the last slope.
    double read_us(double bytes) const;
};

std::span<const Target> known_gpus();
// By name ("h200"), failing with the list of names.
Result<Target> find_gpu(std::string_view name);
// The known GPU whose numbers stand in for a device: exact name, else the nearest capability; facts that the driver
// reports (SMs, memory, cache) replace the table's.
Target match_gpu(const std::string& device_name, int cc_major, int cc_minor, int sms, int64_t l2_bytes,
                 int64_t memory_bytes, int64_t shared_bytes_per_block);

enum class Bound { memory, compute, launch };
const char* name(Bound bound);

// The least time a problem can take: max(streaming its bytes, its FLOPs at the sustained rate, an empty launch).
struct Floor {
    double bytes = 0;  // each operand once: A, B, C if read, D, scales, bias
    double flops = 0;  // 2 m n k
    double memory_us = 0, compute_us = 0, us = 0;
    double intensity = 0;  // flops / bytes
    Bound bound = Bound::memory;
};
Floor floor_of(const Problem& problem, const Target& target, bool reads_c = false);

}  // namespace carat
