// SPDX-License-Identifier: Apache-2.0
// What the bulk copy engine takes, and the sentence for each thing it does not.
#include "cuda/tensor_map.hpp"

#include <cstring>
#include <functional>

#include "cuda/device.hpp"
#include "cuda/fake.hpp"

namespace carat::test {
namespace {

using cuda::check_tensor_map;
using cuda::Swizzle;
using cuda::TensorMapDesc;

TensorMapDesc good() {
    TensorMapDesc desc;
    desc.dtype = CARAT_BF16;
    desc.address = reinterpret_cast<const void*>(uintptr_t(0x1000));
    desc.rank = 2;
    desc.dims[0] = 4096, desc.dims[1] = 77;
    desc.strides_bytes[1] = 8192;
    desc.box[0] = 64, desc.box[1] = 128;
    desc.swizzle = Swizzle::bytes_128;
    return desc;
}

TEST(TensorMap, TakesWhatTheEngineTakes) {
    EXPECT_TRUE(check_tensor_map(good()).ok());
    for (const carat_dtype dtype : {CARAT_E4M3, CARAT_E5M2, CARAT_S8, CARAT_F16, CARAT_F32, CARAT_S32, CARAT_F64}) {
        TensorMapDesc desc = good();
        desc.dtype = dtype;
        desc.box[0] = uint32_t(128 * 8 / bits(dtype));
        EXPECT_TRUE(check_tensor_map(desc).ok()) << name(dtype);
    }
    TensorMapDesc limits = good();
    limits.swizzle = Swizzle::none;
    limits.dims[1] = uint64_t(1) << 32;
    limits.box[0] = limits.box[1] = 256;
    limits.strides_bytes[1] = (uint64_t(1) << 40) - 16;
    EXPECT_TRUE(check_tensor_map(limits).ok());
    TensorMapDesc line = good();
    line.rank = 1;
    line.strides_bytes[1] = 3;  // not looked at
    EXPECT_TRUE(check_tensor_map(line).ok());
}

struct Refusal {
    const char* what;
    std::function<void(TensorMapDesc&)> spoil;
    const char* sentence;
};

TEST(TensorMap, RefusesTheRestWithASentence) {
    const Refusal refusals[] = {
        {"sub-byte type", [](auto& d) { d.dtype = CARAT_S4; }, "no type s4"},
        {"no type", [](auto& d) { d.dtype = CARAT_NONE; }, "no type none"},
        {"invalid type", [](auto& d) { d.dtype = carat_dtype(99); }, "no type ?"},
        {"rank 0", [](auto& d) { d.rank = 0; }, "1 to 5 dimensions, not 0"},
        {"rank 6", [](auto& d) { d.rank = 6; }, "1 to 5 dimensions, not 6"},
        {"null", [](auto& d) { d.address = nullptr; }, "not a multiple of 16"},
        {"address", [](auto& d) { d.address = reinterpret_cast<void*>(uintptr_t(0x1008)); }, "0x1008"},
        {"empty", [](auto& d) { d.dims[1] = 0; }, "dimension 1 has 0 elements"},
        {"long", [](auto& d) { d.dims[0] = (uint64_t(1) << 32) + 1; }, "dimension 0 has 4294967297"},
        {"stride 0", [](auto& d) { d.strides_bytes[1] = 0; }, "stride of dimension 1 is 0 bytes"},
        {"odd stride", [](auto& d) { d.strides_bytes[1] = 8200; }, "8200 bytes"},
        {"stride", [](auto& d) { d.strides_bytes[1] = uint64_t(1) << 40; }, "below 2^40"},
        {"box 0", [](auto& d) { d.box[1] = 0; }, "0 elements along dimension 1"},
        {"box 257", [](auto& d) { d.box[1] = 257; }, "257 elements along dimension 1"},
        {"narrow box", [](auto& d) { d.box[0] = 4; }, "8 bytes wide"},
        {"wide box", [](auto& d) { d.box[0] = 128; }, "swizzle's period is 128"},
        {"wide box 32", [](auto& d) { d.swizzle = Swizzle::bytes_32; }, "swizzle's period is 32"},
        {"wide box 64", [](auto& d) { d.swizzle = Swizzle::bytes_64; }, "swizzle's period is 64"},
    };
    for (const Refusal& refusal : refusals) {
        TensorMapDesc desc = good();
        refusal.spoil(desc);
        const Status status = check_tensor_map(desc);
        EXPECT_EQ(status.code(), CARAT_INVALID_VALUE) << refusal.what;
        EXPECT_TRUE(contains(status.sentence(), refusal.sentence)) << refusal.what;
    }
}

TEST(TensorMap, IsEncodedByTheDriverWithItsStridesFromDimensionOne) {
    const auto driver = open_fake();
    ASSERT_NE(driver, nullptr);
    const auto map = cuda::encode_tensor_map(*driver, good());
    ASSERT_TRUE(map.ok()) << map.status().sentence();
    const uint64_t want[7] = {0x1000, 9, 2, 4096, 8192, 64, 3};
    EXPECT_EQ(std::memcmp(map->bytes, want, sizeof want), 0);
    TensorMapDesc bad = good();
    bad.rank = 0;
    EXPECT_FALSE(cuda::encode_tensor_map(*driver, bad).ok());
}

// The parameters of a launch get a copy of the map, moved; the encoded one stays as it is.
TEST(TensorMap, IsMovedToAnotherAddressAtALaunch) {
    const auto driver = open_fake();
    ASSERT_NE(driver, nullptr);
    const auto device = cuda::Device::open(*driver, 0);
    ASSERT_TRUE(device.ok());
    const auto map = (*device)->tensor_map(good());
    ASSERT_TRUE(map.ok()) << map.status().sentence();
    const std::vector<std::byte> cubin = {std::byte('c'), std::byte('u'), std::byte('b'), std::byte('i'),
                                          std::byte('n')};
    const auto module = (*device)->module(cubin, 0, "k");
    ASSERT_TRUE(module.ok()) << module.status().sentence();
    cuda::TensorMap parameters = {};
    const cuda::PlacedMap placed = {&*map, reinterpret_cast<const void*>(0x2000), &parameters};
    ASSERT_TRUE((*module)->launch({}, &parameters, sizeof parameters, nullptr, {&placed, 1}).ok());
    const uint64_t want[7] = {0x2000, 9, 2, 4096, 8192, 64, 3}, first = 0x1000;
    EXPECT_EQ(std::memcmp(parameters.bytes, want, sizeof want), 0);
    EXPECT_EQ(record(*driver).first_parameter, 0x2000u);
    EXPECT_EQ(std::memcmp(map->bytes, &first, sizeof first), 0);
}

}  // namespace
}  // namespace carat::test
