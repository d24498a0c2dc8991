// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_stream.hpp"

#include <algorithm>

#include "dispatch/cuda_kernel.hpp"
#include "dispatch/ladder.hpp"
#include "dispatch/runtime.hpp"
#include "dispatch/swapped.hpp"

namespace carat {
namespace {

constexpr const char* kFamily = "sm80_stream";
constexpr int kMostRows = 16;
constexpr int64_t kMostSize = (int64_t(1) << 30) - 1;
constexpr int kStepDepth = 32;  // kStreamStep of kernels/mainloop/streamed_operands.cuh
constexpr int64_t kSlotBytesOfWarp = 512;

void require(const Problem& p, const Target& target, Requirements& r) {
    require_16bit_gemm(p, target, 80, r);
    r.require(
        p.m <= kMostRows || (p.n <= kMostRows && can_swap(p)),
        "it takes at most {0} rows of D, or {0} columns where nothing is tied to rows or columns (no gate, no scale "
        "of a row), but D has {1} rows and {2} columns",
        kMostRows, p.m, p.d_cols());
    // Divided first: the product of two sizes may exceed 64 bits.
    const int64_t lines = std::max(p.m, p.n);
    r.require(p.k <= kMostSize && lines <= kMostSize / std::max<int64_t>(p.entries(), 1),
              "K, and rows and columns of D over the batch, must be below 2^30, but it is {} x {} x {}, {} times", p.m,
              p.n, p.k, p.entries());
}

Problem kernel_problem(const Problem& p, const Config& config) {
    return config.swapped ? swap_operands(p) : p;
}

// ---------------------------------------------------------------- shapes of a block

// Blocks of a cluster that share a tile along K.
constexpr int kClusters[] = {1, 2, 4};

// Warps side by side along the columns of B, each with `rows` of them (rows in memory, if B is column-major), and along K.
struct Shape {
    int rows, warps_k, warps_n;
};
// Few columns a block: all warps along K. Many: along the columns, and there is little or nothing to add up.
constexpr Shape kShapes[] = {{32, 16, 1}, {16, 16, 1}, {32, 8, 2}, {32, 4, 4}, {32, 2, 8}, {32, 1, 16}};
// Lines of B run along its columns, 64 for a warp.
constexpr Shape kShapesAcross[] = {{64, 8, 1}, {64, 4, 2}, {64, 2, 4}, {64, 1, 8}};
constexpr int kMostStages = 8;
// 64 KB of B on their way: with 96 to 128 an H200 took as long, and 0.5 us more where a kernel takes 10.
constexpr int64_t kRingBytes = 96 << 10;

std::span<const Shape> shapes(const Problem& p) {
    if (p.b.order == CARAT_ROW_MAJOR) return kShapesAcross;
    return kShapes;
}

int parts(const Problem& p) {
    return p.epilogue.gate == CARAT_GATE_NONE ? 1 : 2;
}

Config config_of(const Problem& p, const Shape& shape) {
    const int rows_a = p.m <= 8 ? 8 : kMostRows;
    Config config = rung_config(kFamily, p, rows_a, shape.rows * shape.warps_n / parts(p), kStepDepth * shape.warps_k);
    config.tm = rows_a, config.tn = shape.rows;
    return config;
}

int cluster_of(const Config& config) {
    return std::max(config.split_k, 1);
}

Shape shape_of(const Problem& p, const Config& config) {
    return {config.tn, config.bk / kStepDepth, config.bn * parts(p) / config.tn};
}

int warps_of(const Shape& shape) {
    return shape.warps_k * shape.warps_n;
}

// StreamedOperands::kRingBytes for one stage.
int64_t stage_bytes(const Config& config, const Shape& shape) {
    return (config.tn / 8 + config.tm / 8) * warps_of(shape) * kSlotBytesOfWarp;
}

// A StagedTile (kernels/epilogue/staged_tile.cuh) for each warp along K.
int64_t sums_bytes(const Problem& p, const Config& config, const Shape& shape) {
    const int64_t cols = config.bn * parts(p);
    const int64_t tile = p.d.order == CARAT_ROW_MAJOR ? (cols + 8) * config.bm : (config.bm + 4) * cols;
    return 4 * tile * shape.warps_k;
}

int64_t shared_bytes(const Problem& p, const Config& config, const Shape& shape) {
    return config.stages * stage_bytes(config, shape) + sums_bytes(p, config, shape);
}

// Columns of D that runs and tiles are multiples of: those of one computed scale; a chunk of a row-major B.
int grain_of(const Problem& p) {
    if (p.epilogue.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128) return 128;
    return p.b.order == CARAT_ROW_MAJOR ? 8 : 1;
}

int64_t grains(const Problem& p) {
    return ceil_div(p.d_cols(), grain_of(p)) * p.entries();
}

// Blocks, or clusters of them, with a run of columns each.
int64_t runs_of(const Problem& p, int cluster, const Target& target) {
    return std::clamp<int64_t>(grains(p), 1, std::max(target.units / cluster, 1));
}

bool suits(const Problem& p, const Config& config, const Target& target) {
    const Shape shape = shape_of(p, config);
    const bool one_scale = p.epilogue.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128;
    return (!one_scale || config.bn == 128) && config.stages >= 2 &&
           shared_bytes(p, config, shape) <= target.shared_bytes_per_block;
}

// Clusters where all columns of a run fit in a tile, even so, and all warps share K; each with the ring as long as it may be.
std::vector<Config> configs_of(const Problem& p, const Target& target) {
    std::vector<Config> configs;
    for (const int cluster : kClusters)
        for (const Shape& shape : shapes(p)) {
            Config config = config_of(p, shape);
            if (cluster > 1) {
                const bool few = ceil_div(grains(p), runs_of(p, cluster, target)) * grain_of(p) <= config.bn;
                if (target.cc_major < 9 || shape.warps_n > 1 || !few) continue;
                config.split_k = cluster, config.split_form = SplitForm::cluster;
            }
            const int64_t room = target.shared_bytes_per_block - sums_bytes(p, config, shape);
            config.stages =
                int(std::clamp<int64_t>(std::min(room, kRingBytes) / stage_bytes(config, shape), 0, kMostStages));
            if (suits(p, config, target)) configs.push_back(config);
        }
    return configs;
}

std::vector<Config> candidates(const Problem& p, const Target& target) {
    std::vector<Config> configs;
    if (p.m <= kMostRows) configs = configs_of(p, target);
    if (p.n <= kMostRows && can_swap(p))
        for (Config& config : configs_of(swap_operands(p), target)) configs.push_back(swapped(std::move(config), p));
    return configs;
}

Config kernel_config(const Config& config, const Problem& runs) {
    return config.swapped ? unswapped(config, runs) : config;
}

// Any length of the ring that fits.
bool has(const Problem& p, const Config& config, const Target& target) {
    if (config.swapped ? p.n > kMostRows || !can_swap(p) : p.m > kMostRows) return false;
    const Problem runs = kernel_problem(p, config);
    const Config of_kernel = kernel_config(config, runs);
    return std::any_of(shapes(runs).begin(), shapes(runs).end(), [&](const Shape& shape) {
        Config known = config_of(runs, shape);
        known.stages = of_kernel.stages, known.split_k = of_kernel.split_k, known.split_form = of_kernel.split_form;
        const bool clusters = target.cc_major >= 9 && (known.split_k == 2 || known.split_k == 4 || known.split_k == 8);
        return known == of_kernel && (known.split_k == 0 || (clusters && known.split_form == SplitForm::cluster)) &&
               suits(runs, known, target);
    });
}

// ---------------------------------------------------------------- cost

// The share of its speed that the memory reaches with so many bytes an SM on their way: measured, 16 KB 0.70, 32 KB 0.95,
// 64 KB 1.
double speed(double bytes, const CostParameters& cost) {
    constexpr double kKb = 1024;
    const double at_16kb = cost.stream_speed_16kb, at_32kb = cost.stream_speed_32kb;
    if (bytes < 16 * kKb) return std::max(bytes / (16 * kKb), 0.01) * at_16kb;
    if (bytes < 32 * kKb) return at_16kb + (bytes / kKb - 16) / 16 * (at_32kb - at_16kb);
    return std::min(at_32kb + (bytes / kKb - 32) / 32 * (1 - at_32kb), 1.0);
}

Prediction predict_kernel(const Problem& p, const Config& config, const Target& target) {
    const CostParameters& cost = target.cost;
    const Shape shape = shape_of(p, config);
    const Floor floor = floor_of(p, target, p.has_c());
    const int cluster = cluster_of(config);
    const double runs = double(runs_of(p, cluster, target));
    const double longest = double(ceil_div(grains(p), int64_t(runs)) * grain_of(p));
    const double tiles = std::ceil(longest / config.bn), filled = longest / tiles / config.bn;
    const double even = double(p.d_cols()) * double(p.entries()) / runs;
    // Steps of a warp in a tile, of which the last may lie beyond K.
    const double steps = double(ceil_div(std::max<int64_t>(p.k, 1), config.bk * cluster));
    const double whole_steps = double(p.k) / (steps * config.bk * cluster);
    const double ahead = std::min(config.stages - 0.5, tiles * steps);
    const double on_their_way = ahead * double(config.tn / 8 * warps_of(shape) * kSlotBytesOfWarp);
    const double fills = filled * (p.k == 0 ? 1 : whole_steps);
    // How much longer than a read of B the stream takes with so many rows of A beside it.
    const double beside = config.bm <= 8 ? cost.stream_rows_8 : cost.stream_rows_16;
    const double memory = target.launch_us + (floor.memory_us - target.launch_us) * beside *
                                                 std::max(longest / even, 1.0) / speed(on_their_way * fills, cost);
    const double around =
        cost.stream_end_us + cost.stream_tile_us * (tiles - 1) + (cluster > 1 ? cost.stream_cluster_us : 0);
    // Each tile reads all of A again, from L2 at worst.
    const double l2_bytes = (longest * parts(p) + tiles * double(p.m)) * double(p.k) * 2 * runs;
    const double l2 = target.l2_tb_per_s > 0 ? cost.stream_l2_us + l2_bytes / (target.l2_tb_per_s * 1e6) : 0;
    if (l2 > memory) return {l2 + around, "L2"};
    return {std::max(memory + around, target.launch_us), "memory"};
}

Prediction predict(const Problem& p, const Config& config, const Target& target) {
    if (p.empty()) return {target.launch_us, "launch"};
    const Problem runs = kernel_problem(p, config);
    return predict_kernel(runs, kernel_config(config, runs), target);
}

// ---------------------------------------------------------------- prepare

// What the copies of whole chunks ask of extents, pitches and strides; a column-major A has no chunks.
bool has_whole_chunks(const Problem& p) {
    const auto whole = [](const carat_matrix& x, int64_t contiguous) {
        return contiguous % 8 == 0 && x.ld % 8 == 0 && x.batch_stride % 8 == 0;
    };
    // A gate of split halves reads each half of B's columns on its own.
    const int64_t run = p.epilogue.gate == CARAT_GATE_SPLIT ? p.n / 2 : p.n;
    return (p.a.order == CARAT_COL_MAJOR || whole(p.a, p.k)) && whole(p.b, p.b.order == CARAT_ROW_MAJOR ? run : p.k);
}

Result<std::unique_ptr<Executable>> prepare(const Problem& p, const Config& config, Runtime& runtime) {
    const Problem runs = kernel_problem(p, config);
    const Config of_kernel = kernel_config(config, runs);
    const Shape shape = shape_of(runs, of_kernel);
    CudaKernel kernel;
    kernel.include = "gemm_stream.cuh";
    kernel.function = "carat_kernel::gemm_stream";
    kernel.shape.threads = unsigned(32 * warps_of(shape));
    const int cluster = cluster_of(of_kernel);
    kernel.shape.grid_x = unsigned(runs_of(runs, cluster, runtime.target) * cluster);
    kernel.shape.cluster_x = unsigned(cluster);
    kernel.shape.dynamic_shared_bytes = unsigned(shared_bytes(runs, of_kernel, shape));
    kernel.shape.programmatic = runtime.target.cc_major >= 9;
    kernel.constants = epilogue_constants(runs);
    const auto number = [&](const char* name, int value) {
        kernel.constants.emplace_back(name, std::to_string(value));
    };
    const auto flag = [&](const char* name, bool value) {
        kernel.constants.emplace_back(name, value ? "true" : "false");
    };
    number("kThreads", int(kernel.shape.threads));
    number("kMinBlocks", 1);
    number("kClusterK", cluster);
    number("kGrain", grain_of(runs));
    flag("kWholeChunks", has_whole_chunks(runs));
    flag("kFetchFirst", kernel.shape.programmatic);
    kernel.must_not_spill = true;
    CARAT_ASSIGN(auto executable, prepare_cuda(runs, of_kernel, {&kernel, 1}, runtime));
    return config.swapped ? swap_operands(std::move(executable)) : std::move(executable);
}

}  // namespace

const Row kRowStream = {kFamily,
                        "At most 16 rows (or columns) of D: reads the weights once, at the memory's speed (f16, bf16).",
                        "kernels/gemm_stream.cuh",
                        CARAT_BACKEND_CUDA,
                        require,
                        candidates,
                        predict,
                        prepare,
                        has,
                        false,
                        nullptr,
                        nullptr,  // warps share K in ways that depend on the shape
                        kMostRows};

}  // namespace carat
