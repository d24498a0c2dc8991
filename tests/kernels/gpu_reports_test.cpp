// SPDX-License-Identifier: Apache-2.0
// What users of other libraries reported as wrong (reports.hpp), on every kernel that takes it: CUDA rows on a real GPU,
// and the rows of the CPU.
#include "cpu/fast.hpp"
#include "cpu/threads.hpp"
#include "kernels/reports.hpp"

namespace carat::test {
namespace {

class GpuReports : public GpuTest, public testing::WithParamInterface<Report> {};

TEST_P(GpuReports, AreRight) {
    const Report& report = GetParam();
    GemmCase gemm(report.spec.problem, report.spec.data, 7, report.spec.alpha, report.spec.beta, report.spec.place);
    report.change(gemm);
    gemm.expect();
    const std::vector<Ready> kernels = ready_kernels(report.spec.problem);
    EXPECT_FALSE(kernels.empty()) << "no row takes " << gemm.text();
    const DeviceCase memory(*device_, gemm);
    for (const Ready& ready : kernels) {
        gemm.clear_d();
        memory.reset(gemm);
        EXPECT_EQ(check(ready, gemm, memory, memory.operands(gemm)), "");
    }
}
INSTANTIATE_TEST_SUITE_P(Gpu, GpuReports, testing::ValuesIn(reports()), report_name);

Runtime cpu_runtime() {
    Runtime runtime;
    runtime.target.backend = CARAT_BACKEND_CPU;
    runtime.target.name = runtime.target.full_name = "cpu";
    for (const cpu::Isa isa : cpu::supported_isas()) runtime.target.isas.push_back(cpu::name(isa));
    runtime.threads = std::make_shared<cpu::ThreadPool>(2);
    return runtime;
}

// "" or what a CPU row makes of the case that is wrong.
std::string run_on_cpu(const Row& row, GemmCase& gemm, Runtime& runtime) {
    const Config config = row.candidates(gemm.problem, runtime.target).at(0);
    const auto executable = row.prepare(gemm.problem, config, runtime);
    if (!executable.ok()) return executable.status().sentence();
    gemm.clear_d();
    const Status status = (*executable)->execute(gemm.operands(), nullptr);
    const std::string error = status.ok() ? gemm.verify() : status.sentence();
    return error.empty() ? "" : config.name() + ": " + error;
}

std::vector<Report> reports_for_a_cpu() {
    std::vector<Report> all = reports();
    std::erase_if(all, [](const Report& report) { return report.of_grids; });
    return all;
}

class CpuReports : public testing::TestWithParam<Report> {};

TEST_P(CpuReports, AreRight) {
    const Report& report = GetParam();
    GemmCase gemm(report.spec.problem, report.spec.data, 7, report.spec.alpha, report.spec.beta, report.spec.place);
    report.change(gemm);
    Runtime runtime = cpu_runtime();
    int rows = 0;
    for (const Row& row : registry()) {
        Requirements requirements;
        if (row.backend != CARAT_BACKEND_CPU) continue;
        row.require(gemm.problem, runtime.target, requirements);
        if (!requirements.ok()) continue;
        ++rows;
        EXPECT_EQ(run_on_cpu(row, gemm, runtime), "");
    }
    EXPECT_GE(rows, 2) << "the reference and a fast one take " << gemm.text();
}
INSTANTIATE_TEST_SUITE_P(Cpu, CpuReports, testing::ValuesIn(reports_for_a_cpu()), report_name);

}  // namespace
}  // namespace carat::test
