// SPDX-License-Identifier: Apache-2.0
// npy_test.cpp: files as numpy writes them, round trips, and every way a header can be wrong.
#include "io_test_util.hpp"

namespace carat::cli {
namespace {

// A .npy file of version `major` from the text of its header.
std::string npy(std::string header, std::string_view data, int major = 1) {
    std::string file("\x93NUMPY", 6);
    file += char(major);
    file += '\0';
    const size_t size = header.size();
    for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += char(size >> (8 * i) & 0xff);
    return file + header + std::string(data);
}

std::string header(std::string_view descr, std::string_view shape, bool fortran = false) {
    return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n", descr, fortran ? "True" : "False",
                       shape);
}

Result<Tensor> parse(const std::string& file, carat_dtype raw = CARAT_NONE) {
    auto owner = std::make_shared<const std::vector<std::byte>>(to_bytes(file));
    return parse_npy(*owner, owner, "x.npy", raw);
}

// np.save of np.arange(6, dtype='<i4').reshape(2, 3) with numpy 1.26, byte for byte.
TEST(Npy, ReadsWhatNumpyWrote) {
    std::string file("\x93NUMPY\x01\x00\x76\x00{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 69);
    file += std::string(127 - file.size(), ' ') + "\n";
    ASSERT_EQ(file.size(), 128u);
    for (char i = 0; i < 6; ++i) file += std::string{i, 0, 0, 0};
    const Result<Tensor> t = parse(file);
    ASSERT_TRUE(t.ok()) << t.status().sentence();
    EXPECT_EQ(t->dtype, CARAT_S32);
    EXPECT_EQ(t->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(values<int32_t>(*t), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(t->shape_text(), "(2, 3)");
}

TEST(Npy, EveryTypeAndVersion) {
    const struct {
        const char* descr;
        carat_dtype dtype;
        int size;
    } rows[] = {{"<f8", CARAT_F64, 8}, {"<f4", CARAT_F32, 4}, {"<f2", CARAT_F16, 2},
                {"|i1", CARAT_S8, 1},  {"<i4", CARAT_S32, 4}, {"=f4", CARAT_F32, 4}};
    for (const auto& row : rows) {
        for (int version : {1, 2, 3}) {
            const Result<Tensor> t =
                parse(npy(header(row.descr, "(3,)"), std::string(size_t(3 * row.size), 'x'), version));
            ASSERT_TRUE(t.ok()) << t.status().sentence();
            EXPECT_EQ(t->dtype, row.dtype);
            EXPECT_EQ(t->elements(), 3);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(t->data()) % uintptr_t(row.size), 0u);  // whatever the offset
        }
    }
}

TEST(Npy, RawElementsNeedADtype) {
    const std::string bf16 = npy(header("<V2", "(2,)"), "abcd"), fp8 = npy(header("|V1", "(4,)"), "abcd");
    expect_sentence(parse(bf16).status(), {"x.npy", "'<V2'", "--dtype", "bf16 or f16"});
    expect_sentence(parse(fp8).status(), {"x.npy", "'|V1'", "--dtype", "e4m3"});
    EXPECT_EQ(parse(bf16, CARAT_BF16)->dtype, CARAT_BF16);
    EXPECT_EQ(parse(fp8, CARAT_E5M2)->dtype, CARAT_E5M2);
    EXPECT_EQ(parse(npy(header("<u2", "(2,)"), "abcd"), CARAT_BF16)->dtype, CARAT_BF16);
    expect_sentence(parse(bf16, CARAT_E4M3).status(), {"2 bytes", "cannot be e4m3", "bf16"});
    expect_sentence(parse(fp8, CARAT_F32).status(), {"1 byte ", "cannot be f32"});
    // A file that says its type keeps it.
    EXPECT_EQ(parse(npy(header("<f4", "(1,)"), "abcd"), CARAT_BF16)->dtype, CARAT_F32);
}

TEST(Npy, PackedFourBits) {
    const Result<Tensor> t = parse(npy(header("|u1", "(2, 2)"), "abcd"), CARAT_U4);
    ASSERT_TRUE(t.ok());
    EXPECT_EQ(t->shape, (std::vector<int64_t>{2, 4}));
    EXPECT_EQ(t->bytes.size(), 4u);
    expect_sentence(parse(npy(header("|u1", "()"), "a"), CARAT_S4).status(), {"scalar", "s4"});
}

TEST(Npy, FortranOrderBecomesRowMajor) {
    const Result<Tensor> t = parse(npy(header("|i1", "(2, 3)", true), std::string("\0\3\1\4\2\5", 6)));
    ASSERT_TRUE(t.ok());
    EXPECT_EQ(values<int8_t>(*t), (std::vector<int8_t>{0, 1, 2, 3, 4, 5}));
    // Three dimensions: element (i, j, k) of (2, 3, 2) lies at i + 2 j + 6 k.
    std::string data;
    for (int k = 0; k < 2; ++k) {
        for (int j = 0; j < 3; ++j) {
            for (int i = 0; i < 2; ++i) data += char(100 * i + 10 * j + k);
        }
    }
    const Result<Tensor> cube = parse(npy(header("|i1", "(2, 3, 2)", true), data));
    ASSERT_TRUE(cube.ok());
    EXPECT_EQ(values<int8_t>(*cube), (std::vector<int8_t>{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121}));
    EXPECT_TRUE(parse(npy(header("<f4", "(0, 3)", true), "")).ok());
}

TEST(Npy, ScalarsAndEmptyArrays) {
    EXPECT_EQ(parse(npy(header("<f4", "()"), "abcd"))->elements(), 1);
    EXPECT_EQ(parse(npy(header("<f4", "(0,)"), ""))->elements(), 0);
    EXPECT_EQ(parse(npy(header("<f4", "(3, 0, 5)"), ""))->elements(), 0);
    EXPECT_EQ(parse(npy(header("<f4", "(2L,)"), "abcdefgh"))->elements(), 2);  // Python 2
}

TEST(Npy, Malformed) {
    const std::string good = npy(header("<f4", "(2,)"), "abcdefgh");
    ASSERT_TRUE(parse(good).ok());
    for (size_t size = 0; size < good.size(); ++size) {
        const Result<Tensor> t = parse(good.substr(0, size));
        ASSERT_FALSE(t.ok()) << size;
        EXPECT_EQ(t.status().code(), CARAT_IO_ERROR);
        EXPECT_NE(t.status().sentence().find("'x.npy'"), std::string::npos);
    }
    expect_sentence(parse("PK\x03\x04 zip").status(), {"not a .npy file", "numpy.save"});
    expect_sentence(parse(good.substr(0, good.size() - 1)).status(), {"7 bytes", "(2,)", "needs 8", "cut short"});
    expect_sentence(parse(good + "x").status(), {"9 bytes", "needs 8", "more than one array"});
    expect_sentence(parse(npy(header("<f4", "(2,)"), "abcdefgh", 4)).status(), {"version 4.0"});
    expect_sentence(parse(npy(std::string(70000, ' '), "", 2)).status(), {"70000", "65536"});
    expect_sentence(parse(npy(header("<f4", "(4611686018427387904, 4)"), "")).status(), {"claims the shape"});
    expect_sentence(parse(npy(header("<f4", "(4611686018427387904,)"), "")).status(), {"claims the shape"});
    expect_sentence(parse(npy(header("<f4", "(99999999999999999999,)"), "")).status(), {"a dimension from 0"});
    expect_sentence(parse(npy(header("<f4", "(0, 4611686018427387905)"), "")).status(), {"claims the shape"});
}

TEST(Npy, MalformedHeaders) {
    const auto text = [](const char* header_text) { return parse(npy(header_text, "abcdefgh")).status(); };
    expect_sentence(text(""), {"'{'"});
    expect_sentence(text("{"), {"quoted string"});
    expect_sentence(text("{'descr"), {"closing quote"});
    expect_sentence(text("{'descr' '<f4'}"), {"':'"});
    expect_sentence(text("{'descr': '<f4'}"), {"the keys descr, fortran_order and shape"});
    expect_sentence(text("{'descr': '<f4' 'shape': (2,)}"), {"',' or '}'"});
    expect_sentence(text("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2,)}"), {"each key once"});
    expect_sentence(text("{'evil': '<f4'}"), {"only the keys"});
    expect_sentence(text("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}"), {"True or False"});
    expect_sentence(text("{'descr': '<f4', 'fortran_order': False, 'shape': [2]}"), {"'(' before the shape"});
    expect_sentence(text("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"), {"a dimension from 0"});
    expect_sentence(text("{'descr': '<f4', 'fortran_order': False, 'shape': (2"), {"',' or ')'"});
    expect_sentence(text("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} import os"), {"nothing after"});
    expect_sentence(text("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), {"records"});
    std::string many = "(";
    for (int i = 0; i < 33; ++i) many += "1,";
    expect_sentence(parse(npy(header("<f4", many + ")"), "abcd")).status(), {"at most 32 dimensions"});
}

TEST(Npy, UnusableTypes) {
    for (const char* descr :
         {"<c8", "|b1", "|O", "<U3", "<M8[ns]", "<i8", "<u4", "<f16", "|S1", "", "f4", "<V3", "?f4"}) {
        expect_sentence(parse(npy(header(descr, "(2,)"), "abcdefgh"), CARAT_BF16).status(),
                        {"x.npy", "numpy type", ".astype"});
    }
    expect_sentence(parse(npy(header(">f4", "(2,)"), "abcdefgh")).status(), {"big-endian", "newbyteorder"});
    EXPECT_TRUE(parse(npy(header(">i1", "(8,)"), "abcdefgh")).ok());  // one byte has no order
}

TEST(Npy, RoundTripOfEveryType) {
    const Scratch scratch;
    for (carat_dtype dtype : {CARAT_F64, CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_E5M2, CARAT_S8, CARAT_S32,
                              CARAT_S4, CARAT_U4}) {
        const std::string path = scratch.file(std::string(dtype_text(dtype)) + ".npy");
        std::vector<std::byte> bytes(size_t(3 * 4 * dtype_bits(dtype) / 8));
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 37 + 1);
        const Tensor before = make_tensor(dtype, {3, 4}, bytes);
        ASSERT_TRUE(write_npy(path, before).ok());
        const Result<Tensor> after = read_npy(path, dtype);
        ASSERT_TRUE(after.ok()) << after.status().sentence();
        EXPECT_EQ(after->dtype, dtype);
        EXPECT_EQ(after->shape, before.shape);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), after->bytes.begin(), after->bytes.end()));
        EXPECT_EQ((get_file(path).size() - bytes.size()) % 64, 0u);
    }
    ASSERT_TRUE(write_npy(scratch.file("scalar.npy"), make_tensor(CARAT_F32, {}, to_bytes("abcd"))).ok());
    EXPECT_EQ(read_npy(scratch.file("scalar.npy"))->elements(), 1);
    ASSERT_TRUE(write_npy(scratch.file("empty.npy"), make_tensor(CARAT_F32, {0, 7}, {})).ok());
    EXPECT_EQ(read_npy(scratch.file("empty.npy"))->shape, (std::vector<int64_t>{0, 7}));
    expect_sentence(write_npy(scratch.file("odd.npy"), make_tensor(CARAT_S4, {1, 3}, to_bytes("ab"))),
                    {"odd last dimension"});
}

// What numpy.save writes for a float32 array of shape (1,), so that numpy reads what we write.
TEST(Npy, WritesNumpysBytes) {
    const Scratch scratch;
    const std::string path = scratch.file("one.npy");
    ASSERT_TRUE(write_npy(path, make_tensor(CARAT_F32, {1}, to_bytes({1.0f}))).ok());
    std::string wanted("\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 67);
    wanted += std::string(127 - wanted.size(), ' ') + "\n" + std::string("\0\0\x80\x3f", 4);
    EXPECT_EQ(get_file(path), wanted);
    ASSERT_TRUE(write_npy(path, make_tensor(CARAT_BF16, {1}, to_bytes("ab"))).ok());
    EXPECT_NE(get_file(path).find("'descr': '<V2'"), std::string::npos);
    ASSERT_TRUE(write_npy(path, make_tensor(CARAT_E4M3, {1}, to_bytes("a"))).ok());
    EXPECT_NE(get_file(path).find("'descr': '|V1'"), std::string::npos);
}

}  // namespace
}  // namespace carat::cli
