// SPDX-License-Identifier: Apache-2.0
// One compilation: source text -> cubin, log and facts.
#include <algorithm>
#include <charconv>
#include <chrono>

#include "core/env.hpp"
#include "core/log.hpp"
#include "jit/nvrtc.hpp"

namespace carat::jit {
namespace {

class Program {
  public:
    explicit Program(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}
    Program(const Program&) = delete;
    ~Program() {
        if (handle) nvrtc_.nvrtcDestroyProgram(&handle);
    }
    void* handle = nullptr;

    std::string log() const {
        size_t bytes = 0;
        if (nvrtc_.nvrtcGetProgramLogSize(handle, &bytes) != 0 || bytes <= 1) return {};
        std::string text(bytes, '\0');
        if (nvrtc_.nvrtcGetProgramLog(handle, text.data()) != 0) return {};
        text.resize(bytes - 1);  // its size counts the final 0
        return text;
    }

  private:
    const Nvrtc& nvrtc_;
};

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
    std::vector<const char*> result;
    for (const std::string& string : strings) result.push_back(string.c_str());
    return result;
}

template <class Use>
void for_each_line(std::string_view text, Use use) {
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        use(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

// Up to three lines that hold an error, joined; the first line if none does.
std::string first_errors(std::string_view log) {
    std::string errors, first;
    int count = 0;
    for_each_line(log, [&](std::string_view line) {
        if (first.empty()) first = line;
        if (count == 3 || (line.find("error") == line.npos && line.find("fatal") == line.npos)) return;
        errors += fmt::format("{}{}", count++ ? " | " : "", line);
    });
    return !errors.empty() ? errors : !first.empty() ? first : "NVRTC gave no reason";
}

Status refused(const Nvrtc& nvrtc, const Request& request, int result, const std::string& log) {
    const auto directory = env::get("CARAT_KERNEL_DIR");
    const std::string remedy = directory
                                   ? fmt::format("correct the sources in CARAT_KERNEL_DIR ({})", *directory)
                                   : "please report it, with the log of CARAT_LOG_LEVEL=debug CARAT_LOG_FILE=carat.log";
    log::debug("NVRTC's log of {}:\n{}", request.name, log);
    return fail(CARAT_COMPILE_FAILED, "NVRTC {}.{} did not compile kernel {} for {} ({}): {}: {}", nvrtc.info.major,
                nvrtc.info.minor, request.name, request.arch, nvrtc.nvrtcGetErrorString(result), first_errors(log),
                remedy);
}

// The integer that ends right before `unit` in `line`; 0 if it is not there.
int64_t number_before(std::string_view line, std::string_view unit) {
    size_t at = line.find(unit);
    if (at == line.npos) return 0;
    size_t begin = at;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
    int64_t value = 0;
    std::from_chars(line.data() + begin, line.data() + at, value);
    return value;
}

// Where the "(C7514) " before a message starts; the message itself if it has none.
size_t code_before(std::string_view line, size_t message) {
    const size_t open = line.rfind('(', message);
    return open == line.npos ? message : open;
}

}  // namespace

KernelFacts parse_facts(std::string_view log) {
    KernelFacts facts;
    for_each_line(log, [&](std::string_view line) {
        if (!line.starts_with("ptxas")) return;
        facts.spill_bytes +=
            int(number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads"));
        facts.stack_bytes = std::max({facts.stack_bytes, int(number_before(line, " bytes stack frame")),
                                      int(number_before(line, " bytes cumulative stack size"))});
        facts.registers = std::max(facts.registers, int(number_before(line, " registers")));
        facts.static_shared_bytes = std::max(facts.static_shared_bytes, number_before(line, " bytes smem"));
        // Of wgmma (C7510 to C7515: every product waits for the one before) and of register shares that it ignored. ptxas
        // calls them info.
        if (const size_t at = line.find("Potential Performance Loss"); at != line.npos)
            facts.warnings +=
                fmt::format("{}{}", facts.warnings.empty() ? "" : "; ", line.substr(code_before(line, at)));
    });
    return facts;
}

std::vector<std::string> compile_options(const Compiler& compiler, const Request& request) {
    std::vector<std::string> options = request.options;
    options.push_back("--gpu-architecture=" + request.arch);
    options.push_back("--std=c++20");
    options.push_back("--device-as-default-execution-space");  // headers shared with the host need no __device__
    options.push_back("--no-source-include");                  // nothing from the current directory
    options.push_back("--modify-stack-limit=false");  // else setrlimit() for the whole process, while it compiles
    options.push_back("--ptxas-options=-v");          // the only source of spills
    if (compiler.major * 100 + compiler.minor >= 1209) options.push_back("--no-cache");  // else it looks into ~/.nv
    std::sort(options.begin(), options.end());
    options.erase(std::unique(options.begin(), options.end()), options.end());
    return options;
}

Result<Artifact> compile(const Nvrtc& nvrtc, const Request& request, std::span<const Include> includes,
                         const std::vector<std::string>& options) {
    std::vector<const char*> names, texts;
    for (const Include& include : includes) {
        names.push_back(include.name.c_str());
        texts.push_back(include.text.c_str());
    }
    const auto begin = std::chrono::steady_clock::now();
    log::info("compiling kernel {} for {}", request.name, request.arch);
    Program program(nvrtc);
    const std::string file = request.name + ".cu";
    if (const int result = nvrtc.nvrtcCreateProgram(&program.handle, request.main.c_str(), file.c_str(),
                                                    int(names.size()), texts.data(), names.data()))
        return refused(nvrtc, request, result, "");
    const std::vector<const char*> arguments = pointers(options);
    const int result = nvrtc.nvrtcCompileProgram(program.handle, int(arguments.size()), arguments.data());
    Artifact artifact;
    artifact.log = program.log();
    if (result != 0) return refused(nvrtc, request, result, artifact.log);
    size_t bytes = 0;
    if (const int code = nvrtc.nvrtcGetCUBINSize(program.handle, &bytes); code != 0 || bytes == 0)
        return refused(nvrtc, request, code, "it made no cubin");
    artifact.cubin.resize(bytes);
    if (const int code = nvrtc.nvrtcGetCUBIN(program.handle, reinterpret_cast<char*>(artifact.cubin.data())))
        return refused(nvrtc, request, code, "");

    artifact.facts = parse_facts(artifact.log);
    artifact.facts.source = "compiled";
    artifact.facts.compile_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (artifact.facts.registers == 0)
        log::warn_once("ptxas -v",
                       "NVRTC's log names no registers: the facts of kernels are unknown with this version.");
    if (artifact.log.find("warning") != std::string::npos) log::warn("kernel {}: {}", request.name, artifact.log);
    if (!artifact.facts.warnings.empty()) log::warn("kernel {}: {}", request.name, artifact.facts.warnings);
    log::info("compiled kernel {} in {:.0f} ms: {} registers, {} bytes spilled, {} bytes of static shared memory",
              request.name, artifact.facts.compile_ms, artifact.facts.registers, artifact.facts.spill_bytes,
              artifact.facts.static_shared_bytes);
    return artifact;
}

}  // namespace carat::jit
