/* SPDX-License-Identifier: Apache-2.0
 *
 * consumer.c: a C99 program outside the project: a small product on the CPU through the installed library. */
#include <carat/carat.h>
#include <stdio.h>
#include <string.h>

/* C = A B, 2x3 by 3x2, small integers: exact in f32. */
static const float a[] = {1, 2, 3, 4, 5, 6};
static const float b[] = {7, 8, 9, 10, 11, 12};
static const float want[] = {58, 64, 139, 154};

/* What the library says of a plan and of this machine: 1 if both are the JSON that carat.h promises. */
static int reports(carat_context_t context) {
    carat_problem problem;
    carat_plan_t plan = NULL;
    carat_text_t of_plan = NULL, limits = NULL;
    int ok = carat_problem_init(&problem, 2, 2, 3, CARAT_F32, "nn") == CARAT_SUCCESS &&
             carat_plan_create(context, &problem, NULL, &plan) == CARAT_SUCCESS &&
             carat_plan_report(plan, &of_plan) == CARAT_SUCCESS && carat_limits(context, &limits) == CARAT_SUCCESS &&
             strstr(carat_text_data(of_plan), "carat.plan/1") != NULL &&
             strstr(carat_text_data(limits), "carat.limits/1") != NULL;
    carat_text_destroy(of_plan);
    carat_text_destroy(limits);
    carat_plan_destroy(plan);
    return ok;
}

int main(void) {
    carat_context_options options;
    carat_context_t context = NULL;
    float c[4] = {-1, -1, -1, -1};
    if (carat_context_options_init(&options) != CARAT_SUCCESS) return 1;
    options.backend = CARAT_BACKEND_CPU;
    if (carat_context_create(&options, &context) != CARAT_SUCCESS ||
        carat_sgemm(context, CARAT_ROW_MAJOR, CARAT_NO_TRANS, CARAT_NO_TRANS, 2, 2, 3, 1.0f, a, 3, b, 2, 0.0f, c, 2,
                    NULL) != CARAT_SUCCESS ||
        !reports(context)) {
        fprintf(stderr, "%s\n", carat_last_error());
        return 1;
    }
    carat_context_destroy(context);
    printf("carat %s: %g %g %g %g\n", carat_version(), c[0], c[1], c[2], c[3]);
    return memcmp(c, want, sizeof want) == 0 ? 0 : 1;
}
