// SPDX-License-Identifier: Apache-2.0
// Finding and opening NVRTC. Compiling is in compile.cpp.
#include "jit/nvrtc.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <filesystem>
#include <mutex>

#include "core/env.hpp"
#include "core/log.hpp"

namespace carat::jit {
namespace {

constexpr int kOldest = 12030;  // 12.3: the first with every option and C++20 feature that the kernels use

constexpr const char* kRemedy =
    "install it with 'pip install nvidia-cuda-nvrtc' (in a virtual environment that is active or is .venv beside "
    "Carat) or "
    "with a CUDA toolkit of 12.3 or later, or set CARAT_NVRTC_PATH to the full path of libnvrtc.so.13";

std::vector<std::string> sonames() {
    if (const int driver = driver_version(); driver != 0 && driver < 13000) return {"libnvrtc.so.12"};
    return {"libnvrtc.so.13", "libnvrtc.so.12"};
}

void add_existing(std::vector<std::string>& list, const std::string& directory) {
    std::error_code error;
    for (const std::string& soname : sonames())
        if (const std::string path = directory + "/" + soname; std::filesystem::exists(path, error))
            list.push_back(path);
}

// The places of the PyPI wheels under a site-packages directory; the pattern may hold python3*.
void add_wheels(std::vector<std::string>& list, const std::string& site_packages) {
    for (const char* wheel : {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"}) {
        glob_t found{};
        if (glob((site_packages + wheel).c_str(), 0, nullptr, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc; ++i) add_existing(list, found.gl_pathv[i]);
        globfree(&found);
    }
}

void add_beside_us(std::vector<std::string>& list) {
    std::filesystem::path directory = own_directory();
    if (directory.empty()) return;
    add_existing(list, directory.string());
    for (int level = 0; level <= 3 && directory.has_relative_path(); ++level, directory = directory.parent_path()) {
        add_wheels(list, directory.string());
        add_wheels(list, directory.string() + "/.venv/lib/python3*/site-packages");
    }
}

// Version, and what tells two builds of one version apart. The path is left out: moving a tree must not cost a
// recompile.
std::string identity_of(const NvrtcInfo& info) {
    struct stat file {};
    if (stat(info.path.c_str(), &file) != 0) return fmt::format("{}.{}", info.major, info.minor);
    return fmt::format("{}.{} size {} time {}", info.major, info.minor, int64_t(file.st_size), int64_t(file.st_mtime));
}

Result<std::unique_ptr<Nvrtc>> open_one(const std::string& candidate) {
    CARAT_ASSIGN(SharedLibrary library, SharedLibrary::open_first({candidate}));
    auto nvrtc = std::make_unique<Nvrtc>();
    nvrtc->library = std::move(library);
    const std::string& path = nvrtc->library.path();
#define NVRTC(result, name, parameters)                                                 \
    nvrtc->name = reinterpret_cast<result(*) parameters>(nvrtc->library.symbol(#name)); \
    if (!nvrtc->name) return fail(CARAT_COMPILE_FAILED, "{} has no {}", path, #name);
#include "jit/nvrtc.def"
#undef NVRTC
    NvrtcInfo& info = nvrtc->info;
    if (nvrtc->nvrtcVersion(&info.major, &info.minor) != 0)
        return fail(CARAT_COMPILE_FAILED, "{} does not tell its version", path);
    if (info.major * 1000 + info.minor * 10 < kOldest)
        return fail(CARAT_COMPILE_FAILED, "{} is version {}.{}, but 12.3 or later is needed", path, info.major,
                    info.minor);
    info.path = path;
    // NVRTC opens its builtins by soname alone. A wheel's directory is not on the loader's path, but a library that is
    // loaded already answers to its soname; where the file does not lie beside NVRTC, the loader has to find it.
    const std::string builtins =
        fmt::format("{}libnvrtc-builtins.so.{}.{}", path.substr(0, path.rfind('/') + 1), info.major, info.minor);
    if (auto beside = SharedLibrary::open_first({builtins}); beside.ok()) nvrtc->builtins = std::move(beside).value();
    nvrtc->compiler = {info.major, info.minor, identity_of(info)};
    return nvrtc;
}

Status not_found(const std::string& refused) {
    if (const auto path = env::get("CARAT_NVRTC_PATH"))
        return fail(CARAT_COMPILE_FAILED,
                    "CARAT_NVRTC_PATH names an NVRTC that cannot be used ({}): correct it, or unset it and {}", refused,
                    kRemedy);
    return fail(CARAT_COMPILE_FAILED,
                "no usable NVRTC, the compiler of GPU kernels, was found beside Carat, in the active virtual "
                "environment, on the loader's path, in $CUDA_HOME, "
                "$CUDA_PATH or /usr/local/cuda{}: {}",
                refused.empty() ? "" : fmt::format(" ({})", refused), kRemedy);
}

}  // namespace

int driver_version() {
    static const int version = [] {
        const std::string path = env::get("CARAT_CUDA_PATH").value_or("libcuda.so.1");
        auto opened = SharedLibrary::open_first({path});
        if (!opened.ok()) return 0;
        auto* library = new SharedLibrary(std::move(opened).value());  // never unloaded: libcuda keeps threads
        auto* get = reinterpret_cast<int (*)(int*)>(library->symbol("cuDriverGetVersion"));
        int value = 0;
        return get && get(&value) == 0 ? value : 0;
    }();
    return version;
}

std::vector<std::string> nvrtc_candidates() {
    if (const auto path = env::get("CARAT_NVRTC_PATH")) return {*path};
    std::vector<std::string> list;
    for (const std::string& soname : sonames()) list.push_back("loaded:" + soname);
    add_beside_us(list);
    if (const auto venv = env::get("VIRTUAL_ENV")) add_wheels(list, *venv + "/lib/python3*/site-packages");
    for (const std::string& soname : sonames()) list.push_back(soname);
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
        if (const auto home = env::get(variable)) add_existing(list, *home + "/lib64");
    add_existing(list, "/usr/local/cuda/lib64");
    return list;
}

Result<std::unique_ptr<Nvrtc>> open_nvrtc() {
    std::string refused;
    for (const std::string& candidate : nvrtc_candidates()) {
        auto opened = open_one(candidate);
        if (opened.ok()) return opened;
        // A soname that is nowhere is the normal case and says nothing; a file that exists and does not work does.
        if (candidate.starts_with('/') || env::get("CARAT_NVRTC_PATH"))
            refused += (refused.empty() ? "" : "; ") + opened.status().sentence();
    }
    return not_found(refused);
}

Result<const Nvrtc*> nvrtc() {
    static std::mutex mutex;
    static const Nvrtc* instance = nullptr;  // never closed: it may be compiling while the process exits
    std::lock_guard lock(mutex);
    if (instance) return instance;
    CARAT_ASSIGN(std::unique_ptr<Nvrtc> opened, open_nvrtc());
    instance = opened.release();
    log::info("NVRTC {}.{} from {}", instance->info.major, instance->info.minor, instance->info.path);
    return instance;
}

Result<NvrtcInfo> nvrtc_info() {
    CARAT_ASSIGN(const Nvrtc* found, nvrtc());
    return found->info;
}

}  // namespace carat::jit
