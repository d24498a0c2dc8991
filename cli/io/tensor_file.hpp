// SPDX-License-Identifier: Apache-2.0
// tensor_file.hpp: the tensor that a command-line argument names: "x.npy" or
// "model.safetensors:layers.0.up_proj.weight". A path may contain ':'; what follows ".safetensors:" is the tensor's
// name.
#pragma once

#include "io/npy.hpp"
#include "io/safetensors.hpp"

namespace carat::cli {

struct TensorReference {
    std::string path;
    std::string name;  // empty: the file's only tensor
    bool safetensors = false;
};
// The file need not exist; CARAT_INVALID_VALUE if the text names neither kind of file.
Result<TensorReference> parse_reference(const std::string& text);

// raw_dtype: the type of elements that the file does not name (see npy.hpp), from --dtype.
Result<Tensor> read_tensor(const std::string& reference, carat_dtype raw_dtype = CARAT_NONE);
// Whole or not at all. "y.safetensors" without a name calls the tensor "y".
Status write_tensor(const std::string& reference, const Tensor& tensor);

}  // namespace carat::cli
