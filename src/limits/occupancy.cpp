// SPDX-License-Identifier: Apache-2.0
#include "limits/occupancy.hpp"

#include <algorithm>

namespace carat {
namespace {

// The "technical specifications per compute capability" of the CUDA C++ programming guide.
struct SmLimits {
    int warps, blocks;
    int64_t reserved_shared_bytes;  // a block, for the system
};

SmLimits limits_of(int cc) {
    if (cc == 75) return {32, 16, 0};
    if (cc == 86 || cc == 87) return {48, 16, 1024};
    if (cc == 89) return {48, 24, 1024};
    if (cc >= 120) return {48, 24, 1024};
    return {64, 32, 1024};  // 8.0, 9.0, 10.0
}

constexpr int kWarp = 32, kQuarters = 4;  // an SM is four parts with registers and a scheduler each
constexpr int kRegisterUnit = 256;        // registers are given to a warp in such units
constexpr int64_t kSharedUnit = 128;

}  // namespace

Occupancy occupancy_of(const BlockNeeds& needs, const Target& target) {
    const SmLimits sm = limits_of(target.cc_major * 10 + target.cc_minor);
    const int64_t warps = ceil_div(std::max(needs.threads, 1), kWarp);
    const int64_t of_warp = round_up(int64_t(std::max(needs.registers, 1)) * kWarp, kRegisterUnit);
    const int64_t warps_by_registers = target.registers_per_unit / kQuarters / of_warp * kQuarters;
    // The most that one block may have and what is reserved for it make up an SM's shared memory.
    const int64_t shared = target.shared_bytes_per_block + sm.reserved_shared_bytes;
    const int64_t of_block = round_up(needs.shared_bytes + sm.reserved_shared_bytes, kSharedUnit);
    const int64_t blocks = std::min({int64_t(sm.blocks), sm.warps / warps, warps_by_registers / warps,
                                     of_block > 0 ? shared / of_block : int64_t(sm.blocks)});
    return {int(blocks), double(blocks * warps) / sm.warps};
}

}  // namespace carat
