// SPDX-License-Identifier: Apache-2.0
// cublaslt.hpp: cuBLASLt as a contestant of `carat bench` and `carat ladder`: the same problem on the same operands, the best of its
// heuristic's candidates, each timed, its choice named, its result verified.
#pragma once

#include <memory>
#include <string>

#include "timing.hpp"

namespace carat::cli {

class CublasLt {
  public:
    // Null with a sentence where there is no library, no GPU or no usable device context.
    static std::unique_ptr<CublasLt> open(const Context& context, int device, std::string* why_not);
    // The same for --device ("": 0), noted in the environment of a result; a sentence on stderr where it is left out.
    static std::unique_ptr<CublasLt> join(const Context& context, const std::string& device, Json& env);
    ~CublasLt();

    // The best candidate of one problem, ready to be timed and run.
    struct Contestant {
        std::shared_ptr<void> state;
        std::unique_ptr<Repeater> repeater;
        std::function<void(const Operands&, void*)> enqueue;
        std::string choice;  // "algo=66 tile=20 stages=36 splitk=1 cluster=3 (best of 8)"
    };
    // Null with a sentence where cuBLASLt does not compute this problem.
    std::unique_ptr<Contestant> prepare(const Context& context, const Stream& stream, const carat_problem& problem,
                                        const OperandSets& sets, std::string* why_not);
    // The same, if its result is right: a fast wrong one is no contestant.
    std::unique_ptr<Contestant> invite(const Context& context, const Stream& stream, const carat_problem& problem,
                                       const OperandSets& sets, std::string* why_not);
    std::string version() const;  // "13.0.2, /usr/lib/..."

  private:
    CublasLt() = default;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace carat::cli
