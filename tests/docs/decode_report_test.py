#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""decode_report_test.py: tools/decode_report.py on small results, the suites that it is for, and what it refuses."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import decode_report  # noqa: E402


def result(m, us, peers=None, floor=None, predicted=None, n=32):
    return {"m": m, "n": n, "k": 64, "dtype": "bf16", "layout": "nt", "kernel": f"k{m}", "us": us, "floor_us": floor, "predicted_us": predicted,
            "peers": {name: {"us": peer} for name, peer in (peers or {}).items()}}


class Report(unittest.TestCase):
    def lines(self, *results):
        return decode_report.report({"results": list(results)})

    def test_ratios_are_of_the_best_peer_and_of_their_range(self):
        few = [result(1, 10, {"cublaslt": 20, "deepgemm": 25}, floor=5), result(64, 10, {"cublaslt": None, "deepgemm": 5}, floor=8)]
        lines = self.lines(*few, result(65, 10, {"cublaslt": 1}), result(96, 10, {"cublaslt": 9}), result(256, 10), result(257, 10, {"cublaslt": 1}))
        self.assertEqual(lines[:4], ["M <= 64, best peer / ours: 1.000 in the geometric mean over 2, 0.500 at least (64 x 32 x 64)",
                                     "M <= 64, floor / ours: 0.632 in the geometric mean over 2, 0.500 at least (1 x 32 x 64)",
                                     "M 96..256, best peer / ours: 0.900 in the geometric mean over 1, 0.900 at least (96 x 32 x 64)",
                                     "M 96..256, floor / ours: none was timed"])

    def test_falls_are_of_the_same_weights(self):
        lines = self.lines(result(8, 9.6), result(2, 9), result(4, 10), result(16, 9), result(16, 5, n=48), result(32, 4, n=48))
        self.assertEqual(lines[4:-1], ["time falls by more than 5 % with more rows: 2", "  8 x 32 x 64 takes 9.6 us (k8), and M = 16 9 us (k16)",
                                       "  16 x 48 x 64 takes 5 us (k16), and M = 32 4 us (k32)"])
        self.assertEqual(self.lines(result(1, 10), result(2, 9.51))[4], "time falls by more than 5 % with more rows: nowhere")

    def test_predictions(self):
        self.assertEqual(self.lines(result(1, 10))[-1], "predicted over measured: nothing was predicted")
        self.assertEqual(self.lines(result(1, 10, predicted=11), result(2, 10, predicted=6), result(4, 10, predicted=10))[-1],
                         "predicted over measured: off by 10.0 % in the median, 40.0 % at most (2 x 32 x 64: 6 us of 10)")

    def test_what_was_not_timed_counts_nowhere(self):
        self.assertEqual(self.lines(result(1, None, {"cublaslt": 3}, floor=1, predicted=2))[0], "M <= 64, best peer / ours: none was timed")


class Program(unittest.TestCase):
    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "tools" / "decode_report.py", *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_committed_results(self):
        path = "bench/results/h200/llama3.1-8b_f32.json"
        code, said, errors = self.run_tool(ROOT / path, ROOT / path)
        self.assertEqual((code, errors, said.count(path)), (0, "", 2))

    def test_refusals(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, want in (("{", "cannot be read as JSON"), ("[]", "schema None"), ('{"schema": "carat.bench_chain/1"}', "carat.bench_chain/1"),
                               ('{"schema": "carat.bench/1"}', "field 'results'"), (json.dumps({"schema": "carat.bench/1", "results": [{"us": 1}]}), "field 'm'")):
                path = pathlib.Path(folder, "x.json")
                path.write_text(text)
                code, said, errors = self.run_tool(path)
                self.assertEqual((code, said, errors.count("\n"), want in errors), (1, "", 1, True), errors)
            self.assertEqual(self.run_tool(pathlib.Path(folder, "none.json"))[0], 1)
        self.assertEqual(self.run_tool()[0], 2)

    def test_the_suites(self):
        lines = [line.split() for line in (ROOT / "bench/suites/decode.txt").read_text().splitlines() if not line.startswith("#")]
        rows = {}
        for m, n, k, *rest in lines:
            self.assertEqual(rest, ["bf16", "nt"])
            rows.setdefault((n, k), []).append(int(m))
        self.assertEqual(len(rows), 11)
        self.assertTrue(all(ms == [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256] for ms in rows.values()))


if __name__ == "__main__":
    unittest.main()
