// SPDX-License-Identifier: Apache-2.0
// pack.hpp: kernel packs: kernels compiled ahead of time, in one file that is only read, for machines that shall not or
// cannot compile. The index is read and checked when a pack is opened, a kernel when it is first asked for. The file is
// read and not mapped: a mapped one that somebody cuts short ends the process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/entry.hpp"
#include "jit/files.hpp"
#include "jit/pack_file.hpp"

namespace carat::jit {

class Pack {
  public:
    // IO_ERROR for what is no intact pack, or what everybody may write to: code is loaded from it.
    static Result<std::shared_ptr<const Pack>> open(const std::string& path);

    // The kernel with exactly this key. A damaged one counts as missing, with one warning. From any thread.
    std::optional<Artifact> find(const Key& key) const;
    // The entry of one of kernels(), verified.
    Result<Entry> read(const PackedKernel& kernel) const;

    const std::string& path() const { return path_; }
    const Compiler& compiler() const { return index_.compiler; }
    const std::string& library() const { return index_.library; }
    const std::vector<PackedKernel>& kernels() const { return index_.kernels; }
    int64_t bytes() const { return int64_t(bytes_); }
    // "sm_90a, sm_80".
    std::string archs() const;

  private:
    Pack(std::string path, int descriptor) : path_(std::move(path)), file_(descriptor) {}
    Status load();

    std::string path_;
    File file_;
    uint64_t bytes_ = 0;
    PackIndex index_;
    std::unordered_map<std::string_view, const PackedKernel*> by_key_;
};

// Whole or not at all, in the order given; a kernel that comes twice is kept once. All are of the one compiler.
Status write_pack(const std::string& path, const Compiler& compiler, const std::vector<PreparedKernel>& kernels);

// "carat 0.1.0, kernels <hash of all sources>": a pack of another maker holds kernels that this library may not find.
std::string pack_maker();

// The packs that a context uses, in the order in which they are asked, and why others that were found are left out.
struct FoundPacks {
    std::vector<std::shared_ptr<const Pack>> packs;
    std::vector<std::string> refused;  // sentences
};
// pack: "" is none; a file, or a directory's *.pack, and nothing else; null searches CARAT_PACK (the same, or "none"), then
// carat/*.pack beside the library or program, in ../lib beside that, and in the library directory of the installation: the
// first of them that has any. A pack that cannot be used is left out with one warning.
FoundPacks find_packs(const char* pack);

}  // namespace carat::jit
