// SPDX-License-Identifier: Apache-2.0
// Kernel packs: the file under every kind of damage, where packs are found, and a Jit that takes its kernels from them.
#include "jit/pack.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "core/library.hpp"
#include "jit/hash.hpp"
#include "jit/nvrtc.hpp"
#include "tools.hpp"

namespace carat::jit::testing {
namespace {

constexpr size_t kSchema = 8, kIndexBytes = 16, kFileBytes = 24, kIndexDigest = 40, kHeaderDigest = 56;

const Compiler kCompiler = {.major = 13, .minor = 0, .identity = "13.0 of the tests"};

PreparedKernel sample_kernel(unsigned number) {
    return {.name = "sample_" + std::to_string(number),
            .key = make_key("carat kernel " + std::to_string(number), "sm_90a"),
            .compiler = kCompiler,
            .source = "compiled",
            .artifact = std::make_shared<const Artifact>(sample_artifact(100 + number, number))};
}

std::vector<PreparedKernel> sample_kernels(unsigned count) {
    std::vector<PreparedKernel> kernels;
    for (unsigned i = 0; i < count; ++i) kernels.push_back(sample_kernel(i));
    return kernels;
}

// A pack of sample kernels, and what it becomes by an edit.
class PackFile : public ::testing::Test {
  protected:
    void SetUp() override {
        const Status written = write_pack(path_, kCompiler, sample_kernels(kKernels));
        ASSERT_TRUE(written.ok()) << written.sentence();
        good_ = read_text(path_);
    }
    Result<std::shared_ptr<const Pack>> open(const std::string& bytes) {
        write_text(path_, bytes);
        return Pack::open(path_);
    }
    // With right checksums of the header and the index.
    static std::string resealed(std::string bytes) {
        uint64_t index_bytes = 0;
        std::memcpy(&index_bytes, bytes.data() + kIndexBytes, sizeof index_bytes);
        const auto all = std::as_writable_bytes(std::span(bytes));
        if (index_bytes <= bytes.size() - kPackHeaderBytes) {
            const Digest index = hash128(all.subspan(kPackHeaderBytes, index_bytes));
            std::memcpy(bytes.data() + kIndexDigest, &index, sizeof index);
        }
        const uint64_t header = hash64(all.first(kHeaderDigest));
        std::memcpy(bytes.data() + kHeaderDigest, &header, sizeof header);
        return bytes;
    }
    // Words of the index replaced by others of the same length.
    std::string edited(const std::string& from, const std::string& to) const {
        EXPECT_EQ(from.size(), to.size());
        std::string bytes = good_;
        EXPECT_NE(bytes.find(from), std::string::npos) << from;
        return resealed(bytes.replace(bytes.find(from), from.size(), to));
    }

    static constexpr unsigned kKernels = 5;
    const Scratch scratch_;
    const std::string path_ = scratch_ / "test.pack";
    std::string good_;
};

TEST_F(PackFile, RoundTrip) {
    const auto pack = Pack::open(path_);
    ASSERT_TRUE(pack.ok()) << pack.status().sentence();
    EXPECT_EQ((*pack)->compiler(), kCompiler);
    EXPECT_EQ((*pack)->library(), pack_maker());
    EXPECT_EQ((*pack)->archs(), "sm_90a");
    EXPECT_EQ((*pack)->bytes(), int64_t(good_.size()));
    ASSERT_EQ((*pack)->kernels().size(), kKernels);
    for (unsigned i = 0; i < kKernels; ++i) {
        EXPECT_EQ((*pack)->kernels()[i].name, "sample_" + std::to_string(i));
        const auto artifact = (*pack)->find(sample_kernel(i).key);
        ASSERT_TRUE(artifact) << i;
        EXPECT_EQ(artifact->cubin, sample_artifact(100 + i, i).cubin);
        EXPECT_EQ(artifact->facts.registers, 72);
        EXPECT_EQ(artifact->facts.warnings, "(C7514) serialized");
    }
    EXPECT_FALSE((*pack)->find(sample_kernel(kKernels).key));
    EXPECT_EQ(files_below(scratch_.path()), 1) << "nothing is left of the writing";
    struct stat facts {};
    ASSERT_EQ(stat(path_.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0644u);
}

TEST_F(PackFile, EmptyAndDoubleKernels) {
    ASSERT_TRUE(write_pack(path_, kCompiler, {}).ok());
    const auto empty = Pack::open(path_);
    ASSERT_TRUE(empty.ok()) << empty.status().sentence();
    EXPECT_TRUE((*empty)->kernels().empty());
    EXPECT_FALSE((*empty)->find(sample_kernel(0).key));
    ASSERT_TRUE(write_pack(path_, kCompiler, {sample_kernel(1), sample_kernel(1), sample_kernel(2)}).ok());
    EXPECT_EQ((*Pack::open(path_))->kernels().size(), 2u);
}

TEST_F(PackFile, WritingToNowhereIsASentence) {
    const Status status = write_pack(scratch_ / "nowhere/x.pack", kCompiler, sample_kernels(1));
    EXPECT_EQ(status.code(), CARAT_IO_ERROR);
    EXPECT_NE(status.sentence().find("nowhere"), std::string::npos) << status.sentence();
}

TEST_F(PackFile, TheHashAloneFindsNothing) {
    Key other = sample_kernel(1).key;
    other.text += "x";
    LogCapture capture;
    EXPECT_FALSE((*Pack::open(path_))->find(other));
    EXPECT_EQ(capture.count("belongs to another kernel"), 1);
}

TEST_F(PackFile, EveryTruncationIsRefused) {
    for (size_t length = 0; length < good_.size(); length += length < 80 ? 1 : 13) {
        const auto pack = open(good_.substr(0, length));
        ASSERT_FALSE(pack.ok()) << length;
        ASSERT_EQ(pack.status().code(), CARAT_IO_ERROR);
        ASSERT_NE(pack.status().sentence().find(path_), std::string::npos);
    }
    EXPECT_FALSE(open(good_ + "x").ok());
}

TEST_F(PackFile, EveryBitFlipIsRefusedOrLosesOneKernel) {
    for (size_t byte = 0; byte < good_.size(); ++byte) {
        std::string bytes = good_;
        bytes[byte] = char(bytes[byte] ^ (1 << byte % 8));
        const auto pack = open(bytes);
        if (!pack.ok()) continue;
        int lost = 0;
        for (unsigned i = 0; i < kKernels; ++i) {
            const auto artifact = (*pack)->find(sample_kernel(i).key);
            if (artifact)
                ASSERT_EQ(artifact->cubin, sample_artifact(100 + i, i).cubin) << byte;
            else
                ++lost;
        }
        ASSERT_EQ(lost, 1) << "byte " << byte;
    }
}

TEST_F(PackFile, HostileNumbersAreRefusedThoughTheChecksumsAreRight) {
    for (const size_t field : {kIndexBytes, kFileBytes})
        for (const uint64_t value : {uint64_t(0), uint64_t(1), uint64_t(good_.size()), uint64_t(1) << 31,
                                     uint64_t(1) << 63, ~uint64_t(0), ~uint64_t(0) - 63}) {
            std::string bytes = good_;
            uint64_t old = 0;
            std::memcpy(&old, bytes.data() + field, sizeof old);
            if (value == old) continue;
            std::memcpy(bytes.data() + field, &value, sizeof value);
            EXPECT_FALSE(open(resealed(bytes)).ok()) << field << " " << value;
        }
    std::string bytes = good_;
    bytes[kSchema] = 99;
    EXPECT_NE(open(resealed(bytes)).status().sentence().find("schema 99"), std::string::npos);
}

TEST_F(PackFile, HostileIndexesAreRefusedThoughTheChecksumsAreRight) {
    const std::string bytes = "\"bytes\":" + std::to_string((*Pack::open(path_))->kernels()[0].bytes);
    const std::vector<std::pair<std::string, std::string>> edits = {
        {"\"offset\":0", "\"offset\":9"},   {"\"offset\":0", "\"offset\":["},
        {"\"offset\":0", "\"0ffset\":0"},   {bytes, "\"bytes\":-99"},
        {bytes, "\"bytes\":1e3"},           {"\"arch\":\"sm_90a\"", "\"arch\":        9"},
        {"\"kernels\":[", "\"cernels\":["}, {"carat.pack/1", "carat.pack/2"},
        {"\"major\":13", "\"major\":-3"},   {"\"compiler\":{", "\"compiled\":{"},
        {"{\"schema\":", "[\"schema\":"},   {"\"identity\":", "\"identify\":"},
        {"\"key\":", "\"kex\":"},           {"\"library\":\"", "\"library\":[\""},
    };
    for (const auto& [from, to] : edits) {
        if (from.size() != to.size()) continue;
        const auto pack = open(edited(from, to));
        if (from == "\"offset\":0" && to == "\"offset\":9") {  // inside of the file: that kernel alone is lost
            ASSERT_TRUE(pack.ok());
            EXPECT_FALSE((*pack)->find(sample_kernel(0).key));
            continue;
        }
        EXPECT_FALSE(pack.ok()) << to;
    }
    // Beyond the end, and so far that the sum wraps around.
    for (const std::string& offset : {std::string("99999"), std::string("18446744073709551615")}) {
        PackIndex index{.compiler = kCompiler, .library = "x", .kernels = {{"k", "n", "sm_90a", 0, 7}}};
        auto head = serialise_head(index);
        std::string text(reinterpret_cast<const char*>(head.data()), head.size());
        text.replace(text.find("\"offset\":0"), 10, "\"offset\":" + offset);
        const uint64_t index_bytes = text.size() - kPackHeaderBytes, file_bytes = text.size() + 7;
        std::memcpy(text.data() + kIndexBytes, &index_bytes, 8);
        std::memcpy(text.data() + kFileBytes, &file_bytes, 8);
        const auto pack = open(resealed(text + "1234567"));
        ASSERT_FALSE(pack.ok());
        EXPECT_NE(pack.status().sentence().find("outside of the file"), std::string::npos) << pack.status().sentence();
    }
}

TEST_F(PackFile, ADamagedKernelIsOneWarningAndAMiss) {
    std::string bytes = good_;
    bytes[bytes.size() - 5] = char(bytes[bytes.size() - 5] ^ 1);
    const auto pack = open(bytes);
    ASSERT_TRUE(pack.ok()) << "the kernels are not read when the pack is opened";
    LogCapture capture;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE((*pack)->find(sample_kernel(kKernels - 1).key));
    EXPECT_EQ(capture.count("sample_4 of the pack"), 1);
    EXPECT_TRUE((*pack)->find(sample_kernel(0).key));
    EXPECT_FALSE((*pack)->read((*pack)->kernels().back()).ok());
}

// Neither the file's replacement nor its end under an open pack may do harm.
TEST_F(PackFile, AnOpenPackOutlivesItsFile) {
    const auto pack = Pack::open(path_);
    ASSERT_TRUE(pack.ok());
    ASSERT_TRUE(write_pack(path_, kCompiler, sample_kernels(1)).ok());
    EXPECT_TRUE((*pack)->find(sample_kernel(4).key)) << "it still reads the old file";
    const auto second = Pack::open(path_);
    ASSERT_TRUE(second.ok());
    fs::resize_file(path_, kPackHeaderBytes);
    EXPECT_FALSE((*second)->find(sample_kernel(0).key));
    fs::remove(path_);
    EXPECT_TRUE((*pack)->find(sample_kernel(4).key));
}

TEST_F(PackFile, ManyReaders) {
    const auto pack = Pack::open(path_);
    ASSERT_TRUE(pack.ok());
    std::atomic<int> found = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (unsigned i = 0; i < 200; ++i) {
                const unsigned which = (i + unsigned(t)) % kKernels;
                const auto artifact = (*pack)->find(sample_kernel(which).key);
                found += artifact && artifact->cubin == sample_artifact(100 + which, which).cubin;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(found, 8 * 200);
}

TEST_F(PackFile, WhatIsNoFileOrWritableByEverybodyIsRefused) {
    EXPECT_FALSE(Pack::open(scratch_.path()).ok());
    EXPECT_FALSE(Pack::open("/dev/null").ok());
    EXPECT_FALSE(Pack::open(scratch_ / "absent").ok());
    const std::string fifo = scratch_ / "fifo";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);  // must not block
    EXPECT_FALSE(Pack::open(fifo).ok());
    ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
    EXPECT_NE(Pack::open(path_).status().sentence().find("chmod o-w"), std::string::npos);
}

// ---------------------------------------------------------------- where they are found

std::vector<std::string> names_of(const FoundPacks& found) {
    std::vector<std::string> names;
    for (const auto& pack : found.packs) names.push_back(fs::path(pack->path()).filename());
    return names;
}

class PackPlaces : public PackFile {
  protected:
    const Variable no_driver_{"CARAT_CUDA_PATH", "/no/libcuda.so"}, unset_{"CARAT_PACK", nullptr};
};

TEST_F(PackPlaces, AFileADirectoryOrNone) {
    EXPECT_EQ(names_of(find_packs(path_.c_str())), (std::vector<std::string>{"test.pack"}));
    EXPECT_TRUE(find_packs("").packs.empty());
    fs::copy_file(path_, scratch_ / "another.pack");
    write_text(scratch_ / "other.txt", "not asked");
    EXPECT_EQ(names_of(find_packs(scratch_.path().c_str())), (std::vector<std::string>{"another.pack", "test.pack"}));
    const Variable named("CARAT_PACK", path_);
    EXPECT_EQ(names_of(find_packs(nullptr)), (std::vector<std::string>{"test.pack"}));
    EXPECT_TRUE(find_packs("").packs.empty()) << "the option stands above the variable";
    const Variable none("CARAT_PACK", "none");
    EXPECT_TRUE(find_packs(nullptr).packs.empty());
}

TEST_F(PackPlaces, AForeignFileIsOneWarningAndNoPack) {
    write_text(scratch_ / "aaa.pack", "not a pack, and longer than the header of one would have to be to be read");
    LogCapture capture;
    for (int i = 0; i < 2; ++i) {
        const FoundPacks found = find_packs(scratch_.path().c_str());
        EXPECT_EQ(names_of(found), (std::vector<std::string>{"test.pack"}));
        ASSERT_EQ(found.refused.size(), 1u);
        EXPECT_NE(found.refused[0].find("it is not a kernel pack"), std::string::npos) << found.refused[0];
    }
    EXPECT_EQ(capture.count("aaa.pack"), 1);
    EXPECT_EQ(find_packs("/no/such.pack").refused.size(), 1u);
}

// This program lies in build/tests, so that ../lib/carat is a place of its packs, as it is of build/src and build/cli.
TEST_F(PackPlaces, BesideTheProgram) {
    const std::string own = own_directory();
    ASSERT_EQ(own, fs::canonical("/proc/self/exe").parent_path().string());
    for (const auto& pack : find_packs(nullptr).packs)
        EXPECT_TRUE(pack->path().starts_with(own) ||
                    pack->path().starts_with(fs::path(own).parent_path().string() + "/lib/carat/"))
            << pack->path();
}

// ---------------------------------------------------------------- a Jit with packs

using Built = Result<std::shared_ptr<const Artifact>>;

std::string source_of(const Built& built) {
    return built.ok() ? (*built)->facts.source : built.status().sentence();
}

class PackedJit : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!nvrtc_info().ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc_info().status().sentence();
    }
    // The sample kernels of these factors.
    std::string pack_of(const std::string& name, const std::vector<int>& factors) {
        Jit jit({.cache_dir = "", .pack = ""});
        for (const int factor : factors) EXPECT_EQ(source_of(jit.build(sample_request(factor))), "compiled");
        const std::vector<PreparedKernel> kernels = jit.prepared();
        EXPECT_EQ(kernels.size(), factors.size());
        const Status written = write_pack(scratch_ / name, kernels.front().compiler, kernels);
        EXPECT_TRUE(written.ok()) << written.sentence();
        return scratch_ / name;
    }
    Built never(const std::string& pack, int factor) {
        return Jit({.policy = CARAT_JIT_NEVER, .cache_dir = "", .pack = pack.c_str()}).build(sample_request(factor));
    }
    const Scratch scratch_;
};

TEST_F(PackedJit, MemoryThenPackThenDiskThenTheCompiler) {
    const std::string pack = pack_of("a.pack", {3}), cache = scratch_ / "cache";
    Jit jit({.cache_dir = cache.c_str(), .pack = pack.c_str()});
    const Built packed = jit.build(sample_request(3));
    ASSERT_EQ(source_of(packed), "pack");
    EXPECT_EQ((*packed)->facts.compile_ms, 0);
    EXPECT_GT((*packed)->facts.registers, 0);
    EXPECT_EQ(source_of(jit.build(sample_request(3))), "memory");
    EXPECT_EQ(source_of(jit.build(sample_request(4))), "compiled");
    EXPECT_EQ(jit.cache().stats().entries, 1) << "what a pack holds is not kept again";
    EXPECT_EQ(source_of(Jit({.cache_dir = cache.c_str(), .pack = pack.c_str()}).build(sample_request(4))),
              "disk cache");
    EXPECT_EQ(
        source_of(Jit({.policy = CARAT_JIT_FORCE, .cache_dir = "", .pack = pack.c_str()}).build(sample_request(3))),
        "compiled");
    std::vector<std::string> sources;
    for (const PreparedKernel& kernel : jit.prepared()) sources.push_back(kernel.name + " " + kernel.source);
    std::sort(sources.begin(), sources.end());
    EXPECT_EQ(sources, (std::vector<std::string>{"sample_3 pack", "sample_4 compiled"}));
}

TEST_F(PackedJit, NeverTakesFromThePackWhatIsThereAndElseNamesTheRemedy) {
    const std::string pack = pack_of("a.pack", {3});
    EXPECT_EQ(source_of(never(pack, 3)), "pack");
    const Built missing = never(pack, 4);
    ASSERT_EQ(missing.status().code(), CARAT_NOT_PREPARED);
    for (const std::string& part : {pack, std::string("`carat prepare`"), std::string("`carat pack build`")})
        EXPECT_NE(missing.status().sentence().find(part), std::string::npos) << missing.status().sentence();
}

TEST_F(PackedJit, NeedsNoCompilerHere) {
    const std::string pack = pack_of("a.pack", {3});
    // A process of its own, since this one keeps the NVRTC it has found.
    EXPECT_EQ(in_child([&] {
                  const Variable none("CARAT_NVRTC_PATH", "/no/libnvrtc.so");
                  return source_of(never(pack, 3)) == "pack" ? 0 : 1;
              }),
              0);
}

TEST_F(PackedJit, TwoPacksInOneDirectory) {
    pack_of("a.pack", {3});
    pack_of("b.pack", {4});
    for (const int factor : {3, 4}) EXPECT_EQ(source_of(never(scratch_.path(), factor)), "pack") << factor;
    EXPECT_EQ(never(scratch_.path(), 5).status().code(), CARAT_NOT_PREPARED);
    write_text(scratch_ / "a.pack", "damaged");
    EXPECT_EQ(never(scratch_.path(), 3).status().code(), CARAT_NOT_PREPARED);
    EXPECT_EQ(source_of(never(scratch_.path(), 4)), "pack");
}

TEST_F(PackedJit, OtherSourcesOrOptionsAreOtherKernels) {
    const std::string pack = pack_of("a.pack", {3});
    Request request = sample_request(3);
    request.options = {"--fmad=false"};
    const Options options{.policy = CARAT_JIT_NEVER, .cache_dir = "", .pack = pack.c_str()};
    EXPECT_EQ(Jit(options).build(request).status().code(), CARAT_NOT_PREPARED);
    request = sample_request(3);
    request.main += "\n";
    EXPECT_EQ(Jit(options).build(request).status().code(), CARAT_NOT_PREPARED);
    const Variable flags("NVRTC_APPEND_FLAGS", "--use_fast_math");
    EXPECT_EQ(Jit(options).build(sample_request(3)).status().code(), CARAT_NOT_PREPARED);
}

// The same kernel by an NVRTC that is not here: the pack says which, and that is part of its keys.
TEST_F(PackedJit, APackOfAnotherCompilerIsUsed) {
    const Request request = sample_request(3);
    const Compiler other = {.major = 12, .minor = 3, .identity = "12.3 of somewhere"};
    const Key key = key_of(request, hash_sources(request, reachable(request.main)), other);
    const PreparedKernel kernel{
        .name = "x", .key = key, .compiler = other, .artifact = std::make_shared<const Artifact>(sample_artifact())};
    ASSERT_TRUE(write_pack(scratch_ / "a.pack", other, {kernel}).ok());
    const Built built = never(scratch_ / "a.pack", 3);
    ASSERT_EQ(source_of(built), "pack");
    EXPECT_EQ((*built)->cubin, sample_artifact().cubin);
}

// But for the compiler's own words on how long it took.
TEST_F(PackedJit, EqualWorkMakesEqualPacks) {
    const auto one = Pack::open(pack_of("a.pack", {3, 4, 5})), two = Pack::open(pack_of("b.pack", {5, 3, 4}));
    ASSERT_TRUE(one.ok() && two.ok());
    for (size_t i = 0; i < 3; ++i) {
        const PackedKernel &left = (*one)->kernels()[i], &right = (*two)->kernels()[i];
        EXPECT_EQ(left.key, right.key);
        EXPECT_EQ((*one)->read(left)->artifact.cubin, (*two)->read(right)->artifact.cubin);
    }
}

}  // namespace
}  // namespace carat::jit::testing
