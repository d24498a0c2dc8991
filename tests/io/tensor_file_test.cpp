// SPDX-License-Identifier: Apache-2.0
// tensor_file_test.cpp: references as written on a command line, and files that cannot be read or written.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "core/dtype.hpp"
#include "io/file.hpp"
#include "io_test_util.hpp"

namespace carat::cli {
namespace {

Tensor small() {
    return make_tensor(CARAT_F32, {1, 2}, to_bytes({1.0f, 2.0f}));
}

TEST(TensorFile, TypesAreTheLibrarys) {
    for (const DtypeInfo& type : dtypes()) {
        EXPECT_EQ(dtype_bits(type.dtype), type.bits);
        EXPECT_STREQ(dtype_text(type.dtype), type.name);
    }
}

TEST(TensorFile, References) {
    const auto check = [](const char* text, const char* path, const char* name, bool safetensors) {
        const Result<TensorReference> r = parse_reference(text);
        ASSERT_TRUE(r.ok()) << r.status().sentence();
        EXPECT_EQ(r->path, path);
        EXPECT_EQ(r->name, name);
        EXPECT_EQ(r->safetensors, safetensors);
    };
    check("x.npy", "x.npy", "", false);
    check("a:b/x.npy", "a:b/x.npy", "", false);
    check("m.safetensors", "m.safetensors", "", true);
    check("m.safetensors:w", "m.safetensors", "w", true);
    check("m.safetensors:a:b", "m.safetensors", "a:b", true);
    check("d:e/m.safetensors:layers.0.w", "d:e/m.safetensors", "layers.0.w", true);
    expect_sentence(parse_reference("m.safetensors:").status(), {"names no tensor"});
    expect_sentence(parse_reference("m.bin").status(), {"'m.bin'", "FILE.npy", "FILE.safetensors"});
    expect_sentence(parse_reference("m.bin:w").status(), {"'m.bin:w'"});
    expect_sentence(parse_reference("").status(), {"''"});
}

TEST(TensorFile, AFileWithAColonInItsName) {
    const Scratch scratch;
    const std::string path = scratch.file("m.safetensors:x.npy");
    ASSERT_TRUE(write_npy(path, small()).ok());
    EXPECT_EQ(values<float>(*read_tensor(path)), (std::vector<float>{1, 2}));
}

TEST(TensorFile, TheOnlyTensorNeedsNoName) {
    const Scratch scratch;
    const std::string path = scratch.file("y.safetensors");
    ASSERT_TRUE(write_tensor(path, small()).ok());
    EXPECT_EQ(values<float>(*read_tensor(path)), (std::vector<float>{1, 2}));
    EXPECT_EQ(values<float>(*read_tensor(path + ":y")), (std::vector<float>{1, 2}));
    ASSERT_TRUE(write_tensor(path + ":z", small()).ok());
    EXPECT_TRUE(read_tensor(path + ":z").ok());
    EXPECT_FALSE(read_tensor(path + ":y").ok());
    const std::string json =
        R"({"a":{"dtype":"I8","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}})";
    put_file(path, std::string(1, char(json.size())) + std::string(7, '\0') + json);
    expect_sentence(read_tensor(path).status(), {"holds 2 tensors", ":NAME", "'a'"});
    put_file(path, std::string("\2\0\0\0\0\0\0\0{}", 10));
    expect_sentence(read_tensor(path).status(), {"holds no tensors"});
}

TEST(TensorFile, FilesThatCannotBeRead) {
    const Scratch scratch;
    expect_sentence(read_tensor(scratch.file("none.npy")).status(), {"cannot read", "none.npy", "No such file"});
    std::filesystem::create_directory(scratch.file("dir.npy"));
    expect_sentence(read_tensor(scratch.file("dir.npy")).status(), {"is a directory"});
    ASSERT_EQ(::mkfifo(scratch.file("pipe.npy").c_str(), 0600), 0);
    expect_sentence(read_tensor(scratch.file("pipe.npy")).status(),
                    {"a device or pipe"});  // and does not wait for ever
    put_file(scratch.file("empty.npy"), "");
    expect_sentence(read_tensor(scratch.file("empty.npy")).status(), {"not a .npy file"});
    put_file(scratch.file("empty.safetensors"), "");
    expect_sentence(read_tensor(scratch.file("empty.safetensors")).status(), {"it has 0 bytes"});
}

TEST(TensorFile, AFailedWriteLeavesTheOldFile) {
    const Scratch scratch;
    const std::string path = scratch.file("y.npy");
    ASSERT_TRUE(write_tensor(path, small()).ok());
    const std::string before = get_file(path);
    // A limit on file sizes fails a write half-way, as a full disk would.
    struct rlimit old = {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit tight = {4096, old.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
    const Status status = write_tensor(path, make_tensor(CARAT_F64, {10000}, std::vector<std::byte>(80000)));
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
    expect_sentence(status, {"cannot write", "y.npy", "File too large"});
    EXPECT_EQ(get_file(path), before);
    EXPECT_EQ(scratch.files(), 1u);  // no temporary stays
}

TEST(TensorFile, PlacesThatCannotBeWritten) {
    const Scratch scratch;
    expect_sentence(write_tensor(scratch.file("no/such/dir/y.npy"), small()),
                    {"y.npy", "No such file", "directory exists"});
    std::filesystem::create_directory(scratch.file("dir.npy"));
    expect_sentence(write_tensor(scratch.file("dir.npy"), small()), {"is a directory"});
    expect_sentence(write_tensor(scratch.file("y.txt"), small()), {"y.txt", "FILE.npy"});
}

TEST(TensorFile, LinksAndPermissionsStay) {
    const Scratch scratch;
    const std::string real = scratch.file("real.npy"), link = scratch.file("link.npy");
    put_file(real, "old");
    ASSERT_EQ(::chmod(real.c_str(), 0640), 0);
    std::filesystem::create_symlink(real, link);
    ASSERT_TRUE(write_tensor(link, small()).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_TRUE(read_tensor(real).ok());
    struct stat info = {};
    ASSERT_EQ(::stat(real.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(TensorFile, DevicesAreWrittenToAndStay) {
    const std::vector<std::byte> bytes = to_bytes("abc");
    const std::vector<std::span<const std::byte>> parts = {bytes};
    EXPECT_TRUE(write_file("/dev/null", parts).ok());
    struct stat info = {};
    ASSERT_EQ(::stat("/dev/null", &info), 0);
    EXPECT_TRUE(S_ISCHR(info.st_mode));
    expect_sentence(write_file("/dev/full", parts), {"cannot write '/dev/full'", "No space left"});
}

TEST(TensorFile, PrintableNames) {
    EXPECT_EQ(printable("a\x1b[31m\n\xc3"), "a\\x1b[31m\\x0a\\xc3");
    EXPECT_EQ(printable(std::string(81, 'a')), std::string(80, 'a') + "...");
}

}  // namespace
}  // namespace carat::cli
