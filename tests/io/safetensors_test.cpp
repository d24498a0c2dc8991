// SPDX-License-Identifier: Apache-2.0
// safetensors_test.cpp: reading, writing, and every way a header can lie.
#include "io_test_util.hpp"

namespace carat::cli {
namespace {

std::string file_of(const std::string& json, std::string_view data) {
    std::string file;
    for (int i = 0; i < 8; ++i) file += char(uint64_t(json.size()) >> (8 * i) & 0xff);
    return file + json + std::string(data);
}

Result<Safetensors> parse(const std::string& file) {
    auto owner = std::make_shared<const std::vector<std::byte>>(to_bytes(file));
    return Safetensors::parse(*owner, owner, "m.safetensors");
}

std::string tensor_json(const char* name, const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

std::string object(std::initializer_list<std::string> members) {
    return fmt::format("{{{}}}", fmt::join(members, ","));
}

std::string one(const char* dtype, const char* shape, const char* offsets) {
    return object({tensor_json("w", dtype, shape, offsets)});
}

TEST(Safetensors, ReadsTensorsByName) {
    const std::string json = object({tensor_json("b", "F32", "[2]", "[0,8]"),
                                     tensor_json("a", "BF16", "[1,3]", "[8,14]"), R"("__metadata__":{"format":"pt"})"});
    const Result<Safetensors> file = parse(file_of(json, "abcdefghABCDEF"));
    ASSERT_TRUE(file.ok()) << file.status().sentence();
    ASSERT_EQ(file->entries().size(), 2u);
    EXPECT_EQ(file->entries()[0].name, "a");
    const Result<Tensor> a = file->tensor("a");
    ASSERT_TRUE(a.ok());
    EXPECT_EQ(a->dtype, CARAT_BF16);
    EXPECT_EQ(a->shape, (std::vector<int64_t>{1, 3}));
    EXPECT_EQ(std::memcmp(a->data(), "ABCDEF", 6), 0);
    const Result<Tensor> b = file->tensor("b");
    EXPECT_EQ(std::memcmp(b->data(), "abcdefgh", 8), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data()) % 4, 0u);
}

TEST(Safetensors, EveryType) {
    const struct {
        const char* name;
        carat_dtype dtype;
        int size;
    } rows[] = {{"F64", CARAT_F64, 8},      {"F32", CARAT_F32, 4},      {"F16", CARAT_F16, 2}, {"BF16", CARAT_BF16, 2},
                {"F8_E4M3", CARAT_E4M3, 1}, {"F8_E5M2", CARAT_E5M2, 1}, {"I8", CARAT_S8, 1},   {"I32", CARAT_S32, 4}};
    for (const auto& row : rows) {
        // One space after the header moves the data off every alignment.
        const std::string json = one(row.name, "[2]", fmt::format("[0,{}]", 2 * row.size).c_str()) + " ";
        const Result<Safetensors> file = parse(file_of(json, std::string(size_t(2 * row.size), 'x')));
        ASSERT_TRUE(file.ok()) << file.status().sentence();
        const Result<Tensor> t = file->tensor("w");
        ASSERT_TRUE(t.ok()) << t.status().sentence();
        EXPECT_EQ(t->dtype, row.dtype);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(t->data()) % uintptr_t(row.size), 0u);
    }
}

TEST(Safetensors, TypesNoGemmTakes) {
    expect_sentence(parse(file_of(one("I64", "[1]", "[0,8]"), "abcdefgh"))->tensor("w").status(),
                    {"'w'", "I64", "F64, F32"});
    // A type from the future does not spoil the file's other tensors.
    expect_sentence(parse(file_of(one("F3_E1", "[8]", "[0,3]"), "abc"))->tensor("w").status(), {"F3_E1"});
    const Result<Safetensors> bytes = parse(file_of(one("U8", "[1,2]", "[0,2]"), "ab"));
    expect_sentence(bytes->tensor("w").status(), {"U8", "--dtype"});
    EXPECT_EQ(bytes->tensor("w", CARAT_S4)->shape, (std::vector<int64_t>{1, 4}));
    EXPECT_EQ(bytes->tensor("w", CARAT_E4M3)->dtype, CARAT_E4M3);
    EXPECT_FALSE(bytes->tensor("w", CARAT_BF16).ok());
    expect_sentence(parse(file_of(one("U8", "[]", "[0,1]"), "a"))->tensor("w", CARAT_U4).status(), {"scalar"});
}

TEST(Safetensors, AMissingTensorListsNearNames) {
    std::string json = "{";
    for (int i = 0; i < 12; ++i) {
        json += tensor_json(fmt::format("layers.{}.mlp.up_proj.weight", i).c_str(), "I8", "[0]", "[0,0]") + ",";
    }
    json += tensor_json("lm_head.weight", "I8", "[0]", "[0,0]") + "}";
    const Result<Safetensors> file = parse(file_of(json, ""));
    ASSERT_TRUE(file.ok()) << file.status().sentence();
    expect_sentence(
        file->tensor("layers.3.mlp.upproj.weight").status(),
        {"m.safetensors", "no tensor 'layers.3.mlp.upproj.weight'", "among its 13", "'layers.3.mlp.up_proj.weight'"});
    expect_sentence(file->tensor("lm_head").status(), {"'lm_head.weight'"});
    expect_sentence(parse(file_of("{}", ""))->tensor("x").status(), {"holds no tensors"});
    expect_sentence(file->tensor(std::string(1000, 'x') + "\x01").status(), {"xxx..."});
}

TEST(Safetensors, Truncated) {
    const std::string good = file_of(one("F32", "[2]", "[0,8]"), "abcdefgh");
    ASSERT_TRUE(parse(good).ok());
    for (size_t size = 0; size < good.size(); ++size) {
        const Result<Safetensors> file = parse(good.substr(0, size));
        ASSERT_FALSE(file.ok()) << size;
        EXPECT_EQ(file.status().code(), CARAT_IO_ERROR);
    }
    expect_sentence(parse(good.substr(0, 5)).status(), {"5 bytes", "takes 8"});
    expect_sentence(parse(good.substr(0, good.size() - 1)).status(), {"'w'", "ends at byte 8", "has 7", "cut short"});
    expect_sentence(parse(good + "x").status(), {"last 1 bytes belong to no tensor"});
}

TEST(Safetensors, HeaderLength) {
    std::string file = file_of("{}", "");
    file[7] = '\x7f';  // 9.1e18 bytes
    expect_sentence(parse(file).status(), {"claims a header of 9151314442816847874 bytes", "2 are there"});
    expect_sentence(parse(file_of("", "")).status(), {"not a JSON object"});
    expect_sentence(parse(file_of("[1]", "")).status(), {"not a JSON object"});
    expect_sentence(parse(file_of("{\"w\":", "")).status(), {"not a JSON object"});
    expect_sentence(parse(file_of("{\"\xff\":{}}", "")).status(), {"not a JSON object"});
    expect_sentence(parse(file_of(std::string(100000, '['), "")).status(), {"not a JSON object"});
    std::string deep = "{\"w\":" + std::string(200000, '[') + std::string(200000, ']') + "}";
    expect_sentence(parse(file_of(deep, "")).status(), {"'w'"});
}

TEST(Safetensors, DuplicateKeys) {
    const std::string twice = object({tensor_json("w", "I8", "[1]", "[0,1]"), tensor_json("w", "I8", "[1]", "[1,2]")});
    expect_sentence(parse(file_of(twice, "ab")).status(), {"the key 'w' twice"});
    expect_sentence(
        parse(file_of(R"({"w":{"dtype":"I8","shape":[1],"shape":[2],"data_offsets":[0,1]}})", "a")).status(),
        {"the key 'shape' twice"});
    // The same key in two objects is no duplicate.
    const std::string two = object({tensor_json("v", "I8", "[1]", "[0,1]"), tensor_json("w", "I8", "[1]", "[1,2]")});
    EXPECT_TRUE(parse(file_of(two, "ab")).ok());
}

TEST(Safetensors, Offsets) {
    const auto two = [](const char* v, const char* w, std::string_view data) {
        return parse(file_of(object({tensor_json("v", "I8", "[2]", v), tensor_json("w", "I8", "[2]", w)}), data))
            .status();
    };
    EXPECT_TRUE(two("[2,4]", "[0,2]", "abcd").ok());  // any order
    expect_sentence(two("[0,2]", "[1,3]", "abc"), {"'w' overlaps another"});
    expect_sentence(two("[0,2]", "[0,2]", "ab"), {"overlaps another"});
    expect_sentence(two("[0,2]", "[3,5]", "abcde"), {"1 bytes before tensor 'w'"});
    expect_sentence(two("[2,0]", "[2,4]", "abcd"), {"run backwards"});
    expect_sentence(two("[0,2]", "[2,9223372036854775807]", "abcd"), {"ends at byte 9223372036854775807"});
    expect_sentence(two("[0,2]", "[2,18446744073709551615]", "abcd"), {"data_offsets pair of sizes"});
    expect_sentence(two("[0,2]", "[-2,4]", "abcd"), {"data_offsets pair of sizes"});
    expect_sentence(two("[0,2]", "[2]", "abcd"), {"data_offsets pair of sizes"});
    expect_sentence(two("[0,2]", "[2,4.0]", "abcd"), {"data_offsets pair of sizes"});
}

TEST(Safetensors, ShapesAndTypes) {
    expect_sentence(parse(file_of(one("F32", "[3]", "[0,8]"), "abcdefgh")).status(), {"has 8 bytes", "(3,) of F32"});
    // 2^32 * 2^32 * 4 wraps to 0 in 64 bits.
    expect_sentence(parse(file_of(one("F32", "[4294967296,4294967296]", "[0,0]"), "")).status(), {"impossible shape"});
    expect_sentence(parse(file_of(one("F64", "[2305843009213693952]", "[0,0]"), "")).status(), {"has 0 bytes"});
    expect_sentence(parse(file_of(one("F32", "[-1]", "[0,4]"), "abcd")).status(), {"a dimension that is no size"});
    expect_sentence(parse(file_of(one("F32", "[1e0]", "[0,4]"), "abcd")).status(), {"a dimension that is no size"});
    expect_sentence(parse(file_of(one("F32", "[[1]]", "[0,4]"), "abcd")).status(), {"a dimension that is no size"});
    expect_sentence(parse(file_of(one("F32", "3", "[0,4]"), "abcd")).status(), {"no shape list"});
    expect_sentence(parse(file_of(R"({"w":3})", "")).status(), {"not described by an object"});
    expect_sentence(parse(file_of(R"({"w":{"shape":[],"data_offsets":[0,0]}})", "")).status(), {"no dtype string"});
    expect_sentence(parse(file_of(R"({"w":{"dtype":4,"shape":[],"data_offsets":[0,0]}})", "")).status(),
                    {"no dtype string"});
    EXPECT_TRUE(parse(file_of(one("F32", "[0,4294967296]", "[0,0]"), "")).ok());
}

TEST(Safetensors, WriteAndReadBack) {
    const Scratch scratch;
    const std::string path = scratch.file("out.safetensors");
    for (carat_dtype dtype : {CARAT_F64, CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_E5M2, CARAT_S8, CARAT_S32,
                              CARAT_S4, CARAT_U4}) {
        std::vector<std::byte> bytes(size_t(2 * 4 * dtype_bits(dtype) / 8), std::byte(7));
        ASSERT_TRUE(write_safetensors(path, "a \"name\"", make_tensor(dtype, {2, 4}, bytes)).ok());
        const Result<Safetensors> file = Safetensors::open(path);
        ASSERT_TRUE(file.ok()) << file.status().sentence();
        const Result<Tensor> t = file->tensor("a \"name\"", dtype);
        ASSERT_TRUE(t.ok()) << t.status().sentence();
        EXPECT_EQ(t->dtype, dtype);
        EXPECT_EQ(t->shape, (std::vector<int64_t>{2, 4}));
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), t->bytes.begin(), t->bytes.end()));
    }
    EXPECT_FALSE(write_safetensors(path, "w", make_tensor(CARAT_U4, {}, {})).ok());
}

TEST(Safetensors, ATensorOutlivesItsFile) {
    const Scratch scratch;
    const std::string path = scratch.file("out.safetensors");
    ASSERT_TRUE(write_safetensors(path, "w", make_tensor(CARAT_F32, {2}, to_bytes({1.0f, 2.0f}))).ok());
    Tensor t = Safetensors::open(path)->tensor("w").value();
    // Replacing and removing the file leaves the mapping alone.
    ASSERT_TRUE(write_safetensors(path, "w", make_tensor(CARAT_F32, {2}, to_bytes({3.0f, 4.0f}))).ok());
    std::filesystem::remove(path);
    EXPECT_EQ(values<float>(t), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace carat::cli
