// SPDX-License-Identifier: Apache-2.0
// tuning_file.hpp: the text of a tuning database, "carat.tuning/1": measured choices, one row a line. What a row must hold
// is said in docs/tuning.md. Reading never fails as a whole: what is not right is left out, with a sentence.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/config.hpp"
#include "limits/target.hpp"

namespace carat {

// Raised when kernels change so much that times measured before say nothing about them: rows with another number are stale.
inline constexpr int kTunedKernels = 1;

// A database that lies inside the library; made from data/tuning/.
struct TuningText {
    const char* name;  // "h200.json"
    const char* text;
};
const std::vector<TuningText>& shipped_tuning();

// A machine, as far as its times can be used on another.
struct TunedDevice {
    std::string name;                // "NVIDIA H200"
    std::string compute_capability;  // "9.0"; "" of a CPU
    int units = 0;                   // SMs or threads

    static TunedDevice of(const Target& target);
    nlohmann::ordered_json json() const;
    bool operator==(const TunedDevice&) const = default;
};

struct TuningRow {
    size_t number = 0;  // in its file, from 1
    Problem problem;
    TunedDevice device;
    Config config;
    int kernels = 0;  // kTunedKernels when it was measured
    double us = 0;
    double spread = 0;            // of the samples' middle half, relative to us
    nlohmann::ordered_json json;  // all of it, the problem as problem_json() writes it
};

struct TuningRows {
    std::vector<TuningRow> rows;       // the last one of each problem and device
    std::vector<std::string> skipped;  // "row 3: us is -1: ..."
};

// What resolves and checks a problem: api::validate_problem.
using Validate = Result<Problem> (*)(const carat_problem*);

TuningRows read_tuning(std::string_view text, Validate validate);

// The text of a file, or NOT_INITIALIZED where it does not exist, or IO_ERROR.
Result<std::string> read_tuning_file(const std::string& path);

}  // namespace carat
