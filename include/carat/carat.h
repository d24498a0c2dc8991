/* SPDX-License-Identifier: Apache-2.0
 *
 * carat.h: the C ABI of Carat, a GEMM library for LLM inference. It is the only stable surface; carat.hpp is a thin
 * header-only C++ layer over it.
 *
 *     acc = sum_k op(A)[i,k] * op(B)[k,j]           f32 for 16-bit and FP8 operands, s32 for s8, f64 for f64
 *     v   = alpha * scale(acc) + beta * C[i,j] + bias
 *     v   = clamp(activation(v))                    or the gated pair activation(v_gate) * v_up, clamped
 *     D   = round_once(v * out_scale)               to nearest even; saturating for FP8 and integers
 *
 * Shapes are in elements. A is M x K, B is K x N, C and D are M x N; each is stored row- or column-major with a leading
 * dimension. A linear layer Y = X W^T (X [M,K], W [N,K], both row-major: "NT") is A row-major, B column-major.
 *
 * Rules that hold on every path: beta = 0 never reads C; alpha = 0 or K = 0 never reads A and B; M = 0 or N = 0 is a
 * success that touches nothing; any M, N, K >= 0, any leading dimension >= the extent, any element-aligned pointer;
 * nothing outside D's M x N elements is written. The same call gives the same bits every time (carat_numerics).
 *
 * Every function returns a carat_status. On failure carat_last_error() holds, for the calling thread, one sentence that
 * says what was wrong, what was wanted and how to fix it. The library never prints, aborts or exits.
 */
#ifndef CARAT_CARAT_H
#define CARAT_CARAT_H

#include <stddef.h>
#include <stdint.h>

#define CARAT_VERSION_MAJOR 0
#define CARAT_VERSION_MINOR 1
#define CARAT_VERSION_PATCH 0

#if defined(CARAT_STATIC)
#define CARAT_API
#elif defined(_WIN32)
#define CARAT_API __declspec(dllimport)
#else
#define CARAT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- status */

typedef enum carat_status {
    CARAT_SUCCESS = 0,
    CARAT_INVALID_VALUE = 1,    /* an argument is wrong; the sentence names it */
    CARAT_NOT_SUPPORTED = 2,    /* a valid problem that no kernel of this backend takes */
    CARAT_NOT_INITIALIZED = 3,  /* no usable device, driver or backend */
    CARAT_ALLOC_FAILED = 4,     /* out of host or device memory */
    CARAT_COMPILE_FAILED = 5,   /* NVRTC is missing or refused a kernel */
    CARAT_NOT_PREPARED = 6,     /* a kernel would have to be compiled where that is not allowed */
    CARAT_EXECUTION_FAILED = 7, /* the driver or the device reported an error */
    CARAT_IO_ERROR = 8,         /* a file or directory could not be used */
    CARAT_INTERNAL_ERROR = 9    /* a defect of the library: please report it */
} carat_status;

/* The enumerator's name, "CARAT_INVALID_VALUE". Never NULL. */
CARAT_API const char* carat_status_name(carat_status status);
/* One full sentence on what the status means. Never NULL. */
CARAT_API const char* carat_status_sentence(carat_status status);
/* The sentence of the last failed call on this thread, "" if none failed. Valid until the thread's next failing call. */
CARAT_API const char* carat_last_error(void);
/* "0.1.0". */
CARAT_API const char* carat_version(void);

/* ---------------------------------------------------------------- types */

typedef enum carat_dtype {
    CARAT_NONE = 0, /* "there is no such operand" */
    CARAT_F64 = 1,
    CARAT_F32 = 2,
    CARAT_F16 = 3,
    CARAT_BF16 = 4,
    CARAT_E4M3 = 5, /* FP8 e4m3fn: no infinity, largest 448 */
    CARAT_E5M2 = 6, /* FP8 e5m2: largest finite 57344 */
    CARAT_S8 = 7,
    CARAT_S32 = 8,
    CARAT_S4 = 9, /* two a byte along the contiguous dimension, even element in the low nibble */
    CARAT_U4 = 10
} carat_dtype;

/* "bf16", "e4m3", ... and "none". Never NULL. */
CARAT_API const char* carat_dtype_name(carat_dtype dtype);
/* The inverse; CARAT_INVALID_VALUE lists the known names. */
CARAT_API carat_status carat_dtype_parse(const char* name, carat_dtype* dtype);
/* Bits of one element, 0 for CARAT_NONE. */
CARAT_API int carat_dtype_bits(carat_dtype dtype);

/* Storage order of a matrix, with CBLAS's values. Row-major: the columns of a row are contiguous. */
typedef enum carat_order { CARAT_ROW_MAJOR = 101, CARAT_COL_MAJOR = 102 } carat_order;

/* How one operand lies in memory. */
typedef struct carat_matrix {
    carat_dtype dtype;
    carat_order order;
    int64_t ld;           /* elements between rows (row-major) or columns (column-major); 0: packed */
    int64_t batch_stride; /* elements between the matrices of a batch or group; 0: shared (inputs only); -1: packed */
} carat_matrix;

#define CARAT_PACKED (-1)

/* ---------------------------------------------------------------- problem */

typedef enum carat_mode {
    CARAT_SINGLE = 0,
    CARAT_BATCHED = 1,          /* `batch` problems of one shape, batch_stride apart */
    CARAT_BATCHED_POINTERS = 2, /* the same, from arrays of pointers in the backend's memory */
    CARAT_GROUPED = 3           /* `groups` problems in one launch; their sizes lie in the backend's memory */
} carat_mode;

/* How a grouped problem is described. G groups, all with the N, K (or M, N) of the problem unless said otherwise. */
typedef enum carat_group_form {
    CARAT_GROUP_NONE = 0,
    CARAT_GROUP_M_OFFSETS = 1, /* A [m,K], B [G,K,N], D [m,N]; int32 end offsets[G]; rows past the last are untouched */
    CARAT_GROUP_M_INDICES = 2, /* A [m,K], B [G,K,N], D [m,N]; int32 group of each row [m]; rows of -1 are untouched */
    CARAT_GROUP_M_MASKED = 3,  /* A [G,m,K], B [G,K,N], D [G,m,N]; int32 rows used [G]; the others are untouched */
    CARAT_GROUP_K_OFFSETS = 4, /* A [M,k], B [k,N], D [G,M,N]; int32 end offsets[G] along K */
    CARAT_GROUP_ARRAY = 5      /* unlike problems: carat_group[G] in the backend's memory; m, n, k are upper bounds */
} carat_group_form;

/* How a product is computed. The definition is always the exact product rounded once; this bounds the error allowed. */
typedef enum carat_compute {
    CARAT_COMPUTE_DEFAULT = 0,  /* exact f32 for f32; promoted for FP8 */
    CARAT_COMPUTE_F32 = 1,      /* f32 operands, f32 products and sums */
    CARAT_COMPUTE_TF32 = 2,     /* f32 operands rounded to tf32 */
    CARAT_COMPUTE_3XTF32 = 3,   /* f32 operands as two tf32 terms */
    CARAT_COMPUTE_BF16X9 = 4,   /* f32 operands as three bf16 terms */
    CARAT_COMPUTE_PROMOTED = 5, /* FP8: partial sums move to f32 every 128 of K */
    CARAT_COMPUTE_FAST = 6      /* FP8: the tensor core's own accumulator over all of K */
} carat_compute;

/* Scale recipes, with torch's names. A scale is an f32 dequantisation multiplier: value = stored * scale. The grid's
 * rows run along the operand's own extent (M for A, N for B), its columns along K; both use ceiling division. */
typedef enum carat_recipe {
    CARAT_SCALE_NONE = 0,
    CARAT_SCALE_TENSOR_WISE = 1,        /* 1 x 1 */
    CARAT_SCALE_ROW_WISE = 2,           /* extent x 1: per token of A, per channel of B */
    CARAT_SCALE_BLOCK_WISE_1X128 = 3,   /* extent x ceil(K/128) */
    CARAT_SCALE_BLOCK_WISE_128X128 = 4, /* ceil(extent/128) x ceil(K/128) */
    CARAT_SCALE_GROUP_WISE = 5          /* extent x ceil(K/group), weight-only B; zero points allowed */
} carat_recipe;

typedef struct carat_scale {
    carat_recipe recipe;
    int32_t group;        /* GROUP_WISE: elements of K under one scale, >= 1 */
    int32_t zero_points;  /* GROUP_WISE: 1 if value = (stored - zero) * scale; zeros are f32 on the same grid */
    carat_order order;    /* of the grid: row-major has the K blocks of one row contiguous */
    int64_t ld;           /* of the grid, in floats; 0: packed */
    int64_t batch_stride; /* floats between the grids of a batch or group; 0: shared; -1: packed */
} carat_scale;

typedef enum carat_sparsity {
    CARAT_DENSE = 0,
    CARAT_SPARSE_A_24 = 1, /* A holds 2 of every 4 elements along K: stored as M x 2*ceil(K/4) plus metadata */
    CARAT_SPARSE_B_24 = 2  /* B likewise: stored as 2*ceil(K/4) x N */
} carat_sparsity;
/* Metadata of 2:4 sparsity: one nibble per group of four along K, index of the first kept element in bits 0-1, of the
 * second in bits 2-3 (first < second); two groups a byte, even group in the low nibble; ceil(K/8) bytes a row of A (or
 * column of B), rows packed. */

typedef enum carat_bias { CARAT_BIAS_NONE = 0, CARAT_BIAS_N = 1, CARAT_BIAS_M = 2 } carat_bias;

typedef enum carat_activation {
    CARAT_ACT_NONE = 0,
    CARAT_ACT_RELU = 1,
    CARAT_ACT_GELU_ERF = 2,  /* v * Phi(v) */
    CARAT_ACT_GELU_TANH = 3, /* its tanh approximation */
    CARAT_ACT_SILU = 4,
    CARAT_ACT_SIGMOID = 5
} carat_activation;

/* Gated epilogues: N counts the columns of B, of C and of a bias along N; D has N/2 columns, activation(gate) * up. The
 * activation must be SILU or a GELU; D cannot be C. */
typedef enum carat_gate {
    CARAT_GATE_NONE = 0,
    CARAT_GATE_INTERLEAVED = 1, /* columns 2j (gate) and 2j+1 (up) */
    CARAT_GATE_SPLIT = 2        /* columns j (gate) and N/2+j (up) */
} carat_gate;

typedef enum carat_out_scale {
    CARAT_OUT_SCALE_NONE = 0,
    CARAT_OUT_SCALE_TENSOR = 1, /* D = round(v * out_scale[0]) */
    CARAT_OUT_SCALE_ROW = 2,    /* D = round(v * out_scale[i]), one a row of D: [batch, M] packed */
    /* s = max|v| of 128 columns of a row / largest(D); D = round(v / s); s is written to d_scales [M, ceil(columns/128)]
     * row-major; an all-zero block has s = 1 */
    CARAT_OUT_SCALE_COMPUTED_1X128 = 3
} carat_out_scale;

typedef struct carat_epilogue {
    int32_t scalars_on_device; /* 1: alpha and beta are read from the backend's memory at run time */
    carat_bias bias;
    carat_dtype bias_dtype;
    int64_t bias_batch_stride; /* elements between the biases of a batch or group; 0: shared */
    carat_activation activation;
    carat_gate gate;
    int32_t clamp; /* 1: v = min(max(v, clamp_lo), clamp_hi); NaN stays NaN */
    float clamp_lo, clamp_hi;
    carat_out_scale out_scale;
    int32_t amax; /* 1: max |v| over all of D, before out_scale, is written to operands.amax; NaN if any v is NaN */
} carat_epilogue;

typedef struct carat_problem {
    size_t struct_size; /* sizeof(carat_problem): set by carat_problem_init */
    carat_mode mode;
    carat_group_form group_form;
    int64_t m, n, k;
    int64_t batch;           /* BATCHED, BATCHED_POINTERS: problems; GROUPED: groups; SINGLE: 1 */
    carat_matrix a, b, c, d; /* c.dtype CARAT_NONE: there is no C and beta must be 0; C has D's order */
    carat_compute compute;
    carat_scale scale_a, scale_b;
    carat_sparsity sparsity;
    carat_epilogue epilogue;
} carat_problem;

/* A plain single problem: A and B of `dtype`, D of the same (s32 for s8, bf16 for FP8), everything packed, no C, no
 * epilogue. layout "nn", "nt", "tn" or "tt" as in BLAS over row-major storage: letter 1 is A, letter 2 is B, "t" means
 * stored transposed, that is column-major. Every field is then yours to change. */
CARAT_API carat_status carat_problem_init(carat_problem* problem, int64_t m, int64_t n, int64_t k, carat_dtype dtype,
                                          const char* layout);

/* One problem of CARAT_GROUP_ARRAY. Leading dimensions in elements, 0: packed. */
typedef struct carat_group {
    int64_t m, n, k;
    const void *a, *b, *c;
    void* d;
    int64_t lda, ldb, ldc, ldd;
    const void* bias;
    const float *scale_a, *scale_b;
} carat_group;

/* The pointers of one execution. All but host scalars point into the backend's memory (host memory on the CPU). */
typedef struct carat_operands {
    size_t struct_size; /* sizeof(carat_operands): set by carat_operands_init */
    const void *a, *b, *c;
    void* d;
    double alpha, beta;                     /* used unless epilogue.scalars_on_device */
    const void *alpha_device, *beta_device; /* one f32 each (f64 for an f64 problem) */
    const void* bias;
    const float *scale_a, *scale_b, *zero_b;
    const void* metadata; /* 2:4 sparsity */
    const float* out_scale;
    float* d_scales;
    float* amax;
    const int32_t* group_sizes; /* offsets, indices or counts, by group_form */
    const carat_group* group_array;
    const void *const *a_array, *const *b_array, *const *c_array; /* BATCHED_POINTERS: [batch] */
    void* const* d_array;
    void* workspace; /* caller-owned, carat_plan_workspace_bytes() of it */
    size_t workspace_bytes;
} carat_operands;

/* Null pointers, alpha 1, beta 0. */
CARAT_API carat_status carat_operands_init(carat_operands* operands);

/* ---------------------------------------------------------------- context */

typedef struct carat_context_s* carat_context_t; /* thread-safe; holds devices, caches, kernels */
typedef struct carat_plan_s* carat_plan_t;       /* immutable; may be executed from many threads */
typedef struct carat_text_s* carat_text_t;       /* a string owned by the library */

typedef enum carat_backend { CARAT_BACKEND_AUTO = 0, CARAT_BACKEND_CPU = 1, CARAT_BACKEND_CUDA = 2 } carat_backend;

typedef enum carat_jit {
    CARAT_JIT_AUTO = 0,  /* use packs and caches, compile what is missing */
    CARAT_JIT_NEVER = 1, /* the best kernel that a pack or a cache has; NOT_PREPARED if they have none */
    CARAT_JIT_FORCE = 2  /* compile always, and refresh the cache */
} carat_jit;

typedef struct carat_context_options {
    size_t struct_size;
    carat_backend backend; /* AUTO: CUDA if a usable GPU is there, else CPU */
    int32_t device;        /* CUDA ordinal; -1: the device of the caller's current context, else 0 */
    int32_t threads;       /* CPU threads; 0: as many as the process may use */
    carat_jit jit;
    const char* cache_dir; /* NULL: CARAT_CACHE_DIR, else the documented places; "": memory only */
    const char* tuning;    /* NULL: CARAT_TUNING, else the documented places; a database over the shipped one; "off" */
    const char* trace;     /* NULL: CARAT_TRACE; a file to append what is executed to; "": none */
    const char* target;    /* NULL: the real device; a GPU name of `carat list --targets` ("h200"): plan and explain for
                              it with no such GPU here; such plans cannot be executed */
    const char* pack; /* kernels compiled ahead of time. NULL: CARAT_PACK, else the documented places; a pack file or
                              a directory of *.pack: only those; "": none */
} carat_context_options;

CARAT_API carat_status carat_context_options_init(carat_context_options* options);
/* options may be NULL. */
CARAT_API carat_status carat_context_create(const carat_context_options* options, carat_context_t* context);
/* Plans of the context must be destroyed before it. NULL is allowed. */
CARAT_API void carat_context_destroy(carat_context_t context);
/* CPU or CUDA: what the context runs on. */
CARAT_API carat_status carat_context_backend(carat_context_t context, carat_backend* backend);

/* ---------------------------------------------------------------- plan and execute */

/* What of a result's bits is promised. docs/numerics.md says what each costs. */
typedef enum carat_numerics {
    CARAT_DETERMINISTIC = 0,   /* the same call gives the same bits every time */
    CARAT_BATCH_INVARIANT = 1, /* and the bits of a row of D depend neither on M nor on the other rows */
    CARAT_FAST = 2             /* bits may differ from call to call: sums may be added by atomics */
} carat_numerics;

typedef struct carat_plan_options {
    size_t struct_size; /* sizeof(carat_plan_options): set by carat_plan_options_init; that of an older version, too */
    const char* kernel; /* NULL: the library chooses; else a row ("v1_shared") or a full configuration name */
    size_t workspace_limit; /* bytes the plan may ask for; 0 is always possible */
    carat_numerics numerics;
    void*
        stream; /* CUDA: a stream that may be being captured now. Then nothing is compiled: a kernel that is in no cache
                     is CARAT_NOT_PREPARED, and the capture goes on. NULL: none is */
} carat_plan_options;

CARAT_API carat_status carat_plan_options_init(carat_plan_options* options);

/* Validates, selects a kernel, loads or compiles it. options may be NULL. The context keeps what it made: a problem planned
 * before costs a look-up, and kernels are loaded once for all plans. May be called from many threads, and while any stream
 * is being captured in any mode (tell of one that this plan is for in options.stream). */
CARAT_API carat_status carat_plan_create(carat_context_t context, const carat_problem* problem,
                                         const carat_plan_options* options, carat_plan_t* plan);
CARAT_API void carat_plan_destroy(carat_plan_t plan);
CARAT_API size_t carat_plan_workspace_bytes(carat_plan_t plan);
/* The full configuration name of the chosen kernel; valid as long as the plan. */
CARAT_API const char* carat_plan_kernel(carat_plan_t plan);
/* Predicted time in microseconds. */
CARAT_API double carat_plan_predicted_us(carat_plan_t plan);
/* stream: a CUstream (NULL: the legacy stream). On CUDA it is asynchronous and allocates, locks, compiles and synchronises
 * nothing, so it can be captured in a CUDA graph. On the CPU `stream` is ignored and the call returns when D is written. */
CARAT_API carat_status carat_plan_execute(carat_plan_t plan, const carat_operands* operands, void* stream);

/* One call: the plan is made once and kept in the context. Problems that need a workspace get a kernel that needs none. If
 * `stream` is being captured, the kernel must be compiled already, else it is CARAT_NOT_PREPARED and the capture goes on. */
CARAT_API carat_status carat_gemm(carat_context_t context, const carat_problem* problem, const carat_operands* operands,
                                  void* stream);

/* ---------------------------------------------------------------- BLAS-like shim */

typedef enum carat_transpose { CARAT_NO_TRANS = 111, CARAT_TRANS = 112 } carat_transpose;

/* C = alpha op(A) op(B) + beta C in f32, as cblas_sgemm: `order` is the storage order of all three matrices. */
CARAT_API carat_status carat_sgemm(carat_context_t context, carat_order order, carat_transpose trans_a,
                                   carat_transpose trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                                   const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                                   int64_t ldc, void* stream);
/* The same for any element types: A and B of type_ab, C of type_c. */
CARAT_API carat_status carat_gemm_ex(carat_context_t context, carat_order order, carat_transpose trans_a,
                                     carat_transpose trans_b, int64_t m, int64_t n, int64_t k, double alpha,
                                     const void* a, carat_dtype type_ab, int64_t lda, const void* b, int64_t ldb,
                                     double beta, void* c, carat_dtype type_c, int64_t ldc, void* stream);

/* ---------------------------------------------------------------- know */

CARAT_API const char* carat_text_data(carat_text_t text);
CARAT_API size_t carat_text_size(carat_text_t text);
CARAT_API void carat_text_destroy(carat_text_t text);

/* JSON "carat.explain/1": every row and candidate considered, why each was refused, predicted times and what bounds them,
 * tiles, FLOP per byte, workspace, the winner. */
CARAT_API carat_status carat_explain(carat_context_t context, const carat_problem* problem,
                                     const carat_plan_options* options, carat_text_t* json);
/* JSON "carat.list/1": the rows of the registry with what each takes, the GPU targets, the environment variables. */
CARAT_API carat_status carat_list(carat_text_t* json);
/* JSON "carat.doctor/1": versions, devices, driver, NVRTC, cache, environment; each finding with its fix. */
CARAT_API carat_status carat_doctor(carat_text_t* json);
/* JSON "carat.floor/1": bytes, FLOPs, floor time in us and what bounds it, for the context's device. */
CARAT_API carat_status carat_floor(carat_context_t context, const carat_problem* problem, carat_text_t* json);

/* JSON "carat.limits/1": what the context's device can do at most: bandwidth of memory and of the L2 cache, sustained
 * rates by type, and the FLOP per byte at which each rate meets each bandwidth. null: not known. */
CARAT_API carat_status carat_limits(carat_context_t context, carat_text_t* json);
/* JSON "carat.plan/1": what a plan will run: the kernel, its tile, registers, spills, shared memory, blocks an SM and how
 * full that makes it, FLOP per byte, predicted time and what bounds it; what the compiler warns of or refused. Plans for
 * a named target have it too. null: not known, or the kernel has no such thing. */
CARAT_API carat_status carat_plan_report(carat_plan_t plan, carat_text_t* json);

/* JSON "carat.models/1": the linear layers of a model at `tokens` tokens under tensor parallelism `tp`. model: a bundled
 * name ("llama-3.1-8b") or the path of a config.json; NULL: the list of bundled models. */
CARAT_API carat_status carat_models(const char* model, int64_t tokens, int32_t tp, carat_text_t* json);

typedef struct carat_check_options {
    size_t struct_size;
    int64_t full_limit; /* problems of up to this many multiply-adds are checked entry by entry; default 2^27 */
    int64_t samples;    /* larger ones: entries checked, default 512, and a Freivalds product test where D is linear */
    uint64_t seed;
} carat_check_options;

typedef struct carat_check_result {
    size_t struct_size;
    int32_t ok;
    int32_t full;     /* 1: every entry; 0: samples and Freivalds */
    int64_t entries;  /* entries compared */
    double error;     /* max |D - R| / (|alpha| sum|a||b| + |beta C| + |bias|) over the entries */
    double bound;     /* what dtype, K and compute mode allow; docs/numerics.md derives it */
    double freivalds; /* max |D x - R x| / its own bound; < 1 passes; 0 where the test does not apply */
    int64_t bad_row, bad_col, bad_batch; /* the worst entry when !ok */
    double got, want;
} carat_check_result;

/* Compares D with the f64 reference. c_before: C's content before the execution if D overwrote it, else NULL. Copies
 * operands to the host when they lie on a device. A failed check is CARAT_SUCCESS with result->ok = 0. */
CARAT_API carat_status carat_check(carat_context_t context, const carat_problem* problem,
                                   const carat_operands* operands, const void* c_before,
                                   const carat_check_options* options, carat_check_result* result);

/* A problem as JSON and back; equal problems give equal text, "packed" stands for packed leading dimensions and strides. */
CARAT_API carat_status carat_problem_json(const carat_problem* problem, carat_text_t* json);
CARAT_API carat_status carat_problem_parse(const char* json, carat_problem* problem);

/* JSON "carat.tuning_info/1": the tuning databases that the context uses, what was left out of them and why, the device that
 * rows must be of, and the user's file, which `carat tune` writes. */
CARAT_API carat_status carat_tuning(carat_context_t context, carat_text_t* json);
/* JSON "carat.tuning/1": the rows of a file that are whole, and under "skipped" a sentence for each that is not.
 * CARAT_NOT_INITIALIZED: there is no such file. */
CARAT_API carat_status carat_tuning_read(const char* path, carat_text_t* json);
/* JSON "carat.tuning_candidates/1": what a tuner measures, the best predicted first, and what the model chooses. */
CARAT_API carat_status carat_tuning_candidates(carat_context_t context, const carat_problem* problem,
                                               carat_text_t* json);

/* JSON "carat.calibration_info/1": the parameters of the cost models that the context uses, what is shipped for each, and the
 * user's device file, which `carat calibrate` writes. GPUs only, as are the next two. docs/calibration.md. */
CARAT_API carat_status carat_calibration(carat_context_t context, carat_text_t* json);
/* `samples`: JSON "carat.calibration_samples/1", measured times of kernels. JSON "carat.prediction_error/1": how far the
 * predicted times are from them, and how often the best predicted kernel is within 5 % of the best measured. */
CARAT_API carat_status carat_prediction_error(carat_context_t context, const char* samples, carat_text_t* json);
/* JSON "carat.calibration/1": a device file with the parameters that predict the samples best, searched from the shipped
 * ones on; "error" has the errors before and after. The same samples give the same file. */
CARAT_API carat_status carat_calibrate(carat_context_t context, const char* samples, carat_text_t* json);

/* The kernel cache: JSON "carat.cache/1" (path, entries, bytes); `verify` re-reads every entry, `prune` applies the size
 * limit, `clear` removes the entries. command: "stats", "verify", "prune", "clear". */
CARAT_API carat_status carat_cache(carat_context_t context, const char* command, carat_text_t* json);

/* ---------------------------------------------------------------- kernel packs
 * A pack is a file of kernels compiled ahead of time, on a machine with NVRTC and with or without a GPU: plan what shall be
 * ready, in a context for the device or for a named target, and write down what the context has prepared. docs/pack.md. */

/* JSON "carat.kernels/1": every kernel that the context's plans have prepared so far: its name and architecture, where it
 * came from ("compiled", "disk cache", "pack"), its size, registers and spills. */
CARAT_API carat_status carat_kernels(carat_context_t context, carat_text_t* json);
/* Writes these kernels, of one or more contexts, into a pack, whole or not at all. CARAT_NOT_PREPARED if there are none,
 * CARAT_INVALID_VALUE if they are of two compilers, which happens only where some come from another pack. */
CARAT_API carat_status carat_pack_write(const carat_context_t* contexts, size_t count, const char* path);
/* JSON "carat.pack/1": what a pack holds. command: "list" (from the index), "verify" (every kernel is read and its
 * checksums compared; "bad" says how many are damaged). CARAT_IO_ERROR for what is no pack. */
CARAT_API carat_status carat_pack(const char* path, const char* command, carat_text_t* json);

/* ---------------------------------------------------------------- memory, streams, graphs
 * For programs that do not link CUDA. On a CPU context memory is host memory and streams are NULL. */

CARAT_API carat_status carat_memory_alloc(carat_context_t context, size_t bytes, void** memory);
CARAT_API void carat_memory_free(carat_context_t context, void* memory);
/* Host to device, device to host or device to device; done when it returns. */
CARAT_API carat_status carat_memory_copy(carat_context_t context, void* destination, const void* source, size_t bytes);
CARAT_API carat_status carat_memory_fill(carat_context_t context, void* memory, int byte, size_t bytes);

CARAT_API carat_status carat_stream_create(carat_context_t context, void** stream);
CARAT_API void carat_stream_destroy(carat_context_t context, void* stream);
CARAT_API carat_status carat_stream_synchronize(carat_context_t context, void* stream);

typedef struct carat_graph_s* carat_graph_t;
/* Everything enqueued on the stream until carat_graph_end becomes a graph. CUDA only. */
CARAT_API carat_status carat_graph_begin(carat_context_t context, void* stream);
CARAT_API carat_status carat_graph_end(carat_context_t context, void* stream, carat_graph_t* graph);
/* Launches, waits, and gives the device time in microseconds. */
CARAT_API carat_status carat_graph_launch(carat_graph_t graph, void* stream, double* elapsed_us);
CARAT_API void carat_graph_destroy(carat_graph_t graph);

/* JSON: the device's clocks, temperature, power and throttle reasons now ("carat.device/1"). */
CARAT_API carat_status carat_device_state(carat_context_t context, carat_text_t* json);

/* ---------------------------------------------------------------- log */

typedef enum carat_log_level {
    CARAT_LOG_OFF = 0,
    CARAT_LOG_ERROR = 1,
    CARAT_LOG_WARN = 2,
    CARAT_LOG_INFO = 3,
    CARAT_LOG_DEBUG = 4
} carat_log_level;
typedef void (*carat_log_callback)(carat_log_level level, const char* message, void* user);
/* The library logs only through this callback (or to CARAT_LOG_FILE). NULL: silence. Process-wide. */
CARAT_API void carat_set_log_callback(carat_log_callback callback, void* user, carat_log_level level);

#ifdef __cplusplus
}
#endif
#endif /* CARAT_CARAT_H */
