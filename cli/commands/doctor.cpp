// SPDX-License-Identifier: Apache-2.0
// doctor.cpp: `carat doctor`: what this machine has, what is missing, and the exact fix. Exit 0 with no GPU: the CPU
// backend needs none.
#include <CLI/CLI.hpp>
#include <memory>

#include "commands/commands.hpp"
#include "common.hpp"
#include "table.hpp"

namespace carat::cli {
namespace {

Cell state_cell(const std::string& state) {
    if (state == "ok") return {state, Tone::good};
    return {state, state == "warn" ? Tone::warning : Tone::bad};
}

std::string gpu_text(const Json& gpu) {
    if (const std::string error = text_at(gpu, "error"); !error.empty()) return error;
    return fmt::format("{}, compute capability {}, {} SMs, {}, driver {}", text_at(gpu, "name", "?"),
                       text_at(gpu, "cc", "?"), human(number_at(gpu, "sms", NAN)),
                       human_bytes(number_at(gpu, "memory_bytes", NAN)), text_at(gpu, "driver", "?"));
}

std::string cpu_text(const Json& cpu) {
    std::vector<std::string> isas;
    for (const Json& isa : member(cpu, "isas"))
        if (isa.is_string()) isas.push_back(isa.get<std::string>());
    const std::string name = text_at(cpu, "name");
    return fmt::format("{}{} thread(s), {}", name.empty() ? "" : name + ", ", number_at(cpu, "threads", 0),
                       join(isas, " "));
}

void print_report(const Json& report, const Output& output) {
    const bool colored = output.colored(stdout);
    Table table({"", "state", "found"});
    std::string fixes;
    table.add({"carat", Cell("ok", Tone::good), text_at(report, "version")});
    for (const Json& check : member(report, "checks")) {
        const std::string state = text_at(check, "state", "?");
        table.add({text_at(check, "name"), state_cell(state), one_line(text_at(check, "value"))});
        if (const std::string fix = text_at(check, "fix"); !fix.empty())
            fixes += fmt::format("  {}: {}\n", text_at(check, "name"), one_line(fix));
    }
    for (const Json& gpu : member(report, "gpus"))
        table.add({fmt::format("GPU {}", number_at(gpu, "ordinal", 0)),
                   member(gpu, "error").is_string() ? Cell("warn", Tone::warning) : Cell("ok", Tone::good),
                   gpu_text(gpu)});
    table.add({"CPU", Cell("ok", Tone::good), cpu_text(member(report, "cpu"))});
    for (const Json& variable : member(report, "environment"))
        table.add({text_at(variable, "name"), Cell("set", Tone::faint), one_line(text_at(variable, "value"))});
    print(table.str(colored));
    if (!fixes.empty()) print(fmt::format("\nWhat would fix it:\n{}", fixes));
    const bool ok = member(report, "ok").is_boolean() && member(report, "ok").get<bool>();
    const bool gpu = text_at(report, "backend") == "cuda";
    print(fmt::format("\n{}\n", ok ? (gpu ? "Ready: problems run on the GPU."
                                          : "Ready: with no usable GPU, problems run on the CPU backend.")
                                   : "Not ready: see the fixes above."));
}

}  // namespace

Command add_doctor(CLI::App& app) {
    auto output = std::make_shared<Output>();
    add_output_flags(app, *output);
    return [output] {
        const Json report = parse_json(carat::doctor(), "the doctor's report");
        print_json(*output, report);
        if (output->tables()) print_report(report, *output);
        return kOk;
    };
}

}  // namespace carat::cli
