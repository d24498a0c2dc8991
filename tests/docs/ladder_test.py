#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ladder_test.py: what stands behind docs/ladder.md: its arithmetic and tables (tools/gen_ladder.py), its drawings (tools/ladder_drawings.py),
and the counters of Nsight Compute (tools/ncu_ladder.sh and .py), on canned data and with a program that plays ncu."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import drawings_hopper  # noqa: E402
import gen_docs  # noqa: E402
import gen_ladder  # noqa: E402
import ladder_drawings  # noqa: E402
import ncu_ladder  # noqa: E402

RAW = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Block Size","CC","dram__bytes_read.sum","gpu__time_duration.sum","l1tex__m_xbar2l1tex_read_bytes.avg","sm__cycles_elapsed.max","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","smsp__average_warps_issue_stalled_wait_per_issue_active.ratio","lts__t_bytes.sum"
"","","","","","byte","ns","byte","cycle","%","%","inst","inst","inst","inst","byte"
"0","7","carat_kernel","(384, 1, 1)","9.0","1,000,000","200,500","3,900","100","1.5","91.25","0.5","2.25","1.0","0.1","n/a"
"""
DETAILS = """"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","carat_kernel","gpu__time_duration.sum","ns","2,000"
"0","7","carat_kernel","launch__registers_per_thread","register/thread","168"
"1","7","carat_kernel","gpu__time_duration.sum","ns","9,000"
"""
RUN = {"schema": "carat.run/1", "env": {"device": {"full_name": "NVIDIA H200"}, "driver": "580", "date": "2026-01-02T03:04:05Z", "argv": "x"},
       "kernel": "v7_warp_specialized_bf16_bf16_bf16_nt_128x256x64_s4", "m": 4096, "n": 4096, "k": 4096, "dtype": "bf16", "layout": "nt"}
RUNG = {"rung": "v7", "row": "v7_warp_specialized", "kernel": "x", "summary": "s", "m": 4096, "n": 4096, "k": 4096, "dtype": "bf16", "layout": "nt",
        "us": 200.0, "tflops": 687.2, "peer": "cublaslt", "peer_us": 190.0, "peer_choice": "algo", "of_peer": 0.95, "of_limit": 0.86, "floor_us": 171.8,
        "predicted_us": 205.0, "bound": "L2", "intensity": 85.3, "tile": {"bm": 128, "bn": 256, "bk": 64, "cluster_m": 2, "cluster_n": 1}, "threads": 384, "registers": 168,
        "spill_bytes": 0, "shared_bytes": 229440, "blocks_per_unit": 1, "occupancy": 0.1875, "check": {}}
LADDER = {"schema": "carat.ladder/1", "env": {"device": {"full_name": "NVIDIA H200"}, "date": "2026-01-02T03:04:05Z",
                                              "device_after": {"sm_clock_mhz": 1455, "power_w": 690.2, "temperature_c": None}}, "timed": True, "limits": {},
          "results": [RUNG, {**RUNG, "us": 300.0, "tile": {"bm": 128, "bn": 64, "bk": 64}}, {**RUNG, "rung": "v0", "dtype": "f32", "us": None, "tflops": None}],
          "peers": [{"peer": "cublaslt", "dtype": "bf16", "m": 4096, "n": 4096, "k": 4096, "us": 190.0, "tflops": 723.0, "choice": "algo"}], "skipped": []}
# Plays ncu: knows few metrics, refuses a list with an unknown one, and writes the CSV of a raw page to the log file.
NCU = """#!/bin/sh
case $1 in --version) echo "Version 2025.3.1.0 (build 1)"; exit 0 ;; --query-metrics) seq -f 'filler%g  x' 60; echo "gpu__time_duration  Duration"; exit 0 ;; esac
while [ $# -gt 0 ]; do
    case $1 in
    --log-file) log=$2 ;;
    --metrics) list=$2 ;;
    --output) out=$2 ;;
    --kernel) row=$2 ;;
    esac
    shift
done
echo "$list" | grep -q dram && echo "no such metric" >"$log" && exit 1
[ "$row" = v2_broken ] && exit 1
printf '"ID","gpu__time_duration.sum","launch__registers_per_thread"\\n"","ns","x"\\n"0","5000","64"\\n' >"$log"
sed "s/v7_warp_specialized/$row/" "$FAKE_RUN" >"$out"
"""


class Arithmetic(unittest.TestCase):
    def test_what_the_page_says(self):
        lines = {line.split(" | ")[0].strip("| "): [cell.strip(" |") for cell in line.split(" | ")[1:]]
                 for line in gen_ladder.arithmetic(ROOT, gen_docs.table).splitlines()}
        self.assertEqual(lines["V0"][1:3], ["0.25", "1,024"])
        self.assertEqual(lines["V1"][1:], ["8", "32", "8", "1,024"])
        self.assertEqual(lines["V2"][1:], ["32", "8", "1", "128"])
        self.assertEqual(lines["V3"], ["128 x 256, 8 x 16 a thread", "42.7", "6", "0.75", "96"])
        self.assertEqual(lines["V4"][0], "128 x 128, 64 x 32 a warp")
        self.assertEqual(lines["V5"], ["128 x 256, 64 x 64 a warp", "85.3", "48", "0.0625", "128"])
        self.assertEqual(lines["V8"][1:], ["128", "32", "0.0391", "80"])

    def test_the_headings_are_the_pages(self):
        page = (ROOT / "docs" / "ladder.md").read_text()
        for heading in gen_ladder.HEADINGS.values():
            self.assertIn(f"\n## {heading}\n", page)


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.results = self.root / "bench" / "results" / "h200"
        self.results.mkdir(parents=True)

    def part(self, argument):
        return gen_docs.ladder({}, self.root, argument)

    def test_nothing_measured(self):
        for argument in ("table ladder_4096.json", "rung v3", "ncu v3", "sweep", "arithmetic", "first", "errors", "gain v7 v8", "experiments", "hardware"):
            self.assertEqual(self.part(argument), gen_ladder.NOTHING)

    def test_measured(self):
        (self.results / "ladder_4096.json").write_text(json.dumps(LADDER))
        text = self.part("table ladder_4096.json")
        self.assertIn("Measured with: NVIDIA H200, 2026-01-02. The SMs after the run: 1,455 MHz, 690 W. From `bench/results/h200/ladder_4096.json`:", text)
        self.assertIn("| [V7](#v7-warp-specialisation) | bf16 | 128 x 256 x 64, cluster 2 x 1 | 200 | 687 | 95 % | 86 % | 205 | 168 | 224 KB | 1 |", text)
        self.assertIn("cuBLASLt in the same run: bf16 190 us, 723 TFLOP/s.", text)
        self.assertLess(text.index("[V0]"), text.index("[V7]"))
        self.assertIn("| 4096^3 bf16 nt | 205 | L2 | 200 | 687 | 95 % | 168 | 0 | 224 KB | 19 % |", self.part("rung v7"))
        self.assertEqual(self.part("rung v3"), gen_ladder.NOTHING)
        (self.results / "ladder_sweep.json").write_text(json.dumps({**LADDER, "results": [RUNG, {**RUNG, "m": 512, "n": 512, "k": 512, "tflops": 90.0}]}))
        self.assertIn("| TFLOP/s | 512^3 | 4096^3 |\n| --- | ---: | ---: |\n| V7 bf16 | 90 | 687 |\n| cuBLASLt bf16 | - | 723 |", self.part("sweep"))

    def test_the_model(self):
        (self.results / "ladder_4096_first.json").write_text(json.dumps({**LADDER, "results": [{**RUNG, "predicted_us": 150.0}]}))
        self.assertIn("| V7 | 128 x 256 x 64, cluster 2 x 1 | 150 | L2 | 200 | -25 % | - |", self.part("first"))
        (self.results / "ladder_4096.json").write_text(json.dumps(LADDER))
        self.assertIn("| 200 | -25 % | 205 |", self.part("first"))
        small, fast = {**RUNG, "m": 512, "n": 512, "k": 512, "predicted_us": 100.0}, {**RUNG, "rung": "v8", "us": 160.0}
        (self.results / "ladder_sweep.json").write_text(json.dumps({**LADDER, "results": [RUNG, small, fast]}))
        text = self.part("errors")
        self.assertIn("| V7 | -50 % | +2 % | +2 % |", text)
        self.assertIn("| median, without sign | 50 % | 15 % | 2 % |", text)
        self.assertIn("Median of the 1 at other sizes than 4096^3: 50 %.", text)
        self.assertEqual(self.part("gain v7 v8").splitlines()[2:],
                         ["| 4096^3 | 128 x 256 x 64, cluster 2 x 1 | 200 | 128 x 256 x 64, cluster 2 x 1 | 160 | +25 % |"])

    def test_experiments_and_hardware(self):
        version = {"us": 200.0, "tflops": 687.0, "peer_us": 190.0}
        (self.results / "ladder_experiments.json").write_text(json.dumps({
            "schema": "carat.ladder_experiments/1", "how": "seen",
            "experiments": [{"rung": "v5", "change": "a -> b", "kept": "before", "before": version, "after": {**version, "us": 380.0}}]}))
        self.assertIn("| V5 | a -> b | 687 TFLOP/s, 95 % | 687 TFLOP/s, 50 % | before |", self.part("experiments v5"))
        self.assertEqual(self.part("experiments v8"), gen_ladder.NOTHING)
        (self.results / "hardware.json").write_text(json.dumps({
            "schema": "carat.hardware/1", "how": "seen", "facts": [{"what": "wgmma n8", "value": 18.4, "unit": "clocks"}]}))
        self.assertIn("| wgmma n8 | 18.4 | clocks |", self.part("hardware wgmma"))
        self.assertEqual(self.part("hardware L2"), gen_ladder.NOTHING)

    def test_counters(self):
        metrics, stalls = ncu_ladder.plain(ncu_ladder.read_csv(RAW))
        data = {"schema": "carat.ladder_ncu/1", "env": {}, "results": [{"rung": "v7", **{key: RUN[key] for key in ("kernel", "m", "n", "k")},
                                                                        "metrics": metrics, "stalls": stalls}]}
        (self.results / "ladder_ncu.json").write_text(json.dumps(data))
        text = self.part("ncu v7")
        self.assertIn("| a warp waits most for | wgmma (2.2); data from L2 or beyond (1); a barrier of the block (0.5) |", text)
        self.assertIn("| L2 to SM, bytes a clock an SM | 39 |", text)
        self.assertNotIn("bank conflicts", text)
        self.assertEqual(self.part("ncu v1"), gen_ladder.NOTHING)

    def test_refusals(self):
        (self.results / "ladder_4096.json").write_text('{"schema": "carat.ladder/2"}')
        (self.results / "ladder_8192.json").write_text(json.dumps({**LADDER, "timed": False}))
        for argument, want in (("table ladder_4096.json", "carat.ladder/2"), ("table ladder_8192.json", "a plan and no times"), ("tables", "there is no part `ladder tables`")):
            with self.assertRaisesRegex(gen_docs.Stop, want):
                self.part(argument)


class Counters(unittest.TestCase):
    def test_raw_page(self):
        metrics, stalls = ncu_ladder.plain(ncu_ladder.read_csv(RAW))
        self.assertEqual(metrics, {"duration_us": 200.5, "clocks": 100, "tensor_pipe_pct": 91.25, "l2_to_sm_bytes": 3900, "dram_read_bytes": 1000000,
                                   "l2_to_sm_bytes_per_clk": 39})
        self.assertEqual([stall["reason"] for stall in stalls], ["gmma", "long_scoreboard", "barrier"])

    def test_details_page_and_none(self):
        self.assertEqual(ncu_ladder.plain(ncu_ladder.read_csv(DETAILS)), ({"duration_us": 2, "registers": 168}, []))
        self.assertEqual(ncu_ladder.read_csv("==ERROR== ERR_NVGPUCTRPERM\n"), {})

    def test_script_with_a_fake_ncu(self):
        with tempfile.TemporaryDirectory() as name:
            place = pathlib.Path(name)
            listing = {"rows": [{"name": row} for row in ("v1_shared", "v2_broken", "v7_warp_specialized", "cpu_reference")]}
            files = {"bin/ncu": NCU, "build/cli/carat": "#!/bin/sh\ncat \"$FAKE_LIST\"\n", "list.json": json.dumps(listing), "run.json": json.dumps(RUN)}
            for path, text in files.items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_text(text)
                (place / path).chmod(0o755)
            env = {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}", "BUILD_DIR": str(place / "build"), "FAKE_LIST": str(place / "list.json"),
                   "FAKE_RUN": str(place / "run.json")}
            done = subprocess.run([ROOT / "tools" / "ncu_ladder.sh", place / "out"], env=env, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("v1_shared: profiled\nv2_broken: no numbers", done.stdout)
            self.assertIn("v7_warp_specialized: profiled", done.stdout)
            asked = (place / "out" / "metrics.txt").read_text().split()
            self.assertEqual([metric for metric in asked if not metric.startswith("launch__")], ["gpu__time_duration.sum"])
            data = json.loads((place / "out" / "ladder_ncu.json").read_text())
            self.assertEqual([(r["rung"], r["row"], r["metrics"]) for r in data["results"]],
                             [("v1", "v1_shared", {"duration_us": 5, "registers": 64}), ("v7", "v7_warp_specialized", {"duration_us": 5, "registers": 64})])
            self.assertEqual(data["env"], {"device": {"full_name": "NVIDIA H200"}, "driver": "580", "date": "2026-01-02T03:04:05Z", "ncu": "2025.3.1.0"})
            done = subprocess.run([ROOT / "tools" / "ncu_ladder.sh", place / "out", "512", "v7"], env=env, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.split()[0]), (0, "v7_warp_specialized:"), done.stdout + done.stderr)


class Drawings(unittest.TestCase):
    def test_committed_ones_are_what_is_written(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "ladder_drawings.py", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_page_shows_all_of_them(self):
        page = (ROOT / "docs" / "ladder.md").read_text()
        self.assertEqual([name for name in ladder_drawings.DRAWINGS if f"(ladder/{name}.svg)" not in page], [])

    def test_overlaps_are_noticed(self):
        drawing = ladder_drawings.Drawing("Title", 100)
        drawing.text(30, 60, "one")
        drawing.text(40, 64, "two")
        drawing.text(840, 60, "outside")
        self.assertEqual(len(drawing.overlaps()), 2)

    def test_every_tile_once(self):
        for order in (drawings_hopper.row_by_row(7, 5), drawings_hopper.strips(7, 5, 3)):
            self.assertEqual(sorted(order), sorted((row, column) for row in range(7) for column in range(5)))
        self.assertEqual(drawings_hopper.strips(4, 2, 2), [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (3, 1), (2, 0), (3, 0)])

    def test_the_pipeline_keeps_its_rules(self):
        events = drawings_hopper.pipeline(tiles=2, steps=5, stages=3, load=40, half=10, epilogue=30)
        landed = {step: to for kind, _, step, _, to in events if kind == "load"}
        products = sorted((start, to, step) for kind, _, step, start, to in events if kind == "multiply")
        self.assertTrue(all(start >= landed[step] for start, _, step in products))
        self.assertTrue(all(one[1] <= two[0] for one, two in zip(products, products[1:])), "one consumer at a time on the tensor cores")
        for kind, _, step, start, _ in events:
            if kind == "load" and step >= 3:
                self.assertGreaterEqual(start, max(to for _, to, other in products if other == step - 3), "a stage in use was overwritten")


if __name__ == "__main__":
    unittest.main()
