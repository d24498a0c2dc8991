// SPDX-License-Identifier: Apache-2.0
// bench_test.cpp: what a bench says of several peers, and how a contestant leaves a measurement.
#include <gtest/gtest.h>

#include "bench_view.hpp"
#include "peers/peer.hpp"

namespace carat::cli {
namespace {

BenchResult result_of(double us, double cublaslt, double cutlass) {
    BenchResult result = {.problem = gemm_problem(16, 32, 64, CARAT_BF16, "nt")};
    result.timing = {us, us, us, 10};
    result.peers["cublaslt"].timing = {cublaslt, cublaslt, cublaslt, 10};
    if (cutlass > 0) result.peers["cutlass"].timing = {cutlass, cutlass, cutlass, 10};
    result.peers["cutlass"].choice = "a reason";
    return result;
}

TEST(BenchView, TheRatioIsOfTheBestPeer) {
    const BenchResult both = result_of(10, 12, 9), one = result_of(10, 12, 0);
    EXPECT_EQ(both.best_peer(), "cutlass");
    EXPECT_DOUBLE_EQ(both.ratio(), 0.9);
    EXPECT_EQ(one.best_peer(), "cublaslt");
    EXPECT_DOUBLE_EQ(one.ratio(), 1.2);
    EXPECT_TRUE(std::isnan((BenchResult{.problem = both.problem}.ratio())));
}

TEST(BenchView, TheTableNamesTheBestPeer) {
    const std::string text =
        bench_table({result_of(10, 12, 9), result_of(10, 12, 0)}, {"cublaslt", "cutlass"}).str(false);
    EXPECT_NE(text.find("cuBLASLt us  CUTLASS us  ratio  best peer"), std::string::npos) << text;
    EXPECT_NE(text.find("12.0           -   1.20  cuBLASLt"), std::string::npos) << text;
}

TEST(BenchView, TheMeanIsGeometric) {
    EXPECT_EQ(ratio_summary({result_of(10, 12, 0)}), "");
    EXPECT_EQ(
        ratio_summary({result_of(10, 40, 0), result_of(10, 10, 0)}),
        "2 problems beside the best peer: geometric mean of the ratios 2.000, least 1.000 (16 x 32 x 64 bf16 nt)\n");
}

TEST(Measure, WhoGivesUpIsNotAskedAgain) {
    int good = 0, bad = 0;
    const auto timings = measure({[&] { return ++good, 5.0; }, [&] { return ++bad < 4 ? 7.0 : NAN; }},
                                 {.seconds = 0.01, .least = 10, .noise = 0.005, .warm_up = 0});
    EXPECT_EQ(timings[0].us, 5);
    EXPECT_GE(timings[0].samples, 10u);
    EXPECT_EQ(timings[1].samples, 0u);
    EXPECT_EQ(bad, 4);
}

TEST(Peers, ListsAndRepeats) {
    EXPECT_EQ(parse_peers({"cutlass,cublaslt", "cutlass", "deepgemm"}),
              (std::vector<std::string>{"cutlass", "cublaslt", "deepgemm"}));
    EXPECT_TRUE(parse_peers({}).empty());
    EXPECT_THROW(parse_peers({"cutlas"}), Failure);
}

}  // namespace
}  // namespace carat::cli
