// SPDX-License-Identifier: Apache-2.0
// gpus.cpp: the table of known GPUs. The H200 row is measured; the others scale its measured shares of the datasheet to
// their own datasheets, and say so in `source`.
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "limits/calibration.hpp"
#include "limits/target.hpp"

namespace carat {
namespace {

// Dense peaks in TFLOP/s and memory bandwidth in TB/s, as the vendor states them.
struct Datasheet {
    double tb_per_s, f64, f32, tf32, f16, fp8, s8;
};

constexpr Datasheet kH200Sheet = {4.8, 67, 67, 494.7, 989.4, 1978.9, 1978.9};

// Streaming read by vector loads, launches in a CUDA graph, best of several grids.
const std::vector<ReadPoint> kH200Reads = {
    {1e6, 1.66},        {4e6, 2.47},         {8e6, 3.54},         {14680064, 4.94},    {29360128, 8.09},
    {58720256, 14.575}, {117440512, 27.675}, {234881024, 53.585}, {469762048, 105.03}, {1050673152, 231.48},
};

// The highest clock.
constexpr double kH200Ghz = 1.98;

Target h200() {
    Target t;
    t.backend = CARAT_BACKEND_CUDA;
    t.name = "h200";
    t.full_name = "NVIDIA H200";
    t.cc_major = 9;
    t.cc_minor = 0;
    t.units = 132;
    t.shared_bytes_per_block = 232448;
    t.registers_per_unit = 65536;
    t.l2_bytes = int64_t(60) << 20;
    t.memory_bytes = 141'000'000'000;
    t.launch_us = 0.57;
    t.read_curve = kH200Reads;
    t.l2_tb_per_s = kH200L2BytesPerClk * t.units * kH200Ghz * 1e-3;
    t.f64_tflops = 0.81 * kH200Sheet.f64;
    t.f32_tflops = 62;
    t.tf32_tflops = 400;
    t.f16_tflops = 800;
    t.fp8_tflops = 1600;
    t.s8_tflops = 1600;
    t.source =
        "read times, launch and sustained rates measured on an H200 (700 W, driver 580.159, CUDA 13.0); f64 is 0.81 of "
        "the datasheet's 67 TFLOP/s, the share that bf16 sustains";
    t.cost = read_calibration(shipped_device_file("h200.json"), t).cost;
    return t;
}

// A GPU we have not measured: it gets the H200's measured share of the datasheet, and the H200's read curve with its
// byte axis scaled by the ratio of the bandwidths (the latency at the start stays).
Target from_datasheet(std::string name, std::string full_name, const Datasheet& sheet) {
    Target t = h200();
    t.name = std::move(name);
    t.full_name = std::move(full_name);
    t.l2_tb_per_s = 0;  // no datasheet says it
    for (ReadPoint& point : t.read_curve) point.bytes *= sheet.tb_per_s / kH200Sheet.tb_per_s;
    t.f64_tflops *= sheet.f64 / kH200Sheet.f64;
    t.f32_tflops *= sheet.f32 / kH200Sheet.f32;
    t.tf32_tflops *= sheet.tf32 / kH200Sheet.tf32;
    t.f16_tflops *= sheet.f16 / kH200Sheet.f16;
    t.fp8_tflops *= sheet.fp8 / kH200Sheet.fp8;
    t.s8_tflops *= sheet.s8 / kH200Sheet.s8;
    t.source = fmt::format(
        "datasheet ({} TB/s, {} TFLOP/s in bf16), scaled by what an H200 was measured to sustain of its own",
        sheet.tb_per_s, sheet.f16);
    return t;
}

void set_chip(Target& t, int cc_major, int cc_minor, int sms, int64_t shared, int64_t l2_mib, int64_t memory_gb) {
    t.cc_major = cc_major;
    t.cc_minor = cc_minor;
    t.units = sms;
    t.shared_bytes_per_block = shared;
    t.l2_bytes = l2_mib << 20;
    t.memory_bytes = memory_gb * 1'000'000'000;
}

std::vector<Target> make_table() {
    std::vector<Target> table = {h200()};
    table.push_back(from_datasheet("h100", "NVIDIA H100 SXM", {3.35, 67, 67, 494.7, 989.4, 1978.9, 1978.9}));
    set_chip(table.back(), 9, 0, 132, 232448, 50, 80);
    table.push_back(from_datasheet("h20", "NVIDIA H20", {4.0, 1, 44, 74, 148, 296, 296}));
    set_chip(table.back(), 9, 0, 78, 232448, 60, 96);
    table.push_back(from_datasheet("l40s", "NVIDIA L40S", {0.864, 1.43, 91.6, 183, 362, 733, 733}));
    set_chip(table.back(), 8, 9, 142, 101376, 96, 48);
    table.push_back(from_datasheet("a100", "NVIDIA A100 SXM 80GB", {2.039, 19.5, 19.5, 156, 312, 0, 624}));
    set_chip(table.back(), 8, 0, 108, 166912, 40, 80);
    return table;
}

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return out;
}

// The words of a device name: "NVIDIA A100-SXM4-80GB" gives nvidia, a100, sxm4, 80gb.
std::vector<std::string> words(const std::string& text) {
    std::vector<std::string> out(1);
    for (char c : lower(text)) {
        if (std::isalnum(static_cast<unsigned char>(c))) {
            out.back() += c;
        } else if (!out.back().empty()) {
            out.emplace_back();
        }
    }
    if (out.back().empty()) out.pop_back();
    return out;
}

const Target* by_name(const std::string& device_name) {
    const std::vector<std::string> parts = words(device_name);
    for (const Target& gpu : known_gpus()) {
        if (std::find(parts.begin(), parts.end(), gpu.name) != parts.end()) return &gpu;
    }
    return nullptr;
}

const Target& by_capability(int major, int minor) {
    const auto distance = [&](const Target& gpu) {
        return std::abs(gpu.cc_major * 10 + gpu.cc_minor - major * 10 - minor);
    };
    const std::span<const Target> gpus = known_gpus();
    return *std::min_element(gpus.begin(), gpus.end(),
                             [&](const Target& x, const Target& y) { return distance(x) < distance(y); });
}

// "NVIDIA GeForce RTX 4090" -> "geforce_rtx_4090"; used for a GPU that has no row.
std::string slug(const std::string& device_name, int major, int minor) {
    std::string out;
    for (const std::string& word : words(device_name)) {
        if (word != "nvidia") out += out.empty() ? word : "_" + word;
    }
    return out.empty() ? fmt::format("sm_{}{}", major, minor) : out;
}

// Units that the architecture does not have do no work, whatever the stand-in's row says.
void drop_missing_units(Target& t) {
    const int cc = t.cc_major * 10 + t.cc_minor;
    if (cc < 89) t.fp8_tflops = 0;
    if (cc < 80) t.tf32_tflops = 0;
}

}  // namespace

std::span<const Target> known_gpus() {
    static const std::vector<Target> table = make_table();
    return table;
}

Result<Target> find_gpu(std::string_view name) {
    std::string known;
    for (const Target& gpu : known_gpus()) {
        if (lower(name) == gpu.name) return gpu;
        known += known.empty() ? gpu.name : ", " + gpu.name;
    }
    return fail(CARAT_INVALID_VALUE, "unknown GPU target '{}': use one of {}", name, known);
}

Target match_gpu(const std::string& device_name, int cc_major, int cc_minor, int sms, int64_t l2_bytes,
                 int64_t memory_bytes, int64_t shared_bytes_per_block) {
    const Target* row = by_name(device_name);
    const bool exact = row && row->cc_major == cc_major && row->cc_minor == cc_minor;
    Target t = exact ? *row : by_capability(cc_major, cc_minor);
    if (!exact) {
        t.source = fmt::format("no row for this GPU; stands in: {} ({})", t.full_name, t.source);
        t.name = slug(device_name, cc_major, cc_minor);
        t.l2_tb_per_s = 0;
    }
    if (sms > 0 && sms != t.units) {
        const double ratio = double(sms) / t.units;
        for (double* rate : {&t.f64_tflops, &t.f32_tflops, &t.tf32_tflops, &t.f16_tflops, &t.fp8_tflops, &t.s8_tflops,
                             &t.l2_tb_per_s}) {
            *rate *= ratio;
        }
        t.source += fmt::format("; rates scaled from {} to {} SMs", t.units, sms);
        t.units = sms;
    }
    t.full_name = device_name;
    t.cc_major = cc_major;
    t.cc_minor = cc_minor;
    if (l2_bytes > 0) t.l2_bytes = l2_bytes;
    if (memory_bytes > 0) t.memory_bytes = memory_bytes;
    if (shared_bytes_per_block > 0) t.shared_bytes_per_block = shared_bytes_per_block;
    drop_missing_units(t);
    return t;
}

}  // namespace carat
