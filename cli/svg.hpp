// SPDX-License-Identifier: Apache-2.0
// svg.hpp: a drawing as inline SVG of a page. Colours and strokes are classes of the page's style sheet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carat::cli {

// Text as it may stand in HTML, in SVG and in a quoted attribute.
std::string escaped(std::string_view text);

struct Point {
    double x = 0, y = 0;
};

struct Box {
    double left = 0, top = 0, right = 0, bottom = 0;
    bool overlaps(const Box& other) const {
        return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
};

enum class Anchor { start, middle, end };

// About the place that text of the page's small size takes; browsers differ, so it errs to the wide side.
inline constexpr double kTextHeight = 13, kTextWidth = 7.0;
Box text_box(Point at, std::string_view text, Anchor anchor);

class Svg {
  public:
    // id: unique in the page. title and description: what a screen reader says.
    Svg(double width, double height, const std::string& id, const std::string& title, const std::string& description);
    void line(Point from, Point to, std::string_view style);
    void rect(const Box& box, std::string_view style, std::string_view tip = "");
    void circle(Point at, double radius, std::string_view style, std::string_view tip = "");
    void square(Point at, double half, std::string_view style, std::string_view tip = "");
    // degrees: turned about `at`, counter-clockwise.
    void text(Point at, std::string_view text, Anchor anchor, std::string_view style = "", double degrees = 0);
    std::string str() const { return body_ + "</svg>\n"; }

  private:
    void shape(const std::string& tag, std::string_view style, std::string_view tip);
    std::string body_;
};

// Finds places for labels beside points, away from the points, from each other and from whatever else is there.
class Labels {
  public:
    explicit Labels(const Box& inside) : inside_(inside) {}
    void avoid(const Box& box) { taken_.push_back(box); }
    // The place of the text, and its own box taken. far: a line to the point is needed.
    struct Place {
        Point at;
        Anchor anchor;
        bool far;
    };
    Place place(Point point, std::string_view text);

  private:
    Box inside_;
    std::vector<Box> taken_;
};

}  // namespace carat::cli
