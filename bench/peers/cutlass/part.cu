// SPDX-License-Identifier: Apache-2.0
// part.cu: one kernel of kernels.def, -DCARAT_CUTLASS_KERNEL=id, for both types: the list is compiled kernel by kernel, since one
// takes nvcc the better part of a minute.
#include "gemm.cuh"

namespace carat_cutlass {

template <int id, class Type>
struct Kernel;

#define KERNEL(id, m, n, k, schedule, cluster_m, cluster_n, scheduler) \
    template <class Type>                                              \
    struct Kernel<id, Type> : Gemm<Type, m, n, k, schedule, cluster_m, cluster_n, scheduler> {};
#include "kernels.def"
#undef KERNEL

#define JOIN_NOW(prefix, id) prefix##id
#define JOIN(prefix, id) JOIN_NOW(prefix, id)
extern const Entry JOIN(entry_, CARAT_CUTLASS_KERNEL);
const Entry JOIN(entry_, CARAT_CUTLASS_KERNEL) = {{Kernel<CARAT_CUTLASS_KERNEL, cutlass::half_t>::functions,
                                                   Kernel<CARAT_CUTLASS_KERNEL, cutlass::bfloat16_t>::functions}};

}  // namespace carat_cutlass
