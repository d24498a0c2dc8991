// SPDX-License-Identifier: Apache-2.0
// The whole way: memory, disk, compiler; policies; many threads; many processes (this program runs itself).
#include "jit/jit.hpp"

#include <spawn.h>

#include <cstring>
#include <thread>

#include "jit/hash.hpp"
#include "tools.hpp"

extern char** environ;

namespace carat::jit::testing {
namespace {

using Built = Result<std::shared_ptr<const Artifact>>;

std::string source_of(const Built& built) {
    return built.ok() ? (*built)->facts.source : built.status().sentence();
}

// What one more process would get from this cache directory.
Built build_in(const std::string& directory, const Request& request, carat_jit policy = CARAT_JIT_AUTO) {
    Jit jit({.policy = policy, .cache_dir = directory.c_str()});
    return jit.build(request);
}

TEST(Jit, CompiledThenMemoryThenDisk) {
    const Scratch scratch;
    Jit jit({.cache_dir = scratch.path().c_str()});
    const Built first = jit.build(sample_request()), second = jit.build(sample_request()),
                third = jit.build(sample_request());
    ASSERT_EQ(source_of(first), "compiled");
    EXPECT_GT((*first)->facts.compile_ms, 0);
    ASSERT_EQ(source_of(second), "memory");
    EXPECT_EQ((*second)->facts.compile_ms, 0);
    EXPECT_EQ(*second, *third);  // one copy, shared
    const Built disk = build_in(scratch.path(), sample_request());
    ASSERT_EQ(source_of(disk), "disk cache");
    for (const Built& other : {second, disk}) {
        EXPECT_EQ((*other)->cubin, (*first)->cubin);
        EXPECT_EQ((*other)->log, (*first)->log);
        EXPECT_EQ((*other)->facts.registers, (*first)->facts.registers);
        EXPECT_EQ((*other)->facts.static_shared_bytes, (*first)->facts.static_shared_bytes);
    }
    EXPECT_EQ(jit.cache().stats().entries, 1);
}

TEST(Jit, WhatChangesTheKernelChangesTheKey) {
    const Scratch scratch;
    ASSERT_EQ(source_of(build_in(scratch.path(), sample_request())), "compiled");
    EXPECT_EQ(source_of(build_in(scratch.path(), sample_request(4))), "compiled");
    Request request = sample_request();
    request.options = {"--fmad=false"};
    EXPECT_EQ(source_of(build_in(scratch.path(), request)), "compiled");
    request.arch = "sm_80";
    EXPECT_EQ(source_of(build_in(scratch.path(), request)), "compiled");
    // What does not: the name, and where the cache lies.
    request = sample_request();
    request.name = "another_name";
    EXPECT_EQ(source_of(build_in(scratch.path(), request)), "disk cache");
    const Scratch elsewhere;
    fs::copy(scratch.path(), elsewhere / "moved", fs::copy_options::recursive);
    EXPECT_EQ(source_of(build_in(elsewhere / "moved", sample_request())), "disk cache");
}

TEST(Jit, AnEditedSourceIsCompiledAgain) {
    const Scratch scratch, sources;
    const Variable directory("CARAT_KERNEL_DIR", sources.path());
    Request request = sample_request();
    request.main = "#include <ladder/value.cuh>\n" + request.main;
    write_text(sources / "ladder/value.cuh", "#include <ladder/deep.cuh>\n");
    write_text(sources / "ladder/deep.cuh", "constexpr int kValue = 1;\n");
    write_text(sources / "ladder/other.cuh", "constexpr int kOther = 1;\n");
    EXPECT_EQ(source_of(build_in(scratch.path(), request)), "compiled");
    write_text(sources / "ladder/other.cuh", "constexpr int kOther = 2;\n");  // not reached
    EXPECT_EQ(source_of(build_in(scratch.path(), request)), "disk cache");
    write_text(sources / "ladder/deep.cuh", "constexpr int kValue = 2;\n");
    EXPECT_EQ(source_of(build_in(scratch.path(), request)), "compiled");
    write_text(sources / "ladder/deep.cuh", "constexpr int kValue = ;\n");
    const Built broken = build_in(scratch.path(), request);
    ASSERT_FALSE(broken.ok());
    EXPECT_EQ(broken.status().code(), CARAT_COMPILE_FAILED);
    EXPECT_NE(broken.status().sentence().find("CARAT_KERNEL_DIR"), std::string::npos) << broken.status().sentence();
}

TEST(Jit, PolicyNeverUsesCachesAndElseSaysWhatToDo) {
    const Scratch scratch;
    const Built missing = build_in(scratch.path(), sample_request(), CARAT_JIT_NEVER);
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.status().code(), CARAT_NOT_PREPARED);
    for (const std::string& part : {std::string("sample_3"), std::string("sm_90a"), std::string("`carat prepare`"),
                                    std::string("`carat pack build`"), scratch.path()})
        EXPECT_NE(missing.status().sentence().find(part), std::string::npos) << missing.status().sentence();
    ASSERT_EQ(source_of(build_in(scratch.path(), sample_request())), "compiled");
    EXPECT_EQ(source_of(build_in(scratch.path(), sample_request(), CARAT_JIT_NEVER)), "disk cache");
    const Variable never("CARAT_JIT", "never");
    EXPECT_EQ(build_in("", sample_request()).status().code(), CARAT_NOT_PREPARED);
}

TEST(Jit, PolicyForceCompilesAndRefreshesTheEntry) {
    const Scratch scratch;
    ASSERT_EQ(source_of(build_in(scratch.path(), sample_request())), "compiled");
    std::string entry;
    for (const auto& it : fs::recursive_directory_iterator(scratch.path()))
        if (it.path().extension() == ".cubin") entry = it.path();
    ASSERT_NE(entry, "");
    const std::string before = read_text(entry);
    write_text(entry, "damaged");
    Jit jit({.policy = CARAT_JIT_FORCE, .cache_dir = scratch.path().c_str()});
    EXPECT_EQ(source_of(jit.build(sample_request())), "compiled");
    EXPECT_EQ(source_of(jit.build(sample_request())), "compiled");
    EXPECT_TRUE(read_text(entry).starts_with("CARATKRN"));
    EXPECT_EQ(source_of(build_in(scratch.path(), sample_request())), "disk cache");
}

TEST(Jit, ADamagedEntryIsCompiledAgain) {
    const Scratch scratch;
    const Built first = build_in(scratch.path(), sample_request());
    ASSERT_EQ(source_of(first), "compiled");
    for (const auto& it : fs::recursive_directory_iterator(scratch.path()))
        if (it.path().extension() == ".cubin") fs::resize_file(it.path(), fs::file_size(it.path()) - 1);
    const Built again = build_in(scratch.path(), sample_request());
    ASSERT_EQ(source_of(again), "compiled");
    EXPECT_EQ((*again)->cubin, (*first)->cubin);
    EXPECT_EQ(source_of(build_in(scratch.path(), sample_request())), "disk cache");
}

TEST(Jit, WarningsOfTheCompilerStayVisible) {
    const Scratch scratch;
    Request request = sample_request();
    request.main += "__device__ int f() { int never_used; return 1; }\n";
    const Built compiled = build_in(scratch.path(), request), disk = build_in(scratch.path(), request);
    ASSERT_EQ(source_of(compiled), "compiled");
    ASSERT_EQ(source_of(disk), "disk cache");
    EXPECT_NE((*compiled)->log.find("never_used"), std::string::npos) << (*compiled)->log;
    EXPECT_EQ((*disk)->log, (*compiled)->log);
}

TEST(Jit, WhatMakesAKernelSlowIsKnownFromEveryCache) {
    const Scratch scratch;
    const Request request = wgmma_request("sums[0] *= 2;", "touched");
    Jit jit({.cache_dir = scratch.path().c_str()});
    const Built compiled = jit.build(request), memory = jit.build(request), disk = build_in(scratch.path(), request);
    ASSERT_EQ(source_of(compiled), "compiled");
    ASSERT_EQ(source_of(memory), "memory");
    ASSERT_EQ(source_of(disk), "disk cache");
    EXPECT_NE((*compiled)->facts.warnings, "");
    EXPECT_EQ((*memory)->facts.warnings, (*compiled)->facts.warnings);
    EXPECT_EQ((*disk)->facts.warnings, (*compiled)->facts.warnings);
}

TEST(Jit, WorksWithoutAnyDisk) {
    LogCapture capture;
    Jit jit({.cache_dir = "/dev/null/cache-of-jit-test"});
    EXPECT_EQ(source_of(jit.build(sample_request())), "compiled");
    EXPECT_EQ(source_of(jit.build(sample_request())), "memory");
    EXPECT_EQ(capture.count("memory only"), 1);
}

TEST(Jit, AFailureIsReportedAndNotKept) {
    const Scratch sources;
    const Variable directory("CARAT_KERNEL_DIR", sources.path());
    Request request = sample_request();
    request.main = "#include <value.cuh>\n" + request.main;
    Jit jit({.cache_dir = ""});
    EXPECT_EQ(jit.build(request).status().code(), CARAT_COMPILE_FAILED);
    write_text(sources / "value.cuh", "\n");
    EXPECT_EQ(source_of(jit.build(request)), "compiled");
}

TEST(Jit, AnArchitectureThatIsNoneIsRefused) {
    for (const char* arch : {"", "sm_90a/../..", "compute_90", "sm_90a\nx"}) {
        Request request = sample_request();
        request.arch = arch;
        Jit jit({.cache_dir = ""});
        EXPECT_EQ(jit.build(request).status().code(), CARAT_INTERNAL_ERROR) << arch;
    }
}

TEST(Jit, ManyThreadsCompileEachKernelOnce) {
    const Scratch scratch;
    LogCapture capture;
    Jit jit({.cache_dir = scratch.path().c_str()});
    constexpr int kThreads = 12, kKernels = 2;
    std::vector<Built> results(kThreads, Built(Status(CARAT_INTERNAL_ERROR, "not run")));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] { results[size_t(t)] = jit.build(sample_request(t % kKernels)); });
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < kThreads; ++t) {
        ASSERT_TRUE(results[size_t(t)].ok()) << results[size_t(t)].status().sentence();
        EXPECT_EQ((*results[size_t(t)])->cubin, (*results[size_t(t % kKernels)])->cubin);
    }
    EXPECT_EQ(capture.count("compiling kernel"), kKernels);
    EXPECT_EQ(capture.count("compiled kernel"), kKernels);
    EXPECT_NE((*results[0])->cubin, (*results[1])->cubin);
}

constexpr const char* kChild = "--jit-child";

// Body of each of the many processes: builds the sample kernel and writes where it came from and its hash.
int child(const char* cache, const char* output) {
    const Built built = build_in(cache, sample_request(16));
    const std::string text =
        built.ok() ? std::string(reinterpret_cast<const char*>((*built)->cubin.data()), (*built)->cubin.size()) : "";
    write_text(output, source_of(built) + "\n" + hash128_hex(text) + "\n");
    return built.ok() ? 0 : 1;
}

TEST(Jit, SixteenProcessesAtOnceCompileOnce) {
    const Scratch scratch;
    const std::string cache = scratch / "cache";  // not there yet: they race to make it, too
    std::vector<pid_t> children;
    for (int i = 0; i < 16; ++i) {
        std::string self = "/proc/self/exe", word = kChild, directory = cache,
                    output = scratch / ("out/" + std::to_string(i));
        char* arguments[] = {self.data(), word.data(), directory.data(), output.data(), nullptr};
        fs::create_directories(scratch / "out");
        pid_t process = 0;
        ASSERT_EQ(posix_spawn(&process, self.c_str(), nullptr, nullptr, arguments, environ), 0);
        children.push_back(process);
    }
    for (const pid_t process : children) {
        int status = 0;
        ASSERT_EQ(waitpid(process, &status, 0), process);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    int compiled = 0, from_disk = 0;
    const Built expected = build_in("", sample_request(16));
    ASSERT_TRUE(expected.ok()) << expected.status().sentence();
    const std::string hash =
        hash128_hex({reinterpret_cast<const char*>((*expected)->cubin.data()), (*expected)->cubin.size()});
    for (int i = 0; i < 16; ++i) {
        const std::string text = read_text(scratch / ("out/" + std::to_string(i)));
        const size_t line = text.find('\n');
        ASSERT_NE(line, text.npos) << i;
        compiled += text.substr(0, line) == "compiled";
        from_disk += text.substr(0, line) == "disk cache";
        EXPECT_EQ(text.substr(line + 1), hash + "\n") << i;
    }
    // One, as the others wait for it for up to 20 s: sixty times what a compilation takes on an idle core.
    EXPECT_EQ(compiled, 1);
    EXPECT_EQ(from_disk, 15);
    EXPECT_EQ(Cache(cache.c_str()).stats().entries, 1);
    EXPECT_EQ(files_below(cache + "/v1/staging"), 0);
}

}  // namespace

int run_child(int argc, char** argv) {
    return argc == 4 && std::strcmp(argv[1], kChild) == 0 ? child(argv[2], argv[3]) : -1;
}

}  // namespace carat::jit::testing

// Stands in for gtest_main's, as this program is also its own child.
int main(int argc, char** argv) {
    if (const int result = carat::jit::testing::run_child(argc, argv); result >= 0) return result;
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
