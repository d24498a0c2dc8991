// SPDX-License-Identifier: Apache-2.0
#include "dispatch/aligned.hpp"

#include <algorithm>
#include <vector>

#include "cuda/device.hpp"
#include "dispatch/runtime.hpp"
#include "jit/codegen.hpp"
#include "jit/jit.hpp"
#include "shared/gemm_params.h"

namespace carat {
namespace {

constexpr int64_t kGranule = 8;         // elements: 16 bytes, what the copy engine wants
constexpr int64_t kLine = 64;           // 128 bytes: a box's row then lies in one line of L2
constexpr size_t kCopyAlignment = 256;  // bytes, of each copy
constexpr int kThreads = 256, kBlocksPerUnit = 4;

// Of an operand: extents along its lines and across them, and its place among the operands of an execution.
struct Side {
    carat_matrix Problem::*matrix;
    const void* carat_operands::*address;
    int64_t length, lines;
};
std::vector<Side> sides(const Problem& p) {
    const bool a_rows = p.a.order == CARAT_ROW_MAJOR, b_rows = p.b.order == CARAT_ROW_MAJOR;
    return {{&Problem::a, &carat_operands::a, a_rows ? p.k : p.m, a_rows ? p.m : p.k},
            {&Problem::b, &carat_operands::b, b_rows ? p.n : p.k, b_rows ? p.k : p.n}};
}

int64_t batch_of(const Problem& p, const carat_matrix& x) {
    return x.batch_stride == 0 ? 1 : p.entries();
}

bool is_odd(const Problem& p, const carat_matrix& x) {
    return x.ld % kGranule != 0 || (batch_of(p, x) > 1 && x.batch_stride % kGranule != 0);
}

size_t copy_bytes(const Problem& p, const Side& side) {
    const int64_t elements = batch_of(p, p.*side.matrix) * side.lines * round_up(side.length, kLine);
    return size_t(round_up(elements * 2, kCopyAlignment));
}

class AlignedExecutable final : public Executable {
  public:
    AlignedExecutable(const Problem& problem, std::unique_ptr<Executable> executable, unsigned blocks)
        : copies_bytes_(align_workspace_bytes(problem)),
          scalars_on_device_(problem.epilogue.scalars_on_device != 0),
          reads_operands_(problem.k > 0),
          executable_(std::move(executable)) {
        size_t offset = 0;
        for (const Side& side : sides(problem)) {
            const carat_matrix& x = problem.*side.matrix;
            if (!is_odd(problem, x)) continue;
            copies_.push_back({side.address,
                               offset,
                               {nullptr, nullptr, x.ld, x.batch_stride, round_up(side.length, kLine), side.length,
                                side.lines, batch_of(problem, x)}});
            offset += copy_bytes(problem, side);
        }
        shape_.grid_x = blocks, shape_.threads = kThreads, shape_.programmatic = true;
    }

    Status load(const cuda::Device& device, const std::vector<std::byte>& cubin) {
        CARAT_ASSIGN(module_, device.module(cubin, 0, "align_lines"));
        return {};
    }

    size_t workspace_bytes() const override { return copies_bytes_ + executable_->workspace_bytes(); }
    KernelFacts facts() const override { return executable_->facts(); }

    // Where A and B are not read (K or alpha is 0) they may have no address, and there is nothing to copy.
    Status execute(const carat_operands& operands, void* stream) const override {
        if (!reads_operands_ || (!scalars_on_device_ && operands.alpha == 0) || module_ == nullptr)
            return executable_->execute(operands, stream);
        carat_operands moved = operands;
        moved.workspace = static_cast<char*>(operands.workspace) + copies_bytes_;
        moved.workspace_bytes = operands.workspace_bytes - copies_bytes_;
        carat_shared::AlignParams params = {};
        const uintptr_t begin = uintptr_t(round_up(int64_t(uintptr_t(operands.workspace)), int64_t(kCopyAlignment)));
        for (const Copy& copy : copies_) {
            carat_shared::LinesToAlign& lines = params.operands[params.count++];
            lines = copy.lines;
            lines.from = operands.*copy.address;
            lines.to = reinterpret_cast<void*>(begin + copy.offset);
            moved.*copy.address = lines.to;
        }
        if (scalars_on_device_) params.alpha_device = static_cast<const float*>(operands.alpha_device);
        CARAT_TRY(module_->launch(shape_, &params, sizeof params, stream));
        return executable_->execute(moved, stream);
    }

  private:
    struct Copy {
        const void* carat_operands::*address;
        size_t offset;  // bytes, in the workspace
        carat_shared::LinesToAlign lines;
    };

    size_t copies_bytes_;
    bool scalars_on_device_, reads_operands_;
    std::unique_ptr<Executable> executable_;
    std::vector<Copy> copies_;
    cuda::LaunchShape shape_;
    std::shared_ptr<const cuda::Module> module_;
};

}  // namespace

bool can_align(const Problem& p) {
    const bool plain = p.mode == CARAT_SINGLE || p.mode == CARAT_BATCHED;
    // The copy engine has no coordinates beyond.
    const auto has_coordinates = [](const Side& side) { return side.length <= INT32_MAX && side.lines <= INT32_MAX; };
    const std::vector<Side> both = sides(p);
    return plain && !p.empty() && bits(p.a.dtype) == 16 && bits(p.b.dtype) == 16 &&
           (is_odd(p, p.a) || is_odd(p, p.b)) && std::all_of(both.begin(), both.end(), has_coordinates);
}

Problem align_operands(const Problem& p) {
    Problem aligned = p;
    for (const Side& side : sides(p)) {
        carat_matrix& x = aligned.*side.matrix;
        if (!is_odd(p, x)) continue;
        x.ld = std::max(round_up(side.length, kLine), kLine);
        if (batch_of(p, x) > 1) x.batch_stride = x.ld * side.lines;
    }
    return aligned;
}

size_t align_workspace_bytes(const Problem& p) {
    size_t bytes = kCopyAlignment;  // for a workspace at any address
    for (const Side& side : sides(p))
        if (is_odd(p, p.*side.matrix)) bytes += copy_bytes(p, side);
    return bytes;
}

double align_us(const Problem& p, const Target& target) {
    // The copies are written to L2, for the most part, and the product finds them there: at K = 4097 it took 18 us more than at
    // 4096, of which reading 67 MB is 17.
    constexpr double kStartUs = 2;
    return kStartUs + target.read_us(double(align_workspace_bytes(p)));
}

Result<std::unique_ptr<Executable>> align_operands(const Problem& p, std::unique_ptr<Executable> executable,
                                                   Runtime& runtime) {
    Config config;
    config.family = "align_lines";
    config.a = config.b = config.d = CARAT_BF16;  // any type of 16 bits
    jit::Request request;
    request.name = config.family;
    request.main = jit::generate_main(config, {{{"kThreads", std::to_string(kThreads)}}}, "align_lines.cuh",
                                      "carat_kernel::align_lines", "AlignParams");
    request.arch = runtime.target.arch();
    request.may_compile = runtime.may_compile;
    CARAT_ASSIGN(const auto artifact, runtime.jit->build(request));
    auto aligned = std::make_unique<AlignedExecutable>(p, std::move(executable),
                                                       unsigned(std::max(runtime.target.units, 1) * kBlocksPerUnit));
    if (runtime.device != nullptr) CARAT_TRY(aligned->load(*runtime.device, artifact->cubin));
    return std::unique_ptr<Executable>(std::move(aligned));
}

}  // namespace carat
