// SPDX-License-Identifier: Apache-2.0
// gemm.cuh: one CUTLASS 3.x kernel from the CollectiveBuilder behind the plugin's functions. CUTLASS chooses the depth of the
// pipeline and the epilogue's tile, as its examples for Hopper do.
#pragma once

#include <type_traits>

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"
#include "entry.h"

namespace carat_cutlass {

struct Cooperative {
    using Mainloop = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
    using Epilogue = cutlass::epilogue::TmaWarpSpecializedCooperative;
};
struct Pingpong {
    using Mainloop = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
    using Epilogue = cutlass::epilogue::TmaWarpSpecialized;
};
using Persistent = cutlass::gemm::PersistentScheduler;
using StreamK = cutlass::gemm::StreamKScheduler;

template <class Type, int M, int N, int K, class Schedule, int ClusterM, int ClusterN, class Scheduler>
class Gemm {
    using Tile = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;
    using Cluster = cute::Shape<cute::Int<ClusterM>, cute::Int<ClusterN>, cute::_1>;
    using RowMajor = cutlass::layout::RowMajor;
    using ColumnMajor = cutlass::layout::ColumnMajor;
    static constexpr int kAligned = 16 / sizeof(Type);  // elements: the bulk copies take no less than 16 bytes
    // No C: beta is 0, and its loads and shared memory are left out.
    using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
        cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
        cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, RowMajor, kAligned, Type, RowMajor,
        kAligned, typename Schedule::Epilogue>::CollectiveOp;
    using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
        cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Type, RowMajor, kAligned, Type, ColumnMajor, kAligned,
        float, Tile, Cluster,
        cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
        typename Schedule::Mainloop>::CollectiveOp;
    using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue, Scheduler>;
    using Device = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
    using Arguments = typename Device::Arguments;

    static const cutlass::KernelHardwareInfo& hardware() {
        static const auto info = cutlass::KernelHardwareInfo::make_kernel_hardware_info<Kernel>();
        return info;
    }

    static Arguments arguments(const carat_cutlass_problem& p, const carat_cutlass_pointers& at, const Walk& walk) {
        Arguments args;
        args.mode = cutlass::gemm::GemmUniversalMode::kGemm;
        args.problem_shape = {p.m, p.n, p.k, 1};
        args.mainloop.ptr_A = static_cast<const Type*>(at.a);
        args.mainloop.dA = {p.k, cute::_1{}, 0};
        args.mainloop.ptr_B = static_cast<const Type*>(at.b);
        args.mainloop.dB = {p.k, cute::_1{}, 0};
        args.epilogue.thread.alpha = 1;
        args.epilogue.thread.beta = 0;
        args.epilogue.ptr_D = static_cast<Type*>(at.d);
        args.epilogue.dD = {p.n, cute::_1{}, 0};
        args.scheduler.max_swizzle_size = walk.swizzle;
        using Order = std::remove_reference_t<decltype(args.scheduler.raster_order)>;
        args.scheduler.raster_order = walk.along == 'm' ? Order::AlongM : Order::AlongN;
        return args;
    }

  public:
    static int can(const carat_cutlass_problem& p) {
        return Device::can_implement(arguments(p, {}, {1, 'm'})) == cutlass::Status::kSuccess;
    }
    static size_t workspace(const carat_cutlass_problem& p, const Walk& walk) {
        Arguments args = arguments(p, {}, walk);
        args.hw_info = hardware();
        return Device::get_workspace_size(args);
    }
    // Stream-K counts finished parts in the workspace and does not reset them, so that each run zeroes it: `initialize` does.
    static int run(const carat_cutlass_problem& p, const Walk& walk, const carat_cutlass_pointers& at, void* stream) {
        Arguments args = arguments(p, at, walk);
        args.hw_info = hardware();
        Device device;
        const auto queue = static_cast<cudaStream_t>(stream);
        if (const auto status = device.initialize(args, at.workspace, queue); status != cutlass::Status::kSuccess)
            return static_cast<int>(status);
        return static_cast<int>(device.run(queue));
    }
    static constexpr Functions functions = {can, workspace, run};
};

}  // namespace carat_cutlass
