// SPDX-License-Identifier: Apache-2.0
// epilogue.inl: from one row of sums to one row of D, in the contract's order: alpha and scales, beta C, bias,
// activation or gate, clamp, amax, out_scale, one rounding. T is float, or double for f64 and integer sums. Included by
// gemm.inl.

// exp by 2^n * p(r), |r| <= ln 2 / 2; relative error below 2 units of f32. Branch-free for the vectoriser; NaN passes.
inline float exp_of(float x) {
    constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: its last bit is 1
    const float limited = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    const float shifted = limited * 1.44269504f + kMagic;
    const float n = shifted - kMagic;
    const float r = (limited - n * 0.693145752f) - n * 1.42860677e-6f;
    float p = 1.98569e-4f;
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.3334519e-3f;
    p = p * r + 4.1665796e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    const float power = bits_as<float>((bits_as<uint32_t>(shifted) - bits_as<uint32_t>(kMagic) + 127u) << 23);
    return x > 88.0f ? __builtin_inff() : p * power;
}
inline double exp_of(double x) {
    return __builtin_exp(x);
}
inline float gauss_cdf(float x) {
    return 0.5f * __builtin_erfcf(x * -0.707106781f);
}
inline double gauss_cdf(double x) {
    return 0.5 * __builtin_erfc(x * -0.70710678118654752);
}

template <class T>
inline void activate(carat_activation activation, int64_t count, T* v) {
    switch (activation) {
        case CARAT_ACT_NONE:
            return;
        case CARAT_ACT_RELU:
            for (int64_t i = 0; i < count; ++i) v[i] = v[i] <= T(0) ? T(0) : v[i];
            return;
        case CARAT_ACT_GELU_ERF:
            for (int64_t i = 0; i < count; ++i) v[i] = v[i] * gauss_cdf(v[i]);
            return;
        case CARAT_ACT_GELU_TANH:
            // 0.5 (1 + tanh u) = 1 / (1 + exp(-2u))
            for (int64_t i = 0; i < count; ++i) {
                const T u = T(1.5957691216057308) * (v[i] + T(0.044715) * v[i] * v[i] * v[i]);
                v[i] = v[i] / (T(1) + exp_of(-u));
            }
            return;
        case CARAT_ACT_SILU:
            for (int64_t i = 0; i < count; ++i) v[i] = v[i] / (T(1) + exp_of(-v[i]));
            return;
        case CARAT_ACT_SIGMOID:
            for (int64_t i = 0; i < count; ++i) v[i] = T(1) / (T(1) + exp_of(-v[i]));
            return;
    }
}

// max |v|; NaN entries take no part.
template <class T>
inline T largest_of(const T* v, int64_t count) {
    T largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        const T magnitude = v[i] < T(0) ? -v[i] : v[i];
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

template <class T>
inline bool has_nan(const T* v, int64_t count) {
    bool found = false;
    for (int64_t i = 0; i < count; ++i) found |= v[i] != v[i];
    return found;
}

// Max with a memory for NaN.
inline float join_amax(float a, float b) {
    return a != a || b < a ? a : b;
}

// v = alpha * scale(acc) + bias for columns col0 ... of B; beta C comes between where there is a C.
template <class T>
inline void scale_row(const Job& job, int64_t row, int64_t col0, int64_t count, T* v) {
    T factor = T(job.alpha);
    if (job.row_scale) factor *= T(job.row_scale[row * job.row_scale_step]);
    if (job.col_scale) {
        const float* scale = job.col_scale + col0 * job.col_scale_step;
        for (int64_t i = 0; i < count; ++i) v[i] = v[i] * factor * T(scale[i * job.col_scale_step]);
    } else if (factor != T(1)) {
        for (int64_t i = 0; i < count; ++i) v[i] *= factor;
    }
}

template <class T>
inline void add_bias(const Job& job, int64_t row, int64_t col0, int64_t count, T* v, T* scratch) {
    if (job.bias == nullptr) return;
    if (job.bias_on_rows) {
        T bias;
        load_run(job.bias, job.bias_dtype, job.bias_offset + row, 1, &bias);
        for (int64_t i = 0; i < count; ++i) v[i] += bias;
        return;
    }
    load_run(job.bias, job.bias_dtype, job.bias_offset + col0, count, scratch);
    for (int64_t i = 0; i < count; ++i) v[i] += scratch[i];
}

template <class T>
inline void rescale_and_store(const Job& job, int64_t row, int64_t col0, int64_t count, T* v) {
    if (job.out_scale == CARAT_OUT_SCALE_TENSOR || job.out_scale == CARAT_OUT_SCALE_ROW) {
        const T scale = T(job.out_scale_values[job.out_scale == CARAT_OUT_SCALE_ROW ? row : 0]);
        for (int64_t i = 0; i < count; ++i) v[i] *= scale;
    } else if (job.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128) {
        for (int64_t block = 0; block < count; block += 128) {
            const int64_t width = min64(128, count - block);
            float scale = float(largest_of(v + block, width) / T(job.d_largest));
            if (scale == 0) scale = 1;
            job.d_scales[row * job.ld_scales + (col0 + block) / 128] = scale;
            for (int64_t i = block; i < block + width; ++i) v[i] /= T(scale);
        }
    }
    store_run(job.d, job.d_dtype, job.d_offset + row * job.ldd + col0, count, v);
}

// Sums of row `row` -> D[row, col0 ... col0 + count). Without a gate `v` holds count sums; with one it holds the
// 2 * count sums of its columns of B: interleaved, or all gates and then, from v + up_at, all ups. Returns max |v|, NaN
// if any is NaN, where it is asked for.
template <class T>
inline float finish_row(const Job& job, int64_t row, int64_t col0, int64_t count, T* v, int64_t up_at, T* scratch) {
    if (job.gate == CARAT_GATE_INTERLEAVED) {
        scale_row(job, row, 2 * col0, 2 * count, v);
        add_bias(job, row, 2 * col0, 2 * count, v, scratch);
        for (int64_t i = 0; i < count; ++i) scratch[i] = v[2 * i + 1];
        for (int64_t i = 0; i < count; ++i) v[i] = v[2 * i];
        activate(job.activation, count, v);
        for (int64_t i = 0; i < count; ++i) v[i] *= scratch[i];
    } else if (job.gate == CARAT_GATE_SPLIT) {
        T* up = v + up_at;
        scale_row(job, row, col0, count, v);
        add_bias(job, row, col0, count, v, scratch);
        scale_row(job, row, job.n / 2 + col0, count, up);
        add_bias(job, row, job.n / 2 + col0, count, up, scratch);
        activate(job.activation, count, v);
        for (int64_t i = 0; i < count; ++i) v[i] *= up[i];
    } else {
        scale_row(job, row, col0, count, v);
        if (job.c) {
            load_run(job.c, job.c_dtype, job.c_offset + row * job.ldc + col0, count, scratch);
            for (int64_t i = 0; i < count; ++i) v[i] += T(job.beta) * scratch[i];
        }
        add_bias(job, row, col0, count, v, scratch);
        activate(job.activation, count, v);
    }
    if (job.clamp) {
        const T low = T(job.clamp_lo), high = T(job.clamp_hi);
        for (int64_t i = 0; i < count; ++i) v[i] = v[i] < low ? low : v[i];
        for (int64_t i = 0; i < count; ++i) v[i] = v[i] > high ? high : v[i];
    }
    float largest = 0;
    if (job.want_amax) largest = has_nan(v, count) ? __builtin_nanf("") : float(largest_of(v, count));
    rescale_and_store(job, row, col0, count, v);
    return largest;
}
