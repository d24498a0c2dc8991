#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ncu_ladder.py FOLDER OUT.json: what tools/ncu_ladder.sh left in FOLDER (RUNG.csv of Nsight Compute, RUNG.run.json of the program) as one
file of schema carat.ladder_ncu/1: {"schema", "env", "results": [{"rung", "row", "kernel", "m", "n", "k", "dtype", "layout", "metrics":
{plain name: number}, "stalls": [{"reason", "warps"}, three at most]}]}. A metric that ncu did not give is left out."""
import csv
import json
import pathlib
import re
import sys

PCT = "avg.pct_of_peak_sustained"
# plain name -> the counters that give it (the largest that is there), and what they are divided by
METRICS = {
    "duration_us": (["gpu__time_duration.sum"], 1e3),
    "clocks": (["sm__cycles_elapsed.max"], 1),
    "sm_clock_ghz": (["sm__cycles_elapsed.avg.per_second"], 1e9),
    "sm_throughput_pct": ([f"sm__throughput.{PCT}_elapsed"], 1),
    "f32_pipe_pct": ([f"sm__inst_executed_pipe_fma.{PCT}_active", f"sm__pipe_fma_cycles_active.{PCT}_active"], 1),
    "tensor_pipe_pct": ([f"sm__{name}.{PCT}_active" for name in (
        "inst_executed_pipe_tensor", "pipe_tensor_cycles_active", "pipe_tensor_op_hmma_cycles_active", "inst_executed_pipe_tensor_op_hmma",
        "inst_executed_pipe_tensor_op_gmma")], 1),
    "shared_wavefronts": (["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"], 1),
    "shared_port_pct": ([f"l1tex__data_pipe_lsu_wavefronts_mem_shared.{PCT}_elapsed"], 1),
    "bank_conflicts_load": (["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"], 1),
    "bank_conflicts_store": (["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"], 1),
    "l2_to_sm_bytes": (["l1tex__m_xbar2l1tex_read_bytes.avg"], 1),  # of one SM
    "l2_bytes": (["lts__t_bytes.sum"], 1),
    "l2_throughput_pct": ([f"lts__throughput.{PCT}_elapsed"], 1),
    "l2_hit_pct": (["lts__t_sector_hit_rate.pct"], 1),
    "dram_read_bytes": (["dram__bytes_read.sum"], 1),
    "dram_written_bytes": (["dram__bytes_write.sum"], 1),
    "dram_throughput_pct": ([f"dram__throughput.{PCT}_elapsed"], 1),
    "instructions": (["smsp__inst_executed.sum"], 1),
    "issue_pct": ([f"smsp__issue_active.{PCT}_active"], 1),
    "occupancy_pct": ([f"sm__warps_active.{PCT}_active"], 1),
    "registers": (["launch__registers_per_thread"], 1),
    "threads": (["launch__block_size"], 1),
    "blocks": (["launch__grid_size"], 1),
    "shared_bytes": (["launch__shared_mem_per_block"], 1),
}
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


class Stop(Exception):
    """A sentence for the user."""


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None  # "n/a", or a name


def read_csv(text):
    """{metric: value} of the first kernel in ncu's CSV: the raw page (a column a metric) or the details page (a row a metric)."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {}
    rows = list(csv.DictReader(line for line in lines[start:] if line.startswith('"')))
    kernels = [row for row in rows if row["ID"]]  # the raw page has a row of units without an ID
    if not kernels:
        return {}
    first = [row for row in kernels if row["ID"] == kernels[0]["ID"]]
    pairs = [(row["Metric Name"], row["Metric Value"]) for row in first] if "Metric Name" in first[0] else first[0].items()
    return {name: value for name, text in pairs if name and text is not None and (value := number(text)) is not None}


def plain(counters):
    """The counters under their plain names, and the three reasons for which warps waited most."""
    metrics = {}
    for name, (sources, divisor) in METRICS.items():
        values = [counters[source] for source in sources if source in counters]
        if values:
            metrics[name] = round(max(values) / divisor, 4)
    if metrics.get("clocks") and "l2_to_sm_bytes" in metrics:
        metrics["l2_to_sm_bytes_per_clk"] = round(metrics["l2_to_sm_bytes"] / metrics["clocks"], 2)
    waits = {match.group(1): value for name, value in counters.items() if (match := STALL.fullmatch(name)) and value > 0}
    worst = sorted(waits.items(), key=lambda item: (-item[1], item[0]))[:3]
    return metrics, [{"reason": reason, "warps": round(value, 3)} for reason, value in worst]


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Stop(f"{path} is not the JSON that `carat run --output` writes: {error}") from error


def report(folder):
    results, env = [], {}
    for path in sorted(folder.glob("v*.csv"), key=lambda path: int(re.sub(r"\D", "", path.stem) or 0)):
        counters = read_csv(path.read_text(encoding="utf-8", errors="replace"))
        if not counters:
            print(f"ncu_ladder: {path.name} has no numbers; left out", file=sys.stderr)
            continue
        run = read_json(path.with_suffix(".run.json"))
        metrics, stalls = plain(counters)
        env = env or {key: value for key, value in run["env"].items() if key in ("device", "driver", "nvrtc", "carat", "date")}
        row = re.match(r"(\w+?)_(?:f32|f16|bf16)_", run["kernel"])  # a configuration's name: row, types, layout, tile
        results.append({"rung": path.stem, "row": row.group(1) if row else path.stem,
                        **{key: run[key] for key in ("kernel", "m", "n", "k", "dtype", "layout")},
                        "metrics": metrics, "stalls": stalls})
    if not results:
        raise Stop(f"{folder} holds no CSV of a rung with numbers in it: run tools/ncu_ladder.sh {folder} on a machine with a GPU")
    version = folder / "ncu.txt"
    if version.exists() and (match := re.search(r"Version (\S+)", version.read_text())):
        env["ncu"] = match.group(1)
    return {"schema": "carat.ladder_ncu/1", "env": env, "results": results}


def main():
    if len(sys.argv) != 3:
        print("usage: tools/ncu_ladder.py FOLDER OUT.json", file=sys.stderr)
        return 2
    try:
        text = json.dumps(report(pathlib.Path(sys.argv[1])), indent=1)
        pathlib.Path(sys.argv[2]).write_text(text + "\n", encoding="utf-8")
    except (Stop, OSError, KeyError) as error:
        print(f"ncu_ladder: {f'the field {error} is missing in a run.json' if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
