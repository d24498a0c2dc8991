// SPDX-License-Identifier: Apache-2.0
#include "dispatch/swapped.hpp"

#include <utility>

namespace carat {
namespace {

carat_matrix transposed(carat_matrix x) {
    x.order = x.order == CARAT_ROW_MAJOR ? CARAT_COL_MAJOR : CARAT_ROW_MAJOR;
    return x;
}

class SwappedExecutable final : public Executable {
  public:
    explicit SwappedExecutable(std::unique_ptr<Executable> executable) : executable_(std::move(executable)) {}

    size_t workspace_bytes() const override { return executable_->workspace_bytes(); }
    KernelFacts facts() const override { return executable_->facts(); }
    Status execute(const carat_operands& operands, void* stream) const override {
        carat_operands swapped = operands;
        std::swap(swapped.a, swapped.b);
        return executable_->execute(swapped, stream);
    }

  private:
    std::unique_ptr<Executable> executable_;
};

}  // namespace

bool can_swap(const Problem& p) {
    const bool plain_mode = p.mode == CARAT_SINGLE || p.mode == CARAT_BATCHED;
    const bool plain_operands =
        p.sparsity == CARAT_DENSE && p.scale_a.recipe == CARAT_SCALE_NONE && p.scale_b.recipe == CARAT_SCALE_NONE;
    const bool whole_scale =
        p.epilogue.out_scale == CARAT_OUT_SCALE_NONE || p.epilogue.out_scale == CARAT_OUT_SCALE_TENSOR;
    return plain_mode && plain_operands && whole_scale && p.epilogue.gate == CARAT_GATE_NONE;
}

Problem swap_operands(const Problem& p) {
    Problem swapped = p;
    std::swap(swapped.m, swapped.n);
    swapped.a = transposed(p.b), swapped.b = transposed(p.a);
    swapped.c = transposed(p.c), swapped.d = transposed(p.d);
    if (p.epilogue.bias != CARAT_BIAS_NONE)
        swapped.epilogue.bias = p.epilogue.bias == CARAT_BIAS_N ? CARAT_BIAS_M : CARAT_BIAS_N;
    return swapped;
}

Config unswapped(Config config, const Problem& swapped_problem) {
    std::swap(config.a, config.b);
    config.layout = swapped_problem.layout();
    config.swapped = false;
    return config;
}

Config swapped(Config config, const Problem& problem) {
    config = unswapped(std::move(config), problem);
    config.swapped = true;
    return config;
}

std::unique_ptr<Executable> swap_operands(std::unique_ptr<Executable> executable) {
    return std::make_unique<SwappedExecutable>(std::move(executable));
}

}  // namespace carat
