// SPDX-License-Identifier: Apache-2.0
// fast.cpp: the fast CPU backend above the instruction sets: which of them this machine has, what problems they take,
// and how a problem becomes plain GEMMs (a batch entry, a group), those become tiles, and tiles go to threads.
#include "cpu/fast.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <new>
#include <vector>

#include "core/env.hpp"
#include "core/log.hpp"
#include "cpu/gemm.hpp"

namespace carat::cpu {
namespace {

struct IsaRow {
    Isa isa;
    const char* name;
    bool (*present)();
    const IsaKernels* (*kernels)();
};

// The compiler's run-time checks ask the operating system too (XGETBV), not only the CPU.
bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

constexpr IsaRow kIsas[] = {
    {Isa::avx512_bf16, "avx512_bf16", [] { return has_avx512() && bool(__builtin_cpu_supports("avx512bf16")); },
     avx512_bf16_kernels},
    {Isa::avx512, "avx512", has_avx512, avx512_kernels},
    {Isa::avx2, "avx2", has_avx2, avx2_kernels},
    {Isa::portable, "portable", [] { return true; }, portable_kernels},
};

const IsaRow& row_of(Isa isa) {
    return kIsas[size_t(isa)];
}

bool exact_in_bf16(carat_dtype dtype) {
    return dtype != CARAT_F64 && dtype != CARAT_F32 && dtype != CARAT_F16 && dtype != CARAT_S32;
}
bool is_integer(carat_dtype dtype) {
    return dtype == CARAT_S8 || dtype == CARAT_S4 || dtype == CARAT_U4;
}
// Scales that change along K have to be applied before the sum.
bool scaled_in_packing(const carat_scale& scale) {
    return scale.recipe >= CARAT_SCALE_BLOCK_WISE_1X128;
}
bool integer_sums(const Problem& p) {
    return is_integer(p.a.dtype) && is_integer(p.b.dtype) && !scaled_in_packing(p.scale_a) &&
           !scaled_in_packing(p.scale_b);
}

// |s8 * s8| <= 2^14, so this many products cannot overflow an s32.
constexpr int64_t kIntegerK = (int64_t{1} << 31) / (1 << 14) - 1;

void require_epilogue(const Problem& p, Requirements& r) {
    const carat_epilogue& e = p.epilogue;
    const bool by_row = e.out_scale == CARAT_OUT_SCALE_ROW || e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128;
    r.require(p.d.order == CARAT_ROW_MAJOR || (e.gate == CARAT_GATE_NONE && !by_row),
              "D is column-major: gates and output scales by row need a row-major D here");
    r.require(e.gate == CARAT_GATE_NONE || !p.has_c(), "a gated epilogue with C is left to the reference");
}

// ---------------------------------------------------------------- from a problem to plain GEMMs

// One plain GEMM of a problem: rows [row0, row0 + rows) and k [k0, k0 + depth) of batch entry or group `index`.
struct Piece {
    int64_t index, row0, rows, k0, depth;
    int64_t first_task;
};

View view_of(const carat_matrix& matrix, bool is_a, const void* data, int64_t index, int64_t extent) {
    const Strides s = Problem::strides(matrix);
    View v = {};
    v.data = data;
    v.dtype = matrix.dtype;
    v.offset = index * s.batch;
    v.ext_stride = is_a ? s.row : s.col;
    v.k_stride = is_a ? s.col : s.row;
    v.extent = extent;
    return v;
}

void scale_view(View& v, const carat_scale& scale, const float* data, const float* zero, int64_t index, int64_t row0) {
    if (!scaled_in_packing(scale)) return;
    const bool row_major = scale.order == CARAT_ROW_MAJOR;
    v.scale = data + index * scale.batch_stride;
    v.zero = scale.recipe == CARAT_SCALE_GROUP_WISE && scale.zero_points ? zero + index * scale.batch_stride : nullptr;
    v.scale_ext_stride = row_major ? scale.ld : 1;
    v.scale_k_stride = row_major ? 1 : scale.ld;
    v.ext_origin = row0;
    v.ext_block = scale.recipe == CARAT_SCALE_BLOCK_WISE_128X128 ? 128 : 1;
    v.k_block = scale.recipe == CARAT_SCALE_GROUP_WISE ? scale.group : 128;
}

// Tensor- and row-wise scales, applied to the sums.
const float* sum_scale(const carat_scale& scale, const float* data, int64_t index, int64_t row0, int64_t& step) {
    step = 0;
    if (scale.recipe != CARAT_SCALE_TENSOR_WISE && scale.recipe != CARAT_SCALE_ROW_WISE) return nullptr;
    if (scale.recipe == CARAT_SCALE_ROW_WISE) step = scale.order == CARAT_ROW_MAJOR ? scale.ld : 1;
    return data + index * scale.batch_stride + row0 * step;
}

double scalar(const Problem& p, double host, const void* device, double absent) {
    if (!p.epilogue.scalars_on_device) return host;
    if (device == nullptr) return absent;
    return p.a.dtype == CARAT_F64 ? *static_cast<const double*>(device) : *static_cast<const float*>(device);
}

Panel panel_of(Isa isa, const Problem& p) {
    if (p.a.dtype == CARAT_F64) return Panel::f64;
    const bool pairs = isa == Isa::avx512_bf16 && exact_in_bf16(p.a.dtype) && exact_in_bf16(p.b.dtype) &&
                       !scaled_in_packing(p.scale_a) && !scaled_in_packing(p.scale_b);
    if (integer_sums(p)) return pairs ? Panel::s8_bf16 : Panel::s8;
    return pairs ? Panel::bf16 : Panel::f32;
}

// first_row: row of out_scale and d_scales that belongs to the job's first row.
void set_epilogue(Job& job, const Problem& p, const carat_operands& o, int64_t index, int64_t row0, int64_t first_row) {
    const carat_epilogue& e = p.epilogue;
    if (e.bias != CARAT_BIAS_NONE) {
        job.bias = o.bias;
        job.bias_dtype = e.bias_dtype;
        job.bias_on_rows = e.bias == CARAT_BIAS_M;
        job.bias_offset = index * e.bias_batch_stride + (job.bias_on_rows ? row0 : 0);
    }
    job.activation = e.activation;
    job.gate = e.gate;
    job.clamp = e.clamp != 0;
    job.clamp_lo = e.clamp_lo;
    job.clamp_hi = e.clamp_hi;
    job.want_amax = e.amax != 0;
    job.out_scale = e.out_scale;
    job.out_scale_values = o.out_scale;
    if (e.out_scale == CARAT_OUT_SCALE_ROW) job.out_scale_values += first_row;
    if (e.out_scale == CARAT_OUT_SCALE_COMPUTED_1X128) {
        job.ld_scales = ceil_div(p.d_cols(), 128);
        job.d_scales = o.d_scales + first_row * job.ld_scales;
        job.d_largest = float(info(p.d.dtype).largest);
    }
}

// A column-major D is the row-major D of the transposed problem.
void transpose_job(Job& job) {
    std::swap(job.m, job.n);
    std::swap(job.a, job.b);
    std::swap(job.row_scale, job.col_scale);
    std::swap(job.row_scale_step, job.col_scale_step);
    job.bias_on_rows = !job.bias_on_rows;
}

Job job_of(Isa isa, const Problem& p, const carat_operands& o, const Piece& piece) {
    const bool pointers = p.mode == CARAT_BATCHED_POINTERS;
    const bool rows_packed =
        p.mode == CARAT_GROUPED && (p.group_form == CARAT_GROUP_M_OFFSETS || p.group_form == CARAT_GROUP_M_INDICES);
    const bool k_packed = p.mode == CARAT_GROUPED && p.group_form == CARAT_GROUP_K_OFFSETS;
    const int64_t i = piece.index, at = pointers ? 0 : i;
    const int64_t a_index = rows_packed || k_packed ? 0 : at, b_index = k_packed ? 0 : at,
                  d_index = rows_packed ? 0 : at;
    Job job = {};
    job.panel = panel_of(isa, p);
    job.m = piece.rows;
    job.n = p.n;
    job.alpha = scalar(p, o.alpha, o.alpha_device, 1);
    job.beta = p.has_c() ? scalar(p, o.beta, o.beta_device, 0) : 0;
    job.k = job.alpha == 0 ? 0 : piece.depth;

    job.a = view_of(p.a, true, pointers ? o.a_array[i] : o.a, a_index, piece.rows);
    job.b = view_of(p.b, false, pointers ? o.b_array[i] : o.b, b_index, p.n);
    job.a.offset += piece.row0 * job.a.ext_stride + piece.k0 * job.a.k_stride;
    job.b.offset += piece.k0 * job.b.k_stride;
    // A grid that runs along packed rows is one for all groups; else each batch entry or group has its own.
    const int64_t a_grid = rows_packed && p.scale_a.recipe != CARAT_SCALE_TENSOR_WISE ? 0 : i;
    scale_view(job.a, p.scale_a, o.scale_a, nullptr, a_grid, piece.row0);
    scale_view(job.b, p.scale_b, o.scale_b, o.zero_b, i, 0);
    job.row_scale = sum_scale(p.scale_a, o.scale_a, a_grid, piece.row0, job.row_scale_step);
    job.col_scale = sum_scale(p.scale_b, o.scale_b, i, 0, job.col_scale_step);
    if (job.k == 0) job.row_scale = job.col_scale = nullptr;  // an empty sum is 0 whatever its scale

    const bool row_major = p.d.order == CARAT_ROW_MAJOR;
    job.d = pointers ? o.d_array[i] : o.d;
    job.d_dtype = p.d.dtype;
    job.ldd = p.d.ld;
    job.d_offset = d_index * p.d.batch_stride + piece.row0 * (row_major ? p.d.ld : 1);
    if (job.beta != 0) {
        job.c = pointers ? o.c_array[i] : o.c;
        job.c_dtype = p.c.dtype;
        job.ldc = p.c.ld;
        job.c_offset = d_index * p.c.batch_stride + piece.row0 * (row_major ? p.c.ld : 1);
    }
    set_epilogue(job, p, o, i, piece.row0, (rows_packed ? 0 : i * p.m) + piece.row0);
    if (!row_major) transpose_job(job);
    // Few rows are bound by reading B: it is converted on the fly to f32, not packed.
    job.few_rows = job.m <= kSmallM && p.numerics != CARAT_BATCH_INVARIANT;
    if (job.panel == Panel::bf16 && job.few_rows) job.panel = Panel::f32;
    return job;
}

// The pieces of a grouped problem. Group sizes lie in memory that nobody could check before: they are clamped, so that
// a bad one never leads outside the operands (the reference does the same).
void group_pieces(const Problem& p, const int32_t* sizes, std::vector<Piece>& pieces) {
    int64_t before = 0;
    switch (p.group_form) {
        case CARAT_GROUP_M_OFFSETS:
            for (int64_t g = 0; g < p.batch; ++g) {
                const int64_t end = std::clamp<int64_t>(sizes[g], before, p.m);
                if (end > before) pieces.push_back({g, before, end - before, 0, p.k, 0});
                before = end;
            }
            return;
        case CARAT_GROUP_K_OFFSETS:
            for (int64_t g = 0; g < p.batch; ++g) {
                const int64_t begin = g == 0 ? 0 : std::clamp<int64_t>(sizes[g - 1], 0, p.k);
                const int64_t end = std::max(begin, std::clamp<int64_t>(sizes[g], 0, p.k));
                pieces.push_back({g, 0, p.m, begin, end - begin, 0});
            }
            return;
        case CARAT_GROUP_M_INDICES:
            for (int64_t row = 0; row < p.m; row = before) {
                const int32_t g = sizes[row];
                for (before = row + 1; before < p.m && sizes[before] == g;) ++before;
                if (g >= 0 && g < p.batch) pieces.push_back({g, row, before - row, 0, p.k, 0});
            }
            return;
        default:  // CARAT_GROUP_M_MASKED
            for (int64_t g = 0; g < p.batch; ++g) {
                const int64_t rows = std::clamp<int64_t>(sizes[g], 0, p.m);
                if (rows > 0) pieces.push_back({g, 0, rows, 0, p.k, 0});
            }
    }
}

void list_pieces(const Problem& p, const carat_operands& o, std::vector<Piece>& pieces) {
    if (p.mode == CARAT_GROUPED) return group_pieces(p, o.group_sizes, pieces);
    const int64_t count = p.entries();
    pieces.reserve(size_t(count));
    for (int64_t i = 0; i < count; ++i) pieces.push_back({i, 0, p.m, 0, p.k, 0});
}

// ---------------------------------------------------------------- tiles

// A tile's packed A should fill half of a 1 MB second-level cache: a row of kc elements is 1 KB in every panel type.
constexpr int64_t kTileRows = 512, kTileColumns = 1024;

struct Grid {
    int64_t rows, columns;  // of a tile of D
    int64_t row_tiles, column_tiles;
    int64_t tiles() const { return row_tiles * column_tiles; }
};

// Large tiles amortise packing, but every thread should get a few. The result does not depend on the choice.
Grid grid_of(const Job& job, const Geometry& geometry, int64_t tasks_wanted) {
    const bool gated = job.gate != CARAT_GATE_NONE;
    const int64_t columns = gated ? job.n / 2 : job.n;
    Grid grid = {};
    grid.row_tiles = ceil_div(job.m, kTileRows / geometry.mr * geometry.mr);
    grid.rows = ceil_div(ceil_div(job.m, grid.row_tiles), geometry.mr) * geometry.mr;
    grid.row_tiles = ceil_div(job.m, grid.rows);
    grid.columns = gated ? kTileColumns / 2 : kTileColumns;
    while (grid.columns > 128 && grid.row_tiles * ceil_div(columns, grid.columns) < tasks_wanted) grid.columns /= 2;
    grid.column_tiles = ceil_div(columns, grid.columns);
    while (grid.tiles() < tasks_wanted && grid.rows > 4 * geometry.mr) {
        grid.rows = ceil_div(grid.rows / 2, geometry.mr) * geometry.mr;
        grid.row_tiles = ceil_div(job.m, grid.rows);
    }
    return grid;
}

Tile tile_at(const Job& job, const Grid& grid, int64_t index) {
    const int64_t row = index % grid.row_tiles * grid.rows, column = index / grid.row_tiles * grid.columns;
    const int64_t columns = job.gate == CARAT_GATE_NONE ? job.n : job.n / 2;
    return {row, std::min(row + grid.rows, job.m), column, std::min(column + grid.columns, columns)};
}

// A thread's packing memory, kept between calls: fresh pages would cost 2 % of a 1024 cubed product.
struct Scratch {
    void* memory = nullptr;
    size_t bytes = 0;
    ~Scratch() { std::free(memory); }
    void* at_least(size_t wanted) {
        if (wanted <= bytes) return memory;
        std::free(memory);
        bytes = (wanted + 4095) / 4096 * 4096;
        memory = std::aligned_alloc(4096, bytes);
        if (memory == nullptr) bytes = 0;
        return memory;
    }
};
thread_local Scratch t_scratch;

struct Execution {
    Isa isa;
    const Problem& problem;
    const carat_operands& operands;
    const IsaKernels& kernels;
    std::vector<Piece> pieces;
    int64_t tasks = 0, tasks_wanted = 1;
    std::atomic<uint32_t> amax{0};  // bits of a float >= 0: they order as integers do, NaN above all
    std::atomic<size_t> missing{0};

    Grid grid(const Job& job) const { return grid_of(job, kernels.geometry(job.panel), tasks_wanted); }

    void count_tasks(int threads) {
        // Three tiles a thread even out what other processes do to the cores.
        const int64_t wanted = threads > 1 ? 3 * int64_t(threads) : 1;
        tasks_wanted = ceil_div(wanted, std::max<int64_t>(1, int64_t(pieces.size())));
        for (Piece& piece : pieces) {
            piece.first_task = tasks;
            tasks += grid(job_of(isa, problem, operands, piece)).tiles();
        }
    }

    void run_tasks(int64_t first, int64_t last) {
        auto piece = std::upper_bound(pieces.begin(), pieces.end(), first,
                                      [](int64_t task, const Piece& x) { return task < x.first_task; }) -
                     1;
        for (int64_t task = first; task < last; ++piece) {
            const Job job = job_of(isa, problem, operands, *piece);
            const Grid g = grid(job);
            for (; task < last && task < piece->first_task + g.tiles(); ++task) {
                const Tile tile = tile_at(job, g, task - piece->first_task);
                const size_t bytes = kernels.scratch_bytes(job, tile);
                void* scratch = t_scratch.at_least(bytes);
                if (scratch == nullptr) {
                    missing = bytes;
                    return;
                }
                const float largest = kernels.run_tile(job, tile, scratch);
                if (job.want_amax) raise_amax(largest);
            }
        }
    }

    void raise_amax(float value) {
        const uint32_t bits = std::bit_cast<uint32_t>(value) & 0x7fffffffu;
        for (uint32_t seen = amax; seen < bits && !amax.compare_exchange_weak(seen, bits);) {
        }
    }
};

}  // namespace

std::vector<Isa> allowed_isas(const std::optional<std::string>& best) {
    bool known = !best.has_value();
    for (const IsaRow& row : kIsas) known |= best == row.name;
    if (!known)
        log::warn_once(
            "CARAT_CPU_ISA",
            fmt::format("CARAT_CPU_ISA is '{}', which is ignored: use portable, avx2, avx512 or avx512_bf16", *best));
    std::vector<Isa> isas;
    bool allowed = !best || !known;
    for (const IsaRow& row : kIsas) {
        allowed |= best == row.name;
        if (allowed && row.present()) isas.push_back(row.isa);
    }
    return isas;
}

std::span<const Isa> supported_isas() {
    static const std::vector<Isa> isas = allowed_isas(env::get("CARAT_CPU_ISA"));
    return isas;
}

bool supported(Isa isa) {
    for (const Isa candidate : supported_isas()) {
        if (candidate == isa) return true;
    }
    return false;
}

const char* name(Isa isa) {
    return row_of(isa).name;
}

const IsaKernels& kernels_of(Isa isa) {
    return *row_of(isa).kernels();
}

MicroTile micro_tile(Isa isa, const Problem& problem) {
    const Geometry geometry = kernels_of(isa).geometry(panel_of(isa, problem));
    return {geometry.mr, geometry.nr, geometry.kc};
}

void fast_require(Isa isa, const Problem& p, Requirements& r) {
    r.require(p.sparsity == CARAT_DENSE, "2:4 sparse operands are left to the reference");
    r.require((p.a.dtype == CARAT_F64) == (p.b.dtype == CARAT_F64), "A is {} and B {}: f64 is only multiplied by f64",
              carat::name(p.a.dtype), carat::name(p.b.dtype));
    r.require(p.a.dtype != CARAT_S32 && p.b.dtype != CARAT_S32, "s32 operands are left to the reference");
    r.require(p.a.dtype != CARAT_F64 || (!scaled_in_packing(p.scale_a) && !scaled_in_packing(p.scale_b)),
              "block scales of f64 operands are left to the reference");
    r.require(bits(p.d.dtype) >= 8, "D is {}, which is no output type", carat::name(p.d.dtype));
    if (isa == Isa::avx512_bf16) {
        r.require(exact_in_bf16(p.a.dtype) && exact_in_bf16(p.b.dtype),
                  "A is {} and B {}: only types that are exact in bf16 go this way", carat::name(p.a.dtype),
                  carat::name(p.b.dtype));
        r.require(!scaled_in_packing(p.scale_a) && !scaled_in_packing(p.scale_b),
                  "block scales make the operands inexact in bf16");
    }
    r.require(!integer_sums(p) || p.k <= kIntegerK, "K is {}, but s32 sums of s8 products are safe up to {}", p.k,
              kIntegerK);
    r.require(p.mode != CARAT_GROUPED || p.group_form != CARAT_GROUP_ARRAY,
              "an array of unlike problems is left to the reference");
    const bool k_packed = p.mode == CARAT_GROUPED && p.group_form == CARAT_GROUP_K_OFFSETS;
    r.require(!k_packed || (!scaled_in_packing(p.scale_a) && !scaled_in_packing(p.scale_b)),
              "block scales of groups along K are left to the reference");
    require_epilogue(p, r);
}

Status fast_execute(Isa isa, const Problem& problem, const carat_operands& operands, ThreadPool& threads) {
    if (problem.empty()) return {};
    try {
        Execution execution{isa, problem, operands, kernels_of(isa), {}};
        list_pieces(problem, operands, execution.pieces);
        execution.count_tasks(threads.size());
        // Tiny tasks (a batch of small matrices) are handed out in bunches.
        const int64_t bunch = std::max<int64_t>(1, execution.tasks / (int64_t(threads.size()) * 16));
        threads.parallel_for(ceil_div(execution.tasks, bunch), [&](int64_t i) {
            execution.run_tasks(i * bunch, std::min(execution.tasks, (i + 1) * bunch));
        });
        if (const size_t bytes = execution.missing; bytes != 0)
            return fail(CARAT_ALLOC_FAILED,
                        "a CPU thread could not get {} bytes of packing memory, so D is incomplete: free memory or use "
                        "fewer threads",
                        bytes);
        if (problem.epilogue.amax) *operands.amax = std::bit_cast<float>(execution.amax.load());
        return {};
    } catch (const std::bad_alloc&) {
        return fail(CARAT_ALLOC_FAILED, "no memory for the list of {} problems: use a smaller batch", problem.batch);
    }
}

}  // namespace carat::cpu
