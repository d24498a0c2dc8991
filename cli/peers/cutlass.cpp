// SPDX-License-Identifier: Apache-2.0
#include "peers/cutlass.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "../bench/peers/cutlass/plugin.h"
#include "peers/audition.hpp"
#include "peers/process.hpp"

namespace carat::cli {
namespace {

using Table = carat_cutlass_plugin_table;
constexpr const char* kFile = "libcarat_cutlass.so";
// So many of the fastest kernels are tried with every walk; the others keep the first one. Walks differ by some percent, kernels by
// factors.
constexpr size_t kFinalists = 4;

std::string beside_the_program() {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? kFile : (program.parent_path() / kFile).string();
}

const Table* load(std::string* why_not) {
    const std::string forced = variable("CARAT_CUTLASS_PLUGIN");
    const std::string path = forced.empty() ? beside_the_program() : forced;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const std::string reason = one_line(dlerror());
        const char* how = "build it with tools/build_peers.sh, or name it in CARAT_CUTLASS_PLUGIN";
        return *why_not = fmt::format("its plugin cannot be loaded ({}): {}", reason, how), nullptr;
    }
    const auto plugin = reinterpret_cast<const Table* (*)()>(dlsym(library, "carat_cutlass_plugin"));
    if (!plugin) return *why_not = fmt::format("{} is no plugin: it lacks carat_cutlass_plugin", path), nullptr;
    const Table* table = plugin();
    if (table->abi == CARAT_CUTLASS_ABI) return table;
    return *why_not = fmt::format("the plugin {} has interface {}, wanted {}: build it anew with tools/build_peers.sh",
                                  path, table->abi, CARAT_CUTLASS_ABI),
           nullptr;
}

// Why the plugin does not compute this; empty if it may.
std::string refusal(const carat_problem& p, const OperandSets& sets) {
    if (p.a.dtype != CARAT_F16 && p.a.dtype != CARAT_BF16) return "CUTLASS is timed in f16 and bf16 only";
    if (std::max({p.m, p.n, p.k}) > INT32_MAX) return "CUTLASS takes sizes below 2^31 only";
    return plain_refusal("CUTLASS", p, sets);
}

// One kernel with one walk, on one problem.
struct Entry {
    const Table* table;
    int kernel, variant;
    carat_cutlass_problem problem;

    size_t workspace() const { return table->workspace(kernel, variant, &problem); }
    std::string name() const { return fmt::format("{} {}", table->kernel_name(kernel), table->variant_name(variant)); }
    Repeater::Enqueue enqueue(std::shared_ptr<Buffer> memory) const {
        return [entry = *this, memory](const Operands& o, void* stream) {
            const carat_cutlass_pointers pointers = {o.a, o.b, o.d, memory->data()};
            if (const int status = entry.table->run(entry.kernel, entry.variant, &entry.problem, &pointers, stream))
                fail(kTaskFailed, "CUTLASS's kernel {} failed with status {}", entry.name(), status);
        };
    }
};

class Cutlass : public Peer {
  public:
    Cutlass(const Arena& arena, const Table& table) : arena_(arena), table_(table) {}

    std::string version() const override { return table_.version; }

    std::unique_ptr<Contestant> prepare(const carat_problem& problem, const OperandSets& sets,
                                        std::string* why_not) override {
        if (*why_not = refusal(problem, sets); !why_not->empty()) return nullptr;
        Audition audition(arena_, problem, sets);
        std::vector<std::pair<double, Entry>> heard;
        for (const Entry& entry : entries(problem))
            if (!audition.over()) heard.emplace_back(hear(audition, entry), entry);
        const auto faster = [](const auto& a, const auto& b) { return a.first < b.first; };
        std::sort(heard.begin(), heard.end(), faster);
        heard.resize(std::min(heard.size(), kFinalists));
        for (auto& [us, entry] : heard)
            while (++entry.variant < table_.variants && !audition.over()) hear(audition, entry);
        auto winner = audition.winner();
        if (!winner) *why_not = "none of CUTLASS's kernels takes this problem: 16-byte rows are wanted";
        return winner;
    }

  private:
    // Every kernel that takes the problem, with the first walk.
    std::vector<Entry> entries(const carat_problem& p) const {
        const auto type = p.a.dtype == CARAT_F16 ? CARAT_CUTLASS_F16 : CARAT_CUTLASS_BF16;
        const carat_cutlass_problem problem = {static_cast<int32_t>(p.m), static_cast<int32_t>(p.n),
                                               static_cast<int32_t>(p.k), type};
        std::vector<Entry> found;
        for (int kernel = 0; kernel < table_.kernels; ++kernel)
            if (table_.can(kernel, &problem)) found.push_back({&table_, kernel, 0, problem});
        return found;
    }

    // Stream-K's partial sums and counters; one block of memory for all, since they run one after the other.
    double hear(Audition& audition, const Entry& entry) {
        const size_t bytes = std::max<size_t>(entry.workspace(), 1);
        if (!workspace_ || workspace_->size() < bytes) workspace_ = std::make_shared<Buffer>(arena_.context, bytes);
        return audition.hear(entry.name(), entry.enqueue(workspace_));
    }

    const Arena arena_;
    const Table& table_;
    std::shared_ptr<Buffer> workspace_;
};

}  // namespace

std::unique_ptr<Peer> open_cutlass(const Arena& arena, std::string* why_not) {
    const Table* table = load(why_not);
    if (!table || !make_current(arena.device, why_not)) return nullptr;
    return std::make_unique<Cutlass>(arena, *table);
}

}  // namespace carat::cli
