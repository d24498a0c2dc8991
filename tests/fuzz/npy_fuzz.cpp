// SPDX-License-Identifier: Apache-2.0
// Fuzzes the .npy reader. The first byte chooses the type of raw elements, the rest is the file. What is accepted must
// have the bytes that its shape says; what is refused must say why in one line.
#include <cstdlib>

#include "io/npy.hpp"

namespace {

using namespace carat;

void check(std::span<const std::byte> file, carat_dtype raw) {
    const auto owner = std::make_shared<const std::vector<std::byte>>(file.begin(), file.end());
    const Result<cli::Tensor> tensor = cli::parse_npy(*owner, owner, "x.npy", raw);
    if (!tensor.ok()) {
        const std::string& sentence = tensor.status().sentence();
        if (sentence.empty() || sentence.find('\n') != std::string::npos) std::abort();
        return;
    }
    const int bits = cli::dtype_bits(tensor->dtype);
    if (bits == 0 || tensor->elements() * bits != int64_t(tensor->bytes.size()) * 8) std::abort();
    if (reinterpret_cast<uintptr_t>(tensor->data()) % uintptr_t(std::max(bits / 8, 1)) != 0) std::abort();
    unsigned sum = 0;
    for (std::byte byte : tensor->bytes) sum += std::to_integer<unsigned>(byte);  // every byte must be readable
    static volatile unsigned sink;
    sink = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    check(std::as_bytes(std::span(data + 1, size - 1)), carat_dtype(data[0] % (CARAT_U4 + 1)));
    // Most mutations break the eight bytes in front; behind right ones the header's parser is reached every time.
    std::vector<uint8_t> sealed = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 0, 0};
    const size_t header = std::min(size, size_t(data[0]));
    sealed[8] = uint8_t(header);
    sealed.insert(sealed.end(), data, data + size);
    check(std::as_bytes(std::span(sealed)), CARAT_BF16);
    return 0;
}
