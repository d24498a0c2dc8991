// SPDX-License-Identifier: Apache-2.0
// tensor_map.hpp: the descriptor that the bulk tensor copy engine (TMA) reads: checked here, with sentences, before the
// driver encodes it, since the driver answers every mistake with the same INVALID_VALUE.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "cuda/driver.hpp"

namespace carat::cuda {

// How 16-byte pieces of a row are permuted in shared memory against bank conflicts; the number is the period in bytes.
enum class Swizzle { none = 0, bytes_32 = 1, bytes_64 = 2, bytes_128 = 3 };  // CUtensorMapSwizzle

struct TensorMapDesc {
    static constexpr int kMaxRank = 5;
    carat_dtype dtype = CARAT_NONE;
    const void* address = nullptr;
    int rank = 0;
    uint64_t dims[kMaxRank] = {};           // elements; dims[0] is the contiguous one
    uint64_t strides_bytes[kMaxRank] = {};  // of dims[1] and up; [0] is not used
    uint32_t box[kMaxRank] = {};            // elements copied at once
    Swizzle swizzle = Swizzle::none;
};

// 64 bytes satisfy the driver; 128 is what cuda.h of CUDA 13 gives its type.
struct alignas(128) TensorMap {
    unsigned char bytes[128];
};

// What the copy engine can take: types of 1, 2, 4 or 8 bytes, 16-byte address and strides, box <= 256 and within the
// swizzle's period, at least one element. Elements outside `dims` read as zero.
Status check_tensor_map(const TensorMapDesc& desc);
// Needs a current context, unlike what its documentation says (driver 580): Device::tensor_map brings one.
Result<TensorMap> encode_tensor_map(const Driver& driver, const TensorMapDesc& desc);

}  // namespace carat::cuda
