// SPDX-License-Identifier: Apache-2.0
// report.hpp: results as JSON fields and table cells: the environment of a run, a problem, its floor, its check.
#pragma once

#include "table.hpp"
#include "timing.hpp"

namespace carat::cli {

// Version, device, driver, NVRTC, threads, date, command, L2 state; results are worth little without it.
Json environment_json(const Context& context, const MachineFlags& machine);
// The device's clocks, power and temperature now, or null.
Json device_state_json(const Context& context);

// Version, driver, clocks, power limit, date: what a measured number that is kept for later depends on.
Json provenance_json(const Context& context);

// m, n, k, batch, groups, dtype, layout, recipe, epilogue.
Json problem_json(const carat_problem& problem, double alpha, double beta);

struct Floor {
    double us = NAN, bytes = NAN;
    std::string bound;
};
Floor floor_of(const Context& context, const carat_problem& problem);

struct CheckReport {
    bool ran = false;
    carat_check_result result = {};
    bool ok() const { return !ran || result.ok; }
    // {"ok", "error", "bound"}, and with `all` also full, entries and freivalds; null if there was no check.
    Json json(bool all) const;
    Cell cell() const;
};
// Runs the plan once into `operands` and compares the result with the reference.
CheckReport check_once(const Context& context, const Stream& stream, const Plan& plan, const carat_problem& problem,
                       const Operands& operands);
// "at (3, 7) got 1.5, want 1.25": of a failed check.
std::string describe_failure(const CheckReport& check);

double tflops(double flops, double us);
double gigabytes_per_second(double bytes, double us);

}  // namespace carat::cli
