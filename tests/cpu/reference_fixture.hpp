// SPDX-License-Identifier: Apache-2.0
// reference_fixture.hpp: operands in memory with poisoned surroundings, for tests of the reference and of the check.
// Each operand keeps its logical values beside its bytes, so an oracle never has to read the layout back.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/convert.hpp"
#include "core/problem.hpp"

namespace carat::testing {

class Random {
  public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    int64_t below(int64_t limit) { return int64_t(engine_() % uint64_t(limit)); }
    int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
    bool chance(int percent) { return below(100) < percent; }
    double normal() { return normal_(engine_); }
    template <class T>
    T pick(std::initializer_list<T> list) {
        return list.begin()[below(int64_t(list.size()))];
    }

  private:
    std::mt19937_64 engine_;
    std::normal_distribution<double> normal_;
};

// `count` matrices rows x cols of one type. Every byte that is no element is 0xff: NaN in all floating types.
struct Operand {
    carat_matrix desc{};
    int64_t count = 0, rows = 0, cols = 0, lead = 0;  // lead: elements before the first
    std::vector<uint8_t> bytes;
    std::vector<double> values;

    void lay(carat_dtype dtype, carat_order order, int64_t n, int64_t r, int64_t c, int64_t pad, int64_t stride_pad,
             bool shared = false) {
        count = shared ? 1 : n, rows = r, cols = c;
        const int64_t inner = order == CARAT_ROW_MAJOR ? c : r, outer = order == CARAT_ROW_MAJOR ? r : c;
        const int64_t even = bits(dtype) < 8 ? 2 : 1;  // a matrix of nibbles begins at a byte
        desc = {dtype, order, inner + pad, 0};
        const int64_t stride = ceil_div(desc.ld * outer + stride_pad, even) * even;
        desc.batch_stride = shared ? 0 : stride;
        lead = pad > 0 ? 2 : 0;
        bytes.assign(size_t(bytes_of(dtype, lead + stride * count) + 16), 0xff);
        values.assign(size_t(count * r * c), 0);
    }
    int64_t index(int64_t z, int64_t i, int64_t j) const {
        const bool row_major = desc.order == CARAT_ROW_MAJOR;
        return lead + (count == 1 ? 0 : z) * desc.batch_stride + (row_major ? i * desc.ld + j : j * desc.ld + i);
    }
    double& at(int64_t z, int64_t i, int64_t j) { return values[size_t(((count == 1 ? 0 : z) * rows + i) * cols + j)]; }
    double at(int64_t z, int64_t i, int64_t j) const { return const_cast<Operand*>(this)->at(z, i, j); }
    void set(int64_t z, int64_t i, int64_t j, double value) {
        store_f64(bytes.data(), desc.dtype, index(z, i, j), value);
        at(z, i, j) = load_f64(bytes.data(), desc.dtype, index(z, i, j));
    }
    double got(int64_t z, int64_t i, int64_t j) const { return load_f64(bytes.data(), desc.dtype, index(z, i, j)); }
    void* data(int64_t z = 0) {
        return bytes.data() + bytes_of(desc.dtype, lead + (count == 1 ? 0 : z) * desc.batch_stride);
    }
    template <class Function>
    void fill(Function value) {
        for (int64_t z = 0; z < count; ++z)
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < cols; ++j) set(z, i, j, value());
    }
};

}  // namespace carat::testing
