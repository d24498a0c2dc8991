// SPDX-License-Identifier: Apache-2.0
#include "io/tensor.hpp"

#include <algorithm>
#include <cstring>

namespace carat::cli {
namespace {

constexpr int64_t kMostElements = int64_t(1) << 62;

struct TypeRow {
    carat_dtype dtype;
    const char* name;
    int bits;
};

// The reader must not need the library (fuzzers link it alone); tests compare this with carat_dtype_name and _bits.
constexpr TypeRow kTypes[] = {
    {CARAT_NONE, "none", 0},  {CARAT_F64, "f64", 64},  {CARAT_F32, "f32", 32},  {CARAT_F16, "f16", 16},
    {CARAT_BF16, "bf16", 16}, {CARAT_E4M3, "e4m3", 8}, {CARAT_E5M2, "e5m2", 8}, {CARAT_S8, "s8", 8},
    {CARAT_S32, "s32", 32},   {CARAT_S4, "s4", 4},     {CARAT_U4, "u4", 4},
};

const TypeRow& row(carat_dtype dtype) {
    for (const TypeRow& type : kTypes) {
        if (type.dtype == dtype) return type;
    }
    return kTypes[0];
}

}  // namespace

int dtype_bits(carat_dtype dtype) {
    return row(dtype).bits;
}
const char* dtype_text(carat_dtype dtype) {
    return row(dtype).name;
}

std::string shape_text(std::span<const int64_t> shape) {
    std::string text = "(";
    for (size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

bool count_elements(std::span<const int64_t> shape, int64_t* elements) {
    // A zero makes the product zero, yet the other dimensions must still be possible ones.
    int64_t product = 1;
    bool zero = false;
    for (int64_t extent : shape) {
        if (extent < 0) return false;
        if (extent == 0) {
            zero = true;
            continue;
        }
        if (extent > kMostElements / product) return false;
        product *= extent;
    }
    *elements = zero ? 0 : product;
    return true;
}

bool count_bytes(int64_t elements, int bits, int64_t* bytes) {
    if (elements < 0 || elements > kMostElements / std::max(bits, 8)) return false;
    *bytes = (elements * bits + 7) / 8;
    return true;
}

int64_t Tensor::elements() const {
    int64_t count = 0;
    return count_elements(shape, &count) ? count : 0;
}

std::string Tensor::shape_text() const {
    return cli::shape_text(shape);
}

Tensor make_tensor(carat_dtype dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    tensor.bytes = *owner;
    tensor.owner = std::move(owner);
    return tensor;
}

void set_aligned_bytes(Tensor& tensor, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
    const uintptr_t alignment = uintptr_t(std::max(dtype_bits(tensor.dtype) / 8, 1));
    if (reinterpret_cast<uintptr_t>(bytes.data()) % alignment == 0) {
        tensor.bytes = bytes;
        tensor.owner = std::move(owner);
        return;
    }
    auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
    tensor.bytes = *copy;
    tensor.owner = std::move(copy);
}

std::string printable(std::string_view text) {
    constexpr size_t kLongest = 80;
    std::string out;
    for (unsigned char c : text.substr(0, kLongest)) {
        if (c >= 0x20 && c < 0x7f) {
            out += char(c);
        } else {
            out += fmt::format("\\x{:02x}", c);
        }
    }
    return text.size() > kLongest ? out + "..." : out;
}

}  // namespace carat::cli
