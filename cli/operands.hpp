// SPDX-License-Identifier: Apache-2.0
// operands.hpp: memory for the operands of a problem in the backend's memory, filled with random data: normal numbers
// for floats (zeros would draw less power and run faster than real data), whole numbers for integers.
#pragma once

#include <vector>

#include "problem_flags.hpp"

namespace carat::cli {

// Where each operand lies in one block of memory; 0 bytes: not there. 256-byte aligned.
struct Slot {
    size_t offset = 0, bytes = 0;
    bool there = false;
};
struct OperandLayout {
    Slot a, b, c, d, bias, scale_a, scale_b, zero_b, out_scale, d_scales, amax, group_sizes;
    size_t total = 0;
};
// Why random operands of a problem cannot be made here, as a sentence; empty if they can.
std::string why_no_operands(const carat_problem& problem);
OperandLayout lay_out(const carat_problem& problem);

// `count` operand sets with the same content in different memory, to rotate through.
class OperandSets {
  public:
    OperandSets(const Context& context, const carat_problem& problem, size_t count, uint64_t seed, double alpha,
                double beta);
    size_t size() const { return sets_.size(); }
    size_t bytes() const { return layout_.total; }
    Operands& operator[](size_t i) { return sets_[i]; }
    const Operands& operator[](size_t i) const { return sets_[i]; }
    const OperandLayout& layout() const { return layout_; }
    // Puts host data in place of an operand's random data, in every set.
    void upload(const Slot& slot, const void* host, size_t bytes);
    void set_workspace(Buffer& workspace);

  private:
    const Context& context_;
    OperandLayout layout_;
    Buffer memory_;
    std::vector<Operands> sets_;
};

// Fills D of the first set with NaN, so that nothing that another kernel left there is taken for a result.
void blank_result(const Context& context, const OperandSets& sets);

// Bytes of a packed matrix of rows x cols.
size_t matrix_bytes(carat_dtype dtype, carat_order order, int64_t rows, int64_t cols);
// Element type conversion with one rounding, done by the library itself: D = X * 1 with D of the wanted type.
std::vector<unsigned char> convert_elements(const void* from, carat_dtype from_type, carat_dtype to_type,
                                            int64_t count);

}  // namespace carat::cli
