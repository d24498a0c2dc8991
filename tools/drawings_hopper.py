# SPDX-License-Identifier: Apache-2.0
"""drawings_hopper.py: the drawings of rungs 6 to 8 of docs/ladder.md: bulk copies, wgmma, warp specialisation, clusters.
tools/ladder_drawings.py writes them."""
from drawing import COLORS, FAINT, INK, Drawing

MB = 1e6


def v6():
    d = Drawing("V6: TMA boxes into a ring, two warpgroups multiply from it with wgmma", 470)
    d.box(24, 70, 150, 60, ["A, 128 x 64", "1 box, 16 KB"], "a", bold=True)
    d.box(24, 150, 150, 60, ["B, 256 x 64", "1 box, 32 KB"], "b", bold=True)
    d.text(24, 232, "global memory", 13, FAINT)
    d.box(230, 108, 80, 60, ["TMA"], "global", bold=True)
    d.arrow(176, 104, 228, 128)
    d.arrow(176, 176, 228, 150)
    d.text(232, 190, "tensor map:", 13, FAINT)
    d.text(232, 208, "base, extents,", 13, FAINT)
    d.text(232, 226, "pitch, box, swizzle", 13, FAINT)
    for i in range(4):
        d.box(380, 62 + i * 38, 170, 32, f"stage {i}: 48 KB", "shared", size=13)
        d.box(556, 62 + i * 38, 62, 32, f"full {i}", "registers", size=13)
    d.arrow(312, 138, 376, 138)
    d.lines(380, 236, ["full barrier: flips its phase when", "all 49152 bytes have landed"], 13)
    for i in range(2):
        d.box(690, 66 + i * 78, 146, 64, [f"warpgroup {i}", "64 x 256 of D", "128 f32 a lane"], "d", size=13, bold=True)
        d.arrow(622, 138, 688, 98 + i * 78)
    d.line(24, 284, 836, 284)
    d.grid(60, 326, 8, 2, 30, 50, "d", 0.5)
    d.text(60, 318, "D of the block: 128 x 256", 13)
    d.text(80, 357, "warpgroup 0: rows 0-63", 13)
    d.text(80, 407, "warpgroup 1: rows 64-127", 13)
    d.text(60, 446, "its warp w holds rows 16 w to 16 w + 15 of the 64", 13, FAINT)
    d.para(360, 318, 476, "One wgmma.m64n256k16: 64 x 256 x 16 = 262144 multiply-adds in 128 clocks. It reads 2 KB of A and 8 KB of B from shared "
           "memory, 80 of the port's 128 clocks; no operand passes through a register. A row of a box is 64 elements = 128 B, so a stage "
           "is four wgmma steps of K. A barrier of the whole block closes the step: everybody must be done with a stage before it is refilled.")
    return d


def descriptor():
    d = Drawing("The 64-bit descriptor by which wgmma finds an operand in shared memory", 400)
    fields = [(62, 63, "layout", "d", 92), (52, 61, "0", "idle", 56), (49, 51, "base offset", "registers", 104), (46, 48, "0", "idle", 56),
              (32, 45, "stride offset / 16", "b", 152), (30, 31, "0", "idle", 56), (16, 29, "leading offset / 16", "b", 152), (14, 15, "0", "idle", 56),
              (0, 13, "address / 16", "a", 88)]
    x = 24
    for low, high, words, color, wide in fields:
        d.rect(x, 86, wide, 44, color, thick=1.5)
        d.text(x + wide / 2, 113, words, 13, anchor="middle")
        d.text(x + wide / 2, 76, f"{high}-{low}", 13, FAINT, anchor="middle")
        x += wide
    d.lines(24, 168, ["address: of the first row, in shared memory, 18 bits without the low four: (address & 0x3ffff) >> 4.",
                      "layout: 0 none, 1 swizzle of 128 B, 2 of 64 B, 3 of 32 B: the way TMA wrote the tile.",
                      "stride offset: from one group of 8 rows to the next: 8 rows x 128 B = 1024 B, so 64.",
                      "leading offset: not used by a K-major tile one swizzle span (128 B = 64 elements) wide.",
                      "base offset: 0 when the tile starts on a multiple of 1024 B, as it must for the XOR to agree."], 14, step=23)
    d.text(24, 304, "Walking K inside the 128 B row: 16 elements = 32 B = + 2 in the address field.", 14, bold=True)
    for i in range(4):
        d.box(24 + i * 202, 320, 196, 32, f"k {16 * i}-{16 * i + 15}: address + {2 * i}", "a", size=13)
    d.text(24, 380, "The hardware applies the XOR to the address it computes, so the step is the same with and without a swizzle.", 13, FAINT)
    return d


def v7():
    d = Drawing("V7: a warpgroup that copies, two that multiply, barriers in both directions", 480)
    d.box(24, 76, 176, 92, ["producer", "one thread issues TMA", "40 registers a thread"], "a", size=13, bold=True)
    for i in range(4):
        x = 280 + i * 92
        d.box(x, 84, 82, 76, [f"stage {i}", "A, B"], "shared", size=13)
        d.box(x, 56, 82, 24, f"full {i}", "registers", size=13)
        d.box(x, 164, 82, 24, f"empty {i}", "registers", size=13)
    d.arrow(202, 122, 276, 122)
    d.text(214, 112, "bytes", 13)
    for i in range(2):
        d.box(720, 64 + 66 * i, 116, 58, [f"consumer {i}", "64 x 256 of D", "232 registers"], "d", size=13, bold=True)
    d.arrow(648, 118, 716, 96)
    d.arrow(648, 126, 716, 156)
    d.line(778, 190, 778, 214, INK, 1.8)
    d.line(778, 214, 112, 214, INK, 1.8)
    d.arrow(112, 214, 112, 172)
    d.text(300, 234, "consumers arrive on empty: the stage may be overwritten", 13)
    d.line(24, 256, 836, 256)
    d.text(24, 282, "Epilogue", bold=True)
    for x, wide, words, color in ((24, 150, ["sums", "f32, registers"], "d"), (234, 130, ["16-bit pairs", "registers"], "registers"),
                                  (456, 166, ["2 boxes of 8 KB", "shared, swizzled"], "shared"), (700, 136, ["D", "global memory"], "global")):
        d.box(x, 296, wide, 56, words, color, size=13, bold=True)
    d.arrow(178, 324, 230, 324)
    d.text(182, 314, "round", 13)
    d.arrow(368, 324, 452, 324)
    d.text(376, 314, "stmatrix", 13)
    d.arrow(626, 324, 696, 324)
    d.text(640, 314, "TMA", 13)
    d.para(24, 380, 812, "The grid is as large as the machine (132 blocks) and each block walks from tile to tile: while the consumers store one, "
           "the producer fills the stages of the next. Every thread that wrote to the staging buffer runs fence.proxy.async before one "
           "thread starts the TMA store, which reads shared memory by another path (proxy) than the threads' own stores.")
    d.text(24, 464, "Registers: 128 x 40 + 256 x 232 = 64512 = 384 x 168, what the launch gave, of the SM's 65536.", 14, bold=True)
    return d


def pipeline(tiles, steps, stages, load, half, epilogue):
    """When things happen in one block: (kind, who, number of the step over all tiles, from, to). A load starts when its stage is released
    by both consumers and takes `load`; the tensor cores serve one consumer at a time, `half` a step; an epilogue holds its consumer."""
    events, released, ready, tensor = [], {}, [0, 0], 0
    landed = {}

    def ask(i):
        start = released[i - stages] if i >= stages else i * half / 2
        landed[i] = start + load
        events.append(("load", i % stages, i, start, landed[i]))
    for i in range(min(stages, tiles * steps)):
        ask(i)
    for i in range(tiles * steps):
        for who in (0, 1):
            start = max(landed[i], ready[who], tensor)
            tensor = ready[who] = start + half
            events.append(("multiply", who, i, start, tensor))
            if who == 0:
                events.append(("full", i % stages, i, landed[i], start))
            if i % steps == steps - 1:
                events.append(("epilogue", who, i, tensor, tensor + epilogue))
                ready[who] = tensor + epilogue
        released[i] = tensor
        events.append(("read", i % stages, i, tensor - 2 * half, tensor))
        if i + stages < tiles * steps:
            ask(i + stages)
    return events


def v7_timeline():
    d = Drawing("V7 in time: two tiles of one block, six steps of K each", 520)
    names = [f"stage {i}" for i in range(4)] + ["consumer 0", "consumer 1", "tensor cores", "TMA store"]
    tops = [66 + 36 * i for i in range(4)] + [222 + 40 * i for i in range(4)]
    for name, y in zip(names, tops):
        d.text(24, y + 20, name, 14, FAINT)
        d.line(120, y + 31, 836, y + 31, "#d1d9e0")
    steps, x0, end = 6, 124, 836
    styles = {"load": ("a", 0), "full": ("shared", 0), "read": ("d", 0)}
    for kind, who, i, start, stop in pipeline(2, steps, 4, 72, 22, 62):
        left, wide = x0 + start, min(stop - start, end - x0 - start)
        if wide <= 1:
            continue
        if kind in styles:
            d.rect(left, tops[who], wide, 26, styles[kind][0], dash=kind == "load")
        elif kind == "epilogue":
            d.box(left, tops[4 + who], wide, 26, "epilogue" if wide > 60 else "", "registers", size=13)
            if wide > 60:
                d.rect(left + wide, tops[7] + 13 * who, min(60, end - left - wide), 12, "global")
        else:
            d.rect(left, tops[4 + who], wide - 1, 26, "d")
            d.rect(left, tops[6], wide - 1, 26, ("d", "registers")[who])
    x = 124
    for color, dash, words in (("a", True, "on its way"), ("shared", False, "full, waits"), ("d", False, "read; consumer 0"), ("registers", False, "consumer 1")):
        d.rect(x, 398, 24, 16, color, dash=dash)
        d.text(x + 30, 411, words, 13)
        x += 150
    d.para(24, 440, 812, "The two consumers take turns on the tensor cores, so one's waiting is covered by the other. The stages of the second tile are asked "
           "for while the first is still multiplied and stored; what the epilogue costs is the gap on the tensor cores, and the TMA store "
           "itself runs under the next tile. Lengths are schematic, the order of events is computed from the rules.")
    return d


def cluster():
    d = Drawing("V8: a cluster of two blocks along M fetches each half of B once, for both", 450)
    for x, words, color in ((60, ["A0", "128 x 64"], "a"), (262, ["B half 0", "128 x 64"], "b"), (464, ["B half 1", "128 x 64"], "b"), (666, ["A1", "128 x 64"], "a")):
        d.box(x, 70, 134, 56, words, color, bold=True)
    d.text(836, 60, "L2", 14, FAINT, anchor="end")
    places = {}
    for i, x, shelf in ((0, 24, (0, 1, 2)), (1, 446, (2, 0, 1))):
        d.rect(x, 226, 390, 120, "shared", round_by=4)
        d.text(x + 14, 334, f"shared memory of block {i}: 48 KB a stage", 13)
        for j, (words, color) in enumerate(((f"A{i}", "a"), ("B half 0", "b"), ("B half 1", "b"))):
            d.box(x + 14 + shelf[j] * 124, 242, 114, 64, [words, "16 KB"], color, size=13)
            places[i, j] = x + 71 + shelf[j] * 124
    d.arrow(110, 128, places[0, 0], 238, COLORS["a"][1])
    d.arrow(750, 128, places[1, 0], 238, COLORS["a"][1], dash=True)
    for half, x in ((0, 329), (1, 531)):
        for block in (0, 1):
            d.arrow(x, 128, places[block, half + 1], 238, COLORS["b"][1], dash=half == 1)
    d.para(24, 374, 812, "Solid arrows: asked for by block 0; dashed: by block 1. A multicast copy lands at the same offset in every block of its mask and "
           "counts its bytes on each one's barrier, so each block expects all 48 KB. Asked of L2: 16 KB of A and 16 KB of B a block and step "
           "of 1024 clocks, 32 B a clock an SM instead of 48.")
    return d


def waves(order, tile, depth, wave, element=2):
    """For each wave the rows and columns of tiles that it touches, and what they ask of DRAM if nothing of the wave before is left."""
    for start in range(0, len(order), wave):
        rows, columns = ({tile_at[i] for tile_at in order[start:start + wave]} for i in (0, 1))
        yield len(rows), len(columns), (len(rows) * tile[0] + len(columns) * tile[1]) * depth * element


def row_by_row(down, across):
    return [(row, column) for row in range(down) for column in range(across)]


def strips(down, across, height):
    """Strips of `height` rows, walked column by column, every second one backwards."""
    order = []
    for top in range(0, down, height):
        columns = range(across) if top // height % 2 == 0 else reversed(range(across))
        order += [(row, column) for column in columns for row in range(top, min(top + height, down))]
    return order


def raster():
    size = 8192
    d = Drawing("V8: the order of the tiles decides what a wave reads (8192^3)", 520)
    for x, tile, wave, height, words in ((60, (128, 256), 132, 0, "V7: row by row, 132 tiles of 128 x 256"),
                                         (480, (256, 192), 66, 8, "V8: strips of 2048 rows, 66 of 256 x 192")):
        down, across = -(-size // tile[0]), -(-size // tile[1])
        order = strips(down, across, height) if height else row_by_row(down, across)
        per_wave = list(waves(order, tile, size, wave))
        w, h = 320 / across, 320 / down
        d.text(x - 24, 64, words, 14, bold=True)
        d.grid(x, 96, across, down, w, h, "idle", 0.3)
        for first, color in ((0, "d"), (wave, "registers")):
            for row, column in order[first:first + wave]:
                d.rect(x + column * w, 96 + row * h, w, h, color, thick=0.4)
        rows, columns, bytes_read = per_wave[0]
        d.rect(x - 24, 96, 14, rows * h, "a")
        d.rect(x, 76, columns * w, 14, "b")
        d.text(x, 440, f"first wave: {rows * tile[0]} rows, {columns * tile[1]} columns, {bytes_read / MB:.0f} MB", 14)
        d.text(x, 462, f"all {len(per_wave)} waves: {sum(wave[2] for wave in per_wave) / 1e9:.2f} GB", 14)
    d.para(24, 488, 812, "Green: the first wave, yellow: the second. Blue: rows of A, orange: columns of B that the first wave reads. A and B "
           "are 0.27 GB together; the sums are as if nothing stayed in L2 from one wave to the next.")
    return d


DRAWINGS = {"v6": v6, "wgmma_descriptor": descriptor, "v7": v7, "v7_timeline": v7_timeline, "v8": cluster, "v8_raster": raster}
