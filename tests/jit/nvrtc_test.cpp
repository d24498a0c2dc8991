// SPDX-License-Identifier: Apache-2.0
// Finding NVRTC, and one compilation. These tests need NVRTC and no GPU; without it they fail with the sentence that
// says how to get it.
#include "jit/nvrtc.hpp"

#include <algorithm>
#include <cstring>

#include "tools.hpp"

namespace carat::jit::testing {
namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

size_t position(const std::vector<std::string>& list, const std::string& item) {
    return size_t(std::find(list.begin(), list.end(), item) - list.begin());
}

Result<Artifact> compile_now(const Request& request) {
    CARAT_ASSIGN(const Nvrtc* found, nvrtc());
    return compile(*found, request, reachable(request.main), compile_options(found->compiler, request));
}

// The registers that the cubin's own notes (EIATTR_REGCOUNT: 04 2f, 8 bytes, symbol, count) give for its largest
// function.
int registers_in(const std::vector<std::byte>& cubin) {
    const unsigned char tag[4] = {0x04, 0x2f, 0x08, 0x00};
    int most = 0;
    for (size_t i = 0; i + 12 <= cubin.size(); i += 4)
        if (std::memcmp(cubin.data() + i, tag, 4) == 0) most = std::max(most, int(cubin[i + 8]));
    return most;
}

TEST(Nvrtc, IsFound) {
    const auto info = nvrtc_info();
    ASSERT_TRUE(info.ok()) << info.status().sentence();
    EXPECT_GE(info->major * 100 + info->minor, 1203);
    EXPECT_TRUE(contains(info->path, "libnvrtc")) << info->path;
}

TEST(Nvrtc, PathVariableIsTheOnlyPlaceWhenSet) {
    const auto info = nvrtc_info();
    ASSERT_TRUE(info.ok()) << info.status().sentence();
    {
        const Variable path("CARAT_NVRTC_PATH", info->path);
        const auto opened = open_nvrtc();
        ASSERT_TRUE(opened.ok()) << opened.status().sentence();
        EXPECT_EQ((*opened)->info.path, info->path);
    }
    const Variable path("CARAT_NVRTC_PATH", "/no/such/libnvrtc.so.13");
    const auto opened = open_nvrtc();
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), CARAT_COMPILE_FAILED);
    for (const char* part : {"CARAT_NVRTC_PATH", "/no/such/libnvrtc.so.13", "pip install nvidia-cuda-nvrtc"})
        EXPECT_TRUE(contains(opened.status().sentence(), part)) << opened.status().sentence();
}

TEST(Nvrtc, ALibraryThatIsNotNvrtcIsRefusedByName) {
    const Variable path("CARAT_NVRTC_PATH", "libm.so.6");
    const auto opened = open_nvrtc();
    ASSERT_FALSE(opened.ok());
    EXPECT_TRUE(contains(opened.status().sentence(), "has no nvrtcVersion")) << opened.status().sentence();
}

TEST(Nvrtc, SearchOrder) {
    const Scratch scratch;
    const std::string wheel = scratch / "venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13";
    const std::string old_wheel = scratch / "venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
    const std::string toolkit = scratch / "cuda/lib64/libnvrtc.so.12", other = scratch / "other/lib64/libnvrtc.so.12";
    for (const std::string& file : {wheel, old_wheel, toolkit, other}) write_text(file, "not a library");
    const Variable none("CARAT_NVRTC_PATH", nullptr), venv("VIRTUAL_ENV", scratch / "venv"),
        home("CUDA_HOME", scratch / "cuda"), path("CUDA_PATH", scratch / "other");
    const std::vector<std::string> list = nvrtc_candidates();
    ASSERT_FALSE(list.empty());
    EXPECT_TRUE(list[0].starts_with("loaded:libnvrtc.so.1")) << list[0];
    // Newer drivers and machines without one take both majors; a CUDA 12 driver only the second of each pair.
    const bool both = position(list, "libnvrtc.so.13") < list.size();
    EXPECT_EQ(position(list, wheel) < list.size(), both);
    if (both) {
        EXPECT_LT(position(list, wheel), position(list, old_wheel));
    }
    const std::vector<std::string> order = {"loaded:libnvrtc.so.12", old_wheel, "libnvrtc.so.12", toolkit, other};
    for (size_t i = 0; i + 1 < order.size(); ++i)
        EXPECT_LT(position(list, order[i]), position(list, order[i + 1])) << order[i];
    EXPECT_LT(position(list, other), list.size());
    const auto opened = open_nvrtc();  // the broken files are passed over
    EXPECT_TRUE(opened.ok()) << opened.status().sentence();
}

TEST(Nvrtc, CompilesAndReportsFacts) {
    const auto artifact = compile_now(sample_request());
    ASSERT_TRUE(artifact.ok()) << artifact.status().sentence();
    ASSERT_GT(artifact->cubin.size(), 64u);
    EXPECT_EQ(std::memcmp(artifact->cubin.data(), "\177ELF", 4), 0);
    const KernelFacts& facts = artifact->facts;
    EXPECT_EQ(facts.registers, registers_in(artifact->cubin));
    EXPECT_EQ(facts.static_shared_bytes, 64 * 4);
    EXPECT_EQ(facts.spill_bytes, 0);
    EXPECT_EQ(facts.stack_bytes, 0);
    EXPECT_GT(facts.compile_ms, 0);
    EXPECT_EQ(facts.source, "compiled");
}

// 64 accumulators under a bound of 32 registers (two blocks of 1024 threads) have to be spilled.
TEST(Nvrtc, SpillsAreSeen) {
    const Request request{
        .name = "spills",
        .main =
            "extern \"C\" __global__ void __launch_bounds__(1024, 2) carat_kernel(float* x, int n) {\n"
            "    float sum[64];\n"
            "    #pragma unroll\n"
            "    for (int i = 0; i < 64; ++i) sum[i] = x[i * 1024 + threadIdx.x];\n"
            "    for (int k = 0; k < n; ++k) {\n"
            "        const float v = x[k];\n"
            "        #pragma unroll\n"
            "        for (int i = 0; i < 64; ++i) sum[i] = sum[i] * v + sum[(i + 1) % 64];\n"
            "    }\n"
            "    #pragma unroll\n"
            "    for (int i = 0; i < 64; ++i) x[i * 1024 + threadIdx.x] = sum[i];\n"
            "}\n",
        .arch = "sm_90a"};
    const auto artifact = compile_now(request);
    ASSERT_TRUE(artifact.ok()) << artifact.status().sentence();
    EXPECT_GT(artifact->facts.spill_bytes, 0) << artifact->log;
    EXPECT_GT(artifact->facts.stack_bytes, 0);
    EXPECT_LE(artifact->facts.registers, 32);
    EXPECT_EQ(artifact->facts.registers, registers_in(artifact->cubin));
}

TEST(Nvrtc, SerialisedProductsAreSeen) {
    const auto clean = compile_now(wgmma_request("", "clean"));
    ASSERT_TRUE(clean.ok()) << clean.status().sentence();
    EXPECT_EQ(clean->facts.warnings, "");
    const auto touched = compile_now(wgmma_request("sums[0] *= 2;", "touched"));
    ASSERT_TRUE(touched.ok()) << touched.status().sentence();
    EXPECT_TRUE(touched->facts.warnings.starts_with("(C75")) << touched->log;
    EXPECT_TRUE(contains(touched->facts.warnings, "instructions are serialized due to")) << touched->log;
    EXPECT_FALSE(contains(touched->facts.warnings, "\n"));
}

TEST(Nvrtc, FactsFromTheWordsOfBothMajors) {
    const KernelFacts newer = parse_facts(
        "main.cu(3): warning #177-D: 72 registers were declared but never referenced\n"
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Function properties for helper\n"
        "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Function properties for carat_kernel\n"
        "ptxas         .     320 bytes stack frame, 100 bytes spill stores, 200 bytes spill loads\n"
        "ptxas info    : Used 110 registers, used 1 barriers, 336 bytes cumulative stack size, 256 bytes smem\n"
        "ptxas info    : Compile time = 85.497 ms\n");
    EXPECT_EQ(newer.registers, 110);
    EXPECT_EQ(newer.spill_bytes, 320);
    EXPECT_EQ(newer.stack_bytes, 336);
    EXPECT_EQ(newer.static_shared_bytes, 256);
    const KernelFacts older = parse_facts(
        "ptxas         .     320 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 40 "
        "registers, 416 bytes cmem[0]");
    EXPECT_EQ(newer.warnings, "");
    EXPECT_EQ(older.registers, 40);
    EXPECT_EQ(older.stack_bytes, 320);
    EXPECT_EQ(older.static_shared_bytes, 0);
    EXPECT_EQ(parse_facts("ptxas info    : (C7514) Potential Performance Loss: one\n"
                          "ptxas info    : (C7519) warpgroup.arrive is injected in around line 5\n"
                          "ptxas info    : Potential Performance Loss: two")
                  .warnings,
              "(C7514) Potential Performance Loss: one; Potential Performance Loss: two");
    EXPECT_EQ(parse_facts("").registers, 0);
    EXPECT_EQ(parse_facts("ptxas info : registers").registers, 0);
}

TEST(Nvrtc, SameSourceGivesSameBytes) {
    const auto one = compile_now(sample_request());
    const auto two = compile_now(sample_request());
    ASSERT_TRUE(one.ok() && two.ok()) << one.status().sentence();
    EXPECT_EQ(one->cubin, two->cubin);
}

TEST(Nvrtc, ErrorNamesKernelArchVersionAndLine) {
    Request request = sample_request();
    request.name = "broken_kernel";
    request.main += "int f() { return missing_thing; }\n";
    const auto artifact = compile_now(request);
    ASSERT_FALSE(artifact.ok());
    EXPECT_EQ(artifact.status().code(), CARAT_COMPILE_FAILED);
    const auto info = nvrtc_info();
    const std::string version = "NVRTC " + std::to_string(info->major) + "." + std::to_string(info->minor);
    for (const std::string& part :
         {std::string("broken_kernel"), std::string("sm_90a"), version, std::string("missing_thing"),
          std::string("broken_kernel.cu(8)"), std::string("report it")})
        EXPECT_TRUE(contains(artifact.status().sentence(), part))
            << part << " is not in: " << artifact.status().sentence();
    EXPECT_FALSE(contains(artifact.status().sentence(), "\n"));
}

TEST(Nvrtc, ErrorsOfPtxasAndOfOptionsAreSentencesToo) {
    Request request = sample_request();
    request.main.insert(request.main.find("    if (i < n)"),
                        "    asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\");\n");
    request.arch = "sm_90";  // without the a
    const auto ptxas = compile_now(request);
    ASSERT_FALSE(ptxas.ok());
    EXPECT_TRUE(contains(ptxas.status().sentence(), "setmaxnreg")) << ptxas.status().sentence();
    request = sample_request();
    request.arch = "sm_1";
    const auto arch = compile_now(request);
    ASSERT_FALSE(arch.ok());
    EXPECT_TRUE(contains(arch.status().sentence(), "sm_1")) << arch.status().sentence();
    request = sample_request();
    request.options = {"--no-such-option"};
    const auto option = compile_now(request);
    ASSERT_FALSE(option.ok());
    EXPECT_TRUE(contains(option.status().sentence(), "no-such-option")) << option.status().sentence();
}

TEST(Nvrtc, NothingIsReadFromTheCurrentDirectory) {
    const Scratch scratch;
    write_text(scratch / "outside.cuh", "#define FACTOR 3\n");
    const fs::path before = fs::current_path();
    fs::current_path(scratch.path());
    Request request = sample_request();
    request.main = "#include \"outside.cuh\"\n" + request.main;
    const auto artifact = compile_now(request);
    fs::current_path(before);
    ASSERT_FALSE(artifact.ok());
    EXPECT_TRUE(contains(artifact.status().sentence(), "outside.cuh")) << artifact.status().sentence();
}

TEST(Nvrtc, OptionsAreSortedAndSuitTheVersion) {
    Compiler compiler = {.major = 12, .minor = 3, .identity = ""};
    Request request = sample_request();
    request.options = {"--use_fast_math", "--std=c++20"};
    const auto old_options = compile_options(compiler, request);
    EXPECT_TRUE(std::is_sorted(old_options.begin(), old_options.end()));
    EXPECT_EQ(std::count(old_options.begin(), old_options.end(), "--std=c++20"), 1);
    EXPECT_EQ(position(old_options, "--no-cache"), old_options.size());  // 12.3 does not know it
    EXPECT_LT(position(old_options, "--use_fast_math"), old_options.size());
    EXPECT_LT(position(old_options, "--gpu-architecture=sm_90a"), old_options.size());
    compiler.minor = 9;
    const auto new_options = compile_options(compiler, request);
    EXPECT_LT(position(new_options, "--no-cache"), new_options.size());
}

TEST(Includes, AreFollowedThroughTheEmbeddedSources) {
    const auto none = reachable("int x; // #include <shared/gemm_params.h>\n");
    EXPECT_TRUE(none.empty());
    for (const char* text : {"#include <shared/gemm_params.h>", "  #  include   \"shared/gemm_params.h\"\nint x;",
                             "\n\n\t#include<shared/gemm_params.h> // why\r\n"}) {
        const auto one = reachable(text);
        ASSERT_EQ(one.size(), 1u) << text;
        EXPECT_EQ(one[0].name, "shared/gemm_params.h");
        EXPECT_TRUE(contains(one[0].text, "GemmParams"));
    }
    EXPECT_TRUE(reachable("#include <no/such.cuh>\n#include\n#include <\n#include MACRO\n").empty());
}

TEST(Includes, ComeFromTheKernelDirectoryWhenItIsSet) {
    const Scratch scratch;
    write_text(scratch / "a.cuh", "#include <b/c.cuh>\n");
    write_text(scratch / "b/c.cuh", "#include <a.cuh>\n");  // a circle ends
    const Variable directory("CARAT_KERNEL_DIR", scratch.path());
    const auto found = reachable("#include <a.cuh>\n#include <shared/gemm_params.h>\n");
    ASSERT_EQ(found.size(), 2u);  // no mixture with the embedded sources
    EXPECT_EQ(found[0].name, "a.cuh");
    EXPECT_EQ(found[1].name, "b/c.cuh");
}

}  // namespace
}  // namespace carat::jit::testing
