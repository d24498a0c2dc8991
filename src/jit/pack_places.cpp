// SPDX-License-Identifier: Apache-2.0
// Which packs a context gets.
#include <algorithm>
#include <filesystem>

#include "core/env.hpp"
#include "core/library.hpp"
#include "core/log.hpp"
#include "jit/nvrtc.hpp"
#include "jit/pack.hpp"

namespace carat::jit {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> packs_below(const std::string& directory) {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::directory_iterator it(directory, error); !error && it != fs::directory_iterator(); it.increment(error))
        if (it->path().extension() == ".pack") files.push_back(it->path().string());
    std::sort(files.begin(), files.end());
    return files;
}

// A file, or those of a directory.
std::vector<std::string> files_of(const std::string& place) {
    std::error_code error;
    return fs::is_directory(place, error) ? packs_below(place) : std::vector<std::string>{place};
}

std::vector<std::string> usual_files() {
    std::vector<std::string> places = {CARAT_FULL_LIBDIR "/carat"};
    if (const std::string own = own_directory(); !own.empty())
        places.insert(places.begin(), {own + "/carat", own + "/../lib/carat", own + "/../" CARAT_LIBDIR "/carat"});
    for (const std::string& place : places)
        if (auto files = packs_below(fs::path(place).lexically_normal().string()); !files.empty()) return files;
    return {};
}

std::vector<std::string> files_to_open(const char* pack) {
    if (pack) return *pack ? files_of(pack) : std::vector<std::string>();
    const auto named = env::get("CARAT_PACK");
    if (!named) return usual_files();
    return *named == "none" ? std::vector<std::string>() : files_of(*named);
}

// A driver loads what an NVRTC of its own major version or of an older one made.
Status suits_driver(const Pack& pack) {
    const int driver = driver_version(), wanted = pack.compiler().major * 1000;
    if (driver == 0 || driver >= wanted) return {};
    return fail(
        CARAT_IO_ERROR,
        "{} was made by NVRTC {}.{}, and the driver is of CUDA {}.{}, which cannot load its kernels: update the "
        "driver, or build a pack with NVRTC {}",
        pack.path(), pack.compiler().major, pack.compiler().minor, driver / 1000, driver % 1000 / 10, driver / 1000);
}

}  // namespace

FoundPacks find_packs(const char* pack) {
    FoundPacks found;
    for (const std::string& file : files_to_open(pack)) {
        const auto opened = Pack::open(file);
        const Status status = opened.ok() ? suits_driver(**opened) : opened.status();
        if (status.ok()) {
            found.packs.push_back(*opened);
            continue;
        }
        found.refused.push_back(status.sentence());
        log::warn_once("pack " + file, fmt::format("a kernel pack is not used: {}", status.sentence()));
    }
    return found;
}

}  // namespace carat::jit
