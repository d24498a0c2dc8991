// SPDX-License-Identifier: Apache-2.0
// list.cpp: `carat list`: the kernels with what each takes, the GPUs that can be planned for, the environment variables,
// the statuses of the library and the exit codes of this program.
#include <CLI/CLI.hpp>
#include <memory>
#include <set>

#include "commands/commands.hpp"
#include "common.hpp"
#include "table.hpp"

namespace carat::cli {
namespace {

struct ListFlags {
    Output output;
    bool rows = false, targets = false, env = false, statuses = false, exit_codes = false;
    bool all() const { return !(rows || targets || env || statuses || exit_codes); }
};

Json exit_codes_json() {
    Json rows = Json::array();
    for (const ExitCodeRow& row : kExitCodes)
        rows.push_back({{"code", static_cast<int>(row.code)}, {"name", row.name}, {"meaning", row.meaning}});
    return rows;
}

// The types of a row as a person wants them: each A and B once, whatever D.
std::string types_text(const Json& supports) {
    std::vector<std::string> pairs;
    std::set<std::string> seen;
    for (const Json& s : supports) {
        const std::string a = text_at(s, "a"), b = text_at(s, "b"), pair = a == b ? a : a + "*" + b;
        if (seen.insert(pair).second) pairs.push_back(pair);
    }
    if (pairs.size() > 10)
        return fmt::format("{}, ... ({} pairs)", join({pairs.begin(), pairs.begin() + 8}, " "), pairs.size());
    return join(pairs, " ");
}

size_t features(const Json& supports, const char* key) {
    std::set<std::string> names;
    for (const Json& s : supports)
        for (const Json& name : member(s, key))
            if (name.is_string()) names.insert(name.get<std::string>());
    return names.size();
}

std::string section(const std::string& title, const Table& table, bool colored) {
    return toned(title, Tone::strong, colored) + "\n" + table.str(colored) + "\n";
}

Table rows_table(const Json& list) {
    Table table({"row", "backend", "types", ">layouts", ">modes", ">epilogues", "what it is"});
    for (const Json& row : member(list, "rows")) {
        const Json& supports = member(row, "supports");
        table.add({text_at(row, "name"), text_at(row, "backend"), types_text(supports),
                   std::to_string(features(supports, "layouts")), std::to_string(features(supports, "modes")),
                   std::to_string(features(supports, "epilogues")), one_line(text_at(row, "summary"))});
    }
    return table;
}

template <size_t N>
Table plain_table(const Json& rows, const char* const (&keys)[N], std::vector<std::string> titles) {
    Table table(std::move(titles));
    for (const Json& row : rows) {
        std::vector<Cell> cells;
        for (const char* key : keys) {
            const Json& value = member(row, key);
            cells.emplace_back(value.is_string() ? one_line(value.get<std::string>())
                               : value.is_null() ? ""
                                                 : value.dump());
        }
        table.add(std::move(cells));
    }
    return table;
}

void print_list(const Json& list, const ListFlags& flags) {
    const bool colored = flags.output.colored(stdout), all = flags.all();
    if (all || flags.rows) print(section("Kernels, in the order they are asked", rows_table(list), colored));
    if (all || flags.targets)
        print(section(
            "GPUs to plan for (carat explain --target)",
            plain_table(member(list, "targets"), {"name", "full_name", "source"}, {"name", "GPU", "figures from"}),
            colored));
    if (all || flags.env)
        print(section("Environment variables",
                      plain_table(member(list, "env"), {"name", "values", "fallback", "meaning"},
                                  {"name", "values", "when unset", "meaning"}),
                      colored));
    if (all || flags.statuses)
        print(
            section("Statuses of the library",
                    plain_table(member(list, "statuses"), {"value", "name", "sentence"}, {">value", "name", "meaning"}),
                    colored));
    if (all || flags.exit_codes)
        print(
            section("Exit codes of this program",
                    plain_table(member(list, "exit_codes"), {"code", "name", "meaning"}, {">code", "name", "meaning"}),
                    colored));
}

}  // namespace

Command add_list(CLI::App& app) {
    auto flags = std::make_shared<ListFlags>();
    app.add_flag("--rows", flags->rows, "Only the kernels");
    app.add_flag("--targets", flags->targets, "Only the GPUs");
    app.add_flag("--env", flags->env, "Only the environment variables");
    app.add_flag("--statuses", flags->statuses, "Only the statuses");
    app.add_flag("--exit-codes", flags->exit_codes, "Only the exit codes");
    add_output_flags(app, flags->output);
    return [flags] {
        Json list = parse_json(carat::list(), "the list");
        list["exit_codes"] = exit_codes_json();
        print_json(flags->output, list);
        if (flags->output.tables()) print_list(list, *flags);
        return kOk;
    };
}

}  // namespace carat::cli
