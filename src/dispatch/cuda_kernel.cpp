// SPDX-License-Identifier: Apache-2.0
#include "dispatch/cuda_kernel.hpp"

#include <algorithm>
#include <iterator>

#include "dispatch/runtime.hpp"
#include "jit/jit.hpp"

namespace carat {
namespace {

namespace shared = carat_shared;

static_assert(int(shared::kTypeNone) == CARAT_NONE && int(shared::kTypeF32) == CARAT_F32);
static_assert(int(shared::kTypeF16) == CARAT_F16 && int(shared::kTypeBf16) == CARAT_BF16);
static_assert(int(shared::kTypeE4m3) == CARAT_E4M3 && int(shared::kTypeE5m2) == CARAT_E5M2);
static_assert(int(shared::kTypeS8) == CARAT_S8);
static_assert(int(shared::kActNone) == CARAT_ACT_NONE && int(shared::kActRelu) == CARAT_ACT_RELU);
static_assert(int(shared::kActGeluErf) == CARAT_ACT_GELU_ERF && int(shared::kActGeluTanh) == CARAT_ACT_GELU_TANH);
static_assert(int(shared::kActSilu) == CARAT_ACT_SILU && int(shared::kActSigmoid) == CARAT_ACT_SIGMOID);
static_assert(int(shared::kGateNone) == CARAT_GATE_NONE && int(shared::kGateInterleaved) == CARAT_GATE_INTERLEAVED);
static_assert(int(shared::kGateSplit) == CARAT_GATE_SPLIT);
static_assert(int(shared::kBiasNone) == CARAT_BIAS_NONE && int(shared::kBiasN) == CARAT_BIAS_N);
static_assert(int(shared::kBiasM) == CARAT_BIAS_M);
static_assert(int(shared::kOutScaleNone) == CARAT_OUT_SCALE_NONE);
static_assert(int(shared::kOutScaleTensor) == CARAT_OUT_SCALE_TENSOR);
static_assert(int(shared::kOutScaleRow) == CARAT_OUT_SCALE_ROW);
static_assert(int(shared::kOutScaleComputed) == CARAT_OUT_SCALE_COMPUTED_1X128);

const char* text(bool value) {
    return value ? "true" : "false";
}

shared::Strided strided(const carat_matrix& matrix) {
    const Strides s = Problem::strides(matrix);
    return {s.row, s.col, s.batch};
}

shared::GemmParams make_params(const Problem& problem) {
    shared::GemmParams params = {};
    params.m = problem.m;
    params.n = problem.n;
    params.k = problem.k;
    params.batch = problem.entries();
    params.a_strides = strided(problem.a);
    params.b_strides = strided(problem.b);
    if (problem.has_c()) params.c_strides = strided(problem.c);
    params.d_strides = strided(problem.d);
    params.epilogue.bias_batch = problem.epilogue.bias_batch_stride;
    params.epilogue.clamp_lo = problem.epilogue.clamp_lo;
    params.epilogue.clamp_hi = problem.epilogue.clamp_hi;
    return params;
}

void bind(shared::GemmParams& params, const carat_operands& operands) {
    params.a = operands.a;
    params.b = operands.b;
    params.c = operands.c;
    params.d = operands.d;
    params.epilogue.alpha = operands.alpha;
    params.epilogue.beta = operands.beta;
    params.epilogue.alpha_device = operands.alpha_device;
    params.epilogue.beta_device = operands.beta_device;
    params.epilogue.bias = operands.bias;
    params.epilogue.out_scale = operands.out_scale;
    params.epilogue.d_scales = operands.d_scales;
    params.epilogue.amax = operands.amax;
}

// What may be copied in bulk: its description, the place of its map among the parameters, and its address.
struct BulkOperand {
    std::optional<cuda::TensorMapDesc> BulkMaps::*desc;
    shared::BulkMap& (*map)(shared::BulkGemmParams&);
    const void* (*address)(const carat_operands&);
};
using Params = shared::BulkGemmParams;
const void* address_of_a(const carat_operands& o) {
    return o.a;
}
const void* address_of_b(const carat_operands& o) {
    return o.b;
}
constexpr BulkOperand kBulkOperands[] = {
    {&BulkMaps::a, [](Params& p) -> shared::BulkMap& { return p.a_maps.whole; }, address_of_a},
    {&BulkMaps::b, [](Params& p) -> shared::BulkMap& { return p.b_maps.whole; }, address_of_b},
    {&BulkMaps::a_last, [](Params& p) -> shared::BulkMap& { return p.a_maps.last; }, address_of_a},
    {&BulkMaps::b_last, [](Params& p) -> shared::BulkMap& { return p.b_maps.last; }, address_of_b},
    {&BulkMaps::c, [](Params& p) -> shared::BulkMap& { return p.c_map; }, [](const carat_operands& o) { return o.c; }},
    {&BulkMaps::d, [](Params& p) -> shared::BulkMap& { return p.d_map; },
     [](const carat_operands& o) -> const void* { return o.d; }},
};

bool is_bulk_address(const void* address) {
    return address != nullptr && reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

// In bytes: of the workspace's parts, a line of L2 and what allocations are aligned to.
constexpr size_t kPartAlignment = 256;

size_t words_bytes(const WorkspaceUse& use) {
    return size_t(round_up(int64_t(use.zeroed_words * sizeof(unsigned)), int64_t(kPartAlignment)));
}

class CudaExecutable final : public Executable {
  public:
    CudaExecutable(const Problem& problem, std::string name)
        : params_(make_params(problem)),
          empty_(problem.empty()),
          amax_(problem.epilogue.amax != 0),
          name_(std::move(name)) {}

    void add(const CudaKernel& kernel, KernelFacts facts) {
        ways_.push_back({kernel.shape,
                         kernel.parameters == "BulkGemmParams",
                         kernel.walk,
                         kernel.once_a,
                         kernel.once_b,
                         kernel.early_bytes,
                         kernel.workspace,
                         {},
                         nullptr,
                         {}});
        if (ways_.size() == 1) facts_ = std::move(facts);
    }

    // The way added last.
    Status load(std::shared_ptr<const cuda::Device> device, const std::vector<std::byte>& cubin,
                const std::optional<BulkMaps>& bulk) {
        Way& way = ways_.back();
        CARAT_ASSIGN(way.module, device->module(cubin, way.shape.dynamic_shared_bytes, name_));
        // A persistent kernel's clusters must all run at once: one that waits for the others doubles the time.
        if (const int active = way.shape.cluster_x > 1 ? way.module->active_clusters(way.shape) : 0)
            way.shape.grid_x = std::min(way.shape.grid_x, unsigned(active) * way.shape.cluster_x);
        for (const BulkOperand& operand : kBulkOperands) {
            if (!bulk || !((*bulk).*operand.desc)) continue;
            CARAT_ASSIGN(const cuda::TensorMap map, device->tensor_map(*((*bulk).*operand.desc)));
            way.maps.push_back({&operand, map});
        }
        device_ = std::move(device);
        return {};
    }

    // What follows the way added last.
    Status load_after(const cuda::Device& device, const std::vector<std::byte>& cubin, const cuda::LaunchShape& shape) {
        CARAT_ASSIGN(auto module, device.module(cubin, shape.dynamic_shared_bytes, name_));
        ways_.back().then.push_back({shape, std::move(module)});
        return {};
    }

    size_t workspace_bytes() const override {
        size_t bytes = 0;
        for (const Way& way : ways_) bytes = std::max(bytes, way.workspace.bytes());
        return bytes;
    }
    KernelFacts facts() const override { return facts_; }

    Status execute(const carat_operands& operands, void* stream) const override {
        if (empty_) return {};
        if (device_ == nullptr)
            return fail(CARAT_NOT_INITIALIZED,
                        "kernel {} was only planned, because the context has no GPU (it was made for a named target): "
                        "create a context on the device that is to run it",
                        name_);
        // Zeroed here and not by the caller, so that a repeated execution and a replayed graph give the same maximum.
        if (amax_) CARAT_TRY(device_->fill_async(operands.amax, 0, 1, stream));
        for (const Way& way : ways_) {
            if (!takes(way, operands)) continue;
            shared::BulkGemmParams params = {params_,         {}, {}, {}, {}, way.walk, way.once_a, way.once_b,
                                             way.early_bytes, {}};
            bind(params, operands);
            if (way.workspace.sums_bytes > 0) CARAT_TRY(bind_workspace(params.split, way.workspace, operands, stream));
            const size_t bytes = way.takes_maps ? sizeof params : sizeof(shared::GemmParams);
            const PlacedMaps maps(way, operands, params);
            CARAT_TRY(way.module->launch(way.shape, &params, bytes, stream, maps.all()));
            for (const Follower& follower : way.then)
                CARAT_TRY(follower.module->launch(follower.shape, &params, bytes, stream));
            return {};
        }
        return fail(CARAT_NOT_SUPPORTED, "kernel {} takes no operands at these addresses: please report it", name_);
    }

  private:
    struct Map {
        const BulkOperand* operand;
        cuda::TensorMap encoded;
    };
    struct Follower {
        cuda::LaunchShape shape;
        std::shared_ptr<const cuda::Module> module;
    };
    struct Way {
        cuda::LaunchShape shape;
        bool takes_maps;
        shared::TileWalk walk;
        int once_a, once_b, early_bytes;
        WorkspaceUse workspace;
        std::vector<Map> maps;
        std::shared_ptr<const cuda::Module> module;
        std::vector<Follower> then;
    };

    // The words are zeroed on the stream before each launch, and not by the launch before: whatever is in the workspace, and
    // however that one ended, the kernel finds them so. A captured graph has the fill as a node.
    Status bind_workspace(shared::SplitParams& split, const WorkspaceUse& use, const carat_operands& operands,
                          void* stream) const {
        const uintptr_t begin = uintptr_t(round_up(int64_t(uintptr_t(operands.workspace)), int64_t(kPartAlignment)));
        split.turns = reinterpret_cast<unsigned*>(begin);
        split.sums = reinterpret_cast<float*>(begin + words_bytes(use));
        return use.zeroed_words > 0 ? device_->fill_async(split.turns, 0, use.zeroed_words, stream) : Status();
    }

    // Where the maps of a launch go: into its own copy of the parameters, as other threads may be launching, too.
    struct PlacedMaps {
        PlacedMaps(const Way& way, const carat_operands& operands, shared::BulkGemmParams& params) {
            for (const Map& map : way.maps) {
                static_assert(sizeof map.encoded == sizeof(shared::BulkMap));
                const void* address = map.operand->address(operands);
                if (address != nullptr) maps[count++] = {&map.encoded, address, &map.operand->map(params)};
            }
        }
        std::span<const cuda::PlacedMap> all() const { return {maps, count}; }

        cuda::PlacedMap maps[std::size(kBulkOperands)];
        size_t count = 0;
    };

    // alpha = 0 and K = 0 come without A and B, which bulk copies could not describe. beta = 0 may come without C, for which
    // its kernels do not ask then.
    static bool takes(const Way& way, const carat_operands& operands) {
        return std::all_of(way.maps.begin(), way.maps.end(), [&](const Map& map) {
            const void* address = map.operand->address(operands);
            return is_bulk_address(address) || (map.operand->desc == &BulkMaps::c && address == nullptr);
        });
    }

    shared::GemmParams params_;
    bool empty_, amax_;
    std::string name_;
    KernelFacts facts_;
    std::vector<Way> ways_;
    std::shared_ptr<const cuda::Device> device_;
};

}  // namespace

size_t WorkspaceUse::bytes() const {
    return sums_bytes == 0 ? 0 : kPartAlignment + words_bytes(*this) + sums_bytes;
}

std::vector<jit::Constant> epilogue_constants(const Problem& problem) {
    const carat_epilogue& e = problem.epilogue;
    return {
        {"kRowMajorD", text(problem.d.order == CARAT_ROW_MAJOR)},
        {"kDeviceScalars", text(e.scalars_on_device != 0)},
        {"kHasC", text(problem.has_c())},
        {"kTypeC", std::to_string(int(problem.c.dtype))},
        {"kBias", std::to_string(int(e.bias))},
        {"kTypeBias", std::to_string(int(e.bias == CARAT_BIAS_NONE ? CARAT_NONE : e.bias_dtype))},
        {"kActivation", std::to_string(int(e.activation))},
        {"kGate", std::to_string(int(e.gate))},
        {"kClamp", text(e.clamp != 0)},
        {"kAmax", text(e.amax != 0)},
        {"kOutScale", std::to_string(int(e.out_scale))},
    };
}

void require_cuda(const Problem&, const Target& target, Requirements& requirements) {
    requirements.require(target.backend == CARAT_BACKEND_CUDA, "it runs on a CUDA GPU, but the target is {}",
                         target.name);
    requirements.require(target.cc_major * 10 + target.cc_minor >= 75,
                         "it needs compute capability 7.5 or newer, but {} has {}.{}", target.name, target.cc_major,
                         target.cc_minor);
}

Status refuse_if_slow(const std::string& kernel, const KernelFacts& facts) {
    constexpr const char* kRemedy =
        "leave the kernel to the library or name another configuration (`carat explain --candidates`), and please "
        "report it";
    if (facts.spill_bytes > 0)
        return fail(CARAT_COMPILE_FAILED,
                    "kernel {} is refused, because the compiler gave it {} registers and spilled {} bytes: {}", kernel,
                    facts.registers, facts.spill_bytes, kRemedy);
    if (!facts.warnings.empty())
        return fail(CARAT_COMPILE_FAILED, "kernel {} ({} registers) is refused, because the compiler says '{}': {}",
                    kernel, facts.registers, facts.warnings, kRemedy);
    return {};
}

Result<std::unique_ptr<Executable>> prepare_cuda(const Problem& problem, const Config& config,
                                                 std::span<const CudaKernel> kernels, Runtime& runtime) {
    if (runtime.jit == nullptr)
        return fail(CARAT_NOT_INITIALIZED,
                    "kernel {} needs a CUDA context, but this one is for the CPU: create one with backend CUDA",
                    config.name());
    auto executable = std::make_unique<CudaExecutable>(problem, config.name());
    const auto build = [&](const CudaKernel& kernel) -> Result<std::shared_ptr<const jit::Artifact>> {
        jit::Request request;
        request.name = config.name();
        request.main = jit::generate_main(kernel.config.value_or(config), kernel.constants, kernel.include,
                                          kernel.function, kernel.parameters);
        request.arch = runtime.target.arch();
        request.may_compile = runtime.may_compile;
        CARAT_ASSIGN(auto artifact, runtime.jit->build(request));
        if (kernel.must_not_spill) CARAT_TRY(refuse_if_slow(config.name(), artifact->facts));
        return artifact;
    };
    for (const CudaKernel& kernel : kernels) {
        CARAT_ASSIGN(const auto artifact, build(kernel));
        KernelFacts facts = artifact->facts;
        facts.threads = int(kernel.shape.threads);
        facts.dynamic_shared_bytes = kernel.shape.dynamic_shared_bytes;
        executable->add(kernel, std::move(facts));
        if (runtime.device != nullptr) CARAT_TRY(executable->load(runtime.device, artifact->cubin, kernel.bulk));
        for (const CudaKernel& follower : kernel.then) {
            CARAT_ASSIGN(const auto next, build(follower));
            if (runtime.device != nullptr)
                CARAT_TRY(executable->load_after(*runtime.device, next->cubin, follower.shape));
        }
    }
    return std::unique_ptr<Executable>(std::move(executable));
}

}  // namespace carat
