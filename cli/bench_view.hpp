// SPDX-License-Identifier: Apache-2.0
// bench_view.hpp: what `carat bench` measured of a problem, and how people and spreadsheets see it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report.hpp"

namespace carat::cli {

struct PeerResult {
    Timing timing;
    std::string choice;  // or why there is no time
    double us() const { return timing.samples > 0 ? timing.us : NAN; }
    Json json() const;
};
// The name of the fastest, empty if none was timed; its time over ours: above 1, we are faster.
std::string fastest_of(const std::map<std::string, PeerResult>& peers);
double ratio_of(const std::map<std::string, PeerResult>& peers, double us);

struct BenchResult {
    carat_problem problem;
    double alpha = 1, beta = 0;
    uint64_t count = 0;  // executions in the trace that is replayed
    std::string name, kernel, refusal;
    ExitCode refusal_code = kOk;
    Timing timing;
    Floor floor;
    CheckReport check;
    double predicted_us = NAN;
    std::map<std::string, PeerResult> peers;

    std::string best_peer() const { return fastest_of(peers); }
    double ratio() const { return ratio_of(peers, timing.us); }
};

Table bench_table(const std::vector<BenchResult>& results, const std::vector<std::string>& peers);
// "3 problems beside the best peer: geometric mean of the ratios 1.02, least 0.97 (64 x 64 x 64)"; empty for less than two.
std::string ratio_summary(const std::vector<BenchResult>& results);
// What the executions of a trace take together, here and with each peer (where it was timed, ours beside it).
Json replay_json(const std::string& trace, const std::vector<BenchResult>& results);
// For people; empty for null.
std::string replay_summary(const Json& replay);
// Of "results" of a "carat.bench/1".
std::string bench_csv(const Json& results);

}  // namespace carat::cli
