// SPDX-License-Identifier: Apache-2.0
// blas.cpp: the BLAS-like shim. Column-major needs no kernel of its own: each matrix says its storage order.
#include "api/error.hpp"
#include "core/dtype.hpp"

using namespace carat;
using namespace carat::api;

namespace {

carat_order flipped(carat_order order, carat_transpose trans) {
    if (trans == CARAT_NO_TRANS) return order;
    return order == CARAT_ROW_MAJOR ? CARAT_COL_MAJOR : CARAT_ROW_MAJOR;
}

Status check_transpose(carat_transpose trans, const char* argument) {
    if (trans == CARAT_NO_TRANS || trans == CARAT_TRANS) return {};
    return fail(CARAT_INVALID_VALUE, "{} is {}: use CARAT_NO_TRANS (111) or CARAT_TRANS (112)", argument, int(trans));
}

Status check_arguments(carat_order order, carat_transpose trans_a, carat_transpose trans_b, int64_t lda, int64_t ldb,
                       int64_t ldc) {
    if (order != CARAT_ROW_MAJOR && order != CARAT_COL_MAJOR)
        return fail(CARAT_INVALID_VALUE, "order (argument 2) is {}: use CARAT_ROW_MAJOR (101) or CARAT_COL_MAJOR (102)",
                    int(order));
    CARAT_TRY(check_transpose(trans_a, "trans_a"));
    CARAT_TRY(check_transpose(trans_b, "trans_b"));
    // BLAS has no "packed": 0 is an error there, and here.
    if (lda < 1 || ldb < 1 || ldc < 1)
        return fail(CARAT_INVALID_VALUE, "lda {}, ldb {}, ldc {}: a leading dimension must be at least 1", lda, ldb,
                    ldc);
    return {};
}

}  // namespace

carat_status carat_gemm_ex(carat_context_t context, carat_order order, carat_transpose trans_a, carat_transpose trans_b,
                           int64_t m, int64_t n, int64_t k, double alpha, const void* a, carat_dtype type_ab,
                           int64_t lda, const void* b, int64_t ldb, double beta, void* c, carat_dtype type_c,
                           int64_t ldc, void* stream) {
    if (const Status status = check_arguments(order, trans_a, trans_b, lda, ldb, ldc); !status.ok())
        return report(status);
    carat_problem problem;
    if (const carat_status status = carat_problem_init(&problem, m, n, k, type_ab, "nn"); status != CARAT_SUCCESS)
        return status;
    problem.a.order = flipped(order, trans_a), problem.a.ld = lda;
    problem.b.order = flipped(order, trans_b), problem.b.ld = ldb;
    problem.d = {type_c, order, ldc, CARAT_PACKED};
    if (beta != 0) problem.c = problem.d;
    carat_operands operands;
    carat_operands_init(&operands);
    operands.a = a, operands.b = b, operands.c = beta != 0 ? c : nullptr, operands.d = c;
    operands.alpha = alpha, operands.beta = beta;
    return carat_gemm(context, &problem, &operands, stream);
}

carat_status carat_sgemm(carat_context_t context, carat_order order, carat_transpose trans_a, carat_transpose trans_b,
                         int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b,
                         int64_t ldb, float beta, float* c, int64_t ldc, void* stream) {
    return carat_gemm_ex(context, order, trans_a, trans_b, m, n, k, alpha, a, CARAT_F32, lda, b, ldb, beta, c,
                         CARAT_F32, ldc, stream);
}
