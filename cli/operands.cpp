// SPDX-License-Identifier: Apache-2.0
#include "operands.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

namespace carat::cli {
namespace {

constexpr size_t kAlignment = 256;
// Random elements generated once and repeated: a prime number of them, so that rows do not repeat each other.
constexpr int64_t kPatternElements = 1048573;

enum class Kind { normal, positive };
using Bytes = std::vector<unsigned char>;

struct Random {
    uint64_t state;
    uint64_t next() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return state;
    }
    double uniform() { return (double(next() >> 11) + 0.5) * 0x1p-53; }
};

Bytes integers(carat_dtype type) {
    Bytes bytes(static_cast<size_t>(kPatternElements) * (type == CARAT_S32 ? 4 : 1));
    Random random{0x9e3779b97f4a7c15};
    if (type == CARAT_S32) {
        for (int64_t i = 0; i < kPatternElements; ++i) {
            const int32_t value = static_cast<int32_t>(random.next() % 2001) - 1000;
            std::memcpy(bytes.data() + 4 * i, &value, 4);
        }
    } else if (type == CARAT_S8) {
        for (auto& byte : bytes) byte = static_cast<unsigned char>(static_cast<int>(random.next() % 255) - 127);
    } else {
        for (auto& byte : bytes) byte = static_cast<unsigned char>(random.next() >> 32);  // two 4-bit values
    }
    return bytes;
}

Bytes floats(carat_dtype type, Kind kind) {
    std::vector<float> values(kPatternElements);
    Random random{0x2545f4914f6cdd1d};
    for (size_t i = 0; i + 1 < values.size() + 1; i += 2) {
        const double radius = std::sqrt(-2 * std::log(random.uniform())), angle = 2 * M_PI * random.uniform();
        const double pair[2] = {radius * std::cos(angle), radius * std::sin(angle)};
        for (size_t j = 0; j < 2 && i + j < values.size(); ++j)
            values[i + j] = static_cast<float>(kind == Kind::normal ? pair[j] : 0.25 + std::fabs(pair[j]) * 0.5);
    }
    if (type == CARAT_F64) {
        const std::vector<double> wide(values.begin(), values.end());
        const auto* begin = reinterpret_cast<const unsigned char*>(wide.data());
        return Bytes(begin, begin + wide.size() * sizeof(double));
    }
    if (type == CARAT_F32) {
        const auto* begin = reinterpret_cast<const unsigned char*>(values.data());
        return Bytes(begin, begin + values.size() * sizeof(float));
    }
    return convert_elements(values.data(), CARAT_F32, type, kPatternElements);
}

const Bytes& pattern(carat_dtype type, Kind kind) {
    static std::map<std::pair<int, int>, Bytes> patterns;
    Bytes& bytes = patterns[{type, static_cast<int>(kind)}];
    if (bytes.empty()) {
        const bool whole = type == CARAT_S8 || type == CARAT_S32 || type == CARAT_S4 || type == CARAT_U4;
        bytes = whole ? integers(type) : floats(type, kind);
    }
    return bytes;
}

// Fills `bytes` at `to` with the pattern from a place of its own; after its first turn by doubling what is there.
void fill(const Context& context, unsigned char* to, size_t bytes, carat_dtype type, Kind kind, uint64_t phase) {
    const Bytes& source = pattern(type, kind);
    const size_t step = std::max(1, carat_dtype_bits(type) / 8);
    const size_t start = phase % kPatternElements * step;
    size_t done = 0;
    const auto put = [&](const void* from, size_t length) {
        length = std::min(length, bytes - done);
        if (length) check(carat_memory_copy(context.get(), to + done, from, length));
        done += length;
    };
    put(source.data() + start, source.size() - start);
    put(source.data(), start);
    while (done < bytes) put(to, done);
}

int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

size_t scale_floats(const carat_scale& s, int64_t extent, int64_t k) {
    switch (s.recipe) {
        case CARAT_SCALE_NONE:
            return 0;
        case CARAT_SCALE_TENSOR_WISE:
            return 1;
        case CARAT_SCALE_ROW_WISE:
            return extent;
        case CARAT_SCALE_BLOCK_WISE_1X128:
            return extent * ceil_div(k, 128);
        case CARAT_SCALE_BLOCK_WISE_128X128:
            return ceil_div(extent, 128) * ceil_div(k, 128);
        case CARAT_SCALE_GROUP_WISE:
            return extent * ceil_div(k, std::max(s.group, 1));
    }
    return 0;
}

uint64_t mix(uint64_t seed, uint64_t which) {
    uint64_t x = seed + which * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

Operands bind(const OperandLayout& l, unsigned char* base, double alpha, double beta) {
    const auto at = [base](const Slot& slot) -> void* { return slot.there ? base + slot.offset : nullptr; };
    Operands o;
    o.a = at(l.a), o.b = at(l.b), o.c = at(l.c), o.d = at(l.d), o.bias = at(l.bias);
    o.alpha = alpha, o.beta = beta;
    o.scale_a = static_cast<float*>(at(l.scale_a)), o.scale_b = static_cast<float*>(at(l.scale_b));
    o.zero_b = static_cast<float*>(at(l.zero_b)), o.out_scale = static_cast<float*>(at(l.out_scale));
    o.d_scales = static_cast<float*>(at(l.d_scales)), o.amax = static_cast<float*>(at(l.amax));
    o.group_sizes = static_cast<int32_t*>(at(l.group_sizes));
    return o;
}

// The scales of FP8 and integers bring products back to about the size of the real ones; zeros lie in 4 bits.
void fill_set(const Context& context, const carat_problem& p, const OperandLayout& l, unsigned char* base,
              uint64_t seed) {
    const auto random = [&](const Slot& slot, carat_dtype type, Kind kind, uint64_t which) {
        if (slot.bytes) fill(context, base + slot.offset, slot.bytes, type, kind, mix(seed, which));
    };
    random(l.a, p.a.dtype, Kind::normal, 1);
    random(l.b, p.b.dtype, Kind::normal, 2);
    random(l.c, p.c.dtype, Kind::normal, 3);
    random(l.d, p.d.dtype, Kind::normal, 4);
    random(l.bias, p.epilogue.bias_dtype, Kind::normal, 5);
    random(l.scale_a, CARAT_F32, Kind::positive, 6);
    random(l.scale_b, CARAT_F32, Kind::positive, 7);
    random(l.zero_b, CARAT_F32, Kind::positive, 8);
    random(l.out_scale, CARAT_F32, Kind::positive, 9);
    if (!l.group_sizes.bytes) return;
    std::vector<int32_t> ends(static_cast<size_t>(p.batch));
    for (size_t g = 0; g < ends.size(); ++g) ends[g] = static_cast<int32_t>(p.m * int64_t(g + 1) / p.batch);
    check(carat_memory_copy(context.get(), base + l.group_sizes.offset, ends.data(), l.group_sizes.bytes));
}

}  // namespace

void blank_result(const Context& context, const OperandSets& sets) {
    check(carat_memory_fill(context.get(), sets[0].d, 0xff, sets.layout().d.bytes));
}

size_t matrix_bytes(carat_dtype dtype, carat_order order, int64_t rows, int64_t cols) {
    int64_t inner = order == CARAT_ROW_MAJOR ? cols : rows;
    const int64_t outer = order == CARAT_ROW_MAJOR ? rows : cols;
    const int bits = carat_dtype_bits(dtype);
    if (bits == 4) inner += inner % 2;
    if (inner == 0 || outer == 0) return 0;
    if (double(inner) * double(outer) * bits / 8 > 1e15)
        fail(kTaskFailed, "a matrix of {} x {} {} would take more than 10^15 bytes: give smaller sizes", rows, cols,
             carat_dtype_name(dtype));
    return static_cast<size_t>(inner) * static_cast<size_t>(outer) * bits / 8;
}

std::string why_no_operands(const carat_problem& p) {
    const auto plain = [](const carat_scale& s) {
        return s.recipe == CARAT_SCALE_NONE || (s.ld == 0 && s.batch_stride == CARAT_PACKED);
    };
    const char* what = nullptr;
    if (p.mode == CARAT_BATCHED_POINTERS) what = "arrays of pointers";
    if (p.mode == CARAT_GROUPED && p.group_form != CARAT_GROUP_M_OFFSETS) what = "groups that are not given by offsets";
    if (p.sparsity != CARAT_DENSE) what = "2:4 sparse operands";
    if (p.epilogue.scalars_on_device) what = "scalars in the device's memory";
    if (p.epilogue.bias_batch_stride != 0) what = "a bias for each of a batch";
    if (!plain(p.scale_a) || !plain(p.scale_b)) what = "grids of scales that are not packed";
    return what ? fmt::format("random operands for {} are not made here: give another problem", what) : "";
}

namespace {

// From the first element of `count` matrices to the last, where the problem gives their pitch, else packed.
size_t operand_bytes(const carat_matrix& x, carat_order order, int64_t rows, int64_t cols, int64_t count) {
    if (x.ld == 0 && x.batch_stride == CARAT_PACKED) return size_t(count) * matrix_bytes(x.dtype, order, rows, cols);
    if (rows == 0 || cols == 0 || count == 0) return 0;
    const bool row_major = order == CARAT_ROW_MAJOR;
    const int64_t inner = row_major ? cols : rows, outer = row_major ? rows : cols;
    const int64_t ld = x.ld ? x.ld : inner + (carat_dtype_bits(x.dtype) == 4 ? inner % 2 : 0);
    const int64_t stride = x.batch_stride == CARAT_PACKED ? ld * outer : x.batch_stride;
    const double elements = double(count - 1) * double(stride) + double(outer) * double(ld);
    if (elements > 1e15) fail(kTaskFailed, "the operands would take more than 10^15 bytes: give smaller sizes");
    return (size_t((count - 1) * stride + (outer - 1) * ld + inner) * size_t(carat_dtype_bits(x.dtype)) + 7) / 8;
}

}  // namespace

OperandLayout lay_out(const carat_problem& p) {
    OperandLayout l;
    const auto place = [&l](Slot& slot, size_t bytes) {
        slot = {l.total, bytes, true};
        // An empty operand has a place of its own too: D must not lie where an input lies.
        l.total += (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
        if (l.total > size_t(1e15))
            fail(kTaskFailed, "the operands would take more than 10^15 bytes: give smaller sizes");
    };
    const size_t batch = p.mode == CARAT_BATCHED ? p.batch : 1, weights = p.mode == CARAT_SINGLE ? 1 : p.batch;
    const int64_t columns = columns_of_d(p);
    place(l.a, operand_bytes(p.a, p.a.order, p.m, p.k, batch));
    place(l.b, operand_bytes(p.b, p.b.order, p.k, p.n, weights));
    if (p.c.dtype != CARAT_NONE) place(l.c, operand_bytes(p.c, p.d.order, p.m, p.n, batch));
    place(l.d, operand_bytes(p.d, p.d.order, p.m, columns, batch));
    const carat_epilogue& e = p.epilogue;
    if (e.bias != CARAT_BIAS_NONE)
        place(l.bias, (e.bias == CARAT_BIAS_N ? p.n : p.m) * size_t(carat_dtype_bits(e.bias_dtype)) / 8);
    if (p.scale_a.recipe != CARAT_SCALE_NONE)
        place(l.scale_a, batch * scale_floats(p.scale_a, p.m, p.k) * sizeof(float));
    if (p.scale_b.recipe != CARAT_SCALE_NONE)
        place(l.scale_b, weights * scale_floats(p.scale_b, p.n, p.k) * sizeof(float));
    if (p.scale_b.zero_points) place(l.zero_b, l.scale_b.bytes);
    if (e.out_scale == CARAT_OUT_SCALE_TENSOR) place(l.out_scale, sizeof(float));
    if (e.out_scale == CARAT_OUT_SCALE_ROW) place(l.out_scale, batch * p.m * sizeof(float));
    if (e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128)
        place(l.d_scales, batch * p.m * ceil_div(columns, 128) * sizeof(float));
    if (e.amax) place(l.amax, sizeof(float));
    if (p.mode == CARAT_GROUPED) place(l.group_sizes, p.batch * sizeof(int32_t));
    return l;
}

OperandSets::OperandSets(const Context& context, const carat_problem& problem, size_t count, uint64_t seed,
                         double alpha, double beta)
    : context_(context), layout_(lay_out(problem)) {
    memory_ = Buffer(context, std::max<size_t>(count * layout_.total, 1));
    auto* base = static_cast<unsigned char*>(memory_.data());
    fill_set(context, problem, layout_, base, seed);
    for (size_t i = 0; i < count; ++i) {
        unsigned char* set = base + i * layout_.total;
        if (i && layout_.total) check(carat_memory_copy(context.get(), set, base, layout_.total));
        sets_.push_back(bind(layout_, set, alpha, beta));
    }
}

void OperandSets::upload(const Slot& slot, const void* host, size_t bytes) {
    if (bytes != slot.bytes) fail(kTaskFailed, "an operand of {} bytes was given {} bytes", slot.bytes, bytes);
    auto* base = static_cast<unsigned char*>(memory_.data());
    for (size_t i = 0; bytes && i < size(); ++i)
        check(carat_memory_copy(context_.get(), base + i * layout_.total + slot.offset, host, bytes));
}

void OperandSets::set_workspace(Buffer& workspace) {
    for (Operands& operands : sets_) {
        operands.workspace = workspace.data();
        operands.workspace_bytes = workspace.size();
    }
}

std::vector<unsigned char> convert_elements(const void* from, carat_dtype from_type, carat_dtype to_type,
                                            int64_t count) {
    const float unit = 1;
    if (to_type == CARAT_F64) {  // f64 results go with f64 operands only; from f32, which holds the others, it is exact
        const Bytes narrow = from_type == CARAT_F32 ? Bytes() : convert_elements(from, from_type, CARAT_F32, count);
        const auto* begin = static_cast<const float*>(from_type == CARAT_F32 ? from : narrow.data());
        const std::vector<double> wide(begin, begin + count);
        const auto* bytes = reinterpret_cast<const unsigned char*>(wide.data());
        return Bytes(bytes, bytes + wide.size() * sizeof(double));
    }
    carat_context_options options = Context::default_options();
    options.backend = CARAT_BACKEND_CPU;
    options.trace = "";  // a conversion is no product of the user's
    const Context cpu(options);
    carat_problem problem = gemm_problem(count, 1, 1, from_type, "nn");
    problem.d.dtype = to_type;
    Bytes one(1, 1), result(matrix_bytes(to_type, CARAT_ROW_MAJOR, count, 1));
    if (from_type == CARAT_F32)
        one.assign(reinterpret_cast<const unsigned char*>(&unit), reinterpret_cast<const unsigned char*>(&unit + 1));
    else if (from_type != CARAT_S8)
        one = convert_elements(&unit, CARAT_F32, from_type, 1);
    gemm(cpu, problem, {.a = from, .b = one.data(), .d = result.data()});
    return result;
}

}  // namespace carat::cli
