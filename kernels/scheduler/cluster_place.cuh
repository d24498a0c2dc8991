// SPDX-License-Identifier: Apache-2.0
// cluster_place.cuh: where a block stands in its cluster of kClusterM x kClusterN x kClusterK blocks.
// - kClusterM x kClusterN blocks take neighbouring tiles: blocks of one row of the cluster need the same tile of A, blocks of
//   one column the same tile of B. Each loads its part of both for all who need it, and so each writes to the shared memory of
//   its row and its column.
// - kClusterK such groups take parts of K of the same tiles (mainloop/cluster_split.cuh) and share no operand.
#pragma once

#include <ptx/block.cuh>

namespace carat_kernel {

template <class Config>
struct ClusterPlace {
    static constexpr int kM = Config::kClusterM, kN = Config::kClusterN, kK = Config::kClusterK, kBlocks = kM * kN * kK;
    static constexpr int kReaders = kM + kN - 1;  // blocks that read what this one loads, itself among them

    int row, col;
    int part;  // of K

    __device__ explicit ClusterPlace(int rank) : row(rank % kM), col(rank / kM % kN), part(rank / (kM * kN)) {}
    __device__ ClusterPlace() : ClusterPlace(kBlocks > 1 ? cluster_rank() : 0) {}

    // Blocks that share this one's tile of A, and of B.
    __device__ unsigned short same_row() const {
        unsigned mask = 0;
        for (int i = 0; i < kN; ++i) mask |= 1u << (first() + row + i * kM);
        return static_cast<unsigned short>(mask);
    }
    __device__ unsigned short same_col() const {
        return static_cast<unsigned short>(((1u << kM) - 1) << (first() + col * kM));
    }

    // The rank of one of the kReaders blocks of this row and column.
    __device__ int reader(int i) const {
        if (i < kN) return first() + row + i * kM;
        const int other = i - kN;
        return first() + other + (other >= row) + col * kM;
    }

    // The rank of the block with this one's tile and another part of K.
    __device__ int with_part(int other) const { return other * kM * kN + row + col * kM; }

  private:
    __device__ int first() const { return part * kM * kN; }  // rank of the blocks that have the same part
};

// Before barriers are used that other blocks arrive at.
template <class Config>
__device__ void start_together() {
    ClusterPlace<Config>::kBlocks > 1 ? cluster_barrier() : __syncthreads();
}
// No block may end while another can still write to its memory or arrive at its barriers.
template <class Config>
__device__ void end_together() {
    if constexpr (ClusterPlace<Config>::kBlocks > 1) cluster_barrier();
}

}  // namespace carat_kernel
