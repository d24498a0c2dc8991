# SPDX-License-Identifier: Apache-2.0
"""gen_ladder.py: the generated parts of docs/ladder.md, `<!-- generated: ladder NAME -->`, for tools/gen_docs.py. From bench/results/h200/:
ladder_4096.json and ladder_8192.json (`table FILE`, `rung v3`), their tiles (`arithmetic`), ladder_ncu.json (`ncu v3`), ladder_sweep.json
(`sweep`, and with the two sizes `errors` and `gain v7 v8`), and ladder_4096_first.json (`first`)."""
import json
import statistics

NOTHING = "Nothing is measured here yet.\n"
FOLDER = "bench/results/h200"
SIZES = ("4096", "8192")
F32, TENSOR, PORT = 128, 2048, 128  # multiply-adds a clock of an SM; bytes a clock of its shared memory

SMS = 132
TENSOR_WARPS, WARP_ROWS = 8, 64  # of rungs 4 and 5: warps of a block, rows of D a warp
STALLS = {
    "barrier": "a barrier of the block", "long_scoreboard": "data from L2 or beyond", "short_scoreboard": "data from shared memory",
    "math_pipe_throttle": "the arithmetic pipe, full", "mio_throttle": "the queue of shared memory instructions, full",
    "lg_throttle": "the queue of global memory instructions, full", "wait": "a fixed latency of the instruction before",
    "not_selected": "its turn: another warp was issued", "no_instruction": "instructions", "dispatch_stall": "the dispatcher", "gmma": "wgmma",
    "branch_resolving": "a branch", "sleeping": "a sleep it asked for", "membar": "a memory fence", "drain": "its stores to leave",
    "tex_throttle": "the texture queue, full",
}


def bytes_a_multiply_add(tile, element):
    """Operand bytes that one multiply-add costs where a tile of D shares its operands."""
    return element * (1 / tile[0] + 1 / tile[1])


def short(value):
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


# ---- from the measurements

def read(root, name, schema):
    path = root / FOLDER / name
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.get("schema") != schema:
        raise ValueError(f"{FOLDER}/{name} has schema {data.get('schema')!r}; this tool reads {schema}")
    if data.get("timed") is False:
        raise ValueError(f"{FOLDER}/{name} holds a plan and no times; write it on a machine with a GPU")
    return data


def number(value, digits=3):
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def percent(value):
    return f"{100 * value:.0f} %" if isinstance(value, (int, float)) else "-"


def kilobytes(value):
    return f"{value / 1024:.3g} KB" if isinstance(value, (int, float)) else "-"


def best_lines(results, size=None):
    """The fastest kernel of each rung (a run may have timed several tiles), in the order of the rungs."""
    best = {}
    for result in results:
        if size is not None and (result["m"], result["n"], result["k"]) != (size,) * 3:
            continue
        key = (int(result["rung"].lstrip("v")), result["dtype"])
        if key not in best or (result.get("us") or 1e30) < (best[key].get("us") or 1e30):
            best[key] = result
    return [best[key] for key in sorted(best)]


def sharing(result):
    """(words for the tile, rows x columns whose operands come from L2 together, rows x columns whose operands come from shared memory
    together, bytes an element, multiply-adds a clock at the full rate) of a measured rung."""
    rung, t = int(result["rung"].lstrip("v")), result["tile"]
    block = (t["bm"], t["bn"])
    words = f"{t['bm']} x {t['bn']}"
    if rung == 0:
        return "1 x 1 a thread, as asked for", (1, 1), None, 4, F32
    if rung == 1:
        return words, block, (1, 1), 4, F32
    if rung <= 3:
        return f"{words}, {t['tm']} x {t['tn']} a thread", block, (t["tm"], t["tn"]), 4, F32
    if rung <= 5:
        warp = (WARP_ROWS, t["bn"] * t["bm"] // (WARP_ROWS * TENSOR_WARPS))
        return f"{words}, {warp[0]} x {warp[1]} a warp", block, warp, 2, TENSOR
    group = (64, t["bn"])
    down, across = t.get("cluster_m") or 1, t.get("cluster_n") or 1
    if down * across > 1:
        return f"{down * across} of {words} that share {'B' if down > 1 else 'A'}", (t["bm"] * down, t["bn"] * across), group, 2, TENSOR
    return f"{words}, 64 x {t['bn']} a warpgroup", block, group, 2, TENSOR


def arithmetic(root, table):
    data = read(root, "ladder_4096.json", "carat.ladder/1")
    if not data:
        return NOTHING
    rows = []
    for result in best_lines(data["results"]):
        words, shared_from_l2, shared_from_shared, element, rate = sharing(result)
        outer = bytes_a_multiply_add(shared_from_l2, element)
        inner = bytes_a_multiply_add(shared_from_shared, element) if shared_from_shared else None
        rows.append([result["rung"].upper(), words, short(2 / outer), short(outer * rate), short(inner) if inner else "-",
                     short(inner * rate) if inner else "-"])
    header = ["rung", "tile", "FLOP a byte from L2", "B a clock an SM from L2 at the full rate", "B from shared memory a multiply-add",
              "B a clock an SM from shared memory at the full rate"]
    return table(header, rows, header[2:])


def tile_of(result):
    tile = result.get("tile") or {}
    words = " x ".join(str(tile[key]) for key in ("bm", "bn", "bk") if tile.get(key)) or "-"
    m, n = tile.get("cluster_m") or 1, tile.get("cluster_n") or 1
    return words + (f", cluster {m} x {n}" if m * n > 1 else "")


def clock_line(env):
    """What the device said of itself after the run: the clock decides the rate."""
    state = env.get("device_after") or {}
    words = [f"{number(state[key])} {unit}" for key, unit in (("sm_clock_mhz", "MHz"), ("power_w", "W"), ("temperature_c", "C")) if state.get(key)]
    return f"The SMs after the run: {', '.join(words)}. " if words else ""


def main_table(data, name, table, environment_line):
    rows = []
    for r in best_lines(data["results"]):
        rows.append([f"[{r['rung'].upper()}](#{anchor(r)})", r["dtype"], tile_of(r), number(r.get("us")), number(r.get("tflops")), percent(r.get("of_peer")),
                     percent(r.get("of_limit")), number(r.get("predicted_us")), number(r.get("registers")), kilobytes(r.get("shared_bytes")),
                     number(r.get("blocks_per_unit"))])
    header = ["rung", "type", "tile", "us", "TFLOP/s", "of cuBLASLt", "of the floor", "predicted us", "registers", "shared memory", "blocks an SM"]
    peers = "; ".join(f"{p['dtype']} {number(p.get('us'))} us, {number(p.get('tflops'))} TFLOP/s" for p in data.get("peers") or [] if p.get("us"))
    env = data.get("env") or {}
    text = f"{environment_line(env)}{clock_line(env)}From `{FOLDER}/{name}`:\n\n" + table(header, rows, header[3:])
    return text + (f"\ncuBLASLt in the same run: {peers}.\n" if peers else "")


HEADINGS = {0: "V0: one thread, one element", 1: "V1: tiles in shared memory", 2: "V2: tiles in registers", 3: "V3: float4 and two buffers",
            4: "V4: tensor cores by WMMA", 5: "V5: cp.async, ldmatrix, mma.sync", 6: "V6: TMA and wgmma", 7: "V7: warp specialisation",
            8: "V8: clusters and raster"}


def anchor(result):
    heading = HEADINGS.get(int(result["rung"].lstrip("v")), result["rung"])
    return "".join(c for c in heading.lower() if c.isalnum() or c in " -_").replace(" ", "-")


def rung_table(root, rung, table):
    rows = []
    for size in SIZES:
        data = read(root, f"ladder_{size}.json", "carat.ladder/1")
        for r in best_lines(data["results"], int(size)) if data else []:
            if r["rung"] == rung:
                rows.append([f"{size}^3 {r['dtype']} {r['layout']}", number(r.get("predicted_us")), r.get("bound") or "-", number(r.get("us")),
                             number(r.get("tflops")), percent(r.get("of_peer")), number(r.get("registers")), number(r.get("spill_bytes")),
                             kilobytes(r.get("shared_bytes")), percent(r.get("occupancy"))])
    header = ["problem", "predicted us", "predicted bound", "measured us", "TFLOP/s", "of cuBLASLt", "registers", "spilled bytes", "shared memory", "occupancy"]
    return table(header, rows, [header[1], *header[3:]]) if rows else NOTHING


def measured_comment(root, rung):
    """The line of a kernel's opening comment that says what came out."""
    words = []
    for size in (4096, 8192):
        data = read(root, f"ladder_{size}.json", "carat.ladder/1") or {"results": []}
        for result in best_lines(data["results"], size):
            if result["rung"] == rung and result.get("us"):
                words.append(f"{size}^3 {number(result['tflops'])} TFLOP/s, {percent(result['of_peer'])} of cuBLASLt")
    return f"// Measured on an H200: {'; '.join(words)}. See docs/ladder.md." if words else "// Measured: not yet."


def ncu_table(root, rung, table):
    data = read(root, "ladder_ncu.json", "carat.ladder_ncu/1")
    found = [r for r in data["results"] if r["rung"] == rung] if data else []
    if not found:
        return NOTHING
    r, m = found[0], found[0]["metrics"]
    conflicts = [m.get("bank_conflicts_load"), m.get("bank_conflicts_store")]
    total = sum(value for value in conflicts if value is not None) if any(value is not None for value in conflicts) else None
    flops = 2.0 * r["m"] * r["n"] * r["k"]
    lines = [("time, SM clock", f"{number(m.get('duration_us'))} us at {number(m.get('sm_clock_ghz'))} GHz"),
             ("f32 pipe, tensor pipe busy", f"{number(m.get('f32_pipe_pct'))} %, {number(m.get('tensor_pipe_pct'))} %"),
             ("FLOP a clock an SM; with a full tensor pipe", full_pipe(flops, m)),
             ("warp instructions, issue slots used", f"{number(m.get('instructions'))}, {number(m.get('issue_pct'))} %"),
             ("wavefronts of shared memory, of its port", f"{number(m.get('shared_wavefronts'))}, {number(m.get('shared_port_pct'))} %"),
             ("of them bank conflicts", number(total)),
             ("L2 to SM, bytes a clock an SM", number(m.get("l2_to_sm_bytes_per_clk"))),
             ("L2 traffic, hits, busy", f"{gigabytes(m.get('l2_bytes'))}, {number(m.get('l2_hit_pct'))} %, {number(m.get('l2_throughput_pct'))} %"),
             ("DRAM read, written, busy", f"{gigabytes(m.get('dram_read_bytes'))}, {gigabytes(m.get('dram_written_bytes'))}, {number(m.get('dram_throughput_pct'))} %"),
             ("FLOP a byte of DRAM read", number(flops / m["dram_read_bytes"]) if m.get("dram_read_bytes") else "-"),
             ("warps resident, of 64", f"{number(m.get('occupancy_pct'))} %"),
             ("registers a thread, threads a block", f"{number(m.get('registers'))}, {number(m.get('threads'))}"),
             ("a warp waits most for", "; ".join(f"{STALLS.get(s['reason'], s['reason'])} ({s['warps']:.2g})" for s in r["stalls"]) or "-")]
    kept = [line for line in lines if line[1].strip("-, %") not in ("", "us at - GHz")]
    return f"ncu, `{r['kernel']}`, {r['m']} x {r['n']} x {r['k']}:\n\n" + table(["counter", "value"], kept, ["value"])


def full_pipe(flops, metrics):
    """The rate as it was, and as it would be if the tensor pipe were never idle: the rate of the instruction."""
    clocks, busy = metrics.get("clocks"), metrics.get("tensor_pipe_pct") or 0
    if not clocks or busy < 1:
        return "-"
    return f"{number(flops / clocks / SMS)}; {number(flops / clocks / SMS / (busy / 100))}"


def gigabytes(value):
    return f"{value / 1e9:.3g} GB" if isinstance(value, (int, float)) else "-"


def sweep_table(root, table, environment_line):
    data = read(root, "ladder_sweep.json", "carat.ladder/1")
    if not data:
        return NOTHING
    sizes = sorted({r["m"] for r in data["results"] if r["m"] == r["n"] == r["k"]})
    rungs = sorted({(int(r["rung"].lstrip("v")), r["dtype"]) for r in data["results"]})
    rates = {}
    for size in sizes:
        for r in best_lines(data["results"], size):
            rates[int(r["rung"].lstrip("v")), r["dtype"], size] = r.get("tflops")
    peers = {(p["dtype"], p["m"]): p.get("tflops") for p in data.get("peers") or [] if p["m"] == p["n"] == p["k"]}
    rows = [[f"V{rung} {dtype}", *(number(rates.get((rung, dtype, size))) for size in sizes)] for rung, dtype in rungs]
    rows += [[f"cuBLASLt {dtype}", *(number(peers.get((dtype, size))) for size in sizes)] for dtype in dict.fromkeys(dtype for _, dtype in rungs)
             if any(key[0] == dtype for key in peers)]
    header = ["TFLOP/s", *(f"{size}^3" for size in sizes)]
    return f"{environment_line(data.get('env') or {})}From `{FOLDER}/ladder_sweep.json`:\n\n" + table(header, rows, header[1:])


# ---- the model against the measurements

def error(result):
    """Of the predicted time: below 0 where the model promised too much."""
    return result["predicted_us"] / result["us"] - 1 if result.get("us") and result.get("predicted_us") else None


def signed(value):
    return f"{100 * value:+.0f} %" if isinstance(value, (int, float)) else "-"


def first_table(root, table):
    """Predictions made before anything of their rung was measured, and the run that judged them."""
    name = "ladder_4096_first.json"
    data = read(root, name, "carat.ladder/1")
    if not data:
        return NOTHING
    now = read(root, "ladder_4096.json", "carat.ladder/1") or {"results": []}
    today = {r["rung"]: r for r in best_lines(now["results"])}
    rows = [[r["rung"].upper(), tile_of(r), number(r["predicted_us"]), r["bound"], number(r["us"]), signed(error(r)),
             number(today.get(r["rung"], {}).get("predicted_us"))] for r in best_lines(data["results"])]
    header = ["rung", "tile then", "first predicted us", "predicted bound", "measured then us", "error", "predicted since us"]
    return f"From `{FOLDER}/{name}`:\n\n" + table(header, rows, [header[2], *header[4:]])


def runs_by_size(root):
    """[(words for the run, its best results)]: the sweep's sizes, and the two sizes' own files."""
    runs = []
    sweep = read(root, "ladder_sweep.json", "carat.ladder/1")
    for size in sorted({r["m"] for r in sweep["results"]}) if sweep else []:
        runs.append((f"{size}^3", best_lines(sweep["results"], size)))
    for size in SIZES:
        data = read(root, f"ladder_{size}.json", "carat.ladder/1")
        if data:
            runs.append((f"{size}^3 alone", best_lines(data["results"], int(size))))
    return runs


def median(values):
    return f"{100 * statistics.median(values):.0f} %" if values else "-"


def errors_table(root, table):
    runs = runs_by_size(root)
    if not runs:
        return NOTHING
    found = {(r["rung"], run): error(r) for run, results in runs for r in results if error(r) is not None}
    names = [run for run, _ in runs]
    rows = [[rung.upper(), *(signed(found.get((rung, run))) for run in names)] for rung in sorted({rung for rung, _ in found})]
    rows.append(["median, without sign", *(median([abs(e) for (_, at), e in found.items() if at == run]) for run in names)])
    unseen = [abs(e) for (_, run), e in found.items() if not run.startswith("4096")]
    header = ["error of the time", *names]
    return table(header, rows, names) + f"\nMedian of the {len(unseen)} at other sizes than 4096^3: {median(unseen)}.\n"


def gain_table(root, rungs, table):
    before, after = rungs.split()
    rows = []
    for run, results in runs_by_size(root):
        lines = {r["rung"]: r for r in results}
        if lines.get(before, {}).get("us") and lines.get(after, {}).get("us"):
            one, two = lines[before], lines[after]
            rows.append([run, tile_of(one), number(one["us"]), tile_of(two), number(two["us"]), signed(one["us"] / two["us"] - 1)])
    header = ["run", f"{before.upper()} tile", f"{before.upper()} us", f"{after.upper()} tile", f"{after.upper()} us", f"{after.upper()} is faster by"]
    return table(header, rows, [header[2], *header[4:]]) if rows else NOTHING


# ---- what was tried, and what the chip does

def experiments_table(root, rung, table):
    """Versions of a kernel beside cuBLASLt; rung "" is all of them."""
    name = "ladder_experiments.json"
    data = read(root, name, "carat.ladder_experiments/1")
    chosen = [e for e in data["experiments"] if rung in ("", e["rung"])] if data else []
    if not chosen:
        return NOTHING

    def version(v):
        return f"{number(v['tflops'])} TFLOP/s, {percent(v['peer_us'] / v['us'])}"
    rows = [[e["rung"].upper(), e["change"], version(e["before"]), version(e["after"]), e["kept"]] for e in chosen]
    return f"From `{FOLDER}/{name}`, {data['how']}:\n\n" + table(["rung", "change", "before, of cuBLASLt", "after, of cuBLASLt", "kept"], rows)


def hardware_table(root, words, table):
    """Facts of the chip whose text begins with `words`."""
    name = "hardware.json"
    data = read(root, name, "carat.hardware/1")
    chosen = [fact for fact in data["facts"] if fact["what"].startswith(words)] if data else []
    if not chosen:
        return NOTHING
    rows = [[fact["what"], fact["value"], fact["unit"]] for fact in chosen]
    return f"From `{FOLDER}/{name}`, {data['how']}:\n\n" + table(["what", "value", "unit"], rows, ["value"])


def part(root, argument, table, environment_line):
    """The text of `ladder ARGUMENT`. ValueError: a sentence for the user."""
    what, _, rest = argument.partition(" ")
    if what == "arithmetic":
        return arithmetic(root, table)
    if what == "table":
        data = read(root, rest, "carat.ladder/1")
        return main_table(data, rest, table, environment_line) if data else NOTHING
    if what == "rung":
        return rung_table(root, rest, table)
    if what == "ncu":
        return ncu_table(root, rest, table)
    if what == "sweep":
        return sweep_table(root, table, environment_line)
    if what == "first":
        return first_table(root, table)
    if what == "errors":
        return errors_table(root, table)
    if what == "gain" and len(rest.split()) == 2:
        return gain_table(root, rest, table)
    if what == "experiments":
        return experiments_table(root, rest, table)
    if what == "hardware":
        return hardware_table(root, rest, table)
    raise ValueError(f"there is no part `ladder {argument}`; there are arithmetic, table FILE, rung vN, ncu vN, sweep, first, errors, gain vN vM, "
                     "experiments [vN] and hardware [WORDS]")
