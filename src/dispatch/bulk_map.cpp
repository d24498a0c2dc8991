// SPDX-License-Identifier: Apache-2.0
#include "dispatch/bulk_map.hpp"

#include <algorithm>

namespace carat {
namespace {

const void* const kAnyAddress = reinterpret_cast<const void*>(uintptr_t(16));  // until there is an operand
constexpr uint32_t kLine = 64;                        // elements of the swizzle's period, 128 bytes
constexpr int64_t kMaxBulkExtent = int64_t(1) << 31;  // coordinates of a bulk copy are 32-bit

}  // namespace

cuda::TensorMapDesc bulk_map(const carat_matrix& x, Extents extents, int64_t batch, uint32_t contiguous,
                             uint32_t other) {
    const bool row_major = x.order == CARAT_ROW_MAJOR;
    const uint64_t element = uint64_t(bits(x.dtype)) / 8;
    cuda::TensorMapDesc desc;
    desc.dtype = x.dtype;
    desc.address = kAnyAddress;
    desc.rank = 3;
    desc.dims[0] = uint64_t(row_major ? extents.cols : extents.rows);
    desc.dims[1] = uint64_t(row_major ? extents.rows : extents.cols);
    desc.dims[2] = x.batch_stride == 0 ? 1 : uint64_t(batch);
    desc.strides_bytes[1] = uint64_t(x.ld) * element;
    // Of a lone matrix the third stride is never used, but has to be a valid one.
    desc.strides_bytes[2] = desc.dims[2] == 1 ? desc.strides_bytes[1] : uint64_t(x.batch_stride) * element;
    desc.box[0] = contiguous;
    desc.box[1] = other;
    desc.box[2] = 1;
    desc.swizzle = cuda::Swizzle::bytes_128;
    return desc;
}

cuda::TensorMapDesc operand_map(const carat_matrix& x, Extents extents, int64_t batch, bool k_major, int rows) {
    return bulk_map(x, extents, batch, kLine, k_major ? uint32_t(rows) : kLine);
}

cuda::TensorMapDesc panels_map(const carat_matrix& x, Extents extents, int64_t batch, int rows, int panels) {
    cuda::TensorMapDesc desc = operand_map(x, extents, batch, true, rows);
    desc.rank = 4;
    desc.dims[3] = desc.dims[2], desc.strides_bytes[3] = desc.strides_bytes[2], desc.box[3] = 1;
    desc.dims[2] = desc.dims[0] / kLine, desc.strides_bytes[2] = kLine * uint64_t(bits(x.dtype)) / 8;
    desc.dims[0] = kLine;
    desc.box[2] = uint32_t(panels);
    return desc;
}

std::optional<cuda::TensorMapDesc> store_map(const Problem& p) {
    const int element = bits(p.d.dtype) / 8;
    const bool row_major = p.d.order == CARAT_ROW_MAJOR;
    const int64_t length = row_major ? p.d_cols() : p.m;
    if ((!row_major && element != 2) || length * element % 16 != 0) return std::nullopt;
    const cuda::TensorMapDesc desc =
        bulk_map(p.d, {p.m, p.d_cols()}, p.entries(), row_major ? uint32_t(128 / element) : 64, 64);
    if (!takes_bulk(desc)) return std::nullopt;
    return desc;
}

std::optional<cuda::TensorMapDesc> residual_map(const Problem& p) {
    if (!p.has_c() || p.epilogue.gate != CARAT_GATE_NONE || bits(p.c.dtype) != bits(p.d.dtype)) return std::nullopt;
    const std::optional<cuda::TensorMapDesc> d = store_map(p);
    if (!d) return std::nullopt;
    const cuda::TensorMapDesc desc = bulk_map(p.c, {p.m, p.n}, p.entries(), d->box[0], d->box[1]);
    if (!takes_bulk(desc)) return std::nullopt;
    return desc;
}

bool takes_bulk(const cuda::TensorMapDesc& desc) {
    return cuda::check_tensor_map(desc).ok() && std::all_of(desc.dims, desc.dims + desc.rank, [](uint64_t extent) {
               return extent < uint64_t(kMaxBulkExtent);
           });
}

}  // namespace carat
