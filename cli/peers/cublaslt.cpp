// SPDX-License-Identifier: Apache-2.0
#include "peers/cublaslt.hpp"

#include <algorithm>
#include <cmath>

#include "peers/audition.hpp"
#include "peers/cublaslt_api.hpp"
#include "peers/process.hpp"

namespace carat::cli {
namespace {

constexpr size_t kWorkspaceBytes = size_t(64) << 20;  // twice what NVIDIA recommends on Hopper
constexpr int kCandidates = 32;

int data_type(carat_dtype type) {
    switch (type) {
        case CARAT_F64:
            return lt::kR64F;
        case CARAT_F32:
            return lt::kR32F;
        case CARAT_F16:
            return lt::kR16F;
        case CARAT_BF16:
            return lt::kR16BF;
        case CARAT_S8:
            return lt::kR8I;
        case CARAT_S32:
            return lt::kR32I;
        case CARAT_E4M3:
            return lt::kE4M3;
        case CARAT_E5M2:
            return lt::kE5M2;
        default:
            return -1;
    }
}

struct Deleter {
    int (*destroy)(lt::Descriptor) = nullptr;
    void operator()(void* descriptor) const { destroy(descriptor); }
};
using Owned = std::unique_ptr<void, Deleter>;

// Why cuBLASLt does not compute this; empty if it may.
std::string refusal(const carat_problem& p) {
    const carat_epilogue& e = p.epilogue;
    for (carat_dtype type : {p.a.dtype, p.b.dtype, p.d.dtype})
        if (data_type(type) < 0) return fmt::format("cuBLASLt has no {} operands", carat_dtype_name(type));
    if (p.mode != CARAT_SINGLE && p.mode != CARAT_BATCHED)
        return "cuBLASLt is timed on single and batched problems only";
    if (p.sparsity != CARAT_DENSE) return "cuBLASLt has no sparse products";
    if (p.c.dtype != CARAT_NONE && p.c.dtype != p.d.dtype) return "cuBLASLt is timed with C of D's type only";
    for (carat_recipe recipe : {p.scale_a.recipe, p.scale_b.recipe})
        if (recipe > CARAT_SCALE_TENSOR_WISE) return "cuBLASLt is timed with tensorwise scales only";
    if (e.bias == CARAT_BIAS_M || (e.bias == CARAT_BIAS_N && p.d.order == CARAT_COL_MAJOR))
        return "cuBLASLt has a bias along one dimension only, N of a row-major D";
    if (e.activation != CARAT_ACT_NONE && e.activation != CARAT_ACT_RELU && e.activation != CARAT_ACT_GELU_TANH)
        return "cuBLASLt has the activations relu and gelu-tanh only";
    if (e.gate || e.clamp || e.amax || e.out_scale)
        return "cuBLASLt has no gated, clamped or scaled epilogue of this kind";
    if (p.compute == CARAT_COMPUTE_3XTF32 || p.compute == CARAT_COMPUTE_BF16X9)
        return "cuBLASLt is timed in the modes f32, tf32, promoted and fast only";
    if (p.m == 0 || p.n == 0 || p.k == 0) return "cuBLASLt takes no empty problem";
    return "";
}

int compute_type(const carat_problem& p) {
    if (p.a.dtype == CARAT_F64) return lt::kCompute64F;
    if (p.a.dtype == CARAT_S8) return lt::kCompute32I;
    return p.compute == CARAT_COMPUTE_TF32 ? lt::kCompute32FFastTf32 : lt::kCompute32F;
}

int scalar_type(const carat_problem& p) {
    if (p.a.dtype == CARAT_F64) return lt::kR64F;
    return p.a.dtype == CARAT_S8 && p.d.dtype == CARAT_S32 ? lt::kR32I : lt::kR32F;
}

// alpha or beta in the type that the product wants.
struct Scalar {
    alignas(8) unsigned char bytes[8] = {};
    Scalar(double value, int type) {
        const float f = static_cast<float>(value);
        const int32_t i = static_cast<int32_t>(std::lround(value));
        if (type == lt::kR64F)
            std::copy_n(reinterpret_cast<const unsigned char*>(&value), 8, bytes);
        else if (type == lt::kR32I)
            std::copy_n(reinterpret_cast<const unsigned char*>(&i), 4, bytes);
        else
            std::copy_n(reinterpret_cast<const unsigned char*>(&f), 4, bytes);
    }
};

// One matrix as cuBLASLt's column-major storage sees it, and whether it must be transposed to be the factor wanted.
struct View {
    uint64_t rows, cols;
    bool transposed;
};

// cuBLASLt is column-major: a row-major D [M,N] is its D^T [N,M] = B^T A^T, so A and B change places.
struct Product {
    const carat_problem& p;
    bool swapped;
    View first, second;
    uint64_t d_rows, d_cols;

    explicit Product(const carat_problem& problem) : p(problem), swapped(p.d.order == CARAT_ROW_MAJOR) {
        const uint64_t m = p.m, n = p.n, k = p.k;
        const bool a_row = p.a.order == CARAT_ROW_MAJOR, b_row = p.b.order == CARAT_ROW_MAJOR;
        const View a = a_row ? View{k, m, !swapped} : View{m, k, swapped};
        const View b = b_row ? View{n, k, !swapped} : View{k, n, swapped};
        first = swapped ? b : a;
        second = swapped ? a : b;
        d_rows = swapped ? n : m;
        d_cols = swapped ? m : n;
    }
    carat_dtype first_type() const { return swapped ? p.b.dtype : p.a.dtype; }
    carat_dtype second_type() const { return swapped ? p.a.dtype : p.b.dtype; }
};

// Everything a call of cublasLtMatmul takes but the pointers.
struct Operation {
    const lt::Api* api;
    lt::Handle handle;
    Owned desc, a, b, c, d, preference;
    Scalar alpha, beta;
    bool swapped, has_c, has_bias, scales_a, scales_b;
    std::shared_ptr<Buffer> workspace;

    int run(const lt::Algorithm& algorithm, const Operands& o, void* stream) const {
        const void* first = swapped ? o.b : o.a;
        const void* second = swapped ? o.a : o.b;
        int status = 0;
        if (has_bias) status |= api->desc_set(desc.get(), lt::kBiasPointer, &o.bias, sizeof o.bias);
        const float *scale_first = swapped ? o.scale_b : o.scale_a, *scale_second = swapped ? o.scale_a : o.scale_b;
        if (scale_first) status |= api->desc_set(desc.get(), lt::kScaleA, &scale_first, sizeof scale_first);
        if (scale_second) status |= api->desc_set(desc.get(), lt::kScaleB, &scale_second, sizeof scale_second);
        if (status) return status;
        return api->matmul(handle, desc.get(), alpha.bytes, first, a.get(), second, b.get(), beta.bytes,
                           has_c ? o.c : o.d, c.get(), o.d, d.get(), &algorithm, workspace->data(), workspace->size(),
                           stream);
    }
};

class Builder {
  public:
    Builder(const lt::Api& api, const carat_problem& problem) : api_(api), p_(problem), product_(problem) {}

    // Null if cuBLASLt refuses a descriptor.
    std::shared_ptr<Operation> build(lt::Handle handle, const Operands& sample, std::shared_ptr<Buffer> workspace) {
        const int scalar = scalar_type(p_);
        auto op = std::shared_ptr<Operation>(new Operation{
            &api_, handle, make_desc(sample), matrix(product_.first_type(), product_.first.rows, product_.first.cols),
            matrix(product_.second_type(), product_.second.rows, product_.second.cols),
            matrix(p_.d.dtype, product_.d_rows, product_.d_cols), matrix(p_.d.dtype, product_.d_rows, product_.d_cols),
            make_preference(), Scalar(sample.alpha, scalar), Scalar(sample.beta, scalar), product_.swapped,
            p_.c.dtype != CARAT_NONE, p_.epilogue.bias != CARAT_BIAS_NONE, p_.scale_a.recipe != 0,
            p_.scale_b.recipe != 0, std::move(workspace)});
        return failed_ ? nullptr : op;
    }

  private:
    void expect(int status) { failed_ |= status != 0; }
    Owned own(lt::Descriptor descriptor, int (*destroy)(lt::Descriptor)) { return Owned(descriptor, Deleter{destroy}); }

    Owned make_desc(const Operands& sample) {
        lt::Descriptor desc = nullptr;
        expect(api_.desc_create(&desc, compute_type(p_), scalar_type(p_)));
        if (!desc) return own(nullptr, api_.desc_destroy);
        const auto set = [&](int attribute, int32_t value) {
            expect(api_.desc_set(desc, attribute, &value, sizeof value));
        };
        set(lt::kTransA, product_.first.transposed);
        set(lt::kTransB, product_.second.transposed);
        const bool bias = p_.epilogue.bias != CARAT_BIAS_NONE;
        int epilogue = bias ? lt::kEpilogueBias : 0;
        if (p_.epilogue.activation == CARAT_ACT_RELU) epilogue |= lt::kEpilogueRelu;
        if (p_.epilogue.activation == CARAT_ACT_GELU_TANH) epilogue |= lt::kEpilogueGelu;
        set(lt::kEpilogue, epilogue ? epilogue : lt::kEpilogueNone);
        if (bias) {
            set(lt::kBiasType, data_type(p_.epilogue.bias_dtype));
            expect(api_.desc_set(desc, lt::kBiasPointer, &sample.bias, sizeof sample.bias));
        }
        if (p_.compute == CARAT_COMPUTE_FAST) {
            const int8_t fast = 1;
            expect(api_.desc_set(desc, lt::kFastAccumulation, &fast, sizeof fast));
        }
        return own(desc, api_.desc_destroy);
    }

    Owned matrix(carat_dtype type, uint64_t rows, uint64_t cols) {
        lt::Descriptor layout = nullptr;
        expect(api_.layout_create(&layout, data_type(type), rows, cols, static_cast<int64_t>(rows)));
        if (layout && p_.mode == CARAT_BATCHED) {
            const int32_t count = static_cast<int32_t>(p_.batch);
            const int64_t stride = static_cast<int64_t>(rows * cols);
            expect(api_.layout_set(layout, lt::kBatchCount, &count, sizeof count));
            expect(api_.layout_set(layout, lt::kBatchStride, &stride, sizeof stride));
        }
        return own(layout, api_.layout_destroy);
    }

    Owned make_preference() {
        lt::Descriptor preference = nullptr;
        const size_t limit = kWorkspaceBytes;
        expect(api_.preference_create(&preference));
        if (preference) expect(api_.preference_set(preference, lt::kMaxWorkspace, &limit, sizeof limit));
        return own(preference, api_.preference_destroy);
    }

    const lt::Api& api_;
    const carat_problem& p_;
    Product product_;
    bool failed_ = false;
};

std::vector<lt::Heuristic> candidates_of(const Operation& op) {
    std::vector<lt::Heuristic> found(kCandidates);
    int count = 0;
    const int status = op.api->heuristics(op.handle, op.desc.get(), op.a.get(), op.b.get(), op.c.get(), op.d.get(),
                                          op.preference.get(), kCandidates, found.data(), &count);
    found.resize(status == 0 ? static_cast<size_t>(std::max(count, 0)) : 0);
    std::erase_if(found, [](const lt::Heuristic& h) { return h.state != 0; });
    return found;
}

std::string describe(const lt::Api& api, const lt::Algorithm& algorithm) {
    static constexpr std::pair<const char*, int> kFields[] = {
        {"algo", lt::kAlgorithmId},    {"tile", lt::kTile},       {"stages", lt::kStages}, {"splitk", lt::kSplitK},
        {"reduction", lt::kReduction}, {"swizzle", lt::kSwizzle}, {"custom", lt::kCustom}};
    std::string text;
    for (const auto& [name, attribute] : kFields) {
        uint32_t value = 0;
        size_t written = 0;
        if (api.config_get(&algorithm, attribute, &value, sizeof value, &written) == 0)
            text += fmt::format("{}={} ", name, value);
    }
    for (const auto& [name, attribute] : {std::pair{"inner", lt::kInner}, std::pair{"cluster", lt::kCluster}}) {
        uint16_t value = 0;
        size_t written = 0;
        if (api.config_get(&algorithm, attribute, &value, sizeof value, &written) == 0)
            text += fmt::format("{}={} ", name, value);
    }
    return text + "(ids of cublasLt.h)";
}

class CublasLt : public Peer {
  public:
    CublasLt(const Arena& arena, const lt::Api& api, lt::Handle handle)
        : arena_(arena),
          api_(api),
          handle_(handle, Deleter{api.destroy}),
          workspace_(std::make_shared<Buffer>(arena.context, kWorkspaceBytes)) {}

    std::string version() const override {
        const size_t number = api_.version();
        const size_t major = number >= 100000 ? number / 10000 : number / 1000;
        const size_t minor = number >= 100000 ? number / 100 % 100 : number / 100 % 10;
        return fmt::format("{}.{}.{}, {}", major, minor, number % 100, api_.path);
    }

    std::unique_ptr<Contestant> prepare(const carat_problem& problem, const OperandSets& sets,
                                        std::string* why_not) override {
        if (*why_not = refusal(problem); !why_not->empty()) return nullptr;
        const auto operation = Builder(api_, problem).build(handle_.get(), sets[0], workspace_);
        if (!operation)
            return *why_not = "cuBLASLt does not take these types, this compute mode or this layout", nullptr;
        Audition audition(arena_, problem, sets);
        for (const lt::Heuristic& candidate : candidates_of(*operation)) {
            if (audition.over()) break;
            const lt::Algorithm algorithm = candidate.algorithm;
            audition.hear(describe(api_, algorithm), [operation, algorithm](const Operands& operands, void* stream) {
                if (const int status = operation->run(algorithm, operands, stream); status != 0)
                    fail(kTaskFailed, "cublasLtMatmul failed with status {}", status);
            });
        }
        auto winner = audition.winner();
        if (!winner) *why_not = "cuBLASLt's heuristic has no algorithm for this problem";
        return winner;
    }

  private:
    const Arena arena_;
    const lt::Api& api_;
    Owned handle_;
    std::shared_ptr<Buffer> workspace_;
};

}  // namespace

std::unique_ptr<Peer> open_cublaslt(const Arena& arena, std::string* why_not) {
    const lt::Api* api = lt::load(why_not);
    if (!api || !make_current(arena.device, why_not)) return nullptr;
    lt::Handle handle = nullptr;
    if (const int status = api->create(&handle); status != 0)
        return *why_not = fmt::format("cublasLtCreate of {} failed with status {}", api->path, status), nullptr;
    return std::make_unique<CublasLt>(arena, *api, handle);
}

}  // namespace carat::cli
