// SPDX-License-Identifier: Apache-2.0
// gemv.inl: problems of at most kSmallM rows (decode). Time goes into reading B once, so B is not packed: short runs of
// it are converted in the first-level cache and used at once. Included by gemm.inl.

constexpr int kRun = 512;       // elements of K under a dot product, or columns under a sum of rows
constexpr int kRowsAtOnce = 4;  // rows of B added together, which saves trips of the sums to the cache

struct FewRows {
    float *a, *sums, *runs, *scratch;
    int64_t padded_k, padded_columns;

    FewRows(Arena& arena, const Job& job, const Tile& tile) {
        const Columns columns = columns_of(job, tile);
        padded_k = (job.k + kRun - 1) / kRun * kRun;
        const int64_t total = columns.width[0] + (columns.runs > 1 ? columns.width[1] : 0);
        padded_columns = (total + kRun - 1) / kRun * kRun;
        a = arena.take<float>(kSmallM * padded_k);
        sums = arena.take<float>(kSmallM * padded_columns);
        runs = arena.take<float>(kRowsAtOnce * kRun);
        scratch = arena.take<float>(padded_columns);
    }
};

size_t few_rows_bytes(const Job& job, const Tile& tile) {
    Arena arena{nullptr};
    FewRows buffers(arena, job, tile);
    return arena.used;
}

// Row e of an operand as f32, `count` elements from k on.
inline void fetch_along_k(const View& v, int64_t e, int64_t k, int64_t count, float* out) {
    if (v.k_stride == 1) {
        load_run(v.data, v.dtype, v.offset + e * v.ext_stride + k, count, out);
    } else {
        for (int64_t i = 0; i < count; ++i)
            load_run(v.data, v.dtype, v.offset + e * v.ext_stride + (k + i) * v.k_stride, 1, out + i);
    }
    scale_along_k(v, e, k, count, out);
}

// acc[r][c] += a[r][0..kRun) . b[c][0..kRun), lane by lane.
template <int R, int C>
inline void dot_run(const float* const* a, const float* const* b, F32v (*acc)[C]) {
    for (int i = 0; i < kRun; i += kLanes) {
        F32v column[C];
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) column[c] = load_vector<F32v>(b[c] + i);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const F32v row = load_vector<F32v>(a[r] + i);
#pragma GCC unroll 8
            for (int c = 0; c < C; ++c) acc[r][c] += row * column[c];
        }
    }
}

// Columns j ... j + C of B against all rows of A. B's columns are contiguous.
template <int R, int C>
void dot_columns(const Job& job, const FewRows& w, int64_t column, int columns, float* sums) {
    F32v acc[R][C] = {};
    const bool plain = job.b.dtype == CARAT_F32 && job.b.scale == nullptr;
    for (int64_t k = 0; k < job.k; k += kRun) {
        const int64_t count = min64(kRun, job.k - k);
        const float *a[R], *b[C];
        for (int r = 0; r < R; ++r) a[r] = w.a + (r < job.m ? r : 0) * w.padded_k + k;
        for (int c = 0; c < C; ++c) {
            const int64_t e = column + (c < columns ? c : 0);
            float* run = w.runs + c * kRun;
            b[c] = run;
            if (c >= columns) {
                b[c] = b[0];
            } else if (plain && count == kRun) {
                b[c] = static_cast<const float*>(job.b.data) + job.b.offset + e * job.b.ext_stride + k;
            } else {
                fetch_along_k(job.b, e, k, count, run);
                for (int64_t i = count; i < kRun; ++i) run[i] = 0;
            }
        }
        dot_run<R, C>(a, b, acc);
    }
    for (int r = 0; r < R && r < job.m; ++r) {
        for (int c = 0; c < columns; ++c) {
            float total = 0;
            for (int l = 0; l < kLanes; ++l) total += acc[r][c][l];
            sums[r * w.padded_columns + c] = total;
        }
    }
}

template <int R, int C>
void dot_all(const Job& job, const FewRows& w, int64_t start, int64_t width, float* sums) {
    for (int64_t j = 0; j < width; j += C) dot_columns<R, C>(job, w, start + j, int(min64(C, width - j)), sums + j);
}

// B's rows are contiguous: for each k, the sums of up to kRun columns take a[r][k] * B[k, columns].
void add_rows(const Job& job, const FewRows& w, int64_t start, int64_t width, float* sums) {
    const View& b = job.b;
    const bool plain = b.dtype == CARAT_F32 && b.scale == nullptr;
    for (int64_t j = 0; j < width; j += kRun) {
        const int64_t count = min64(kRun, width - j);
        for (int64_t r = 0; r < job.m; ++r) __builtin_memset(sums + r * w.padded_columns + j, 0, size_t(count) * 4);
        for (int64_t k = 0; k < job.k; k += kRowsAtOnce) {
            const float* from[kRowsAtOnce];
            for (int q = 0; q < kRowsAtOnce; ++q) {
                float* run = w.runs + q * kRun;
                const int64_t index = b.offset + (start + j) * b.ext_stride + (k + q) * b.k_stride;
                from[q] = run;
                if (k + q >= job.k) {
                    __builtin_memset(run, 0, sizeof(float) * kRun);
                } else if (plain) {
                    from[q] = static_cast<const float*>(b.data) + index;
                } else {
                    load_run(b.data, b.dtype, index, count, run);
                    scale_along_extent(b, start + j, count, k + q, run);
                }
            }
            for (int64_t r = 0; r < job.m; ++r) {
                const float *a = w.a + r * w.padded_k + k, a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
                float* sum = sums + r * w.padded_columns + j;
                for (int64_t i = 0; i < count; ++i)
                    sum[i] += (a0 * from[0][i] + a1 * from[1][i]) + (a2 * from[2][i] + a3 * from[3][i]);
            }
        }
    }
}

float run_few_rows(const Job& job, const Tile& tile, void* memory) {
    Arena arena{static_cast<char*>(memory)};
    FewRows w(arena, job, tile);
    const Columns columns = columns_of(job, tile);
    for (int64_t r = 0; r < job.m && job.k > 0; ++r) {
        fetch_along_k(job.a, r, 0, job.k, w.a + r * w.padded_k);
        for (int64_t k = job.k; k < w.padded_k; ++k) w.a[r * w.padded_k + k] = 0;
    }
    float* sums = w.sums;
    for (int run = 0; run < columns.runs; sums += columns.width[run], ++run) {
        const int64_t start = columns.start[run], width = columns.width[run];
        if (job.b.k_stride != 1) {
            add_rows(job, w, start, width, sums);
        } else if (job.m == 1) {
            dot_all<1, 4>(job, w, start, width, sums);
        } else if (job.m == 2) {
            dot_all<2, 4>(job, w, start, width, sums);
        } else if (job.m <= 4) {
            dot_all<4, 2>(job, w, start, width, sums);
        } else {
            dot_all<8, 1>(job, w, start, width, sums);
        }
    }
    float amax = 0;
    for (int64_t r = 0; r < job.m; ++r) {
        float* row = w.sums + r * w.padded_columns;
        amax = join_amax(amax, finish_row(job, r, tile.col0, tile.col1 - tile.col0, row, columns.width[0], w.scratch));
    }
    return amax;
}
