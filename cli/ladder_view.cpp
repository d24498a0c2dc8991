// SPDX-License-Identifier: Apache-2.0
#include "ladder_view.hpp"

#include <algorithm>
#include <cmath>

#include "table.hpp"

namespace carat::cli {
namespace {

constexpr size_t kLargestResultFile = size_t(64) << 20;
constexpr size_t kLongestNews = 56;

std::string size_name(const Json& entry) {
    return fmt::format("{} x {} x {}", whole_at(entry, "m"), whole_at(entry, "n"), whole_at(entry, "k"));
}

LadderSize& size_for(std::vector<LadderSize>& sizes, const Json& entry) {
    const std::string name = size_name(entry);
    const auto found = std::find_if(sizes.begin(), sizes.end(), [&](const LadderSize& s) { return s.name == name; });
    return found != sizes.end()
               ? *found
               : sizes.emplace_back(LadderSize{.name = name, .results = {}, .peers = {}, .skipped = {}});
}

Cell check_cell(const Json& result) {
    const std::string text = check_text(result);
    return {text, text == "ok" ? Tone::good : text == "WRONG" ? Tone::bad : Tone::faint};
}

Table timed_table(const LadderSize& size) {
    Table table({"rung", "what is new", "operands", "tile", ">us", ">TFLOP/s", ">% of cuBLAS", ">% of limit", ">FLOP/B",
                 "bound by", ">predicted us", ">registers", "check"});
    for (const Json* r : size.results)
        table.add({Cell(text_at(*r, "rung"), Tone::strong), what_is_new(*r), operands_text(*r), tile_text(*r),
                   human_at(*r, "us"), human_at(*r, "tflops"), percent_at(*r, "of_peer"), percent_at(*r, "of_limit"),
                   human_at(*r, "intensity"), text_at(*r, "bound", "-"), human_at(*r, "predicted_us"),
                   whole_at(*r, "registers"), check_cell(*r)});
    for (const Json* p : size.peers) {
        const bool there = member(*p, "us").is_number();
        table.add({Cell("cuBLAS", Tone::strong), there ? "cuBLASLt, its best candidate" : "not timed",
                   operands_text(*p), "", human_at(*p, "us"), human_at(*p, "tflops"), there ? "100" : "-"});
    }
    return table;
}

Table planned_table(const LadderSize& size) {
    Table table({"rung", "what is new", "operands", "tile", ">threads", ">registers", ">spill B", ">shared B",
                 ">blocks/SM", ">% of warps", ">FLOP/B", ">predicted us", "bound by"});
    for (const Json* r : size.results)
        table.add({Cell(text_at(*r, "rung"), Tone::strong), what_is_new(*r), operands_text(*r), tile_text(*r),
                   whole_at(*r, "threads"), whole_at(*r, "registers"), whole_at(*r, "spill_bytes"),
                   whole_at(*r, "shared_bytes"), whole_at(*r, "blocks_per_unit"), percent_at(*r, "occupancy"),
                   human_at(*r, "intensity"), human_at(*r, "predicted_us"), text_at(*r, "bound", "-")});
    return table;
}

}  // namespace

std::vector<LadderSize> sizes_of(const Json& report) {
    std::vector<LadderSize> sizes;
    for (const Json& result : member(report, "results")) size_for(sizes, result).results.push_back(&result);
    for (const Json& peer : member(report, "peers")) size_for(sizes, peer).peers.push_back(&peer);
    for (const Json& entry : member(report, "skipped")) size_for(sizes, entry).skipped.push_back(&entry);
    return sizes;
}

std::string tile_text(const Json& result) {
    const Json& tile = member(result, "tile");
    const auto part = [&](const char* key) { return int64_t(std::clamp(number_at(tile, key, 0), 0.0, 1e6)); };
    if (part("bm") == 0) return "-";
    std::string text = fmt::format("{}x{}x{}", part("bm"), part("bn"), part("bk"));
    if (part("tm") > 0) text += fmt::format(" t{}x{}", part("tm"), part("tn"));
    if (part("stages") > 1) text += fmt::format(" s{}", part("stages"));
    if (part("cluster_m") * part("cluster_n") > 1) text += fmt::format(" c{}x{}", part("cluster_m"), part("cluster_n"));
    return text;
}

std::string what_is_new(const Json& result) {
    std::string text = text_at(result, "summary");
    if (const size_t colon = text.find(": "); colon < 16) text.erase(0, colon + 2);
    if (text.ends_with(").")) text = text.substr(0, text.rfind(" ("));  // the types
    for (const char* end : {", ", "; ", ". "}) text = text.substr(0, text.find(end));
    if (text.ends_with('.')) text.pop_back();
    if (text.size() <= kLongestNews) return text;
    return text.substr(0, text.rfind(' ', kLongestNews - 3)) + "...";
}

std::string operands_text(const Json& result) {
    return text_at(result, "dtype", "?") + " " + text_at(result, "layout", "?");
}

std::string check_text(const Json& result) {
    const Json& ok = member(member(result, "check"), "ok");
    return !ok.is_boolean() ? "not checked" : ok.get<bool>() ? "ok" : "WRONG";
}

std::string limits_text(const Json& report) {
    const Json& limits = member(report, "limits");
    std::vector<std::string> parts;
    const auto add = [&](const char* name, const char* key, const char* unit) {
        if (member(limits, key).is_number())
            parts.push_back(fmt::format("{} {} {}", name, human_at(limits, key), unit));
    };
    add("HBM", "hbm_tbs", "TB/s");
    add("L2", "l2_tbs", "TB/s");
    add("f32 units", "f32_tflops", "TFLOP/s");
    add("tensor cores (16-bit)", "f16_tflops", "TFLOP/s");
    add("an empty launch", "launch_us", "us");
    return join(parts, ", ");
}

std::string problems_text(const Json& report) {
    std::vector<std::pair<std::string, std::vector<std::string>>> problems;
    for (const Json& result : member(report, "results")) {
        const std::string operands = operands_text(result), rung = text_at(result, "rung");
        auto problem =
            std::find_if(problems.begin(), problems.end(), [&](const auto& p) { return p.first == operands; });
        if (problem == problems.end()) problem = problems.insert(problems.end(), {operands, {}});
        if (problem->second.empty() || problem->second.back() != rung)
            if (std::find(problem->second.begin(), problem->second.end(), rung) == problem->second.end())
                problem->second.push_back(rung);
    }
    std::vector<std::string> parts;
    for (const auto& [operands, rungs] : problems) parts.push_back(fmt::format("{} ({})", operands, join(rungs, ", ")));
    return join(parts, "; ");
}

bool timed(const Json& report) {
    const Json& value = member(report, "timed");
    return value.is_boolean() && value.get<bool>();
}

std::string percent_at(const Json& json, const char* key) {
    return human(100 * number_at(json, key, NAN));
}

std::string human_at(const Json& json, const char* key) {
    return human(number_at(json, key, NAN));
}

std::string whole_at(const Json& json, const char* key) {
    const double value = number_at(json, key, NAN);
    return std::isfinite(value) ? fmt::format("{:.0f}", value) : "-";
}

std::string ladder_text(const Json& report, bool colored) {
    std::string text = fmt::format("The ladder on {}{}\n", one_line(text_at(member(report, "limits"), "device", "?")),
                                   timed(report) ? ", cold L2 cache, medians" : ": compiled and predicted, not timed");
    if (const std::string note = text_at(report, "note"); !note.empty()) text += one_line(note) + "\n";
    text += fmt::format("Limits: {}\n", limits_text(report));
    text += fmt::format("Operands, in and out (a letter for A and B: n row-major, t transposed): {}\n",
                        one_line(problems_text(report)));
    text += fmt::format("Tile: {}\n", kTileMeaning);
    for (const LadderSize& size : sizes_of(report)) {
        text += fmt::format("\n{}\n", toned("M x N x K = " + size.name, Tone::strong, colored));
        const Table table = timed(report) ? timed_table(size) : planned_table(size);
        if (!table.empty()) text += table.str(colored);
        for (const Json* entry : size.skipped)
            text += toned(fmt::format("{} left out: {}", one_line(text_at(*entry, "rung")),
                                      one_line(text_at(*entry, "reason"))),
                          Tone::warning, colored) +
                    "\n";
    }
    return text;
}

Json load_ladder(const std::string& path) {
    const std::string who = "--load " + one_line(path);
    Json json = parse_json(read_text_file(path, kLargestResultFile), who);
    if (const std::string schema = text_at(json, "schema"); schema != "carat.ladder/1")
        fail(kInputOutput, "{} has schema \"{}\": it must be a result of `carat ladder`, \"carat.ladder/1\"", who,
             one_line(schema));
    if (!member(json, "results").is_array()) fail(kInputOutput, "{} has no list \"results\"", who);
    return json;
}

}  // namespace carat::cli
