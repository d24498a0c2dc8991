// SPDX-License-Identifier: Apache-2.0
// chain.hpp: the products of one decoder layer, launched one after the other. Where the shapes allow, the result of one is the A
// operand of the next, from layer to layer too; other products read activations of their own. Several layers have weights of their
// own, so that those of a layer are out of the L2 cache when its turn comes again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jobs.hpp"
#include "report.hpp"

namespace carat::cli {

class Chain {
  public:
    // At least one product.
    Chain(const Context& context, const std::vector<Job>& jobs, const carat_plan_options& options, uint64_t seed);

    size_t products() const { return links_.size(); }
    const Job& job(size_t product) const { return links_[product].job; }
    const Plan& plan(size_t product) const { return links_[product].plan; }
    // Does it read the result of the product before it, the first one that of the layer before?
    bool fed(size_t product) const { return links_[product].fed; }
    const Operands& operands(size_t product, size_t layer) const { return (*links_[product].sets)[layer]; }
    // The layers to go through in turn.
    const Rotation& layers() const { return layers_; }

    // Enqueues one layer.
    void execute(size_t layer, void* stream) const;
    // Executes a layer without a pause, then compares each product with the reference on the input that it had.
    std::vector<CheckReport> check(const Stream& stream) const;

  private:
    struct Link {
        Job job;
        Plan plan;
        std::unique_ptr<OperandSets> sets;
        bool fed = false;
    };
    void feed(Link& link, const Link& before, size_t layers_back);

    const Context& context_;
    std::vector<Link> links_;
    Rotation layers_;
    Buffer workspace_;  // of all: they run one after the other
};

}  // namespace carat::cli
