// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of model configurations: the first byte is the tensor-parallel degree, the rest the file. Every
// layer of an accepted model must have a possible shape.
#include <cstdlib>

#include "limits/models.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const carat::Result<carat::Model> model = carat::parse_model(text, "x", "'x.json'", data[0]);
    if (!model.ok()) {
        const std::string& sentence = model.status().sentence();
        if (sentence.empty() || sentence.find("'x.json'") == std::string::npos) {
            if (data[0] != 0) std::abort();  // a degree of zero is not the file's fault
        }
        return 0;
    }
    if (model->gemms.size() < 3) std::abort();
    for (const carat::LayerGemm& gemm : model->gemms) {
        if (gemm.n < 1 || gemm.k < 1 || gemm.count < 1 || gemm.top_k > gemm.experts) std::abort();
        if (carat::rows_of(gemm, int64_t(1) << 30) < 1) std::abort();
    }
    return 0;
}
