// SPDX-License-Identifier: Apache-2.0
//
// carat.hpp: a thin C++20 layer over carat.h: RAII handles, defaults, and carat::Error in place of status codes. It
// adds no behaviour; the semantics of every call are written in carat.h.
//
//     carat::Context context;                                         // a GPU if one is there, else the CPU
//     auto problem = carat::linear(tokens, 6144, 4096, CARAT_BF16);   // Y [tokens,6144] = X [tokens,4096] W[6144,4096]^T
//     carat::Plan plan = context.plan(problem);                       // validates, selects, loads or compiles
//     plan.execute({.a = x, .b = w, .d = y}, stream);                 // asynchronous
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "carat/carat.h"

namespace carat {

class Error : public std::runtime_error {
  public:
    explicit Error(carat_status status) : std::runtime_error(sentence(status)), status_(status) {}
    carat_status status() const noexcept { return status_; }

  private:
    static std::string sentence(carat_status status) {
        const std::string last = carat_last_error();
        return last.empty() ? carat_status_sentence(status) : last;
    }
    carat_status status_;
};

// Throws carat::Error unless the status is success.
inline void check(carat_status status) {
    if (status != CARAT_SUCCESS) throw Error(status);
}

// An element type by its name: dtype("bf16").
inline carat_dtype dtype(const char* name) {
    carat_dtype result = CARAT_NONE;
    check(carat_dtype_parse(name, &result));
    return result;
}

// D = A B over packed row-major storage; layout "nt" has B stored as [n, k]. Set any further field of the result.
inline carat_problem gemm_problem(int64_t m, int64_t n, int64_t k, carat_dtype dtype, const char* layout = "nn") {
    carat_problem problem;
    check(carat_problem_init(&problem, m, n, k, dtype, layout));
    return problem;
}

// A linear layer: Y [tokens, out] = X [tokens, in] W[out, in]^T (+ bias [out] of the same type).
inline carat_problem linear(int64_t tokens, int64_t out, int64_t in, carat_dtype dtype, bool bias = false) {
    carat_problem problem = gemm_problem(tokens, out, in, dtype, "nt");
    if (bias) {
        problem.epilogue.bias = CARAT_BIAS_N;
        problem.epilogue.bias_dtype = problem.d.dtype;
    }
    return problem;
}

// A mixture-of-experts layer, packed: rows of X are sorted by expert; group_sizes holds int32 end offsets [experts].
inline carat_problem grouped_linear(int64_t tokens, int64_t experts, int64_t out, int64_t in, carat_dtype dtype) {
    carat_problem problem = linear(tokens, out, in, dtype);
    problem.mode = CARAT_GROUPED;
    problem.group_form = CARAT_GROUP_M_OFFSETS;
    problem.batch = experts;
    return problem;
}

// carat_operands with C++ defaults, for designated initialisers: {.a = x, .b = w, .d = y}.
struct Operands {
    const void* a = nullptr;
    const void* b = nullptr;
    const void* c = nullptr;
    void* d = nullptr;
    double alpha = 1, beta = 0;
    const void* alpha_device = nullptr;
    const void* beta_device = nullptr;
    const void* bias = nullptr;
    const float* scale_a = nullptr;
    const float* scale_b = nullptr;
    const float* zero_b = nullptr;
    const void* metadata = nullptr;
    const float* out_scale = nullptr;
    float* d_scales = nullptr;
    float* amax = nullptr;
    const int32_t* group_sizes = nullptr;
    const carat_group* group_array = nullptr;
    const void* const* a_array = nullptr;
    const void* const* b_array = nullptr;
    const void* const* c_array = nullptr;
    void* const* d_array = nullptr;
    void* workspace = nullptr;
    size_t workspace_bytes = 0;

    carat_operands c_struct() const {
        return {sizeof(carat_operands),
                a,
                b,
                c,
                d,
                alpha,
                beta,
                alpha_device,
                beta_device,
                bias,
                scale_a,
                scale_b,
                zero_b,
                metadata,
                out_scale,
                d_scales,
                amax,
                group_sizes,
                group_array,
                a_array,
                b_array,
                c_array,
                d_array,
                workspace,
                workspace_bytes};
    }
};

// A string owned by the library.
class Text {
  public:
    Text() = default;
    Text(Text&& other) noexcept : text_(std::exchange(other.text_, nullptr)) {}
    Text& operator=(Text&& other) noexcept { return std::swap(text_, other.text_), *this; }
    ~Text() { carat_text_destroy(text_); }
    carat_text_t* out() { return &text_; }
    std::string str() const { return {carat_text_data(text_), carat_text_size(text_)}; }

  private:
    carat_text_t text_ = nullptr;
};

class Plan {
  public:
    explicit Plan(carat_plan_t plan) : plan_(plan) {}
    Plan(Plan&& other) noexcept : plan_(std::exchange(other.plan_, nullptr)) {}
    Plan& operator=(Plan&& other) noexcept { return std::swap(plan_, other.plan_), *this; }
    ~Plan() { carat_plan_destroy(plan_); }

    size_t workspace_bytes() const { return carat_plan_workspace_bytes(plan_); }
    std::string kernel() const { return carat_plan_kernel(plan_); }
    double predicted_us() const { return carat_plan_predicted_us(plan_); }
    std::string report() const {
        Text text;
        check(carat_plan_report(plan_, text.out()));
        return text.str();
    }
    void execute(const Operands& operands, void* stream = nullptr) const {
        const carat_operands raw = operands.c_struct();
        check(carat_plan_execute(plan_, &raw, stream));
    }
    carat_plan_t get() const { return plan_; }

  private:
    carat_plan_t plan_;
};

class Context {
  public:
    Context() : Context(default_options()) {}
    explicit Context(const carat_context_options& options) { check(carat_context_create(&options, &context_)); }
    Context(Context&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
    Context& operator=(Context&& other) noexcept { return std::swap(context_, other.context_), *this; }
    ~Context() { carat_context_destroy(context_); }

    static carat_context_options default_options() {
        carat_context_options options;
        check(carat_context_options_init(&options));
        return options;
    }
    carat_backend backend() const {
        carat_backend backend = CARAT_BACKEND_AUTO;
        check(carat_context_backend(context_, &backend));
        return backend;
    }

    // kernel: "" for the library's choice, a row of `carat list`, or a full configuration name. It is not copied.
    static carat_plan_options plan_options(const char* kernel = "") {
        carat_plan_options options;
        check(carat_plan_options_init(&options));
        options.kernel = *kernel == '\0' ? nullptr : kernel;
        return options;
    }
    Plan plan(const carat_problem& problem, const carat_plan_options& options) const {
        carat_plan_t plan = nullptr;
        check(carat_plan_create(context_, &problem, &options, &plan));
        return Plan(plan);
    }
    Plan plan(const carat_problem& problem, const std::string& kernel = "") const {
        return plan(problem, plan_options(kernel.c_str()));
    }
    std::string explain(const carat_problem& problem, const carat_plan_options& options) const {
        Text text;
        check(carat_explain(context_, &problem, &options, text.out()));
        return text.str();
    }
    std::string explain(const carat_problem& problem, const std::string& kernel = "") const {
        return explain(problem, plan_options(kernel.c_str()));
    }
    std::string floor(const carat_problem& problem) const {
        Text text;
        check(carat_floor(context_, &problem, text.out()));
        return text.str();
    }
    std::string limits() const {
        Text text;
        check(carat_limits(context_, text.out()));
        return text.str();
    }
    carat_check_result verify(const carat_problem& problem, const Operands& operands, const void* c_before = nullptr,
                              const carat_check_options* options = nullptr) const {
        const carat_operands raw = operands.c_struct();
        carat_check_result result{};
        result.struct_size = sizeof result;
        check(carat_check(context_, &problem, &raw, c_before, options, &result));
        return result;
    }
    std::string cache(const char* command) const {
        Text text;
        check(carat_cache(context_, command, text.out()));
        return text.str();
    }
    std::string kernels() const {
        Text text;
        check(carat_kernels(context_, text.out()));
        return text.str();
    }
    std::string tuning() const {
        Text text;
        check(carat_tuning(context_, text.out()));
        return text.str();
    }
    std::string tuning_candidates(const carat_problem& problem) const {
        Text text;
        check(carat_tuning_candidates(context_, &problem, text.out()));
        return text.str();
    }
    std::string calibration() const {
        Text text;
        check(carat_calibration(context_, text.out()));
        return text.str();
    }
    std::string prediction_error(const std::string& samples) const {
        Text text;
        check(carat_prediction_error(context_, samples.c_str(), text.out()));
        return text.str();
    }
    std::string calibrate(const std::string& samples) const {
        Text text;
        check(carat_calibrate(context_, samples.c_str(), text.out()));
        return text.str();
    }
    std::string device_state() const {
        Text text;
        check(carat_device_state(context_, text.out()));
        return text.str();
    }
    carat_context_t get() const { return context_; }

  private:
    carat_context_t context_ = nullptr;
};

// Memory of the context's backend, freed with the object.
class Buffer {
  public:
    Buffer() = default;
    Buffer(const Context& context, size_t bytes) : context_(context.get()), bytes_(bytes) {
        check(carat_memory_alloc(context_, bytes, &data_));
    }
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(context_, other.context_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Buffer() {
        if (data_) carat_memory_free(context_, data_);
    }
    void* data() const { return data_; }
    size_t size() const { return bytes_; }
    void upload(const void* host, size_t bytes) { check(carat_memory_copy(context_, data_, host, bytes)); }
    void download(void* host, size_t bytes) const { check(carat_memory_copy(context_, host, data_, bytes)); }
    void fill(int byte) { check(carat_memory_fill(context_, data_, byte, bytes_)); }

  private:
    carat_context_t context_ = nullptr;
    void* data_ = nullptr;
    size_t bytes_ = 0;
};

// A stream of the context's device; a null stream on the CPU.
class Stream {
  public:
    explicit Stream(const Context& context) : context_(context.get()) {
        check(carat_stream_create(context_, &stream_));
    }
    Stream(const Stream&) = delete;
    ~Stream() { carat_stream_destroy(context_, stream_); }
    void synchronize() const { check(carat_stream_synchronize(context_, stream_)); }
    void* get() const { return stream_; }

  private:
    carat_context_t context_ = nullptr;
    void* stream_ = nullptr;
};

// A captured CUDA graph. capture() records what `body` enqueues.
class Graph {
  public:
    template <class Body>
    static Graph capture(const Context& context, const Stream& stream, Body&& body) {
        Graph graph;
        check(carat_graph_begin(context.get(), stream.get()));
        try {
            body();
        } catch (...) {
            carat_graph_t dropped = nullptr;
            if (carat_graph_end(context.get(), stream.get(), &dropped) == CARAT_SUCCESS) carat_graph_destroy(dropped);
            throw;
        }
        check(carat_graph_end(context.get(), stream.get(), &graph.graph_));
        return graph;
    }
    Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
    ~Graph() { carat_graph_destroy(graph_); }
    // Launches, waits, returns the device time in microseconds.
    double launch(const Stream& stream) const {
        double us = 0;
        check(carat_graph_launch(graph_, stream.get(), &us));
        return us;
    }

  private:
    Graph() = default;
    carat_graph_t graph_ = nullptr;
};

inline std::string list() {
    Text text;
    check(carat_list(text.out()));
    return text.str();
}
inline std::string doctor() {
    Text text;
    check(carat_doctor(text.out()));
    return text.str();
}
inline std::string problem_json(const carat_problem& problem) {
    Text text;
    check(carat_problem_json(&problem, text.out()));
    return text.str();
}
inline carat_problem parse_problem(const std::string& json) {
    carat_problem problem;
    check(carat_problem_parse(json.c_str(), &problem));
    return problem;
}
inline std::string tuning_read(const std::string& path) {
    Text text;
    check(carat_tuning_read(path.c_str(), text.out()));
    return text.str();
}
inline std::string models(const char* model = nullptr, int64_t tokens = 1, int32_t tp = 1) {
    Text text;
    check(carat_models(model, tokens, tp, text.out()));
    return text.str();
}

// command: "list" or "verify".
inline std::string pack(const std::string& path, const char* command) {
    Text text;
    check(carat_pack(path.c_str(), command, text.out()));
    return text.str();
}

// One call; the plan is made once and kept in the context.
inline void gemm(const Context& context, const carat_problem& problem, const Operands& operands,
                 void* stream = nullptr) {
    const carat_operands raw = operands.c_struct();
    check(carat_gemm(context.get(), &problem, &raw, stream));
}

}  // namespace carat
