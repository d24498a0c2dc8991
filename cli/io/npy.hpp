// SPDX-License-Identifier: Apache-2.0
// npy.hpp: numpy's .npy files, versions 1 to 3.
//
// numpy has no bfloat16 and no FP8. Arrays of the ml_dtypes package are saved as raw elements ('<V2', '|V1') that do
// not say what they are: reading those needs `raw_dtype`, and writing them follows the same convention, so that
// np.load("y.npy").view(ml_dtypes.bfloat16) gives the array back. Unsigned integers ('<u2', '|u1', from
// .view(np.uint16)) are taken the same way; with s4 or u4 each byte holds two elements of the last dimension.
#pragma once

#include "io/tensor.hpp"

namespace carat::cli {

// What the header says.
struct NpyHeader {
    std::string descr;
    bool fortran_order = false;
    std::vector<int64_t> shape;
    size_t data_offset = 0;
};
// `path` is for messages only.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> file, const std::string& path);

// The tensor of a whole file in memory; row-major whatever the file's order. raw_dtype is the type of raw elements.
Result<Tensor> parse_npy(std::span<const std::byte> file, std::shared_ptr<const void> owner, const std::string& path,
                         carat_dtype raw_dtype = CARAT_NONE);
Result<Tensor> read_npy(const std::string& path, carat_dtype raw_dtype = CARAT_NONE);
Status write_npy(const std::string& path, const Tensor& tensor);

}  // namespace carat::cli
