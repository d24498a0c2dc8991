// SPDX-License-Identifier: Apache-2.0
// Fuzzes the .safetensors reader: the input as a file, and as header and data behind a right header length. Every
// tensor of an accepted file must be refused with a sentence or have the bytes that its shape says.
#include <cstdlib>

#include "io/safetensors.hpp"

namespace {

using namespace carat;

void check_sentence(const Status& status) {
    if (status.sentence().empty() || status.sentence().find('\n') != std::string::npos) std::abort();
}

void check_tensor(const Result<cli::Tensor>& tensor) {
    if (!tensor.ok()) return check_sentence(tensor.status());
    const int bits = cli::dtype_bits(tensor->dtype);
    if (bits == 0 || tensor->elements() * bits != int64_t(tensor->bytes.size()) * 8) std::abort();
    unsigned sum = 0;
    for (std::byte byte : tensor->bytes) sum += std::to_integer<unsigned>(byte);  // every byte must be readable
    static volatile unsigned sink;
    sink = sum;
}

void check(std::span<const uint8_t> file) {
    const auto owner = std::make_shared<const std::vector<uint8_t>>(file.begin(), file.end());
    const Result<cli::Safetensors> parsed =
        cli::Safetensors::parse(std::as_bytes(std::span(*owner)), owner, "x.safetensors");
    if (!parsed.ok()) return check_sentence(parsed.status());
    for (const cli::Safetensors::Entry& entry : parsed->entries()) {
        check_tensor(parsed->tensor(entry.name));
        check_tensor(parsed->tensor(entry.name, CARAT_U4));
    }
    check_tensor(parsed->tensor("no such tensor"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    check({data, size});
    // Header and data behind a right length: up to the last brace.
    size_t header = size;
    while (header > 0 && data[header - 1] != '}') --header;
    std::vector<uint8_t> sealed(8);
    for (size_t i = 0; i < 8; ++i) sealed[i] = uint8_t(uint64_t(header) >> (8 * i));
    sealed.insert(sealed.end(), data, data + size);
    check(sealed);
    return 0;
}
