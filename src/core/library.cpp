// SPDX-License-Identifier: Apache-2.0
#include "core/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <string_view>

namespace carat {
namespace {

std::string real_path(void* handle, const std::string& asked) {
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name) return map->l_name;
    return asked;
}

}  // namespace

SharedLibrary::~SharedLibrary() {
    if (handle_) dlclose(handle_);
}

Result<SharedLibrary> SharedLibrary::open_first(const std::vector<std::string>& candidates) {
    static constexpr std::string_view kLoaded = "loaded:";
    std::string tried;
    for (const std::string& candidate : candidates) {
        const bool only_loaded = candidate.starts_with(kLoaded);
        const std::string file = only_loaded ? candidate.substr(kLoaded.size()) : candidate;
        void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | (only_loaded ? RTLD_NOLOAD : 0));
        if (handle) {
            SharedLibrary library;
            library.handle_ = handle;
            library.path_ = real_path(handle, file);
            return library;
        }
        const char* why = dlerror();
        const std::string reason = only_loaded ? file + " is not loaded" : why ? why : file + " does not open";
        tried += fmt::format("{}{}", tried.empty() ? "" : "; ", reason);
    }
    return fail(CARAT_IO_ERROR, "no library could be opened ({})", tried);
}

void* SharedLibrary::symbol(const char* name) const {
    return handle_ ? dlsym(handle_, name) : nullptr;
}

std::string own_directory() {
    Dl_info self{};
    link_map* map = nullptr;
    if (dladdr1(reinterpret_cast<void*>(&own_directory), &self, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0)
        return {};
    // Of a program the loader knows only the word it was started by, which need not be a path.
    const bool program = map != nullptr && *map->l_name == '\0';
    std::error_code error;
    const auto file = std::filesystem::canonical(program ? "/proc/self/exe" : self.dli_fname, error);
    return error ? std::string() : file.parent_path().string();
}

}  // namespace carat
