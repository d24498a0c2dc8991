// SPDX-License-Identifier: Apache-2.0
// isa_avx512_bf16.cpp: the fast backend's algorithm for one instruction set; flags are in cmake/cpu_isas.cmake.
#define CARAT_ISA avx512_bf16
#define CARAT_VECTOR_BYTES 64
#define CARAT_MR 14   // rows of the register tile; it is two vectors wide
#define CARAT_KC 256  // f32 elements of K in a block
#define CARAT_HAS_BF16 1
#include "cpu/gemm.inl"
