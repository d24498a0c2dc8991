#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""drawing.py: the small SVG vocabulary of the drawings in docs/: one style, plain shapes, and texts that know their place. A
drawing has a background of its own, so it reads the same on a light and on a dark page. Coordinates are pixels of a page that
is shown about 860 wide; every text is 13 pixels or more."""
import textwrap
from xml.sax.saxutils import escape

WIDTH = 860
INK, FAINT, LINE, PAPER = "#1f2328", "#59636e", "#8c959f", "#ffffff"
# name -> (fill, stroke): an operand keeps its colour in every drawing.
COLORS = {"a": ("#d4e5ff", "#2f6fdd"), "b": ("#ffe3c7", "#c8641b"), "d": ("#d5f2da", "#2e8540"), "shared": ("#ece3fb", "#7048b8"),
          "registers": ("#fff4bf", "#a88500"), "idle": ("#eef0f2", "#8c959f"), "bad": ("#ffd6d6", "#cf222e"), "plain": ("#ffffff", "#8c959f"),
          "global": ("#e3e8ee", "#59636e")}
SANS, MONO = "Helvetica, Arial, sans-serif", "Menlo, Consolas, monospace"


def number(value):
    """A coordinate without needless digits: the same bytes on every machine."""
    return f"{round(value, 1):g}"


class Drawing:
    def __init__(self, title, height, width=WIDTH):
        self.title, self.width, self.height = title, width, height
        self.parts, self.texts = [], []
        self.text(24, 32, title, size=16, bold=True)

    # ---- shapes

    def rect(self, x, y, w, h, color="plain", stroke=None, dash=False, thick=1.0, round_by=0):
        fill, edge = COLORS[color]
        dashed = ' stroke-dasharray="5 4"' if dash else ""
        rounded = f' rx="{round_by}"' if round_by else ""
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" width="{number(w)}" height="{number(h)}"{rounded} fill="{fill}" '
                          f'stroke="{stroke or edge}" stroke-width="{number(thick)}"{dashed}/>')

    def frame(self, x, y, w, h, color="plain", thick=2.0, dash=False):
        """An outline with nothing in it."""
        dashed = ' stroke-dasharray="6 4"' if dash else ""
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" width="{number(w)}" height="{number(h)}" fill="none" '
                          f'stroke="{COLORS[color][1]}" stroke-width="{number(thick)}"{dashed}/>')

    def line(self, x1, y1, x2, y2, color=LINE, thick=1.0, dash=False):
        dashed = ' stroke-dasharray="4 3"' if dash else ""
        self.parts.append(f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" stroke="{color}" '
                          f'stroke-width="{number(thick)}"{dashed}/>')

    def arrow(self, x1, y1, x2, y2, color=INK, thick=1.8, dash=False):
        """A line with a head of its own: markers are drawn differently by different programs."""
        length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1e-9)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        self.line(x1, y1, x2 - 6 * dx, y2 - 6 * dy, color, thick, dash)
        left, right = (x2 - 10 * dx - 5 * dy, y2 - 10 * dy + 5 * dx), (x2 - 10 * dx + 5 * dy, y2 - 10 * dy - 5 * dx)
        points = " ".join(f"{number(x)},{number(y)}" for x, y in ((x2, y2), left, right))
        self.parts.append(f'<polygon points="{points}" fill="{color}"/>')

    def grid(self, x, y, columns, rows, w, h, color="plain", thick=1.0, outline=1.5):
        """One rectangle with lines in it: cells of w x h."""
        self.rect(x, y, columns * w, rows * h, color, thick=outline)
        edge = COLORS[color][1]
        for i in range(1, columns):
            self.line(x + i * w, y, x + i * w, y + rows * h, edge, thick)
        for i in range(1, rows):
            self.line(x, y + i * h, x + columns * w, y + i * h, edge, thick)

    # ---- words

    def text(self, x, y, words, size=14, color=INK, bold=False, mono=False, anchor="start"):
        """Words on the baseline y. Their box is an estimate, on the wide side, for overlaps()."""
        wide = len(words) * size * (0.61 if mono else 0.58 if bold else 0.54)
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor]
        self.texts.append((left, y - 0.78 * size, left + wide, y + 0.22 * size, words))
        weight = ' font-weight="bold"' if bold else ""
        place = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}" font-family="{MONO if mono else SANS}" font-size="{number(size)}"{weight}'
                          f'{place} fill="{color}">{escape(words)}</text>')

    def lines(self, x, y, words, size=14, color=INK, step=None, anchor="start", mono=False):
        for i, line in enumerate(words):
            self.text(x, y + i * (step or 1.4 * size), line, size, color, anchor=anchor, mono=mono)

    def para(self, x, y, wide, words, size=13, color=INK):
        """Prose broken into lines that stay within `wide`."""
        most = int(wide / (0.54 * size))
        self.lines(x, y, textwrap.wrap(words, most), size, color)

    def box(self, x, y, w, h, words, color="plain", size=14, bold=False, mono=False, dash=False):
        """A rectangle with lines of text in its middle."""
        words = [words] if isinstance(words, str) else words
        self.rect(x, y, w, h, color, thick=1.5, round_by=4, dash=dash)
        first = y + h / 2 + 0.35 * size - (len(words) - 1) * 0.65 * size
        for i, line in enumerate(words):
            self.text(x + w / 2, first + i * 1.3 * size, line, size, bold=bold and i == 0, mono=mono, anchor="middle")

    # ---- the whole

    def overlaps(self):
        """Sentences on texts that meet another text or leave the page."""
        found = []
        for i, (left, top, right, bottom, words) in enumerate(self.texts):
            if left < 0 or top < 0 or right > self.width or bottom > self.height:
                found.append(f"{self.title}: '{words}' leaves the page")
            for other in self.texts[i + 1:]:
                if left < other[2] - 1 and other[0] < right - 1 and top < other[3] - 1 and other[1] < bottom - 1:
                    found.append(f"{self.title}: '{words}' meets '{other[4]}'")
        return found

    def svg(self):
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}" '
                f'role="img">\n<!-- SPDX-License-Identifier: Apache-2.0. Written by tools/ladder_drawings.py -->\n'
                f'<title>{escape(self.title)}</title>\n<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8" '
                f'fill="{PAPER}" stroke="#d1d9e0"/>\n{body}\n</svg>\n')
