// SPDX-License-Identifier: Apache-2.0
#include "calibrate_run.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "calibrate_samples.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "workbench.hpp"

namespace carat::cli {
namespace {

// Each term of the models is what some of these take the longest for: few and many rows, short and long K, a part of a wave and
// many of them, the memory's limit and that of the tensor cores, tiles that end within a box of D, copies by threads.
struct Size {
    int64_t m, n, k;
};
constexpr Size kSizes[] = {
    {1, 4096, 14336},   {4, 6144, 4096},     {8, 4096, 512},     {16, 28672, 4096},  {64, 6144, 4096},
    {64, 28672, 4096},  {128, 4096, 14336},  {512, 4096, 4096},  {1024, 6144, 512},  {2048, 6144, 4096},
    {4096, 8192, 1024}, {4096, 4096, 14336}, {2048, 4104, 4104}, {1024, 4096, 4097},
};

// Wide enough to hold what the models misjudge, yet no time for what nobody would choose.
const Effort kBreadth = {.within = 2.5, .least = 12, .most = 48};

std::vector<Job> chosen_jobs(const CalibrateOptions& options) {
    ProblemFlags flags;
    flags.dtype = "bf16";
    if (!options.shapes.empty()) return jobs_of(flags, shapes_of_file(options.shapes));
    std::vector<Job> jobs;
    for (const Size& size : kSizes)
        jobs.push_back({.problem = gemm_problem(size.m, size.n, size.k, CARAT_BF16, "nt"), .name = ""});
    return jobs;
}

std::vector<Contender> contenders_of(const Context& context, const Job& job) {
    std::string own;
    std::vector<Contender> all = all_contenders(context, job.problem, own);
    return prune(std::move(all), own, kBreadth);
}

struct Measured {
    Json samples = Json::array();
    std::vector<std::string> wrong;
};

void measure_job(const Context& context, const Job& job, double seconds, uint64_t seed, Measured& measured) {
    std::vector<Contender> contenders = contenders_of(context, job);
    const Stream stream(context);
    Workbench bench(context, stream, job, seed);
    bench.compile(contenders);
    std::vector<const Contender*> ready;
    std::vector<Sampler> samplers;
    for (Contender& contender : contenders) {
        bench.admit(contender);
        if (contender.state == Contender::State::wrong)
            measured.wrong.push_back(fmt::format("the result of {} is wrong for {}: {}", contender.kernel,
                                                 shape_name(job.problem), contender.reason));
        if (contender.state != Contender::State::ready) continue;
        ready.push_back(&contender);
        samplers.emplace_back([&bench, &contender] { return bench.sample(contender); });
    }
    const std::vector<Timing> timings = measure(samplers, {.seconds = seconds});
    const Json problem = parse_json(carat::problem_json(job.problem), "the problem");
    for (size_t i = 0; i < ready.size(); ++i)
        if (timings[i].samples > 0)
            measured.samples.push_back({{"problem", problem},
                                        {"kernel", ready[i]->kernel},
                                        {"us", timings[i].us},
                                        {"p05_us", timings[i].p05_us},
                                        {"p95_us", timings[i].p95_us}});
}

// Until it is stopped.
Json measure_all(const CalibrateOptions& options, const Context& context, ExitCode& code) {
    const std::vector<Job> jobs = chosen_jobs(options);
    const Json device = calibrated_device(context);
    Progress progress(options.output, jobs.size());
    Measured measured;
    for (const Job& job : jobs) {
        if ((code = stop_asked()) != kOk) break;
        progress.next(shape_name(job.problem));
        measure_job(context, job, options.seconds / double(jobs.size()), seed_of(options.machine), measured);
    }
    progress.clear();
    for (const std::string& sentence : measured.wrong) complain(sentence);
    if (code == kOk) code = measured.wrong.empty() ? stop_asked() : kCheckFailed;
    return {{"schema", "carat.calibration_samples/1"},
            {"device", device},
            {"provenance", provenance_json(context)},
            {"samples", std::move(measured.samples)}};
}

// One value a line for the list of that name, and one for every other member.
std::string lines_of(const Json& json, const char* list) {
    std::string text;
    for (const auto& [key, value] : json.items()) {
        text += fmt::format("{}{}: ", text.empty() ? "{" : ",\n", Json(key).dump());
        if (key != list) {
            text += value.dump();
            continue;
        }
        text += "[\n";
        for (size_t i = 0; i < value.size(); ++i) text += value[i].dump() + (i + 1 < value.size() ? ",\n" : "\n");
        text += "]";
    }
    return text + "}\n";
}

std::string place_of(const CalibrateOptions& options, const Context& context) {
    if (!options.file.empty()) return options.file;
    const std::string file = text_at(parse_json(context.calibration(), "the calibration's report"), "user_file");
    if (file.empty())
        fail(kUsage,
             "there is no place for the device file, since CARAT_DEVICE_FILE is off or HOME is not set: give -o FILE");
    return file;
}

void write_device_file(const std::string& path, const Json& json) {
    std::error_code error;
    const auto folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, error);  // OutputFile says what is wrong
    OutputFile file(path);
    file.commit(lines_of(json, "parameters"));
}

void print_fit(const Output& output, const Json& fitted, const Json& parameters) {
    Table table({"parameter", "unit", ">shipped", ">fitted", "what it is"});
    const Json& list = member(fitted, "parameters");
    for (size_t i = 0; i < list.size(); ++i) {
        const Json &shipped = member(parameters[i], "shipped"), &value = member(list[i], "value");
        table.add({text_at(list[i], "name"), text_at(list[i], "unit"), shipped.dump(),
                   shipped == value ? Cell("the same", Tone::faint) : Cell(value.dump(), Tone::good),
                   text_at(list[i], "summary")});
    }
    print(table.str(output.colored(stdout)));
    const Json &error = member(fitted, "error"), &before = member(error, "shipped");
    print(fmt::format("{} samples. The shipped parameters are {}.\nThe fitted ones are {}.\n",
                      number_at(before, "samples", 0), error_text(before), error_text(member(error, "fitted"))));
}

Json plan_of(const CalibrateOptions& options, const Context& context) {
    Json problems = Json::array();
    Table table({"M x N x K", ">kernels", "the best predicted", ">us"});
    const Json device = calibrated_device(context);
    for (const Job& job : chosen_jobs(options)) {
        const std::vector<Contender> contenders = contenders_of(context, job);
        Json kernels = Json::array();
        for (const Contender& contender : contenders) kernels.push_back(contender.kernel);
        table.add({shape_name(job.problem), std::to_string(contenders.size()), contenders.front().kernel,
                   human(contenders.front().predicted_us)});
        Json problem = problem_json(job.problem, 1, 0);
        problem["kernels"] = std::move(kernels);
        problems.push_back(std::move(problem));
    }
    if (options.output.tables()) print(table.str(options.output.colored(stdout)));
    return {{"schema", "carat.calibrate_plan/1"}, {"device", device}, {"problems", std::move(problems)}};
}

// The model alone says what is worth measuring.
Context open_untuned(MachineFlags machine) {
    machine.tuning = "off";
    return make_context(machine);
}

void require_gpu_here(const CalibrateOptions& options) {
    if (!options.machine.target.empty())
        fail(kUsage, "--target plans for a GPU that is not here: it goes with --samples, --report or --dry-run");
}

}  // namespace

Json calibrate(const CalibrateOptions& options, ExitCode& code) {
    const Context context = open_untuned(options.machine);
    if (options.dry_run && options.samples.empty()) return plan_of(options, context);
    const std::string place = options.dry_run ? "" : place_of(options, context);
    Json samples;
    if (options.samples.empty()) {
        require_gpu_here(options);
        OutputFile kept(options.save_samples, "--save-samples");
        samples = measure_all(options, context, code);
        kept.commit(lines_of(samples, "samples"));
        if (code != kOk) fail(code, "calibration was not finished, and no device file is written");
    } else {
        samples = read_sample_file(options.samples, context).json;
    }
    Json fitted = parse_json(context.calibrate(samples.dump()), "the fit");
    for (const Json& sentence : member(fitted, "skipped"))
        complain(fmt::format("left out {}", one_line(sentence.get<std::string>())));
    fitted.erase("skipped");
    fitted["provenance"] = member(samples, "provenance");
    if (options.output.tables())
        print_fit(options.output, fitted,
                  member(parse_json(context.calibration(), "the calibration's report"), "parameters"));
    if (place.empty()) return fitted;
    write_device_file(place, fitted);
    if (options.output.tables())
        print(
            fmt::format("Plans use {} {}.\n", place, options.file.empty() ? "from now on" : "under CARAT_DEVICE_FILE"));
    return fitted;
}

Json report_errors(const CalibrateOptions& options, const std::vector<std::string>& files) {
    const Context context = open_untuned(options.machine);
    Json reports = Json::array();
    for (const std::string& path : files) {
        const SampleFile file = read_sample_file(path, context);
        Json error = parse_json(context.prediction_error(file.json.dump()), "the report");
        error.erase("schema");
        Json report = {{"file", path}, {"left_out", file.left_out + member(error, "skipped").size()}};
        report.update(error);
        if (options.output.tables())
            print(fmt::format("{}: {} samples ({} left out), {}.\n  The worst: {}\n", path,
                              number_at(report, "samples", 0), number_at(report, "left_out", 0), error_text(report),
                              text_at(report, "worst_sample")));
        reports.push_back(std::move(report));
    }
    return {{"schema", "carat.calibrate_report/1"}, {"device", calibrated_device(context)}, {"files", reports}};
}

}  // namespace carat::cli
