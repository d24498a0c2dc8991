// SPDX-License-Identifier: Apache-2.0
#include "svg.hpp"

#include <fmt/format.h>

#include <cmath>

namespace carat::cli {
namespace {

const char* name_of(Anchor anchor) {
    return anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
}

}  // namespace

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:  // other control characters are not allowed in XML
                out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
        }
    }
    return out;
}

Box text_box(Point at, std::string_view text, Anchor anchor) {
    const double width = kTextWidth * double(text.size());
    const double left = anchor == Anchor::start ? at.x : anchor == Anchor::middle ? at.x - width / 2 : at.x - width;
    return {left, at.y - kTextHeight + 3, left + width, at.y + 3};
}

Svg::Svg(double width, double height, const std::string& id, const std::string& title, const std::string& description)
    : body_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
                        "aria-labelledby=\"{}-title {}-desc\">\n<title id=\"{}-title\">{}</title>\n"
                        "<desc id=\"{}-desc\">{}</desc>\n",
                        width, height, id, id, id, escaped(title), id, escaped(description))) {}

void Svg::line(Point from, Point to, std::string_view style) {
    body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", from.x,
                         from.y, to.x, to.y, style);
}

void Svg::shape(const std::string& tag, std::string_view style, std::string_view tip) {
    body_ += fmt::format("<{} class=\"{}\"", tag, style);
    body_ +=
        tip.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escaped(tip), tag.substr(0, tag.find(' ')));
}

void Svg::rect(const Box& b, std::string_view style, std::string_view tip) {
    shape(fmt::format("rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", b.left, b.top,
                      b.right - b.left, b.bottom - b.top),
          style, tip);
}

void Svg::circle(Point at, double radius, std::string_view style, std::string_view tip) {
    shape(fmt::format("circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"", at.x, at.y, radius), style, tip);
}

void Svg::square(Point at, double half, std::string_view style, std::string_view tip) {
    rect({at.x - half, at.y - half, at.x + half, at.y + half}, style, tip);
}

void Svg::text(Point at, std::string_view text, Anchor anchor, std::string_view style, double degrees) {
    const std::string turned =
        degrees == 0 ? "" : fmt::format(" transform=\"rotate({:.2f} {:.1f} {:.1f})\"", -degrees, at.x, at.y);
    const std::string styled = style.empty() ? "" : fmt::format(" class=\"{}\"", style);
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}{}>{}</text>\n", at.x, at.y,
                         name_of(anchor), styled, turned, escaped(text));
}

Labels::Place Labels::place(Point point, std::string_view text) {
    struct Offset {
        double x, y;
        Anchor anchor;
    };
    static constexpr Offset kAround[] = {
        {1, 0, Anchor::start},      {-1, 0, Anchor::end},      {0, -1, Anchor::middle},   {0, 1, Anchor::middle},
        {0.8, -0.8, Anchor::start}, {0.8, 0.8, Anchor::start}, {-0.8, -0.8, Anchor::end}, {-0.8, 0.8, Anchor::end}};
    Place best = {point, Anchor::start, false};
    for (const double distance : {11.0, 24.0, 38.0, 54.0, 72.0}) {
        for (const Offset& o : kAround) {
            // Text stands on its line, so it is moved down by half its height to be beside the point.
            best = {{point.x + o.x * distance, point.y + o.y * distance + 4}, o.anchor, distance > 20};
            const Box box = text_box(best.at, text, best.anchor);
            bool is_free = box.left >= inside_.left && box.right <= inside_.right && box.top >= inside_.top &&
                           box.bottom <= inside_.bottom;
            for (const Box& other : taken_) is_free = is_free && !box.overlaps(other);
            if (!is_free) continue;
            avoid(box);
            return best;
        }
    }
    return best;  // nowhere is free: the last place tried
}

}  // namespace carat::cli
