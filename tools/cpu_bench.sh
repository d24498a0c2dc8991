#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cpu_bench.sh OUT.json: times the CPU backend beside OpenBLAS and oneDNN on one core and writes a summary. Contestants
# take turns in random order; times are CPU time, so that what else runs on the machine does not count, and the median of
# the repetitions. Installs nothing. Environment: BUILD_DIR (default build), REPETITIONS (15), CORE (the last one).
set -eu
[ $# -eq 1 ] || { echo "usage: $0 OUT.json" >&2; exit 2; }
out=$1
build=${BUILD_DIR:-build}
program=$build/bench/cpu_peers
[ -x "$program" ] || { echo "$program is missing: cmake --build $build --target cpu_peers (needs libbenchmark-dev)" >&2; exit 1; }
for tool in taskset python3; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: install util-linux and python3" >&2; exit 1; }
done
ldd "$program" | grep -q openblas || echo "note: built without OpenBLAS (install libopenblas-dev and configure again)" >&2
ldd "$program" | grep -q dnnl || echo "note: built without oneDNN (install libdnnl-dev and configure again)" >&2

core=${CORE:-$(($(getconf _NPROCESSORS_ONLN) - 1))}
raw=$(mktemp)
trap 'rm -f "$raw"' EXIT
# OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE, where set, pin OpenBLAS to old kernels.
env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE -u CARAT_CPU_ISA OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
    taskset -c "$core" "$program" --benchmark_repetitions="${REPETITIONS:-15}" \
    --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=false \
    --benchmark_out="$raw" --benchmark_out_format=json >/dev/null

python3 - "$raw" "$out" <<'PYTHON'
import collections, json, statistics, sys

raw = json.load(open(sys.argv[1]))
times, labels = collections.defaultdict(list), {}
for row in raw["benchmarks"]:
    if row.get("error_occurred"):
        sys.exit(f"{row['name']}: {row['error_message']}")
    if row["run_type"] == "iteration":
        kind, contestant, layout, n = row["run_name"].split("/")[:4]
        times[kind, layout, int(n), contestant].append(row["cpu_time"] * 1e-3)
        labels[contestant, kind] = row.get("label", "")

def rate(n, seconds):
    return round(2 * n**3 / seconds * 1e-9, 1)

results = []
for (kind, layout, n, contestant), seconds in sorted(times.items()):
    ours = contestant.startswith("carat_")
    median = statistics.median(seconds)
    result = {"dtype": kind, "layout": layout, "n": n, "contestant": contestant, "ms": round(median * 1e3, 3),
              "gflops_median": rate(n, median), "gflops_best": rate(n, min(seconds)), "repetitions": len(seconds)}
    if labels[contestant, kind]:
        result["choice"] = labels[contestant, kind]
    if ours:
        result["vs"] = {peer: round(statistics.median(times[kind, layout, n, peer]) / median, 3)
                        for peer in ("openblas", "onednn") if (kind, layout, n, peer) in times}
    results.append(result)

context = raw["context"]
keep = ("date", "cpu", "carat", "openblas", "onednn", "mhz_per_cpu", "load_avg", "caches")
json.dump({"schema": "carat.cpu_peers/1", "env": {k: context[k] for k in keep if k in context},
           "method": "one core, CPU time, median of interleaved repetitions, random normal data, D in f32",
           "results": results}, open(sys.argv[2], "w"), indent=1)
for r in results:
    print(f"{r['dtype']:5}{r['layout']:3}{r['n']:6}  {r['contestant']:18}{r['gflops_median']:8.1f} GFLOP/s median"
          f"{r['gflops_best']:8.1f} best  " + "  ".join(f"{v:.2f}x {k}" for k, v in r.get("vs", {}).items()))
PYTHON
