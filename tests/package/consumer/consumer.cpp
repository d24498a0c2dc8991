// SPDX-License-Identifier: Apache-2.0
// consumer.cpp: a C++20 program outside the project: a product on the CPU with C = A B + C through the installed
// library, checked by the library itself as well.
#include <carat/carat.h>

#include <cstdio>
#include <vector>

static bool good(carat_status status) {
    if (status != CARAT_SUCCESS) std::fprintf(stderr, "%s\n", carat_last_error());
    return status == CARAT_SUCCESS;
}

int main() {
    constexpr int m = 17, n = 5, k = 33;
    std::vector<float> a(m * k), b(k * n), c(m * n, 2.0f);
    for (size_t i = 0; i < a.size(); ++i) a[i] = float(int(i % 7) - 3);
    for (size_t i = 0; i < b.size(); ++i) b[i] = float(int(i % 5) - 2);
    carat_context_options options;
    carat_context_t context = nullptr;
    if (!good(carat_context_options_init(&options))) return 1;
    options.backend = CARAT_BACKEND_CPU;
    if (!good(carat_context_create(&options, &context))) return 1;
    if (!good(carat_sgemm(context, CARAT_ROW_MAJOR, CARAT_NO_TRANS, CARAT_NO_TRANS, m, n, k, 1, a.data(), k, b.data(),
                          n, 1, c.data(), n, nullptr)))
        return 1;
    int wrong = 0;
    for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
            float want = 2.0f;
            for (int l = 0; l < k; ++l) want += a[i * k + l] * b[l * n + j];
            wrong += c[i * n + j] != want;
        }
    }
    // A bad call is an error with a sentence, not a crash.
    const bool refused = carat_sgemm(context, CARAT_ROW_MAJOR, CARAT_NO_TRANS, CARAT_NO_TRANS, -1, n, k, 1, a.data(), k,
                                     b.data(), n, 0, c.data(), n, nullptr) == CARAT_INVALID_VALUE;
    const bool said = carat_last_error()[0] != '\0';
    carat_context_destroy(context);
    std::printf("%d wrong, refused %d, said %d\n", wrong, refused, said);
    return wrong == 0 && refused && said ? 0 : 1;
}
