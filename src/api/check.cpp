// SPDX-License-Identifier: Apache-2.0
// check.cpp: carat_check: brings the operands to the host where they lie on a device, then asks src/check.
#include "check/check.hpp"

#include <vector>

#include "api/error.hpp"
#include "api/handles.hpp"
#include "api/validate.hpp"

using namespace carat;
using namespace carat::api;

namespace {

carat_check_options default_check_options() {
    return {sizeof(carat_check_options), int64_t(1) << 27, 512, 1};
}

int64_t scale_floats(const carat_scale& s, int64_t extent, int64_t k, int64_t count) {
    return footprint({CARAT_F32, s.order, s.ld, s.batch_stride}, scale_grid(s, extent, k), count);
}

// Host copies of device operands; each stays alive as long as this object.
class HostCopy {
  public:
    HostCopy(const cuda::Device& device, const Problem& problem) : device_(device), p_(problem) {}

    Result<carat_operands> of(const carat_operands& o) {
        if (p_.mode != CARAT_SINGLE && p_.mode != CARAT_BATCHED)
            return fail(CARAT_NOT_SUPPORTED,
                        "a check of device operands takes single and batched problems: copy the operands to the host "
                        "and check them on a CPU context");
        carat_operands host = o;
        const int64_t count = p_.mode == CARAT_BATCHED ? p_.batch : 1;
        const carat_epilogue& e = p_.epilogue;
        const int64_t d_rows = p_.m * count, blocks = ceil_div(p_.d_cols(), 128);
        CARAT_TRY(fetch(host.a, bytes_of(p_.a.dtype, footprint(p_.a, {p_.m, p_.a_cols()}, count))));
        CARAT_TRY(fetch(host.b, bytes_of(p_.b.dtype, footprint(p_.b, {p_.b_rows(), p_.n}, count))));
        CARAT_TRY(fetch(host.c, p_.has_c() ? bytes_of(p_.c.dtype, footprint(p_.c, {p_.m, p_.n}, count)) : 0));
        CARAT_TRY(fetch(host.d, bytes_of(p_.d.dtype, footprint(p_.d, {p_.m, p_.d_cols()}, count))));
        CARAT_TRY(fetch(host.bias, bias_bytes(count)));
        CARAT_TRY(fetch(host.scale_a, 4 * scale_floats(p_.scale_a, p_.m, p_.k, count)));
        CARAT_TRY(fetch(host.scale_b, 4 * scale_floats(p_.scale_b, p_.n, p_.k, count)));
        CARAT_TRY(fetch(host.zero_b, 4 * scale_floats(p_.scale_b, p_.n, p_.k, count)));
        CARAT_TRY(fetch(host.metadata, count * ceil_div(p_.k, 8) * (p_.sparsity == CARAT_SPARSE_A_24 ? p_.m : p_.n)));
        CARAT_TRY(fetch(host.out_scale, e.out_scale == CARAT_OUT_SCALE_ROW ? 4 * d_rows : 4));
        CARAT_TRY(fetch(host.d_scales, 4 * d_rows * blocks));
        CARAT_TRY(fetch(host.amax, 4));
        CARAT_TRY(fetch(host.alpha_device, p_.a.dtype == CARAT_F64 ? 8 : 4));
        CARAT_TRY(fetch(host.beta_device, p_.a.dtype == CARAT_F64 ? 8 : 4));
        return host;
    }

  private:
    int64_t bias_bytes(int64_t count) const {
        const carat_epilogue& e = p_.epilogue;
        if (e.bias == CARAT_BIAS_NONE) return 0;
        return bytes_of(e.bias_dtype, (count - 1) * e.bias_batch_stride + (e.bias == CARAT_BIAS_N ? p_.n : p_.m));
    }

    // Replaces a device pointer by that of its host copy.
    template <class T>
    Status fetch(T*& pointer, int64_t bytes) {
        if (!pointer || bytes <= 0) return {};
        copies_.emplace_back(size_t(bytes));
        CARAT_TRY(device_.copy(copies_.back().data(), pointer, size_t(bytes)));
        pointer = reinterpret_cast<T*>(copies_.back().data());
        return {};
    }

    const cuda::Device& device_;
    const Problem& p_;
    std::vector<std::vector<std::byte>> copies_;
};

Status run_check(carat_context_s& context, const Problem& problem, const carat_operands& operands, const void* c_before,
                 const carat_check_options& options, carat_check_result& result) {
    if (!context.runtime.device) {
        CARAT_ASSIGN(result, check_result(problem, operands, c_before, options, *context.runtime.threads));
        return {};
    }
    HostCopy copy(*context.runtime.device, problem);
    carat_operands with_c = operands;
    if (c_before) with_c.c = c_before;
    CARAT_ASSIGN(const carat_operands host, copy.of(with_c));
    CARAT_ASSIGN(result, check_result(problem, host, c_before ? host.c : nullptr, options, *context.runtime.threads));
    return {};
}

}  // namespace

carat_status carat_check(carat_context_t context, const carat_problem* problem, const carat_operands* operands,
                         const void* c_before, const carat_check_options* options, carat_check_result* result) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(context, "context"));
        CARAT_TRY(require_pointer(result, "result"));
        CARAT_TRY(check_struct_size(result->struct_size, sizeof *result, "carat_check_result"));
        const carat_check_options chosen = options ? *options : default_check_options();
        CARAT_TRY(check_struct_size(chosen.struct_size, sizeof chosen, "carat_check_options"));
        if (!context->runtime.can_execute())
            return fail(CARAT_NOT_INITIALIZED,
                        "the context plans for a GPU that is not here, so there is no result to check");
        CARAT_ASSIGN(const Problem valid, validate_problem(problem));
        CARAT_TRY(validate_operands(valid, operands, 0));
        return run_check(*context, valid, *operands, c_before, chosen, *result);
    });
}
