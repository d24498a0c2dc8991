// SPDX-License-Identifier: Apache-2.0
#include "ladder_html.hpp"

#include "ladder_charts.hpp"
#include "ladder_view.hpp"
#include "svg.hpp"

namespace carat::cli {
namespace {

// f32 and half are the two colours of the charts; they differ in shape, too, and every bar and point has its name.
constexpr const char* kStyle = R"(
:root { --back: #ffffff; --text: #1b1f24; --faint: #59636e; --rule: #d5dae0; --grid: #e8ebef; --f32: #0b6bcb; --half: #c4510c; --peer: #7a2fb0; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171b; --text: #e8eaed; --faint: #a3abb5; --rule: #3a424c; --grid: #262c33; --f32: #5aa9f5; --half: #f39a55; --peer: #c891f0; }
}
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 0.25rem; }
h2 { margin: 2.5rem 0 0.5rem; border-bottom: 1px solid var(--rule); }
h3 { margin: 1rem 0 0; font-size: 1rem; }
p.faint, figcaption, dt { color: var(--faint); }
figure { margin: 1rem 0; }
svg { display: block; width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg text { fill: var(--text); }
svg .small, svg .roofname { font-size: 12px; fill: var(--faint); }
svg .label { font-weight: 600; paint-order: stroke; stroke: var(--back); stroke-width: 3px; }
svg .grid { stroke: var(--grid); }
svg .axis { stroke: var(--faint); }
svg .roof { stroke: var(--faint); stroke-width: 2; }
svg .leader { stroke: var(--faint); }
svg .f32 { fill: var(--f32); stroke: var(--back); }
svg .half { fill: var(--half); stroke: var(--back); }
svg .f32.open { fill: var(--back); stroke: var(--f32); stroke-width: 2; }
svg .half.open { fill: var(--back); stroke: var(--half); stroke-width: 2; }
svg .peer { stroke: var(--peer); stroke-width: 2; stroke-dasharray: 6 4; }
svg .limit { stroke: var(--faint); stroke-width: 2; stroke-dasharray: 2 3; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.6rem; border-bottom: 1px solid var(--rule); text-align: left; white-space: nowrap; }
th.number, td.number { text-align: right; }
td.new { white-space: normal; min-width: 14rem; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid var(--rule); border-radius: 4px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; }
dd { margin: 0; overflow-wrap: anywhere; }
)";

struct Column {
    const char* title;
    bool number;
    std::string (*text)(const Json& result);
};

// The summary, whole: there is room for it here.
std::string summary_of(const Json& result) {
    return text_at(result, "summary");
}

constexpr Column kColumns[] = {
    {"rung", false, [](const Json& r) { return text_at(r, "rung"); }},
    {"what it is", false, summary_of},
    {"operands", false, operands_text},
    {"tile", false, tile_text},
    {"us", true, [](const Json& r) { return human_at(r, "us"); }},
    {"TFLOP/s", true, [](const Json& r) { return human_at(r, "tflops"); }},
    {"% of cuBLAS", true, [](const Json& r) { return percent_at(r, "of_peer"); }},
    {"% of the limit", true, [](const Json& r) { return percent_at(r, "of_limit"); }},
    {"FLOP/byte", true, [](const Json& r) { return human_at(r, "intensity"); }},
    {"bound by", false, [](const Json& r) { return text_at(r, "bound", "-"); }},
    {"predicted us", true, [](const Json& r) { return human_at(r, "predicted_us"); }},
    {"threads", true, [](const Json& r) { return whole_at(r, "threads"); }},
    {"registers", true, [](const Json& r) { return whole_at(r, "registers"); }},
    {"spill bytes", true, [](const Json& r) { return whole_at(r, "spill_bytes"); }},
    {"shared bytes", true, [](const Json& r) { return whole_at(r, "shared_bytes"); }},
    {"blocks an SM", true, [](const Json& r) { return whole_at(r, "blocks_per_unit"); }},
    {"% of warps", true, [](const Json& r) { return percent_at(r, "occupancy"); }},
    {"check", false, check_text},
    {"kernel", false, [](const Json& r) { return text_at(r, "kernel"); }},
};

std::string cell(const char* tag, const Column& column, const std::string& text) {
    const char* style = column.number ? " class=\"number\"" : column.text == summary_of ? " class=\"new\"" : "";
    return fmt::format("<{}{}>{}</{}>", tag, style, escaped(text), tag);
}

std::string table_of(const LadderSize& size) {
    std::string text = "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>";
    for (const Column& column : kColumns) text += cell("th", column, column.title);
    text += "</tr></thead>\n<tbody>\n";
    for (const Json* result : size.results) {
        text += "<tr>";
        for (const Column& column : kColumns) text += cell("td", column, column.text(*result));
        text += "</tr>\n";
    }
    return text + "</tbody>\n</table></div>\n";
}

std::string peers_of(const LadderSize& size) {
    std::string text;
    for (const Json* peer : size.peers) {
        const bool there = member(*peer, "us").is_number();
        text += fmt::format("<li>cuBLASLt, {}: {}{}</li>\n", escaped(operands_text(*peer)),
                            there ? fmt::format("{} us, {} TFLOP/s; ", human_at(*peer, "us"), human_at(*peer, "tflops"))
                                  : "not timed: ",
                            escaped(text_at(*peer, "choice", "-")));
    }
    for (const Json* entry : size.skipped)
        text += fmt::format("<li>{} left out: {}</li>\n", escaped(text_at(*entry, "rung")),
                            escaped(text_at(*entry, "reason")));
    return text.empty() ? "" : "<ul>\n" + text + "</ul>\n";
}

std::string section_of(const Json& report, const LadderSize& size, size_t number) {
    std::string text = fmt::format("<section>\n<h2>M x N x K = {}</h2>\n", escaped(size.name));
    if (!size.results.empty()) {
        text +=
            "<figure>\n" + bar_charts(report, size, fmt::format("bars{}", number)) +
            "<figcaption>TFLOP/s, each panel on its own scale. Dashed: cuBLAS on the same operands. Dotted: what the "
            "units that the rungs use sustain.</figcaption>\n</figure>\n";
        text += "<figure>\n" + roofline_chart(report, size, fmt::format("roofline{}", number)) +
                "<figcaption>Both axes are logarithmic. Circles: f32. Squares: 16-bit operands on tensor cores; of "
                "several tiles of a rung the fastest has its name. The "
                "diagonals are what memory and the L2 cache deliver, the level lines what the units do.";
        if (any_above_roofs(report, size))
            text +=
                " A point above the diagonals is served by a cache nearer to it: its threads ask for the same bytes.";
        text += "</figcaption>\n</figure>\n" + table_of(size);
    }
    return text + peers_of(size) + "</section>\n";
}

std::string environment_of(const Json& report) {
    const Json& env = member(report, "env");
    std::string text = "<h2>How</h2>\n";
    if (const std::string command = text_at(env, "command"); !command.empty())
        text += fmt::format("<pre><code>{}</code></pre>\n", escaped(command));
    text += "<dl>\n";
    const auto add = [&](const char* name, const std::string& value) {
        if (!value.empty() && value != "-") text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, escaped(value));
    };
    add("carat", text_at(env, "carat"));
    add("device", text_at(env, "device"));
    add("driver", text_at(env, "driver"));
    add("NVRTC", text_at(env, "nvrtc"));
    for (const char* when : {"device_before", "device_after"}) {
        const Json& state = member(env, when);
        if (state.is_object() && member(state, "sm_clock_mhz").is_number())
            add(when[7] == 'b' ? "before" : "after",
                fmt::format("{} MHz, {} W of {} W, {} C", whole_at(state, "sm_clock_mhz"), whole_at(state, "power_w"),
                            whole_at(state, "power_limit_w"), whole_at(state, "temperature_c")));
    }
    const Json& peer = member(member(env, "peers"), "cublaslt");
    add("cuBLASLt", text_at(peer, "version", text_at(peer, "left_out")));
    add("limits", limits_text(report));
    add("their source", text_at(member(report, "limits"), "source"));
    return text + "</dl>\n";
}

}  // namespace

std::string ladder_html(const Json& report) {
    const std::string device = text_at(member(report, "limits"), "device", "?"),
                      date = text_at(member(report, "env"), "date");
    const std::string title = "The ladder on " + device;
    std::string text = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n"
        "<h1>{}</h1>\n<p class=\"faint\">{}. {} Operands, in and out: {}.</p>\n",
        escaped(title), kStyle, escaped(title), escaped(date),
        timed(report) ? "Medians with a cold L2 cache; each result checked against the reference."
                      : "Compiled and predicted, not timed.",
        escaped(problems_text(report)));
    text += fmt::format("<p class=\"faint\">Tile: {}.</p>\n", escaped(kTileMeaning));
    if (const std::string note = text_at(report, "note"); !note.empty())
        text += fmt::format("<p>{}</p>\n", escaped(note));
    const std::vector<LadderSize> sizes = sizes_of(report);
    for (size_t i = 0; i < sizes.size(); ++i) text += section_of(report, sizes[i], i);
    return text + environment_of(report) + "</body>\n</html>\n";
}

}  // namespace carat::cli
