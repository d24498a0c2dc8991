// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_file.hpp"

#include <filesystem>

namespace carat::cli {
namespace {

constexpr std::string_view kNpy = ".npy", kSafetensors = ".safetensors";

bool is_file(const std::string& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

Result<Tensor> only_tensor(const Safetensors& file, const std::string& path, carat_dtype raw_dtype) {
    if (file.entries().size() == 1) return file.tensor(file.entries()[0].name, raw_dtype);
    if (file.entries().empty()) return file.tensor("", raw_dtype);
    return fail(CARAT_INVALID_VALUE, "'{}' holds {} tensors: name one as {}:NAME, for example {}", printable(path),
                file.entries().size(), printable(path), file.near_names(file.entries()[0].name));
}

}  // namespace

Result<TensorReference> parse_reference(const std::string& text) {
    // A file whose whole name is the text wins over one with a tensor's name behind it.
    const std::string separator = std::string(kSafetensors) + ":";
    if (const size_t at = text.rfind(separator); at != std::string::npos && !is_file(text)) {
        const size_t colon = at + kSafetensors.size();
        if (colon + 1 == text.size()) {
            return fail(CARAT_INVALID_VALUE, "'{}' names no tensor: write its name after the ':'", printable(text));
        }
        return TensorReference{text.substr(0, colon), text.substr(colon + 1), true};
    }
    if (text.ends_with(kSafetensors)) return TensorReference{text, "", true};
    if (text.ends_with(kNpy)) return TensorReference{text, "", false};
    return fail(CARAT_INVALID_VALUE,
                "'{}' is neither FILE.npy nor FILE.safetensors[:TENSOR]: rename or convert the file", printable(text));
}

Result<Tensor> read_tensor(const std::string& reference, carat_dtype raw_dtype) {
    CARAT_ASSIGN(const TensorReference where, parse_reference(reference));
    if (!where.safetensors) return read_npy(where.path, raw_dtype);
    CARAT_ASSIGN(const Safetensors file, Safetensors::open(where.path));
    return where.name.empty() ? only_tensor(file, where.path, raw_dtype) : file.tensor(where.name, raw_dtype);
}

Status write_tensor(const std::string& reference, const Tensor& tensor) {
    CARAT_ASSIGN(const TensorReference where, parse_reference(reference));
    if (!where.safetensors) return write_npy(where.path, tensor);
    const std::string stem = std::filesystem::path(where.path).stem().string();
    return write_safetensors(where.path, where.name.empty() ? stem : where.name, tensor);
}

}  // namespace carat::cli
