// SPDX-License-Identifier: Apache-2.0
#include "cuda/tensor_map.hpp"

namespace carat::cuda {
namespace {

constexpr uint64_t kAlignment = 16;
constexpr uint64_t kMaxDim = uint64_t(1) << 32;
constexpr uint64_t kMaxStride = uint64_t(1) << 40;  // exclusive
constexpr uint32_t kMaxBox = 256;

// CUtensorMapDataType; -1: the copy engine has no such type.
int tensor_map_type(carat_dtype dtype) {
    switch (dtype) {
        case CARAT_E4M3:
        case CARAT_E5M2:
        case CARAT_S8:
            return 0;
        case CARAT_S32:
            return 3;
        case CARAT_F16:
            return 6;
        case CARAT_F32:
            return 7;
        case CARAT_F64:
            return 8;
        case CARAT_BF16:
            return 9;
        default:
            return -1;
    }
}

Status check_address(const void* address) {
    if (address != nullptr && reinterpret_cast<uintptr_t>(address) % kAlignment == 0) return {};
    return fail(CARAT_INVALID_VALUE,
                "the address {} is not a multiple of {} bytes: align it, or use a kernel without bulk copies", address,
                kAlignment);
}

Status check_dimension(const TensorMapDesc& desc, int i) {
    if (desc.dims[i] == 0 || desc.dims[i] > kMaxDim)
        return fail(CARAT_INVALID_VALUE, "dimension {} has {} elements, but the copy engine takes 1 to 2^32: split it",
                    i, desc.dims[i]);
    if (desc.box[i] == 0 || desc.box[i] > kMaxBox)
        return fail(CARAT_INVALID_VALUE,
                    "the box has {} elements along dimension {}, but takes 1 to {}: use several boxes", desc.box[i], i,
                    kMaxBox);
    if (i == 0) return {};
    const uint64_t stride = desc.strides_bytes[i];
    if (stride == 0 || stride % kAlignment != 0 || stride >= kMaxStride)
        return fail(CARAT_INVALID_VALUE,
                    "the stride of dimension {} is {} bytes, but must be a multiple of {} below 2^40: pad the leading "
                    "dimension, or use a kernel without bulk copies",
                    i, stride, kAlignment);
    return {};
}

}  // namespace

Status check_tensor_map(const TensorMapDesc& desc) {
    if (tensor_map_type(desc.dtype) < 0)
        return fail(CARAT_INVALID_VALUE,
                    "the copy engine has no type {}: describe sub-byte elements as bytes (s8) of half the extent",
                    is_valid(desc.dtype) ? name(desc.dtype) : "?");
    if (desc.rank < 1 || desc.rank > TensorMapDesc::kMaxRank)
        return fail(CARAT_INVALID_VALUE, "a tensor map has 1 to {} dimensions, not {}: fold some into one",
                    TensorMapDesc::kMaxRank, desc.rank);
    CARAT_TRY(check_address(desc.address));
    for (int i = 0; i < desc.rank; ++i) CARAT_TRY(check_dimension(desc, i));
    const int64_t inner = bytes_of(desc.dtype, desc.box[0]);
    if (inner % int64_t(kAlignment) != 0)
        return fail(CARAT_INVALID_VALUE,
                    "the box is {} bytes wide along the contiguous dimension, but must be a multiple of {}: widen it",
                    inner, kAlignment);
    const int64_t period = 16 << int(desc.swizzle);
    if (desc.swizzle != Swizzle::none && inner > period)
        return fail(
            CARAT_INVALID_VALUE,
            "the box is {} bytes wide along the contiguous dimension, but the swizzle's period is {}: use several "
            "boxes or a longer period",
            inner, period);
    return {};
}

Result<TensorMap> encode_tensor_map(const Driver& driver, const TensorMapDesc& desc) {
    constexpr int kNoInterleave = 0, kPromote128Bytes = 2, kFillZero = 0;
    constexpr uint32_t kSteps[TensorMapDesc::kMaxRank] = {1, 1, 1, 1, 1};
    CARAT_TRY(check_tensor_map(desc));
    TensorMap map = {};
    CARAT_TRY(driver.check(
        driver.tensor_map_tiled(map.bytes, tensor_map_type(desc.dtype), unsigned(desc.rank),
                                const_cast<void*>(desc.address), desc.dims, desc.strides_bytes + 1, desc.box, kSteps,
                                kNoInterleave, int(desc.swizzle), kPromote128Bytes, kFillZero),
        "cuTensorMapEncodeTiled"));
    return map;
}

}  // namespace carat::cuda
