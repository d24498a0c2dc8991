// SPDX-License-Identifier: Apache-2.0
#include "io/npy.hpp"

#include <array>
#include <cstring>

#include "io/file.hpp"

namespace carat::cli {
namespace {

struct Typed {
    char kind;
    int size;
    carat_dtype dtype;
};
constexpr Typed kTyped[] = {
    {'f', 8, CARAT_F64}, {'f', 4, CARAT_F32}, {'f', 2, CARAT_F16}, {'i', 1, CARAT_S8}, {'i', 4, CARAT_S32},
};

Status unsupported(const std::string& path, const std::string& descr) {
    return fail(
        CARAT_IO_ERROR,
        "'{}' holds elements of numpy type '{}', and f8, f4, f2, i1, i4 or raw bf16 and FP8 are wanted: convert "
        "the array with .astype and save it again",
        printable(path), printable(descr));
}

// The element type that a descr such as "<f4" and the caller's raw type mean.
Result<carat_dtype> element_type(const std::string& descr, carat_dtype raw, const std::string& path) {
    if (descr.size() != 3 || !std::strchr("<>|=", descr[0]) || descr[2] < '1' || descr[2] > '8') {
        return unsupported(path, descr);
    }
    const char kind = descr[1];
    const int size = descr[2] - '0';
    if (descr[0] == '>' && size > 1) {
        return fail(CARAT_IO_ERROR,
                    "'{}' is big-endian ('{}'): save array.astype(array.dtype.newbyteorder('<')) instead",
                    printable(path), printable(descr));
    }
    for (const Typed& typed : kTyped) {
        if (typed.kind == kind && typed.size == size) return typed.dtype;
    }
    const bool is_raw = (kind == 'V' || kind == 'u') && size <= 2;
    if (!is_raw) return unsupported(path, descr);
    const char* wanted = size == 2 ? "bf16 or f16" : "e4m3, e5m2, s8, s4 or u4";
    if (raw == CARAT_NONE) {
        return fail(CARAT_IO_ERROR,
                    "'{}' holds raw elements ('{}') that do not say their type: say it with --dtype ({})",
                    printable(path), descr, wanted);
    }
    if ((dtype_bits(raw) + 7) / 8 != size) {
        return fail(CARAT_IO_ERROR, "'{}' holds raw elements of {} byte{} ('{}'), which cannot be {}: use --dtype {}",
                    printable(path), size, size == 1 ? "" : "s", descr, dtype_text(raw), wanted);
    }
    return raw;
}

// Column-major (first index fastest) to row-major.
std::vector<std::byte> to_row_major(std::span<const std::byte> in, std::span<const int64_t> shape, size_t size) {
    std::vector<std::byte> out(in.size());
    std::vector<int64_t> index(shape.size(), 0), step(shape.size(), 1);
    for (size_t i = 1; i < shape.size(); ++i) step[i] = step[i - 1] * shape[i - 1];
    int64_t from = 0;
    for (size_t to = 0; to < in.size(); to += size) {
        std::memcpy(out.data() + to, in.data() + size_t(from) * size, size);
        for (size_t i = shape.size(); i-- > 0;) {  // count up in row-major order
            from += step[i];
            if (++index[i] < shape[i]) break;
            from -= step[i] * shape[i];
            index[i] = 0;
        }
    }
    return out;
}

std::string descr_of(carat_dtype dtype) {
    for (const Typed& typed : kTyped) {
        if (typed.dtype == dtype) return fmt::format("{}{}{}", typed.size == 1 ? '|' : '<', typed.kind, typed.size);
    }
    return dtype_bits(dtype) == 16 ? "<V2" : "|V1";  // what numpy.save makes of ml_dtypes' bfloat16 and float8
}

}  // namespace

Result<Tensor> parse_npy(std::span<const std::byte> file, std::shared_ptr<const void> owner, const std::string& path,
                         carat_dtype raw_dtype) {
    CARAT_ASSIGN(NpyHeader header, parse_npy_header(file, path));
    Tensor tensor;
    CARAT_ASSIGN(tensor.dtype, element_type(header.descr, raw_dtype, path));
    const int stored_bits = std::max(dtype_bits(tensor.dtype), 8);
    int64_t elements = 0, bytes = 0;
    if (!count_elements(header.shape, &elements) || !count_bytes(elements, stored_bits, &bytes)) {
        return fail(CARAT_IO_ERROR, "'{}' claims the shape {}, more than any memory holds: save it again",
                    printable(path), shape_text(header.shape));
    }
    const std::span<const std::byte> data = file.subspan(header.data_offset);
    if (data.size() != size_t(bytes)) {
        return fail(CARAT_IO_ERROR, "'{}' has {} bytes of data, and its shape {} of {} needs {}: {}", printable(path),
                    data.size(), shape_text(header.shape), header.descr, bytes,
                    data.size() < size_t(bytes) ? "the file is cut short; copy or save it again"
                                                : "more than one array in a file is not supported; save it alone");
    }
    const std::vector<int64_t> stored_shape = header.shape;
    tensor.shape = std::move(header.shape);
    if (dtype_bits(tensor.dtype) == 4) {
        if (tensor.shape.empty()) {
            return fail(CARAT_IO_ERROR, "'{}' is a scalar, and packed {} needs a dimension: save at least one row",
                        printable(path), dtype_text(tensor.dtype));
        }
        tensor.shape.back() *= 2;
    }
    if (header.fortran_order && stored_shape.size() > 1) {
        Tensor turned =
            make_tensor(tensor.dtype, tensor.shape, to_row_major(data, stored_shape, size_t(stored_bits) / 8));
        return turned;
    }
    set_aligned_bytes(tensor, data, std::move(owner));
    return tensor;
}

Result<Tensor> read_npy(const std::string& path, carat_dtype raw_dtype) {
    CARAT_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
    return parse_npy(file->bytes(), file, path, raw_dtype);
}

Status write_npy(const std::string& path, const Tensor& tensor) {
    std::vector<int64_t> shape = tensor.shape;
    if (dtype_bits(tensor.dtype) == 4) {
        if (shape.empty() || shape.back() % 2 != 0) {
            return fail(CARAT_INVALID_VALUE,
                        "cannot write '{}': packed {} of shape {} has an odd last dimension; pad it", printable(path),
                        dtype_text(tensor.dtype), tensor.shape_text());
        }
        shape.back() /= 2;
    }
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr_of(tensor.dtype),
                                     shape_text(shape));
    // Padded so that the data starts at a multiple of 64, as numpy does.
    constexpr size_t kStart = 10;
    header.append(63 - (kStart + header.size()) % 64, ' ');
    header += '\n';
    std::string start("\x93NUMPY\x01\x00", 8);
    start += char(header.size() & 0xff);
    start += char(header.size() >> 8);
    start += header;
    const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(start)), tensor.bytes};
    return write_file(path, parts);
}

}  // namespace carat::cli
