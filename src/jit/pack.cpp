// SPDX-License-Identifier: Apache-2.0
#include "jit/pack.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/log.hpp"
#include "jit/hash.hpp"

namespace carat::jit {
namespace {

const std::string kVersion = fmt::format("{}.{}.{}", CARAT_VERSION_MAJOR, CARAT_VERSION_MINOR, CARAT_VERSION_PATCH);

}  // namespace

Result<std::shared_ptr<const Pack>> Pack::open(const std::string& path) {
    std::shared_ptr<Pack> pack(new Pack(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
    struct stat facts {};
    if (!pack->file_ || fstat(pack->file_.get(), &facts) != 0) return system_failure("open", path);
    if (!S_ISREG(facts.st_mode)) return fail(CARAT_IO_ERROR, "{} is not a file", path);
    if ((facts.st_mode & S_IWOTH) != 0)
        return fail(CARAT_IO_ERROR,
                    "{} can be written to by everybody, and code would be loaded from it: 'chmod o-w' it", path);
    pack->bytes_ = uint64_t(facts.st_size);
    const Status status = pack->load();
    if (!status.ok()) return fail(CARAT_IO_ERROR, "{} is no usable kernel pack: {}", path, status.sentence());
    return std::shared_ptr<const Pack>(std::move(pack));
}

Status Pack::load() {
    CARAT_ASSIGN(const auto header, read_at(file_, 0, std::min<uint64_t>(bytes_, kPackHeaderBytes), path_));
    CARAT_ASSIGN(const uint64_t head, head_bytes(header, bytes_));
    CARAT_ASSIGN(const auto bytes, read_at(file_, 0, head, path_));
    CARAT_ASSIGN(index_, parse_head(bytes, bytes_));
    for (const PackedKernel& kernel : index_.kernels) by_key_.emplace(kernel.key, &kernel);
    return {};
}

Result<Entry> Pack::read(const PackedKernel& kernel) const {
    CARAT_ASSIGN(const auto bytes, read_at(file_, kernel.offset, kernel.bytes, path_));
    CARAT_ASSIGN(Entry entry, parse_entry(bytes));
    if (hash128_hex(entry.key) != kernel.key) return fail(CARAT_IO_ERROR, "it is not the kernel that the index names");
    return entry;
}

std::optional<Artifact> Pack::find(const Key& key) const {
    const auto found = by_key_.find(key.hex);
    if (found == by_key_.end()) return std::nullopt;
    auto entry = read(*found->second);
    if (entry.ok() && entry->key == key.text) return std::move(entry->artifact);
    log::warn_once(fmt::format("pack {} {}", path_, key.hex),
                   fmt::format("kernel {} of the pack {} is not used: {}; `carat pack verify` looks at all of them",
                               found->second->name, path_,
                               entry.ok() ? "it belongs to another kernel" : entry.status().sentence()));
    return std::nullopt;
}

std::string Pack::archs() const {
    std::set<std::string> archs;
    for (const PackedKernel& kernel : index_.kernels) archs.insert(kernel.arch);
    return fmt::format("{}", fmt::join(archs, ", "));
}

Status write_pack(const std::string& path, const Compiler& compiler, const std::vector<PreparedKernel>& kernels) {
    PackIndex index{.compiler = compiler, .library = pack_maker(), .kernels = {}};
    std::vector<std::byte> entries;
    std::set<std::string> keys;
    for (const PreparedKernel& kernel : kernels) {
        if (!keys.insert(kernel.key.hex).second) continue;
        const auto entry = serialise({kernel.key.text, *kernel.artifact});
        index.kernels.push_back({kernel.key.hex, kernel.name, kernel.key.arch, 0, entry.size()});
        entries.insert(entries.end(), entry.begin(), entry.end());
    }
    std::vector<std::byte> bytes = serialise_head(index);
    bytes.insert(bytes.end(), entries.begin(), entries.end());
    return publish(path + ".XXXXXX", path, bytes, 0644);
}

std::string pack_maker() {
    static const std::string maker = [] {
        std::string all;
        for (const Source& source : sources()) all += fmt::format("{}\n{}\n", source.name, source.text);
        return fmt::format("carat {}, kernels {}", kVersion, hash128_hex(all));
    }();
    return maker;
}

}  // namespace carat::jit
