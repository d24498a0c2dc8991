// SPDX-License-Identifier: Apache-2.0
// deepgemm.hpp: DeepGEMM as a peer. It needs torch, so it runs in a Python program of its own, bench/peers/deepgemm_worker.py,
// which measures as timing.hpp does on operands of its own; its kernels are chosen by its own heuristic.
#pragma once

#include <string>
#include <vector>

#include "peers/peer.hpp"

namespace carat::cli {

// Null with a sentence where Python, torch or DeepGEMM is missing.
std::unique_ptr<Peer> open_deepgemm(const Arena& arena, std::string* why_not);
// bench/peers/deepgemm_worker.py alone, embedded by the build, so that the program stays one file.
struct WorkerFile {
    std::string name, text;
};
const std::vector<WorkerFile>& worker_files();

}  // namespace carat::cli
