// SPDX-License-Identifier: Apache-2.0
// target.cpp: what follows from a target's numbers: its architecture name, its rate for a pair of types, the time to
// stream some bytes.
#include "limits/target.hpp"

#include <algorithm>

namespace carat {
namespace {

double first_nonzero(std::initializer_list<double> rates) {
    for (double rate : rates) {
        if (rate > 0) return rate;
    }
    return 0;
}

double f32_rate(const Target& t, carat_compute compute) {
    switch (compute) {
        case CARAT_COMPUTE_TF32:
            return first_nonzero({t.tf32_tflops, t.f32_tflops});
        case CARAT_COMPUTE_3XTF32:
            return first_nonzero({t.tf32_tflops / 3, t.f32_tflops});  // three tf32 products
        case CARAT_COMPUTE_BF16X9:
            return first_nonzero({t.f16_tflops / 9, t.f32_tflops});  // nine bf16 products
        default:
            return t.f32_tflops;
    }
}

}  // namespace

const char* name(Bound bound) {
    switch (bound) {
        case Bound::memory:
            return "memory";
        case Bound::compute:
            return "compute";
        case Bound::launch:
            return "launch";
    }
    return "?";
}

std::string Target::arch() const {
    if (backend != CARAT_BACKEND_CUDA) return "";
    // wgmma, TMA multicast and setmaxnreg exist only in the architecture-specific target.
    return fmt::format("sm_{}{}{}", cc_major, cc_minor, cc_major == 9 && cc_minor == 0 ? "a" : "");
}

double Target::rate_tflops(carat_dtype a, carat_dtype b, carat_compute compute) const {
    // A weight-only operand is converted to the other's type before it is multiplied: the wider of the two decides.
    switch (bits(b) > bits(a) ? b : a) {
        case CARAT_F64:
            return f64_tflops;
        case CARAT_F32:
            return f32_rate(*this, compute);
        case CARAT_F16:
        case CARAT_BF16:
            return first_nonzero({f16_tflops, f32_tflops});
        case CARAT_E4M3:
        case CARAT_E5M2:
            return first_nonzero({fp8_tflops, f16_tflops, f32_tflops});
        case CARAT_S8:
        case CARAT_S4:
        case CARAT_U4:
            return first_nonzero({s8_tflops, f32_tflops});
        case CARAT_S32:
        case CARAT_NONE:
            return 0;
    }
    return 0;
}

double Target::read_us(double bytes) const {
    if (bytes <= 0) return 0;
    if (read_curve.empty()) return launch_us;
    // Straight lines from (0, an empty launch) through the points; past the last one its slope goes on.
    ReadPoint left = {0, std::min(launch_us, read_curve.front().us)}, right = read_curve.front();
    for (size_t i = 1; i < read_curve.size() && bytes > right.bytes; ++i) {
        left = right;
        right = read_curve[i];
    }
    if (right.bytes <= left.bytes) return right.us;
    return left.us + (bytes - left.bytes) * (right.us - left.us) / (right.bytes - left.bytes);
}

}  // namespace carat
