// SPDX-License-Identifier: Apache-2.0
// registry.cpp: the table itself. Order is priority: at equal predicted time the earlier row wins. The reference is
// last.
#include "dispatch/registry.hpp"

#include <vector>

#include "dispatch/rows_cpu.hpp"
#include "dispatch/rows_gemm_mma.hpp"
#include "dispatch/rows_mma.hpp"
#include "dispatch/rows_simt.hpp"
#include "dispatch/rows_stream.hpp"
#include "dispatch/rows_wgmma.hpp"
#include "dispatch/rows_ws.hpp"

namespace carat {

std::span<const Row> registry() {
    // Copied on first use, when every row's own file has been initialised.
    static const std::vector<Row> table = {
        kRowStream,
        kRowWs,
        kRowMma,
        // kernels/ladder
        kRowV8Cluster,
        kRowV7WarpSpecialized,
        kRowV6Wgmma,
        kRowV5Mma,
        kRowV4Wmma,
        kRowV3DoubleBuffer,
        kRowV2Registers,
        kRowV1Shared,
        kRowV0Naive,
        // the CPU
        kRowCpuAvx512Bf16,
        kRowCpuAvx512,
        kRowCpuAvx2,
        kRowCpuPortable,
        kRowCpuReference,
    };
    return table;
}

const Row* find_row(std::string_view name) {
    for (const Row& row : registry())
        if (name == row.name) return &row;
    return nullptr;
}

}  // namespace carat
