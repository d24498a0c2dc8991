// SPDX-License-Identifier: Apache-2.0
// safetensors.hpp: .safetensors files: 8 bytes of header length, a JSON header, then the tensors' bytes. The whole
// header is checked before any tensor is given out: a file that lies about one tensor is not trusted about another.
#pragma once

#include "io/tensor.hpp"

namespace carat::cli {

class Safetensors {
  public:
    struct Entry {
        std::string name, dtype;  // dtype as the file spells it, "BF16"
        std::vector<int64_t> shape;
        int64_t begin = 0, end = 0;  // bytes, relative to the data
    };

    static Result<Safetensors> open(const std::string& path);
    static Result<Safetensors> parse(std::span<const std::byte> file, std::shared_ptr<const void> owner,
                                     const std::string& path);

    const std::vector<Entry>& entries() const { return entries_; }  // by name
    // Fails with the nearest names if there is no such tensor. raw_dtype: what U8 bytes mean (s4, u4, e4m3, e5m2).
    Result<Tensor> tensor(const std::string& name, carat_dtype raw_dtype = CARAT_NONE) const;
    // The nearest names to one that is missing, for messages: "'a', 'b', 'c'".
    std::string near_names(const std::string& name) const;

  private:
    std::string path_;
    std::span<const std::byte> data_;
    std::shared_ptr<const void> owner_;
    std::vector<Entry> entries_;
};

Status write_safetensors(const std::string& path, const std::string& name, const Tensor& tensor);

}  // namespace carat::cli
