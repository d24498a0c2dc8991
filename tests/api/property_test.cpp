// SPDX-License-Identifier: Apache-2.0
// Random problems through the C ABI (sizes, types, layouts, paddings, batches, epilogues): every kernel of the CPU that
// takes one gives a right result, the same bits twice, and touches nothing outside D. rapidcheck shrinks a failure.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "api/validate.hpp"
#include "carat/carat.hpp"
#include "core/convert.hpp"
#include "dispatch/registry.hpp"

namespace carat {
namespace {

constexpr unsigned char kCanary = 0xa5;
constexpr int64_t kMargin = 64;  // canary bytes before and after D

Context& context() {
    static Context instance([] {
        carat_context_options options = Context::default_options();
        options.backend = CARAT_BACKEND_CPU;
        return options;
    }());
    return instance;
}

template <class T>
T any_of(std::initializer_list<T> values) {
    return *rc::gen::elementOf(std::vector<T>(values));
}

carat_matrix any_matrix(carat_dtype dtype, int64_t rows, int64_t cols, carat_order order) {
    const int64_t inner = order == CARAT_ROW_MAJOR ? cols : rows, outer = order == CARAT_ROW_MAJOR ? rows : cols;
    const int64_t ld = std::max<int64_t>(inner, 1) + *rc::gen::inRange(0, 6);
    return {dtype, order, ld, outer * ld + *rc::gen::inRange(0, 9)};
}

void any_epilogue(carat_problem& p) {
    carat_epilogue& e = p.epilogue;
    e.bias = any_of({CARAT_BIAS_NONE, CARAT_BIAS_N, CARAT_BIAS_M});
    e.bias_dtype = any_of({CARAT_F32, CARAT_BF16, CARAT_F16});
    e.activation = any_of(
        {CARAT_ACT_NONE, CARAT_ACT_RELU, CARAT_ACT_GELU_ERF, CARAT_ACT_GELU_TANH, CARAT_ACT_SILU, CARAT_ACT_SIGMOID});
    const bool can_gate =
        e.activation == CARAT_ACT_SILU || e.activation == CARAT_ACT_GELU_ERF || e.activation == CARAT_ACT_GELU_TANH;
    if (can_gate && p.n % 2 == 0) e.gate = any_of({CARAT_GATE_NONE, CARAT_GATE_INTERLEAVED, CARAT_GATE_SPLIT});
    if (*rc::gen::inRange(0, 4) == 0) e.clamp = 1, e.clamp_lo = -2, e.clamp_hi = 3;
    e.out_scale = any_of({CARAT_OUT_SCALE_NONE, CARAT_OUT_SCALE_TENSOR, CARAT_OUT_SCALE_ROW});
}

carat_problem any_problem() {
    const carat_dtype in = any_of({CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_E5M2, CARAT_S8, CARAT_F64});
    const char* layout = any_of({"nn", "nt", "tn", "tt"});
    const auto extent = [] { return int64_t(*rc::gen::inRange(0, 75)); };
    carat_problem p;
    check(carat_problem_init(&p, extent(), extent(), extent(), in, layout));
    p.batch = *rc::gen::inRange(1, 4);
    p.mode = p.batch > 1 ? CARAT_BATCHED : CARAT_SINGLE;
    if (in != CARAT_F64 && in != CARAT_S8) p.d.dtype = any_of({CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_E4M3, CARAT_S8});
    any_epilogue(p);
    const int64_t columns = p.epilogue.gate == CARAT_GATE_NONE ? p.n : p.n / 2;
    p.a = any_matrix(p.a.dtype, p.m, p.k, p.a.order);
    p.b = any_matrix(p.b.dtype, p.k, p.n, p.b.order);
    p.d = any_matrix(p.d.dtype, p.m, columns, any_of({CARAT_ROW_MAJOR, CARAT_COL_MAJOR}));
    if (*rc::gen::inRange(0, 2)) p.c = any_matrix(p.d.dtype, p.m, p.n, p.d.order);
    return p;
}

// `count` values of about unit size, NaN-free; integers where the type has no fractions.
std::vector<std::byte> random_values(carat_dtype dtype, int64_t count, unsigned seed) {
    std::vector<std::byte> bytes(size_t(bytes_of(dtype, count)) + 16);
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < count; ++i)
        store_f64(bytes.data(), dtype, i, info(dtype).is_float ? normal(random) : double(int(random() % 17) - 8));
    return bytes;
}

int64_t elements_of(const carat_matrix& x, int64_t rows, int64_t cols, int64_t batch) {
    return (batch - 1) * x.batch_stride + x.ld * (x.order == CARAT_ROW_MAJOR ? rows : cols) + 8;
}

struct Case {
    Problem p;
    std::vector<std::byte> a, b, c, d, bias, out_scale;
    Operands operands;

    explicit Case(const carat_problem& problem) : p(*api::validate_problem(&problem)) {
        const int64_t columns = p.d_cols();
        a = random_values(p.a.dtype, elements_of(p.a, p.m, p.k, p.batch), 1);
        b = random_values(p.b.dtype, elements_of(p.b, p.k, p.n, p.batch), 2);
        if (p.has_c()) c = random_values(p.c.dtype, elements_of(p.c, p.m, p.n, p.batch), 3);
        bias = random_values(p.epilogue.bias_dtype ? p.epilogue.bias_dtype : CARAT_F32, std::max(p.m, p.n) + 1, 4);
        out_scale = random_values(CARAT_F32, p.m * p.batch + 1, 5);
        d.resize(size_t(bytes_of(p.d.dtype, elements_of(p.d, p.m, columns, p.batch)) + 2 * kMargin));
        operands.a = a.data(), operands.b = b.data(), operands.c = c.empty() ? nullptr : c.data();
        operands.alpha = 0.75, operands.beta = p.has_c() ? -0.5 : 0;
        operands.bias = bias.data(), operands.out_scale = reinterpret_cast<const float*>(out_scale.data());
        operands.d = d.data() + kMargin;
    }

    std::vector<std::byte> run(const char* kernel) {
        std::memset(d.data(), kCanary, d.size());
        context().plan(p, kernel).execute(operands);
        return d;
    }

    // Every byte of the buffer that belongs to no element of D still holds the canary.
    bool margins_intact() const {
        std::vector<bool> belongs(d.size());
        const int64_t size = bits(p.d.dtype) / 8;
        const Strides s = Problem::strides(p.d);
        for (int64_t z = 0; z < p.batch; ++z)
            for (int64_t i = 0; i < p.m; ++i)
                for (int64_t j = 0; j < p.d_cols(); ++j)
                    for (int64_t x = 0; x < size; ++x)
                        belongs[size_t(kMargin + (z * s.batch + i * s.row + j * s.col) * size + x)] = true;
        for (size_t x = 0; x < d.size(); ++x)
            if (!belongs[x] && d[x] != std::byte(kCanary)) return false;
        return true;
    }
};

RC_GTEST_PROP(Properties, EveryKernelIsRightAndTouchesNothingElse, ()) {
    Case one(any_problem());
    int ran = 0;
    for (const Row& row : registry()) {
        carat_plan_options options;
        check(carat_plan_options_init(&options));
        options.kernel = row.name;
        carat_plan_t plan = nullptr;
        const carat_status status = carat_plan_create(context().get(), &one.p, &options, &plan);
        carat_plan_destroy(plan);
        if (status == CARAT_NOT_SUPPORTED) continue;
        RC_ASSERT(status == CARAT_SUCCESS);
        const auto first = one.run(row.name);
        RC_ASSERT(one.margins_intact());
        const carat_check_result result = context().verify(one.p, one.operands);
        RC_LOG() << row.name << " " << describe(one.p) << ": error " << result.error << " bound " << result.bound
                 << " at " << result.bad_row << "," << result.bad_col << " got " << result.got << " want "
                 << result.want << "\n";
        RC_ASSERT(result.ok);
        RC_ASSERT(one.run(row.name) == first);
        ++ran;
    }
    RC_ASSERT(ran >= 1);
}

}  // namespace
}  // namespace carat
