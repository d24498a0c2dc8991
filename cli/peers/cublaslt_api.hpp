// SPDX-License-Identifier: Apache-2.0
// cublaslt_api.hpp: the part of the cuBLASLt interface that timing it takes, reached by dlopen: minimal prototypes of our
// own, so that building needs no CUDA header and running needs no library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace carat::cli::lt {

using Handle = void*;
using Descriptor = void*;  // of a product, a matrix or a preference
struct Algorithm {
    uint64_t data[8];
};
struct Heuristic {
    Algorithm algorithm;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

// Values of the library's enumerations that are used here.
enum DataType : int { kR32F = 0, kR64F = 1, kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14, kE4M3 = 28, kE5M2 = 29 };
enum ComputeType : int { kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kCompute32FFastTf32 = 77 };
enum DescAttribute : int {
    kTransA = 3,
    kTransB = 4,
    kEpilogue = 7,
    kBiasPointer = 8,
    kScaleA = 17,
    kScaleB = 18,
    kFastAccumulation = 25,
    kBiasType = 26
};
enum LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute : int { kMaxWorkspace = 1 };
enum ConfigAttribute : int {
    kAlgorithmId = 0,
    kTile = 1,
    kSplitK = 2,
    kReduction = 3,
    kSwizzle = 4,
    kCustom = 5,
    kStages = 6,
    kInner = 7,
    kCluster = 8
};
enum EpilogueBits : int { kEpilogueNone = 1, kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32 };

struct Api {
    int (*create)(Handle*);
    int (*destroy)(Handle);
    size_t (*version)();
    int (*desc_create)(Descriptor*, int compute, int scale_type);
    int (*desc_destroy)(Descriptor);
    int (*desc_set)(Descriptor, int attribute, const void* value, size_t bytes);
    int (*layout_create)(Descriptor*, int type, uint64_t rows, uint64_t cols, int64_t ld);
    int (*layout_destroy)(Descriptor);
    int (*layout_set)(Descriptor, int attribute, const void* value, size_t bytes);
    int (*preference_create)(Descriptor*);
    int (*preference_destroy)(Descriptor);
    int (*preference_set)(Descriptor, int attribute, const void* value, size_t bytes);
    int (*heuristics)(Handle, Descriptor operation, Descriptor a, Descriptor b, Descriptor c, Descriptor d,
                      Descriptor preference, int wanted, Heuristic* results, int* found);
    int (*config_get)(const Algorithm*, int attribute, void* value, size_t bytes, size_t* written);
    int (*matmul)(Handle, Descriptor operation, const void* alpha, const void* a, Descriptor a_layout, const void* b,
                  Descriptor b_layout, const void* beta, const void* c, Descriptor c_layout, void* d,
                  Descriptor d_layout, const Algorithm*, void* workspace, size_t workspace_bytes, void* stream);
    std::string path;
};

// Where the library is looked for, in order: CARAT_CUBLASLT_PATH alone if it is set; else a copy already in the process,
// wheels of $VIRTUAL_ENV and of the usual Python installations, the loader's own search, the CUDA toolkit.
std::vector<std::string> search_path();
// The loaded library, or null with a sentence on what was tried.
const Api* load(std::string* why_not);

}  // namespace carat::cli::lt
