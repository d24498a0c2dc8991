#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gen_docs_test.py: tools/gen_docs.py on a small tree with a fake program that lists two kernels."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import gen_docs  # noqa: E402

F32 = {"a": "f32", "b": "f32", "d": "f32", "layouts": ["nt", "nn"], "modes": ["single"], "epilogues": ["bias"]}
LISTING = {
    "schema": "carat.list/1",
    "statuses": [{"name": "CARAT_SUCCESS", "value": 0, "sentence": "All of it was done."}],
    "exit_codes": [{"code": 0, "name": "ok", "meaning": "Done."}, {"code": 2, "name": "usage", "meaning": "A flag | a value is wrong."}],
    "env": [{"name": "CARAT_JIT", "values": "auto, never", "fallback": "auto", "meaning": "Compiling."}],
    "rows": [{"name": "v0", "summary": "Naive.", "source": "kernels/v0.cuh", "backend": "cuda", "supports": [{**F32, "recipes": ["rowwise"]}],
              "typical": {"problem": "f32_nt m4", "compute_capability": "7.5 or newer", "configurations": ["v0_32", "v0_64"]}},
             {"name": "ref", "summary": "Defines.", "source": "src/ref.cpp", "backend": "cpu",
              "supports": [{**F32, "a": a, "b": b, "d": d} for a in ("f16", "bf16") for b in ("f16", "bf16") for d in ("f32", "s8")]
              + [{**F32, "a": "s8", "b": "s8", "d": "s32"}],
              "typical": {"problem": "f16_nt m4", "compute_capability": None, "configurations": []}}],
    "targets": [{"name": "h200", "full_name": "NVIDIA H200", "source": "measured"}],
}
RESULT = {"m": 16, "n": 32, "k": 4096, "batch": None, "groups": None, "dtype": "f32", "layout": "nt", "recipe": None, "epilogue": "bias_n",
          "kernel": "v0_x", "us": 10.0, "tflops": 1.5, "gbps": 1234.5, "floor_us": 5.0, "peers": {"cublaslt": {"us": 8.0, "choice": "algo 7"}}}
BENCH = {"schema": "carat.bench/1", "env": {"device": {"name": "h200", "full_name": "NVIDIA H200"}, "driver": "580", "threads": 2, "nvrtc": "13.0, /usr/x.so",
                                              "date": "2026-01-31T12:00:00Z"},
         "results": [RESULT, {**RESULT, "kernel": None, "peers": None, "us": 4096.4, "batch": 3}]}
PEERS = {"schema": "carat.cpu_peers/1", "env": {"cpu": "X", "onednn": "2.6.3", "openblas": "OpenBLAS 0.3.21 MORE", "date": "2026-01-02T03:04:05"},
         "method": "one core", "results": [{"dtype": "f32", "layout": "nt", "n": 1024, "contestant": who, "gflops_median": rate}
                                           for who, rate in (("carat_avx2", 174.2), ("openblas", 180.0))]}


def part(name, argument=""):
    return gen_docs.PARTS[name](LISTING, ROOT, argument)


class GenDocs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs").mkdir()
        self.binary = self.root / "carat"
        self.say(LISTING)

    def say(self, listing, code=0):
        (self.root / "listing.json").write_text(json.dumps(listing))
        self.binary.write_text(f'#!/bin/sh\ntest "$*" = "list --json" || exit 9\ncat "{self.root}/listing.json"\nexit {code}\n')
        self.binary.chmod(0o755)

    def run_tool(self, *options):
        done = subprocess.run([sys.executable, ROOT / "tools" / "gen_docs.py", self.binary, "--root", self.root, *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_few_rows(self):
        self.assertEqual(gen_docs.few_rows(LISTING, self.root, "none.json"), "Nothing is measured here yet.\n")
        results = self.root / "bench" / "results"
        results.mkdir(parents=True)
        data = {**BENCH, "env": {**BENCH["env"], "command": "carat bench"}, "results": [
            RESULT, {**RESULT, "n": 64, "peers": {"cublaslt": {"us": 32.0}, "cutlass": {"us": 40.0}}}, {**RESULT, "m": 1, "peers": None}]}
        (results / "few.json").write_text(json.dumps(data))
        lines = gen_docs.few_rows(LISTING, self.root, "few.json").splitlines()
        self.assertEqual([line.replace(" ", "") for line in lines[-2:]], ["|1|1|-|-|-|0.500|", "|16|2|1.600|0.800|32x4096|0.500|"])

    def test_prediction_errors(self):
        self.assertEqual(gen_docs.prediction_error(LISTING, self.root, "none.json gone.json"), "Nothing is measured here yet.\n")
        results = self.root / "bench" / "results"
        results.mkdir(parents=True)
        report = {"files": [{"samples": 55, "median": 0.034, "worst": 0.5, "problems": 0, "within_5_percent": None},
                            {"samples": 900, "median": 0.1, "worst": 1.5, "problems": 60, "within_5_percent": 0.9}]}
        (self.root / "report.json").write_text(json.dumps(report))
        for name in ("one.json", "two.json"):
            (results / name).write_text("{}")
        wanted = f"calibrate --target h200 --json --report {results}/one.json {results}/two.json"
        self.binary.write_text(f'#!/bin/sh\ntest "$CARAT_DEVICE_FILE $*" = "off {wanted}" || exit 9\ncat "{self.root}/report.json"\n')
        lines = gen_docs.prediction_error({"binary": self.binary}, self.root, "one.json none.json two.json").splitlines()
        self.assertEqual([line.replace(" ", "") for line in lines[-2:]],
                         ["|`one.json`|55|3.4%|50%|-|-|", "|`two.json`|900|10.0%|150%|60|90%|"])

    def test_writes_then_agrees_then_notices(self):
        page = self.root / "docs" / "env.md"
        page.write_text("before\n<!-- generated: environment -->\n<!-- end -->\nafter\n")
        self.assertEqual(self.run_tool("--check")[0], 1)
        self.assertEqual(page.read_text().count("CARAT_JIT"), 0)
        self.assertEqual(self.run_tool()[0], 0)
        self.assertEqual(page.read_text(), "before\n<!-- generated: environment -->\n| variable | values | when unset | what it does |\n"
                         "| --- | --- | --- | --- |\n| `CARAT_JIT` | auto, never | auto | Compiling. |\n<!-- end -->\nafter\n")
        self.assertEqual(self.run_tool("--check"), (0, "gen_docs: all pages are up to date\n"))
        self.say({**LISTING, "env": []})
        code, said = self.run_tool("--check")
        self.assertEqual(code, 1)
        self.assertIn("docs/env.md: stale", said)

    def test_every_refusal_is_one_sentence(self):
        readme = self.root / "README.md"
        for text, want in [("<!-- generated: nothing -->\n<!-- end -->\n", "no generated part `nothing`"),
                           ("<!-- generated: support -->\n", "lacks its"), ("<!-- generated: bench bad -->\n<!-- end -->\n", "is not JSON")]:
            (self.root / "bench/results/bad").mkdir(parents=True, exist_ok=True)
            (self.root / "bench/results/bad/x.json").write_text("{")
            readme.write_text(text)
            code, said = self.run_tool()
            self.assertEqual((code, said.count("\n"), want in said), (1, 1, True), said)
            self.assertEqual(readme.read_text(), text)
        readme.write_text("<!-- generated: environment -->\n<!-- end -->\n")
        for listing, code, want in [({"schema": "carat.list/2"}, 0, "carat.list/2"), (LISTING, 3, "gave 3"), ({"schema": "carat.list/1"}, 0, "field 'env'")]:
            self.say(listing, code)
            code, said = self.run_tool()
            self.assertEqual((code, want in said), (1, True), said)

    def test_tables(self):
        self.assertIn("| 0 | `CARAT_SUCCESS` | All of it was done. |", part("statuses"))
        self.assertIn("| 2 | usage | A flag \\| a value is wrong. |", part("exit-codes"))
        self.assertIn("| `h200` | NVIDIA H200 | measured |", part("targets"))

    def test_support_is_exact_and_short(self):
        lines = part("support").splitlines()
        self.assertEqual(lines[2:], ["| `v0` | cuda | f32 | f32 | nt, nn | single |", "| `ref` | cpu | (f16, bf16 x f16, bf16) | f32, s8 | nt, nn | single |",
                                     "| `ref` | cpu | s8 | s32 | nt, nn | single |"])
        twins = {**LISTING, "rows": [{**LISTING["rows"][0], "name": name} for name in ("v0", "v1")]}
        self.assertEqual(gen_docs.support(twins, ROOT, "").splitlines()[2:], ["| `v0`, `v1` | cuda | f32 | f32 | nt, nn | single |"])
        self.assertIn("Naive. Runs on: cuda, compute capability 7.5 or newer. Source: [kernels/v0.cuh](../kernels/v0.cuh)", part("kernels"))
        self.assertIn("Configurations for f32_nt m4: `v0_32`, `v0_64`.\n", part("kernels"))
        self.assertIn("Defines. Runs on: cpu. Source", part("kernels"))
        self.assertIn("| f32 | f32 | f32 | nt, nn | single | bias | rowwise |", part("kernels"))
        self.assertIn("| f16, bf16 | f16, bf16 | f32, s8 | nt, nn | single | bias | none |", part("kernels"))
        holed = [{"a": a, "b": b} for a, b in ("xx", "xy", "yx")]
        covered = {(a, b) for row in gen_docs.merged(holed, ("a", "b")) for a in row[0] for b in row[1]}
        self.assertEqual(covered, {("x", "x"), ("x", "y"), ("y", "x")})

    def test_measurements(self):
        folder = self.root / "bench" / "results" / "h200"
        self.assertEqual(gen_docs.bench(LISTING, self.root, "h200"), "Nothing is measured here yet.\n")
        folder.mkdir(parents=True)
        (folder / "a.json").write_text(json.dumps(BENCH))
        (folder / "b.json").write_text(json.dumps(PEERS))
        (folder / "env.json").write_text("{}")
        text = gen_docs.bench(LISTING, self.root, "h200")
        self.assertIn("Measured with: NVIDIA H200, 2 threads, driver 580, nvrtc 13.0, 2026-01-31. From `bench/results/h200/a.json`:", text)
        self.assertIn("| f32 nt 16 x 32 x 4096 bias_n | `v0_x` | 10 | 1.5 | 1,234 | 50 % | cublaslt 8 (algo 7) | 0.80 |", text)
        self.assertIn("| f32 nt 16 x 32 x 4096, batch 3 bias_n |  | 4,096 | 1.5 | 1,234 | 0 % | - | - |", text)
        self.assertIn("| problem | carat_avx2 | openblas |", text)
        self.assertIn("| f32 nt 1024^3 | 174 | 180 |", text)
        self.assertEqual(gen_docs.bench(LISTING, self.root, "h200/b.json").count("From `"), 1)

    def test_a_suite(self):
        folder = self.root / "bench" / "results" / "h200"
        folder.mkdir(parents=True)
        results = [{**RESULT, "peers": {"cublaslt": {"us": 9.0}, "cutlass": {"us": 8.0}}}, {**RESULT, "m": 64, "us": 4.0, "peers": {"cublaslt": {"us": 5.0}}},
                   {**RESULT, "m": 128, "us": 3.0, "peers": None}]
        (folder / "s.json").write_text(json.dumps({**BENCH, "env": {**BENCH["env"], "command": "carat bench"}, "results": results}))
        sentence = ("Over 2 problems (f32 nt) the time of the fastest peer over ours is 1.000 in the geometric mean and 0.800 at least (16 x 32 x 4096); "
                    "1 are below 0.95.\n")
        self.assertEqual(gen_docs.suite(LISTING, self.root, "h200/s.json brief"), sentence)
        text = gen_docs.suite(LISTING, self.root, "h200/s.json")
        self.assertIn(f"From `bench/results/h200/s.json`, written by `carat bench`:\n\n{sentence}\n| M | N | K |", text)
        self.assertIn("| 16 | 32 | 4096 | 10 | 1.5 | 9 | 8 | cutlass | 0.80 |", text)
        self.assertIn("| 64 | 32 | 4096 | 4 | 1.5 | 5 | - | cublaslt | 1.25 |", text)
        self.assertIn("| 128 | 32 | 4096 | 3 | 1.5 | - | - | - | - |", text)
        for peers in ({}, None):
            (folder / "s.json").write_text(json.dumps({**BENCH, "results": [{**RESULT, "peers": peers}]}))
            self.assertEqual(gen_docs.suite(LISTING, self.root, "h200/s.json brief"), "No peer is timed here yet.\n")

    def test_beside_the_plain_one(self):
        folder = self.root / "bench" / "results" / "h200" / "e"
        folder.mkdir(parents=True)
        plain = {**RESULT, "m": 128, "n": 128, "k": 256, "us": 10.0, "epilogue": None, "peers": None}
        for name, result in (("0", plain), ("1", {**plain, "epilogue": "silu", "us": 11.0}), ("2", {**plain, "us": 20.0}), ("3", {**plain, "k": 257, "us": 50.0})):
            (folder / f"{name}.json").write_text(json.dumps({**BENCH, "results": [result]}))
        text = gen_docs.beside(LISTING, self.root, "h200/e")
        self.assertNotIn("cuBLASLt", text)
        self.assertEqual([line.split(" | ")[-1] for line in text.splitlines()[-4:]], ["1.00 |", "1.10 |", "1.00 |", "2.50 |"])
        (folder / "3.json").write_text(json.dumps({**BENCH, "results": [{**plain, "k": 257, "us": 50.0, "peers": {"cublaslt": {"us": 60.0}}}]}))
        self.assertTrue(gen_docs.beside(LISTING, self.root, "h200/e").rstrip().endswith("| 50 | 2.50 | 60 |"))

    def test_passes(self):
        folder = self.root / "bench" / "results"
        folder.mkdir(parents=True)
        one = {"m": 1, "n": 2, "k": 3}
        results = [{**one, "predicted_us": 1, "us_of_passes": [11, 11, None]}, {**one, "predicted_us": 2, "us_of_passes": [10, 10, 10]},
                   {**one, "k": 4, "predicted_us": 5, "us_of_passes": [9, 11]}]
        (folder / "p.json").write_text(json.dumps({"results": results}))
        self.assertEqual(gen_docs.passes(LISTING, self.root, "p.json"),
                         "From `bench/results/p.json`: over 2 problems the configuration of the least predicted time is 5.0 % slower than the best "
                         "measured one on average, 10.0 % at most; times of one configuration scatter by 3.3 %.\n")

    def test_chains(self):
        folder = self.root / "bench" / "results"
        folder.mkdir(parents=True)
        self.assertEqual(gen_docs.chain(LISTING, self.root, "c.json"), "Nothing is measured here yet.\n")
        one = {"model": "L", "tokens": 1, "us": 100.0, "floor_us": 90.0, "peers": {"cublaslt": {"us": 110.0}}}
        two = {**one, "tokens": 16, "peers": {"cublaslt": {"us": None}}}
        for chains, header, rows in (([one, two], "cublaslt, us | its time / ours |", ["| L | 1 | 100 | 90 | 90 % | 110 | 1.10 |", "| L | 16 | 100 | 90 | 90 % | - | - |"]),
                                     ([{**one, "peers": {}}], "of the floors |", ["| L | 1 | 100 | 90 | 90 % |"]),
                                     ([{**one, "peers": {**one["peers"], "cutlass": {"us": 95.0}}}], "best peer time / ours |", ["| L | 1 | 100 | 90 | 90 % | 110 | 95 | 0.95 |"])):
            (folder / "c.json").write_text(json.dumps({"env": {"device": "H200", "command": "carat bench --chain"}, "chains": chains}))
            lines = gen_docs.chain(LISTING, self.root, "c.json").splitlines()
            self.assertEqual(lines[0], "Measured with: H200. From `bench/results/c.json`, written by `carat bench --chain`:")
            self.assertTrue(lines[2].endswith(header), lines[2])
            self.assertEqual(lines[4:], rows)


if __name__ == "__main__":
    unittest.main()
