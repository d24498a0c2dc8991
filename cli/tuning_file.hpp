// SPDX-License-Identifier: Apache-2.0
// tuning_file.hpp: a tuning database on disk, "carat.tuning/1" (docs/tuning.md), as `carat tune` reads and writes it: one row a
// line, in a stable order, written whole or not at all.
#pragma once

#include <string>
#include <vector>

#include "common.hpp"

namespace carat::cli {

// Rows that can be used, and, said on stderr, those that cannot. No such file: no rows, or a failure if it `must_exist`.
std::vector<Json> read_tuning_rows(const std::string& path, bool must_exist);
// Makes the directory it lies in.
void write_tuning_rows(const std::string& path, const std::vector<Json>& rows);
std::string tuning_text(std::vector<Json> rows);

// The row of a problem on a device, if kernels of this version were measured; null if there is none.
const Json* find_row(const std::vector<Json>& rows, const Json& problem, const Json& device, int64_t kernels);
// In place of the row of the same problem and device, if there is one.
void put_row(std::vector<Json>& rows, Json row);
// One row a problem and device: that of the newest kernels, then the latest, then of the last file.
std::vector<Json> merge_rows(const std::vector<std::vector<Json>>& files);

// How the library's own choices compare with the best that was measured.
struct TuneSummary {
    size_t problems = 0;
    double within_5_percent = NAN;                        // share of the problems
    double median_loss = NAN, worst_loss = NAN;           // time of the own choice over the best, less 1
    double median_error = NAN, worst_error = NAN;         // |predicted / measured - 1| of the own choice
    std::string worst_loss_problem, worst_error_problem;  // their names
    Json json() const;
    std::string text() const;
};
TuneSummary summarize_rows(const std::vector<Json>& rows);

// "64 x 6144 x 4096 bf16 nt" of a row.
std::string row_name(const Json& row);

}  // namespace carat::cli
