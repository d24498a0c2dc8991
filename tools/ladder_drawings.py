#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ladder_drawings.py [--check] [--root DIR]: writes the drawings of docs/ladder.md, docs/ladder/*.svg. The same input gives the
same bytes on every machine. --check writes nothing and fails if a committed drawing is not what would be written. Rungs 0 to
5 are here, those that only Hopper can climb in drawings_hopper.py."""
import argparse
import math
import pathlib
import sys

import drawings_hopper
from drawing import COLORS, FAINT, INK, Drawing

HBM, L2, SHARED = 4.54e12, 39, 128  # bytes: a second on the chip; a clock on an SM (measured); the port's width
SMS, CLOCK = 132, 1.83e9            # the clock of the datasheet's peaks
TENSOR, F32 = 4096, 256             # FLOP a clock on an SM


def levels():
    d = Drawing("What one SM of an H200 gets in a clock, and how often each byte must be used", 400)
    hbm = HBM / SMS / CLOCK
    rows = [("global", "HBM", f"{hbm:.1f} B", "4.54 TB/s over 132 SMs, measured", hbm), ("global", "L2", "39 B", "all SMs pulling at once, at 1.98 GHz, measured", L2),
            ("shared", "shared memory", "128 B", "32 banks of 4 bytes", SHARED),
            ("registers", "registers", "1536 B", "three 4-byte operands of 128 lanes", 1536)]
    d.text(24, 70, "level", color=FAINT)
    d.text(210, 70, "bytes a clock an SM (bars: logarithmic)", color=FAINT)
    d.text(600, 60, "FLOP that each byte must feed", color=FAINT)
    d.text(600, 80, "f32 units", color=FAINT)
    d.text(720, 80, "tensor cores", color=FAINT)
    for i, (color, name, rate, why, value) in enumerate(rows):
        y = 96 + i * 62
        d.box(24, y, 160, 44, name, color, bold=True)
        d.rect(210, y + 4, 30 * math.log2(value), 16, color)
        d.text(210, y + 38, f"{rate}: {why}", 13)
        d.text(600, y + 27, f"{F32 / value:.2g}" if value < 1000 else "-", 16)
        d.text(720, y + 27, f"{TENSOR / value:.3g}" if value < 1000 else "-", 16)
        if i:
            d.arrow(104, y - 16, 104, y - 1)
    d.line(24, 350, 836, 350)
    d.para(24, 374, 812, "f32 units: 256 FLOP a clock an SM. Tensor cores: 4096 (f16, bf16). At 1.83 GHz, the clock of the datasheet.")
    return d


def v0():
    d = Drawing("V0: one thread, one element of D, straight from global memory", 440)
    cell = 20
    ax, ay, bx, by = 60, 250, 330, 70
    d.grid(ax, ay, 10, 7, cell, cell, "a", 0.4)
    d.grid(bx, by, 16, 7, cell, cell, "b", 0.4)
    d.grid(bx, ay, 16, 7, cell, cell, "d", 0.4)
    d.text(ax, ay - 10, "A (M x K)", color=COLORS["a"][1], bold=True)
    d.text(bx - 92, by + 18, "B (K x N)", color=COLORS["b"][1], bold=True)
    d.text(bx, ay + 7 * cell + 20, "D (M x N)", color=COLORS["d"][1], bold=True)
    d.rect(ax, ay + 3 * cell, 10 * cell, cell, "a", thick=2.5)
    d.rect(ax + 4 * cell, ay + 3 * cell, cell, cell, "registers", thick=2.5)
    d.rect(bx + 2 * cell, by + 4 * cell, 8 * cell, cell, "registers", thick=2.5)
    d.frame(bx + 2 * cell, by, 8 * cell, 7 * cell, "b", 2.5)
    d.rect(bx + 2 * cell, ay + 3 * cell, 8 * cell, cell, "d", thick=2.5)
    d.arrow(ax + 10 * cell + 6, ay + 3.5 * cell, bx + 2 * cell - 4, ay + 3.5 * cell)
    d.arrow(bx + 6 * cell, by + 7 * cell + 6, bx + 6 * cell, ay + 3 * cell - 4)
    d.text(bx + 10 * cell + 16, ay + 3.5 * cell + 5, "one warp", bold=True)
    d.lines(670, 100, ["Step k of a warp:", "A: one value, the same", "for all 32 lanes: 4 B", "B: 32 neighbours, one", "line: 128 B", "32 multiply-adds"], 14)
    d.lines(670, 300, ["Asked for: 8 B for", "2 FLOP = 0.25 FLOP/B.", "Each row of A is read N", "times, each column of", "B M times."], 14)
    return d


def v1():
    d = Drawing("V1: a block shares tiles of A and B in its shared memory", 440)
    d.grid(40, 210, 5, 4, 46, 46, "a", 0.6)
    d.grid(330, 66, 4, 2, 46, 46, "b", 0.6)
    d.text(40, 200, "A in global memory", color=COLORS["a"][1], bold=True)
    d.text(330, 60, "B in global memory", color=COLORS["b"][1], bold=True)
    d.rect(40 + 2 * 46, 210 + 46, 46, 46, "registers", thick=2.5)
    d.rect(330 + 46, 66 + 46, 46, 46, "registers", thick=2.5)
    d.box(330, 210, 300, 196, [], "shared")
    d.text(344, 230, "shared memory", color=COLORS["shared"][1], bold=True)
    d.grid(350, 262, 8, 8, 14, 14, "a", 0.5)
    d.grid(490, 262, 8, 8, 14, 14, "b", 0.5)
    d.text(350, 256, "A, 32 x 33", 13)
    d.text(490, 256, "B, 32 x 33", 13)
    d.rect(350, 262 + 42, 112, 14, "registers", thick=2)
    d.rect(490 + 42, 262, 14, 112, "registers", thick=2)
    d.arrow(40 + 3 * 46 + 4, 210 + 69, 346, 300)
    d.arrow(330 + 69, 66 + 2 * 46 + 2, 596, 259)
    d.text(350, 396, "row i of A, column j of B: one d[i, j]", 13)
    d.lines(652, 90, ["A step (32 of K):", "1. each of 1024 threads", "copies an element of A", "and one of B", "2. barrier", "3. each thread: 32", "multiply-adds", "4. barrier"], 14)
    d.lines(652, 282, ["Each byte from global", "memory is used 32 times:", "0.25 -> 8 FLOP/B.", "From shared memory still", "2 loads a multiply-add."], 14)
    d.text(40, 424, "the next step moves both tiles 32 further along K", 13, FAINT)
    return d


def bank_conflicts():
    d = Drawing("Bank conflicts: a column of 32 x 32 floats, without and with padding", 412)
    for x0, pitch, color, words in ((60, 32, "bad", "pitch 32: one bank, 32 turns"), (480, 33, "d", "pitch 33: 32 banks, 1 turn")):
        for row in range(7):
            for column in range(8):
                bank = (row * pitch + column) % 32
                d.rect(x0 + column * 38, 84 + row * 32, 38, 32, color if column == 0 else "plain")
                d.text(x0 + column * 38 + 19, 84 + row * 32 + 21, str(bank), 14, anchor="middle", bold=column == 0)
        d.text(x0, 72, words, 15, COLORS[color][1], bold=True)
        d.text(x0 + 312, 204, "...", 16)
        d.text(x0, 330, "...", 16)
    for row in range(7):
        d.text(50, 84 + row * 32 + 21, str(row), 13, FAINT, anchor="end")
        d.text(470, 84 + row * 32 + 21, str(row), 13, FAINT, anchor="end")
    d.para(24, 358, 812, "The number in a cell is its bank: (row * pitch + column) mod 32. A bank gives one 4-byte word a clock. The 32 lanes of a "
           "warp that touch column 0 need 32 clocks on the left and one on the right. Lanes that want the same word share it.")
    return d


def v2():
    d = Drawing("V2: a thread computes 8 x 8 elements of D from 8 + 8 registers", 470)
    small, left, top = 9, 40, 90  # a small cell is 4 x 4 elements
    d.grid(left, top, 32, 32, small, small, "d", 0.3)
    for row in range(4):
        for column in range(2):
            d.frame(left + column * 16 * small, top + row * 8 * small, 16 * small, 8 * small, "d", 1.5)
    d.frame(left, top + 8 * small, 16 * small, 8 * small, "registers", 3)
    for row in (0, 4):
        for column in (0, 8):
            d.rect(left + (3 + column) * small, top + (9 + row) * small, small, small, "registers", thick=2)
    d.text(left, 78, "tile of D: 128 x 128, 8 warps", 14, bold=True)
    d.para(left, 400, 330, "One warp: 32 x 64, lanes 4 down and 8 across. One lane: four squares of 4 x 4, so that 8 lanes read 128 neighbouring "
           "bytes. Its 8 x 8 sums are on the right.")
    cell, x, y = 27, 460, 140
    d.line(left + 12 * small, top + 9 * small, x, y, COLORS["registers"][1], dash=True)
    d.line(left + 12 * small, top + 14 * small, x, y + 8 * cell, COLORS["registers"][1], dash=True)
    d.grid(x, y, 8, 8, cell, cell, "d")
    d.grid(x - 36, y, 1, 8, cell, cell, "a")
    d.grid(x, y - 36, 8, 1, cell, cell, "b")
    d.text(x - 36, y + 8 * cell + 18, "a[8]", 13, COLORS["a"][1], bold=True)
    d.text(x - 36, y - 16, "b[8]", 13, COLORS["b"][1], bold=True)
    d.rect(x - 36, y + 3 * cell, cell, cell, "registers", thick=2.5)
    d.rect(x + 5 * cell, y - 36, cell, cell, "registers", thick=2.5)
    d.rect(x + 5 * cell, y + 3 * cell, cell, cell, "registers", thick=2.5)
    d.text(x + 10, y + 8 * cell + 24, "d[i][j] += a[i] * b[j]", 14, mono=True)
    d.text(x - 36, y + 8 * cell + 50, "64 registers of sums, 16 of operands", 13, FAINT)
    d.lines(700, 120, ["One step of K:", "4 loads of 16 B", "from shared", "memory, 64", "multiply-adds.", "", "8 B -> 1 B of", "shared memory a", "multiply-add.", "", "a[i] serves 8", "multiply-adds,",
                       "so does b[j]."], 14)
    return d


def v3_lane(d, y, name, slots):
    d.text(24, y + 21, name, 14, FAINT)
    for x, w, words, color in slots:
        d.box(x, y, w, 32, words, color, size=13)


def v3():
    d = Drawing("V3: the next tile travels while this one is multiplied", 470)
    d.text(24, 66, "One buffer (V1, V2): load, wait, compute, wait", bold=True)
    x, slots_load, slots_math = 130, [], []
    for step in range(3):
        slots_load.append((x, 110, f"load {step}", "a"))
        slots_math.append((x + 114, 110, f"compute {step}", "d"))
        x += 232
    v3_lane(d, 80, "memory", slots_load)
    v3_lane(d, 118, "f32 units", slots_math)
    d.text(24, 192, "Two buffers (V3): loads of step k + 1 are in flight under the arithmetic of step k", bold=True)
    loads = [(130, 110, "load 0", "a")] + [(248 + 118 * i, 110, f"load {i + 1}", "a") for i in range(4)]
    work = [(248 + 118 * i, 114, f"compute {i}", "d") for i in range(5)]
    v3_lane(d, 206, "memory", loads)
    v3_lane(d, 244, "f32 units", work)
    d.para(24, 304, 812, "global -> registers before the arithmetic of the step, registers -> the other buffer of shared memory after it: one "
           "barrier a step instead of two, and the wait for the data falls where they are needed, not where they are asked for.")
    d.text(24, 362, "float4: one instruction moves 16 bytes a lane", bold=True)
    for i in range(4):
        d.box(24 + i * 54, 378, 50, 30, "4 B", "idle", size=13)
    d.text(24, 436, "4 loads, 4 addresses, 4 issue slots", 13)
    d.arrow(254, 393, 312, 393)
    d.box(324, 378, 212, 30, "16 B", "b", size=13)
    d.text(324, 436, "1 load; a warp moves 512 B in four full lines", 13)
    return d


def v4():
    d = Drawing("V4: WMMA, a warp multiplies fragments of 16 x 16", 430)
    d.grid(40, 90, 8, 8, 30, 30, "d", 0.5)
    d.text(40, 78, "tile of D, cut into 16 x 16 pieces", 14, bold=True)
    for i in range(2):
        for j in range(4):
            d.frame(40 + j * 60, 90 + i * 120, 60, 120, "registers", 2.5)
    d.rect(40 + 30, 90 + 60, 30, 30, "registers", thick=2.5)
    d.text(40, 352, "yellow frame: one warp, 64 x 32", 13)
    for x, color, name in ((350, "a", "A 16 x 16"), (490, "b", "B 16 x 16")):
        d.grid(x, 110, 8, 8, 13, 13, color, 0.5)
        d.text(x, 102, name, 14, COLORS[color][1], bold=True)
    d.text(464, 168, "x", 18, bold=True)
    d.text(606, 168, "->", 18, bold=True)
    d.grid(640, 110, 8, 8, 13, 13, "d", 0.5)
    d.text(640, 102, "sums 16 x 16", 14, COLORS["d"][1], bold=True)
    d.lines(350, 246, ["load_matrix_sync: shared memory -> fragment", "mma_sync: 16 x 16 x 16 = 4096 multiply-adds = 8192 FLOP",
                       "a fragment belongs to the warp: 256 elements over 32 lanes;", "8 f32 sums a lane; which lane holds which is not defined"], 14)
    d.para(350, 352, 486, "What is left: fragments are loaded and then multiplied, with nothing between to overlap; tiles travel through registers; "
           "and the epilogue, which must know rows and columns, goes through shared memory.", 13, FAINT)
    return d


def v5():
    d = Drawing("V5: cp.async fills a ring, ldmatrix feeds mma.sync", 440)
    d.box(24, 76, 132, 90, ["global", "memory"], "global", bold=True)
    for i in range(4):
        d.box(240, 66 + i * 30, 190, 26, f"stage {i}: A and B tile", "shared", size=13)
    d.text(240, 206, "ring in shared memory, swizzled", 13, FAINT)
    d.arrow(158, 120, 236, 120)
    d.lines(160, 88, ["cp.async", "16 B a lane"], 13)
    d.box(524, 76, 124, 90, ["registers", "of a warp"], "registers", bold=True)
    d.arrow(432, 120, 520, 120)
    d.text(436, 108, "ldmatrix.x4", 13)
    d.box(742, 76, 94, 90, ["tensor", "cores"], "d", bold=True)
    d.arrow(650, 120, 738, 120)
    d.text(660, 108, "mma.sync", 13)
    d.text(24, 250, "The block's tile: warps of 64 x 64", bold=True)
    for i in range(2):
        for j in range(4):
            d.box(24 + j * 74, 264 + i * 74, 72, 72, f"warp {i * 4 + j}", "d", size=13)
    d.para(350, 264, 486, "One warp, 16 of K: 4 ldmatrix.x4 of A, 4 of B, then 4 x 8 = 32 mma of 16 x 8 x 16. Shared memory: (64 + 64) * 16 * 2 B = "
           "4 KB for 65536 multiply-adds, 1/16 B each. At 2048 multiply-adds a clock that is 128 B a clock: the whole port.")
    d.para(350, 358, 486, "While one stage is multiplied the next ones are on their way, and no register holds them. One barrier a step (64 of K) says "
           "both: the next stage has landed, and this one may be overwritten.")
    return d


LANES = ("#ffffff", "#eaf2ff", "#fff4e3", "#eefaf0", "#f6effd", "#fff1f1", "#fdfbe6", "#eef0f2")


def lane_grid(d, x, y, rows, columns, lane_of, w, h):
    """Cells of two neighbouring elements that one lane holds."""
    for i in range(rows):
        for j in range(columns):
            lane, register = lane_of(i, j)
            d.parts.append(f'<rect x="{x + j * w}" y="{y + i * h}" width="{w}" height="{h}" fill="{LANES[lane // 4]}" stroke="#8c959f" stroke-width="0.6"/>')
            d.text(x + j * w + w / 2, y + i * h + h - 6, f"T{lane}.{register}", 13, anchor="middle")


def mma_lanes():
    d = Drawing("mma.sync m16n8k16: which lane holds what (Tn.r: lane n, register r)", 806)
    h = 21
    d.text(24, 428, "A: 16 x 16, 4 registers", 14, COLORS["a"][1], bold=True)
    lane_grid(d, 24, 440, 16, 8, lambda i, j: (i % 8 * 4 + j % 4, i // 8 + 2 * (j // 4)), 56, h)
    d.text(500, 66, "B: 16 x 8, 2 registers", 14, COLORS["b"][1], bold=True)
    for j in range(8):
        d.text(500 + j * 40 + 20, 88, f"n{j}", 13, FAINT, anchor="middle")
    for i in range(8):
        for j in range(8):
            lane = j * 4 + i % 4
            d.parts.append(f'<rect x="{500 + j * 40}" y="{96 + i * 38}" width="40" height="38" fill="{LANES[j]}" stroke="#8c959f" stroke-width="0.6"/>')
            d.text(520 + j * 40, 120 + i * 38, f"T{lane}.{i // 4}", 13, anchor="middle")
        d.text(492, 120 + i * 38, f"k{2 * i},{2 * i + 1}", 13, FAINT, anchor="end")
    d.text(500, 428, "C, D: 16 x 8, 4 f32 registers, two a cell", 14, COLORS["d"][1], bold=True)
    lane_grid(d, 500, 440, 16, 4, lambda i, j: (i % 8 * 4 + j, f"{i // 8 * 2},{i // 8 * 2 + 1}"), 80, h)
    d.lines(24, 80, ["A register of A or B holds two 16-bit", "elements, one of the sums a single f32.", "", "Lane n holds of A: rows n/4 and n/4 + 8,", "columns 2 (n mod 4) + {0, 1, 8, 9};", "of B: those columns as rows (both run", "along K), column n/4;",
                     "of D: rows as of A, columns", "2 (n mod 4) + {0, 1}.", "",
                     "ldmatrix.x4 brings a lane its four", "registers of A at once: lane i gives the", "address of one row of 8 elements (16 B),", "and every lane receives its own pair of", "each of the four 8 x 8 matrices."], 14)
    return d


def swizzle():
    d = Drawing("The 128-byte swizzle: 16-byte chunk c of row r lies at chunk c XOR (r mod 8)", 420)
    for x0, swizzled, words in ((40, False, "as it comes: 8 lanes on the same 4 banks"), (450, True, "swizzled: all 32 banks, one turn")):
        d.text(x0, 70, words, 15, COLORS["d" if swizzled else "bad"][1], bold=True)
        for place in range(8):
            d.text(x0 + place * 44 + 22, 92, f"{place * 4}-{place * 4 + 3}", 13, FAINT, anchor="middle")
        for row in range(8):
            for place in range(8):
                chunk = place ^ row if swizzled else place
                color = ("d" if swizzled else "bad") if chunk == 2 else "plain"
                d.rect(x0 + place * 44, 100 + row * 30, 44, 30, color)
                d.text(x0 + place * 44 + 22, 120 + row * 30, str(chunk), 14, anchor="middle", bold=chunk == 2)
    for row in range(8):
        d.text(32, 120 + row * 30, str(row), 13, FAINT, anchor="end")
        d.text(442, 120 + row * 30, str(row), 13, FAINT, anchor="end")
    d.para(24, 368, 812, "A row is 128 B: 64 elements of 16 bit, all 32 banks (numbers above the columns). ldmatrix and wgmma read 8 rows of one "
           "chunk column (here chunk 2) at a time. Bits 4-6 of the address are XORed with bits 7-9: no memory is lost to padding.")
    return d


DRAWINGS = {"levels": levels, "v0": v0, "v1": v1, "bank_conflicts": bank_conflicts, "v2": v2, "v3": v3, "v4": v4, "v5": v5,
            "mma_lanes": mma_lanes, "swizzle128": swizzle, **drawings_hopper.DRAWINGS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a drawing is stale or its texts overlap")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    folder, wrong = options.root / "docs" / "ladder", []
    drawn = {f"{name}.svg": draw() for name, draw in DRAWINGS.items()}
    for name, drawing in drawn.items():
        path, text = folder / name, drawing.svg()
        wrong += drawing.overlaps()
        if options.check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            wrong.append(f"docs/ladder/{name}: stale; run tools/ladder_drawings.py and commit")
        elif not options.check:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    wrong += [f"docs/ladder/{path.name}: no drawing of this name is written" for path in sorted(folder.glob("*.svg")) if path.name not in drawn]
    print("\n".join(f"ladder_drawings: {sentence}" for sentence in wrong) or f"ladder_drawings: {len(drawn)} drawings are up to date")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
