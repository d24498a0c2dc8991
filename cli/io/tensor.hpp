// SPDX-License-Identifier: Apache-2.0
// tensor.hpp: a tensor as it lies in a file: type, shape and row-major bytes, kept alive by whatever owns them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace carat::cli {

struct Tensor {
    carat_dtype dtype = CARAT_NONE;
    std::vector<int64_t> shape;         // in elements; empty for a scalar
    std::span<const std::byte> bytes;   // row-major, little-endian, aligned to the element
    std::shared_ptr<const void> owner;  // of the bytes: a buffer or a mapped file

    int64_t elements() const;
    std::string shape_text() const;  // "(3, 4)", as numpy prints it
    const void* data() const { return bytes.data(); }
};

// A tensor that owns a copy of `bytes`.
Tensor make_tensor(carat_dtype dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes);

int dtype_bits(carat_dtype dtype);
const char* dtype_text(carat_dtype dtype);
std::string shape_text(std::span<const int64_t> shape);

// Elements of a shape, and the bytes that `elements` of `bits` each take; false if a dimension is negative or the
// product passes 2^62, so that no later sum overflows.
bool count_elements(std::span<const int64_t> shape, int64_t* elements);
bool count_bytes(int64_t elements, int bits, int64_t* bytes);

// `bytes` itself when it is aligned to `alignment`, else an aligned copy: kernels take only element-aligned pointers,
// and a file may place its data anywhere.
void set_aligned_bytes(Tensor& tensor, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

// A name from a file, safe to print: control and non-ASCII bytes as \xNN, cut after 80.
std::string printable(std::string_view text);

}  // namespace carat::cli
