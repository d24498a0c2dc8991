#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gen_docs.py BINARY [--check]: writes the generated parts of README.md and docs/*.md from the program itself (`BINARY list
--json`) and from the measurements in bench/results/. A part stands between `<!-- generated: NAME -->` and `<!-- end -->`.
--check writes nothing and fails if a committed part is not what would be written."""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

import gen_ladder

MARKER = re.compile(r"(<!-- generated: ([^\n]*?) -->\n)(.*?)(<!-- end -->)", re.S)


class Stop(Exception):
    """A sentence for the user."""


def table(header, rows, right=()):
    """A Markdown table; columns named in `right` are aligned right."""
    def cell(value):
        return str(value).replace("|", "\\|").replace("\n", " ")
    lines = [f"| {' | '.join(header)} |", "| " + " | ".join("---:" if name in right else "---" for name in header) + " |"]
    return "\n".join(lines + [f"| {' | '.join(cell(value) for value in row)} |" for row in rows]) + "\n"


def code(text):
    return f"`{text}`" if text not in ("", None) else ""


def listed(names):
    return ", ".join(names) or "none"


# ---- from `carat list --json`

def statuses(listing, root, argument):
    return table(["value", "status", "what it means"], [[row["value"], code(row["name"]), row["sentence"]] for row in listing["statuses"]])


def exit_codes(listing, root, argument):
    return table(["exit code", "name", "what it means"], [[row["code"], row["name"], row["meaning"]] for row in listing["exit_codes"]])


def environment(listing, root, argument):
    rows = [[code(row["name"]), row["values"], row["fallback"], row["meaning"]] for row in listing["env"]]
    return table(["variable", "values", "when unset", "what it does"], rows)


def targets(listing, root, argument):
    return table(["name", "device", "where its numbers come from"],
                 [[code(row["name"]), row["full_name"], row["source"]] for row in listing["targets"]])


def merged(entries, axes):
    """Entries of equal features as products of sets: exact, and far shorter than one line a combination."""
    rows = [tuple((entry[axis],) if isinstance(entry[axis], str) else tuple(entry[axis]) for axis in axes) for entry in entries]
    changed = True
    while changed:
        changed = False
        for axis in range(len(axes)):
            groups = {}
            for row in rows:
                groups.setdefault(row[:axis] + row[axis + 1:], []).append(row[axis])
            joined = [rest[:axis] + (tuple(dict.fromkeys(name for names in values for name in names)),) + rest[axis:]
                      for rest, values in groups.items()]
            changed |= len(joined) < len(rows)
            rows = joined
    return rows


def operands_of(row):
    """The row's lines for the support table: (A x B products, D, layouts, problems)."""
    groups = {}
    for a, b, *rest in merged(row["supports"], ("a", "b", "d", "layouts", "modes")):
        groups.setdefault(tuple(map(listed, rest)), []).append(listed(a) if a == b and len(a) == 1 else f"({listed(a)} x {listed(b)})")
    return tuple((", ".join(pairs), *rest) for rest, pairs in groups.items())


def support(listing, root, argument):
    names = {}  # kernels that take the same share their lines
    for row in listing["rows"]:
        names.setdefault((row["backend"], operands_of(row)), []).append(code(row["name"]))
    rows = [[", ".join(kernels), backend, *line] for (backend, lines), kernels in names.items() for line in lines]
    return table(["kernels", "run on", "A and B", "D", "layouts", "problems"], rows)


def place_of(row):
    """Where a kernel runs: "cuda, compute capability 9.0"."""
    capability = row["typical"]["compute_capability"]
    return f"{row['backend']}, compute capability {capability}" if capability else row["backend"]


def configurations_of(row):
    """What its configurations are for a large problem."""
    names = row["typical"]["configurations"]
    return f"Configurations for {row['typical']['problem']}: {', '.join(code(name) for name in names)}.\n" if names else ""


def kernels(listing, root, argument):
    text = []
    axes = ("a", "b", "d", "layouts", "modes", "epilogues", "recipes")
    for row in listing["rows"]:
        lines = merged([{"recipes": (), **entry} for entry in row["supports"]], axes)
        text.append(f"### {row['name']}\n\n{row['summary']} Runs on: {place_of(row)}. Source: [{row['source']}](../{row['source']}).\n\n"
                    + table(["A", "B", "D", "layouts", "problems", "epilogues", "scales"], [[listed(names) for names in line] for line in lines])
                    + f"\n{configurations_of(row)}")
    return "\n".join(text)


# ---- from bench/results/

def bench(listing, root, argument):
    """`bench PATH [brief]`: the results in bench/results/PATH, a file or a folder; brief leaves out the peers' choices."""
    argument, _, brief = argument.partition(" ")
    place = root / "bench" / "results" / argument
    files = [place] if place.is_file() else sorted(place.rglob("*.json"))
    parts = []
    for path in files:
        data = read_json(path)
        name = path.relative_to(root).as_posix()
        if str(data.get("schema", "")).startswith("carat.bench/"):
            parts.append(bench_table(name, data, brief != "brief"))
        elif str(data.get("schema", "")).startswith("carat.cpu_peers/"):
            parts.append(cpu_peers_table(name, data))
    return "\n".join(parts) or "Nothing is measured here yet.\n"


def ladder(listing, root, argument):
    """`ladder WHAT`: tools/gen_ladder.py."""
    try:
        return gen_ladder.part(root, argument, table, environment_line)
    except ValueError as error:
        raise Stop(f"`ladder {argument}`: {error}") from error


def bench_table(name, data, choices=True):
    rows = []
    for result in data["results"]:
        peer, peer_us, choice = best_peer(result.get("peers") or {})
        us, floor = result.get("us"), result.get("floor_us")
        rows.append([problem_of(result), code(result.get("kernel")), number(us), number(result.get("tflops")), number(result.get("gbps")),
                     percent(floor, us), f"{peer} {number(peer_us)}" + (f" ({choice})" if choices else "") if peer else "-", ratio(peer_us, us)])
    header = ["problem", "kernel", "us", "TFLOP/s", "GB/s", "of the floor", "best peer, us", "peer time / ours"]
    return f"{environment_line(data.get('env') or {})}From `{name}`:\n\n" + table(header, rows, header[2:6] + header[7:])


def suite(listing, root, argument):
    """`suite PATH [brief]`: the run in bench/results/PATH beside every peer; brief is one sentence on all its problems."""
    argument, _, brief = argument.partition(" ")
    data = read_json(root / "bench" / "results" / argument)
    if brief == "brief":
        return suite_sentence(data)
    names = sorted({name for result in data["results"] for name in result["peers"] or {}})
    rows = []
    for result in data["results"]:
        peers = result["peers"] or {}
        peer, peer_us, _ = best_peer(peers)
        rows.append([result["m"], result["n"], result["k"], number(result["us"]), number(result["tflops"]),
                     *(number((peers.get(name) or {}).get("us")) for name in names), peer or "-", ratio(peer_us, result["us"])])
    header = ["M", "N", "K", "Carat, us", "TFLOP/s", *(f"{name}, us" for name in names), "best peer", "its time / ours"]
    return (f"{environment_line(data['env'])}From `bench/results/{argument}`, written by `{data['env']['command']}`:\n\n{suite_sentence(data)}\n"
            + table(header, rows, [name for name in header if name != "best peer"]))


def suite_sentence(data):
    """The ratios of a run in one sentence: geometric mean, least, and how many are below 0.95."""
    timed = [(best_peer(result["peers"] or {})[1], result) for result in data["results"]]
    ratios = [(peer_us / result["us"], f"{result['m']} x {result['n']} x {result['k']}") for peer_us, result in timed if peer_us]
    if not ratios:
        return "No peer is timed here yet.\n"
    kinds = sorted({f"{result['dtype']} {result['layout']}" for _, result in timed})
    mean = math.exp(sum(math.log(one) for one, _ in ratios) / len(ratios))
    least, where = min(ratios)
    below = sum(one < 0.95 for one, _ in ratios)
    return (f"Over {len(ratios)} problems ({', '.join(kinds)}) the time of the fastest peer over ours is {mean:.3f} in the geometric mean and "
            f"{least:.3f} at least ({where}); {below} are below 0.95.\n")


def beside(listing, root, argument):
    """`beside PATH`: the times in bench/results/PATH, a file or a folder, each beside the last one before it that is plain: layout nt, no epilogue,
    and sizes that are multiples of 128."""
    place = root / "bench" / "results" / argument
    rows, base, env = [], None, {}
    for path in [place] if place.is_file() else sorted(place.glob("*.json")):
        data = read_json(path)
        env = env or data["env"]
        for result in data["results"]:
            is_plain = result["layout"] == "nt" and result["epilogue"] in (None, "none")
            if is_plain and all(result[size] % 128 == 0 for size in "mnk"):
                base = result["us"]
            _, peer_us, _ = best_peer(result["peers"] or {})
            rows.append([problem_of(result), code(result["kernel"]), number(result["us"]), ratio(result["us"], base), number(peer_us)])
    header = ["problem", "kernel", "us", "beside the plain one", "cuBLASLt, us"]
    if all(row[-1] == "-" for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return f"{environment_line(env)}From `bench/results/{argument}`:\n\n" + table(header, rows, header[2:])


def passes(listing, root, argument):
    """`passes PATH`: how far the choice lies behind the best configuration, in bench/results/PATH (schema carat.bench_passes/1: each timed in several
    passes, of which the median counts)."""
    problems = {}
    for result in read_json(root / "bench" / "results" / argument)["results"]:
        times = [us for us in result["us_of_passes"] if us]
        scatter = statistics.pstdev(times) / statistics.mean(times)
        timed = (result["predicted_us"], statistics.median(times), scatter)
        problems.setdefault((result["m"], result["n"], result["k"]), []).append(timed)
    behind = [min(timed)[1] / min(us for _, us, _ in timed) - 1 for timed in problems.values()]
    scatter = statistics.mean(one for timed in problems.values() for _, _, one in timed)
    return (f"From `bench/results/{argument}`: over {len(behind)} problems the configuration of the least predicted time is {100 * statistics.mean(behind):.1f} % "
            f"slower than the best measured one on average, {100 * max(behind):.1f} % at most; times of one configuration scatter by {100 * scatter:.1f} %.\n")


def chain(listing, root, argument):
    """`chain PATH`: one decoder layer as a chain, of each number of tokens in bench/results/PATH (schema carat.bench_chain/1)."""
    path = root / "bench" / "results" / argument
    if not path.exists():
        return "Nothing is measured here yet.\n"
    data = read_json(path)
    names = sorted({name for one in data["chains"] for name in one["peers"]})
    rows = [[one["model"], one["tokens"], number(one["us"]), number(one["floor_us"]), percent(one["floor_us"], one["us"]),
             *(number((one["peers"].get(name) or {}).get("us")) for name in names), *([ratio(best_peer(one["peers"])[1], one["us"])] if names else [])]
            for one in data["chains"]]
    header = ["model", "tokens", "Carat, us a layer", "sum of floors, us", "of the floors", *(f"{name}, us" for name in names),
              *(["its time / ours" if len(names) == 1 else "best peer time / ours"] if names else [])]
    return f"{environment_line(data['env'])}From `bench/results/{argument}`, written by `{data['env']['command']}`:\n\n" + table(header, rows, header[1:])


def few_rows(listing, root, argument):
    """`few_rows PATH`: a run over many layers, one line for each number of rows (schema carat.bench/1)."""
    path = root / "bench" / "results" / argument
    if not path.exists():
        return "Nothing is measured here yet.\n"
    data = read_json(path)
    rows = []
    for m in sorted({result["m"] for result in data["results"]}):
        timed = [result for result in data["results"] if result["m"] == m and result["us"]]
        peers = [(best_peer(result["peers"] or {})[1] / result["us"], f"{result['n']} x {result['k']}") for result in timed
                 if best_peer(result["peers"] or {})[1]]
        floors = [result["floor_us"] / result["us"] for result in timed]
        least, where = min(peers, default=(None, "-"))
        rows.append([m, len(timed), f"{statistics.geometric_mean(one for one, _ in peers):.3f}" if peers else "-",
                     f"{least:.3f}" if least else "-", where, f"{statistics.geometric_mean(floors):.3f}"])
    header = ["rows", "layers", "best peer time / ours", "the least", "of N x K", "floor / ours"]
    return (f"{environment_line(data['env'])}From `bench/results/{argument}`, written by `{data['env']['command']}`:\n\n"
            + table(header, rows, [name for name in header if name != "of N x K"]))


def prediction_error(listing, root, argument):
    """`prediction_error PATH...`: how far the shipped parameters' predictions are from the H200's times in bench/results/PATH."""
    names = [name for name in argument.split() if (root / "bench" / "results" / name).exists()]
    if not names:
        return "Nothing is measured here yet.\n"
    command = [listing["binary"], "calibrate", "--target", "h200", "--json", "--report", *(root / "bench" / "results" / name for name in names)]
    files = json_of(command, {**os.environ, "CARAT_DEVICE_FILE": "off"})["files"]
    rows = [[code(name), file["samples"], f"{100 * file['median']:.1f} %", f"{100 * file['worst']:.0f} %", file["problems"] or "-",
             f"{100 * file['within_5_percent']:.0f} %" if file["problems"] else "-"] for name, file in zip(names, files)]
    header = ["times in `bench/results/`", "timed", "off in the median", "at worst", "problems with a choice", "chosen within 5 % of the best"]
    return table(header, rows, header[1:])


def problem_of(result):
    shape = f"{result['m']} x {result['n']} x {result['k']}"
    for key, word in (("batch", "batch"), ("groups", "groups")):
        if result.get(key) and result[key] != 1:
            shape += f", {word} {result[key]}"
    features = [result[key] for key in ("recipe", "epilogue") if result.get(key) not in (None, "", "none")]
    return " ".join(filter(None, [result.get("dtype"), result.get("layout"), shape, *features]))


def best_peer(peers):
    timed = [(peer["us"], name, peer.get("choice") or "default") for name, peer in peers.items() if peer and peer.get("us")]
    if not timed:
        return None, None, None
    us, name, choice = min(timed)
    return name, us, choice


def cpu_peers_table(name, data):
    """A run of tools/cpu_bench.sh: one line a problem, GFLOP/s of each contestant."""
    contestants = sorted({result["contestant"] for result in data["results"]})
    problems = {}
    for result in data["results"]:
        problems.setdefault((result["dtype"], result["layout"], result["n"]), {})[result["contestant"]] = result["gflops_median"]
    rows = [[f"{dtype} {layout} {n}^3", *(number(rates.get(one)) for one in contestants)] for (dtype, layout, n), rates in sorted(problems.items())]
    env = data["env"]
    where = f"{env['cpu']}, {data['method']}; oneDNN {env['onednn']}, {' '.join(env['openblas'].split()[:2])}; {env['date'].split('T')[0]}"
    return f"GFLOP/s ({where}). From `{name}`:\n\n" + table(["problem", *contestants], rows, contestants)


def environment_line(env):
    words = []
    for key in ("device", "cpu", "threads", "driver", "nvrtc", "carat", "date"):
        value = env.get(key)
        value = value.get("full_name", value.get("name")) if isinstance(value, dict) else value
        if not isinstance(value, (str, int)) or value == "" or key != "device" and value == env.get("device"):
            continue
        if key in ("nvrtc", "date"):
            value = str(value).split(",")[0].split("T")[0]  # the version without its path, the day without its time
        words.append(str(value) if key in ("device", "cpu", "date") else f"{value} {key}" if key == "threads" else f"{key} {value}")
    return f"Measured with: {', '.join(words)}. " if words else ""


def number(value):
    if not isinstance(value, (int, float)):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(part, whole):
    return f"{100 * part / whole:.0f} %" if part and whole else "-"


def ratio(one, two):
    return f"{one / two:.2f}" if one and two else "-"


# ---- the pages

PARTS = {"statuses": statuses, "exit-codes": exit_codes, "environment": environment, "targets": targets, "support": support,
         "kernels": kernels, "bench": bench, "suite": suite, "beside": beside, "passes": passes, "chain": chain, "few_rows": few_rows,
         "prediction_error": prediction_error, "ladder": ladder}


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Stop(f"{path} is not JSON: {error}") from error


def json_of(command, environment=None):
    shown = " ".join(str(word) for word in command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, env=environment)
    except OSError as error:
        raise Stop(f"{command[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        raise Stop(f"`{shown}` gave {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def listing_of(binary):
    listing = {**json_of([binary, "list", "--json"]), "binary": binary}
    if listing.get("schema") != "carat.list/1":
        raise Stop(f"`{binary} list --json` has schema {listing.get('schema')!r}; this tool reads carat.list/1")
    return listing


def generated(text, listing, root, page):
    """The page with every part written anew."""
    def write(match):
        name, _, argument = match.group(2).partition(" ")
        if name not in PARTS:
            raise Stop(f"{page}: there is no generated part `{name}`; there are {', '.join(PARTS)}")
        try:
            part = PARTS[name](listing, root, argument)
        except KeyError as error:
            raise Stop(f"{page}: the part `{match.group(2)}` misses the field {error} in its data") from error
        return match.group(1) + part + match.group(4)
    if text.count("<!-- generated:") != len(MARKER.findall(text)):
        raise Stop(f"{page}: a `<!-- generated: NAME -->` line lacks its `<!-- end -->`")
    return MARKER.sub(write, text)


def measured_comments(text, root, page):
    """A kernel of the ladder with the line of its opening comment that says what was measured."""
    rung = page.name.partition("_")[0]
    new, count = re.subn(r"^// Measured.*$", gen_ladder.measured_comment(root, rung), text, count=1, flags=re.M)
    if count == 0:
        raise Stop(f"{page}: its opening comment has no line `// Measured`")
    return new


def rungs(root):
    return sorted((root / "kernels" / "ladder").glob("v[0-9]*.cuh"))


def pages(root):
    return [path for path in [root / "README.md", root / "HACKING.md", *sorted((root / "docs").glob("**/*.md"))] if path.exists()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="build/cli/carat")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    try:
        listing, stale = listing_of(options.binary), []
        for page in pages(options.root) + rungs(options.root):
            old, name = page.read_text(encoding="utf-8"), page.relative_to(options.root)
            new = measured_comments(old, options.root, name) if page.suffix == ".cuh" else generated(old, listing, options.root, name)
            if new != old:
                stale.append(page.relative_to(options.root).as_posix())
                if not options.check:
                    page.write_text(new, encoding="utf-8")
    except Stop as stop:
        print(f"gen_docs: {stop}", file=sys.stderr)
        return 1
    if stale and options.check:
        print(f"gen_docs: {', '.join(stale)}: stale; run tools/gen_docs.py {options.binary} and commit", file=sys.stderr)
        return 1
    print(f"gen_docs: {'wrote ' + ', '.join(stale) if stale else 'all pages are up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
