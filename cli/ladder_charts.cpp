// SPDX-License-Identifier: Apache-2.0
#include "ladder_charts.hpp"

#include <algorithm>
#include <cmath>

#include "svg.hpp"

namespace carat::cli {
namespace {

// As timed, else as predicted.
double tflops_of(const Json& result) {
    const double timed = number_at(result, "tflops", NAN);
    if (std::isfinite(timed)) return timed;
    const double flops = 2 * number_at(result, "m", 0) * number_at(result, "n", 0) * number_at(result, "k", 0);
    return flops / number_at(result, "predicted_us", NAN) * 1e-6;
}

bool is_f32(const Json& result) {
    return text_at(result, "dtype") == "f32";
}

// The rate of the units that a rung uses.
double rate_for(const Json& report, const Json& result) {
    return number_at(member(report, "limits"), is_f32(result) ? "f32_tflops" : "f16_tflops", NAN);
}

// "v3 double buffer".
std::string rung_text(const Json& result) {
    std::string name = text_at(result, "row");
    std::replace(name.begin(), name.end(), '_', ' ');
    return name;
}

std::string tip_of(const Json& result) {
    return fmt::format("{}: {} TFLOP/s{}, {} FLOP/byte, tile {}", rung_text(result), human(tflops_of(result)),
                       member(result, "tflops").is_number() ? "" : " predicted", human_at(result, "intensity"),
                       tile_text(result));
}

// ---------------------------------------------------------------- bars

constexpr double kBarsLeft = 250, kBarsRight = 660, kBarsWidth = 900, kBarsTop = 32, kBarStep = 28, kBarHeight = 18;

struct Panel {
    std::string operands;
    std::vector<const Json*> results;
    double peer_tflops = NAN, limit_tflops = NAN;
};

std::vector<Panel> panels_of(const Json& report, const LadderSize& size) {
    std::vector<Panel> panels;
    for (const Json* result : size.results) {
        const std::string operands = operands_text(*result);
        auto panel = std::find_if(panels.begin(), panels.end(), [&](const Panel& p) { return p.operands == operands; });
        if (panel == panels.end()) panel = panels.insert(panels.end(), {operands, {}, NAN, rate_for(report, *result)});
        panel->results.push_back(result);
    }
    for (Panel& panel : panels)
        for (const Json* peer : size.peers)
            if (operands_text(*peer) == panel.operands) panel.peer_tflops = number_at(*peer, "tflops", NAN);
    return panels;
}

// A vertical line through the bars, and its name with a piece of the line above them, from `left` on.
double mark(Svg& svg, double x, double bottom, double left, const std::string& name, const char* style) {
    if (!std::isfinite(x)) return left;
    svg.line({x, kBarsTop - 6}, {x, bottom}, style);
    svg.line({left, 12}, {left + 28, 12}, style);
    svg.text({left + 34, 16}, name, Anchor::start, "small");
    return left + 60 + kTextWidth * double(name.size());
}

std::string describe_panel(const Panel& panel) {
    std::vector<std::string> words;
    for (const Json* r : panel.results)
        words.push_back(fmt::format("{} {}", text_at(*r, "rung"), human(tflops_of(*r))));
    if (std::isfinite(panel.peer_tflops)) words.push_back("cuBLAS " + human(panel.peer_tflops));
    return "TFLOP/s: " + join(words, ", ");
}

std::string value_text(const Json& result) {
    const std::string share = percent_at(result, "of_peer");
    std::string text = fmt::format("{} TFLOP/s", human(tflops_of(result)));
    if (!member(result, "tflops").is_number()) return text + ", predicted";
    return share == "-" ? text : text + fmt::format(", {} % of cuBLAS", share);
}

std::string bar_chart(const Panel& panel, bool tiles, const std::string& id) {
    double most = 0;
    for (const Json* result : panel.results)
        if (const double value = tflops_of(*result); std::isfinite(value)) most = std::max(most, value);
    for (const double value : {panel.peer_tflops, panel.limit_tflops})
        if (std::isfinite(value)) most = std::max(most, value);
    if (!(most > 0)) return "";
    const auto x_of = [&](double value) { return kBarsLeft + (kBarsRight - kBarsLeft) * value / (most * 1.02); };
    const double bottom = kBarsTop + kBarStep * double(panel.results.size());
    Svg svg(kBarsWidth, bottom + 8, id, "Speed of each rung, operands " + panel.operands, describe_panel(panel));
    for (size_t i = 0; i < panel.results.size(); ++i) {
        const Json& result = *panel.results[i];
        const double top = kBarsTop + kBarStep * double(i), text_y = top + 14, value = tflops_of(result);
        const std::string label = rung_text(result) + (tiles ? " " + tile_text(result) : "");
        svg.text({kBarsLeft - 8, text_y}, label, Anchor::end);
        const bool predicted = !member(result, "tflops").is_number();
        const char* style = is_f32(result) ? (predicted ? "f32 open" : "f32") : (predicted ? "half open" : "half");
        if (value > 0) svg.rect({kBarsLeft, top, x_of(value), top + kBarHeight}, style, tip_of(result));
        svg.text({kBarsRight + 10, text_y}, value_text(result), Anchor::start);
    }
    svg.line({kBarsLeft, kBarsTop - 6}, {kBarsLeft, bottom}, "axis");
    const double next =
        mark(svg, x_of(panel.peer_tflops), bottom, kBarsLeft, "cuBLAS " + human(panel.peer_tflops), "peer");
    mark(svg, x_of(panel.limit_tflops), bottom, next, "hardware, sustained " + human(panel.limit_tflops), "limit");
    return svg.str();
}

// ---------------------------------------------------------------- roofline

constexpr Box kPlot = {64, 16, 880, 456};

// Logarithmic axes.
struct Axes {
    double x_low, x_high, y_low, y_high;
    double x(double intensity) const {
        return kPlot.left + (kPlot.right - kPlot.left) * std::log(intensity / x_low) / std::log(x_high / x_low);
    }
    double y(double value) const {
        return kPlot.bottom - (kPlot.bottom - kPlot.top) * std::log(value / y_low) / std::log(y_high / y_low);
    }
    Point at(double intensity, double value) const { return {x(intensity), y(value)}; }
};

struct Roofs {
    double hbm, l2, f32, f16;  // NAN: not known
    explicit Roofs(const Json& report) {
        const Json& limits = member(report, "limits");
        hbm = number_at(limits, "hbm_tbs", NAN), l2 = number_at(limits, "l2_tbs", NAN);
        f32 = number_at(limits, "f32_tflops", NAN), f16 = number_at(limits, "f16_tflops", NAN);
    }
    double bandwidth() const { return std::isfinite(l2) ? l2 : hbm; }
    double rate() const { return std::isfinite(f16) ? f16 : f32; }
};

bool is_point(const Json& result) {
    return tflops_of(result) > 0 && number_at(result, "intensity", 0) > 0;
}

Axes axes_for(const LadderSize& size, const Roofs& roofs) {
    double x_low = 0.2, x_high = 300, y_low = 1, y_high = 1000;
    for (const Json* result : size.results) {
        if (!is_point(*result)) continue;
        const double x = number_at(*result, "intensity", 1), y = tflops_of(*result);
        x_low = std::min(x_low, x / 1.5), x_high = std::max(x_high, x * 1.6);
        y_low = std::min(y_low, y / 1.5), y_high = std::max(y_high, y * 1.5);
    }
    if (roofs.rate() > 0) y_high = std::max(y_high, roofs.rate() * 1.6);
    return {std::max(x_low, 1e-6), std::min(x_high, 1e9), std::max(y_low, 1e-6), std::min(y_high, 1e9)};
}

void draw_grid(Svg& svg, const Axes& axes) {
    for (double x = std::exp2(std::ceil(std::log2(axes.x_low))); x <= axes.x_high; x *= 2) {
        svg.line({axes.x(x), kPlot.top}, {axes.x(x), kPlot.bottom}, "grid");
        svg.text({axes.x(x), kPlot.bottom + 18}, fmt::format("{:.4g}", x), Anchor::middle, "small");
    }
    for (double y = std::pow(10, std::ceil(std::log10(axes.y_low))); y <= axes.y_high; y *= 10) {
        svg.line({kPlot.left, axes.y(y)}, {kPlot.right, axes.y(y)}, "grid");
        svg.text({kPlot.left - 8, axes.y(y) + 4}, fmt::format("{:.4g}", y), Anchor::end, "small");
    }
    svg.line({kPlot.left, kPlot.bottom}, {kPlot.right, kPlot.bottom}, "axis");
    svg.line({kPlot.left, kPlot.top}, {kPlot.left, kPlot.bottom}, "axis");
    svg.text({(kPlot.left + kPlot.right) / 2, kPlot.bottom + 40}, "FLOP for each byte that the kernel asks of memory",
             Anchor::middle);
    svg.text({16, (kPlot.top + kPlot.bottom) / 2}, "TFLOP/s", Anchor::middle, "", 90);
}

// A bandwidth's diagonal, from the bottom or the left of the plot up to the highest rate. Its name lies along it.
void draw_bandwidth(Svg& svg, const Axes& axes, Labels& labels, double tbs, double rate, const char* name) {
    if (!(tbs > 0)) return;
    const double from = std::max(axes.x_low, axes.y_low / tbs), to = std::min(axes.x_high, rate / tbs);
    if (!(from < to)) return;
    const Point low = axes.at(from, from * tbs), high = axes.at(to, to * tbs);
    svg.line(low, high, "roof");
    const std::string text = fmt::format("{} {} TB/s", name, human(tbs));
    const double angle = std::atan2(low.y - high.y, high.x - low.x),
                 length = std::hypot(high.x - low.x, high.y - low.y);
    const double width = kTextWidth * double(text.size());
    if (length < width + 40) return;
    // Left of the ridges, where nothing crosses.
    const double along = length * 0.36;
    const auto on_line = [&](double way) {
        return Point{low.x + way * std::cos(angle) - 6 * std::sin(angle),
                     low.y - way * std::sin(angle) - 6 * std::cos(angle)};
    };
    svg.text(on_line(along), text, Anchor::middle, "roofname", angle * 180 / M_PI);
    for (double way = along - width / 2; way <= along + width / 2; way += 8)
        labels.avoid({on_line(way).x - 8, on_line(way).y - 10, on_line(way).x + 4, on_line(way).y + 6});
}

void draw_rate(Svg& svg, const Axes& axes, Labels& labels, double tflops, double bandwidth, const char* name) {
    if (!(tflops > 0) || !(bandwidth > 0)) return;
    const double from = std::clamp(tflops / bandwidth, axes.x_low, axes.x_high);
    svg.line(axes.at(from, tflops), axes.at(axes.x_high, tflops), "roof");
    const std::string text = fmt::format("{} {} TFLOP/s", name, human(tflops));
    const Point at = {kPlot.right - 4, axes.y(tflops) - 6};
    svg.text(at, text, Anchor::end, "roofname");
    labels.avoid(text_box(at, text, Anchor::end));
}

// Of several tiles of a rung only the fastest has its name drawn.
bool is_fastest(const Json& result, const std::vector<const Json*>& all) {
    return std::none_of(all.begin(), all.end(), [&](const Json* other) {
        if (other == &result || text_at(*other, "row") != text_at(result, "row")) return false;
        return tflops_of(*other) > tflops_of(result) || (tflops_of(*other) == tflops_of(result) && other < &result);
    });
}

void draw_points(Svg& svg, const Axes& axes, Labels& labels, const LadderSize& size) {
    std::vector<const Json*> points;
    for (const Json* result : size.results)
        if (is_point(*result)) points.push_back(result);
    const auto place_of = [&](const Json& result) {
        return axes.at(number_at(result, "intensity", 1), tflops_of(result));
    };
    for (const Json* result : points) {
        const Point p = place_of(*result);
        labels.avoid({p.x - 7, p.y - 7, p.x + 7, p.y + 7});
    }
    for (const Json* result : points) {
        const Point p = place_of(*result);
        const std::string open = member(*result, "tflops").is_number() ? "" : " open";
        if (is_f32(*result))
            svg.circle(p, 5.5, "f32" + open, tip_of(*result));
        else
            svg.square(p, 5, "half" + open, tip_of(*result));
    }
    for (const Json* result : points) {
        if (!is_fastest(*result, points)) continue;
        const Point p = place_of(*result);
        const std::string name = text_at(*result, "rung");
        const Labels::Place label = labels.place(p, name);
        if (label.far) svg.line(p, {label.at.x, label.at.y - 4}, "leader");
        svg.text(label.at, name, label.anchor, "label");
    }
}

std::string describe_points(const LadderSize& size) {
    std::vector<std::string> words;
    for (const Json* r : size.results)
        words.push_back(fmt::format("{} at {} FLOP/byte: {}", text_at(*r, "rung"), human_at(*r, "intensity"),
                                    human(tflops_of(*r))));
    return "TFLOP/s over FLOP per byte. " + join(words, ", ");
}

}  // namespace

std::string bar_charts(const Json& report, const LadderSize& size, const std::string& id) {
    std::string text;
    const std::vector<Panel> panels = panels_of(report, size);
    for (size_t i = 0; i < panels.size(); ++i) {
        bool twice = false;  // several tiles of one rung: the names alone would be the same
        for (size_t j = 1; j < panels[i].results.size(); ++j)
            twice |= text_at(*panels[i].results[j], "row") == text_at(*panels[i].results[j - 1], "row");
        text += fmt::format("<h3>{}</h3>\n", escaped(panels[i].operands));
        text += bar_chart(panels[i], twice, fmt::format("{}-{}", id, i));
    }
    return text;
}

std::string roofline_chart(const Json& report, const LadderSize& size, const std::string& id) {
    const Roofs roofs(report);
    const Axes axes = axes_for(size, roofs);
    Svg svg(900, 504, id, "Roofline of " + text_at(member(report, "limits"), "device"), describe_points(size));
    Labels labels(kPlot);
    draw_grid(svg, axes);
    draw_bandwidth(svg, axes, labels, roofs.hbm, roofs.rate(), "HBM");
    draw_bandwidth(svg, axes, labels, roofs.l2, roofs.rate(), "L2");
    draw_rate(svg, axes, labels, roofs.f32, roofs.bandwidth(), "f32 units");
    draw_rate(svg, axes, labels, roofs.f16, roofs.bandwidth(), "tensor cores");
    draw_points(svg, axes, labels, size);
    return svg.str();
}

bool any_above_roofs(const Json& report, const LadderSize& size) {
    const double bandwidth = Roofs(report).bandwidth();
    return std::any_of(size.results.begin(), size.results.end(), [&](const Json* r) {
        return is_point(*r) && tflops_of(*r) > number_at(*r, "intensity", 0) * bandwidth;
    });
}

}  // namespace carat::cli
