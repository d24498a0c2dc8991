// SPDX-License-Identifier: Apache-2.0
// plugin.h: the interface between `carat bench --peer cutlass` and the shared library that holds CUTLASS's kernels. Plain C, so
// that the command line builds without CUTLASS and nvcc, and the library without Carat.
//
// One product: D[M,N] = A[M,K] * B[N,K]^T, all packed and row-major, accumulated in f32, D of the operands' type.
// A kernel is a tile, a schedule and a cluster; a variant is the order in which its blocks walk over the tiles.
#ifndef CARAT_BENCH_CUTLASS_PLUGIN_H
#define CARAT_BENCH_CUTLASS_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CARAT_CUTLASS_ABI 1

typedef enum { CARAT_CUTLASS_F16 = 0, CARAT_CUTLASS_BF16 = 1 } carat_cutlass_dtype;

typedef struct {
    int32_t m, n, k;
    carat_cutlass_dtype dtype;
} carat_cutlass_problem;

typedef struct {
    const void *a, *b;
    void *d, *workspace;
} carat_cutlass_pointers;

// What `carat_cutlass_plugin` answers; it lives as long as the library.
typedef struct {
    int abi;              // CARAT_CUTLASS_ABI of the plugin; nothing behind it is read if it differs
    const char* version;  // "4.2.0"
    int kernels, variants;
    const char* (*kernel_name)(int kernel);    // "128x256x64 cooperative 2x1"
    const char* (*variant_name)(int variant);  // "swizzle 4 along m"
    // 1 if the kernel takes the problem.
    int (*can)(int kernel, const carat_cutlass_problem* problem);
    size_t (*workspace)(int kernel, int variant, const carat_cutlass_problem* problem);
    // Enqueues one product on the CUDA stream of the current context; 0, or a status of cutlass::Status. The first call of a
    // kernel must not be captured into a graph: it loads the kernel.
    int (*run)(int kernel, int variant, const carat_cutlass_problem* problem, const carat_cutlass_pointers* pointers,
               void* stream);
} carat_cutlass_plugin_table;

// The one symbol of the library.
const carat_cutlass_plugin_table* carat_cutlass_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
