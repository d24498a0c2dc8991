// SPDX-License-Identifier: Apache-2.0
#include "peers/cublaslt_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>

#include "peers/process.hpp"

namespace carat::cli::lt {
namespace {

constexpr const char* kSonames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
// Python installations that machines with GPUs usually have.
constexpr const char* kPythonPlaces[] = {"/opt/*/.venv/lib/python3*/site-packages", "/opt/*/lib/python3*/site-packages",
                                         "/usr/local/lib/python3*/dist-packages",
                                         "/usr/local/lib/python3*/site-packages", "/usr/lib/python3/dist-packages"};

void add_matches(std::vector<std::string>& paths, const std::string& pattern) {
    glob_t found = {};
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
    globfree(&found);
}

void add_wheels(std::vector<std::string>& paths, const std::string& site_packages) {
    for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/cu12/lib"})
        for (const char* soname : kSonames) add_matches(paths, fmt::format("{}/{}/{}", site_packages, wheel, soname));
}

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, symbol));
    return function != nullptr;
}

bool resolve(void* library, Api& api) {
    return find(library, "cublasLtCreate", api.create) && find(library, "cublasLtDestroy", api.destroy) &&
           find(library, "cublasLtGetVersion", api.version) &&
           find(library, "cublasLtMatmulDescCreate", api.desc_create) &&
           find(library, "cublasLtMatmulDescDestroy", api.desc_destroy) &&
           find(library, "cublasLtMatmulDescSetAttribute", api.desc_set) &&
           find(library, "cublasLtMatrixLayoutCreate", api.layout_create) &&
           find(library, "cublasLtMatrixLayoutDestroy", api.layout_destroy) &&
           find(library, "cublasLtMatrixLayoutSetAttribute", api.layout_set) &&
           find(library, "cublasLtMatmulPreferenceCreate", api.preference_create) &&
           find(library, "cublasLtMatmulPreferenceDestroy", api.preference_destroy) &&
           find(library, "cublasLtMatmulPreferenceSetAttribute", api.preference_set) &&
           find(library, "cublasLtMatmulAlgoGetHeuristic", api.heuristics) &&
           find(library, "cublasLtMatmulAlgoConfigGetAttribute", api.config_get) &&
           find(library, "cublasLtMatmul", api.matmul);
}

bool try_open(const std::string& path, int flags, Api& api, std::string& error) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
    if (!library) {
        const char* reason = dlerror();
        error = reason ? reason : "unknown";
        return false;
    }
    if (resolve(library, api)) return api.path = path, true;
    error = path + " lacks a function of cuBLASLt 12 or newer";
    dlclose(library);
    return false;
}

}  // namespace

std::vector<std::string> search_path() {
    if (const std::string forced = variable("CARAT_CUBLASLT_PATH"); !forced.empty()) return {forced};
    std::vector<std::string> paths;
    if (const std::string environment = variable("VIRTUAL_ENV"); !environment.empty())
        add_wheels(paths, environment + "/lib/python3*/site-packages");
    for (const char* soname : kSonames) paths.emplace_back(soname);
    for (const char* soname : kSonames) add_matches(paths, std::string("/usr/local/cuda*/lib64/") + soname);
    for (const char* place : kPythonPlaces) add_wheels(paths, place);
    return paths;
}

const Api* load(std::string* why_not) {
    static Api api;
    static bool loaded = false;
    if (loaded) return &api;
    const std::vector<std::string> paths = search_path();
    std::string error;
    const bool forced = !variable("CARAT_CUBLASLT_PATH").empty();
    if (!forced)
        for (const char* soname : kSonames)
            if (!loaded) loaded = try_open(soname, RTLD_NOLOAD, api, error);
    for (const std::string& path : paths) {
        if (loaded) break;
        loaded = try_open(path, 0, api, error);
    }
    if (loaded) return &api;
    *why_not = forced ? fmt::format("CARAT_CUBLASLT_PATH does not name a usable cuBLASLt: {}", error)
                      : fmt::format(
                            "no libcublasLt.so.13 or .12 in $VIRTUAL_ENV, the loader's path, /usr/local/cuda or the "
                            "usual Python places: set CARAT_CUBLASLT_PATH to its file");
    return nullptr;
}

}  // namespace carat::cli::lt
