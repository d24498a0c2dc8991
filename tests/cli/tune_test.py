#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tune_test.py CARAT [FAKE_CUDA]: `carat tune` with its databases, traces, and `carat bench --replay`, on the CPU backend; and on a
driver that runs no kernel, whose results are all wrong."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import cli_test
from cli_test import Case, carat, carat_json, environment

SMALL = ["--m", "5,6", "--n", "7", "--k", "9", "--backend", "cpu", "--budget", "0.02"]
SUMMARY = ["problems", "within_5_percent", "median_loss", "worst_loss", "worst_loss_problem", "median_prediction_error",
           "worst_prediction_error", "worst_prediction_error_problem"]


class Tune(Case):
    def setUp(self):
        super().setUp()
        self.file = self.dir / "data" / "tuning.json"

    def tune(self, *arguments, **more):
        return carat_json("tune", *arguments, "--tuning", self.file, **more)

    def rows(self, path=None):
        """The rows, which lie one a line."""
        text = (path or self.file).read_text()
        rows = json.loads(text)["rows"]
        self.assertEqual(text.count("\n"), len(rows) + 2)
        return rows

    def test_rows_and_report(self):
        data = self.tune(*SMALL)
        self.assertEqual((data["schema"], data["database"], data["fresh"], data["wrong"], data["skipped"]), ("carat.tune/1", str(self.file), 0, [], []))
        self.assertEqual(list(data["summary"]), SUMMARY)
        self.assertEqual(data["summary"]["problems"], 2)
        self.assertEqual(len(data["results"]), 2)
        for result, row in zip(data["results"], self.rows()):
            self.assertEqual(result["kernel"], row["kernel"])
            self.assertGreater(len(result["contenders"]), 2)
            self.assertEqual({c["state"] for c in result["contenders"]}, {"ready"})
            self.assertEqual(row["problem"]["m"], result["m"])
            self.assertEqual((row["checked"], row["problem"]["a"]["ld"]), (True, "packed"))
            self.assertGreater(row["us"], 0)
            self.assertGreaterEqual(row["samples"], 15)
            self.assertEqual(list(row["own"]), ["kernel", "us", "predicted_us"])
            self.assertEqual(list(row["provenance"]), ["carat", "driver", "sm_clock_mhz", "memory_clock_mhz", "power_limit_w", "date"])
            self.assertLessEqual(row["us"], row["own"]["us"] * 1.0001)

    def test_the_choice_is_used_and_explained(self):
        problem = ["--m", "64", "--n", "128", "--k", "256", "--backend", "cpu"]  # 2 MFLOP: no model chooses the slow kernel
        self.tune(*problem, "--budget", "0.02")
        slow = self.rows()
        slow[0]["kernel"] = "cpu_reference_f32_f32_f32_nt_1x1x1"
        self.file.write_text(json.dumps({"schema": "carat.tuning/1", "rows": slow}))
        explained = carat_json("explain", *problem, "--tuning", self.file)
        self.assertEqual(explained["chosen"]["kernel"], slow[0]["kernel"])
        self.assertEqual(explained["tuned"]["file"], str(self.file))
        shown = carat("explain", *problem, CARAT_TUNING=str(self.file)).stdout
        self.assertIn(f"Tuned: row 1 of {self.file} has cpu_reference_f32", shown)
        self.assertRegex(explained["tuned"]["model_kernel"], "^cpu_")
        self.assertRegex(shown, "the model alone would choose cpu_[a-z0-9_]+, predicted [0-9.]+ us")  # it measures the CPU anew
        self.assertEqual(carat_json("run", *problem, CARAT_TUNING=str(self.file))["kernel"], slow[0]["kernel"])
        self.assertNotEqual(carat_json("run", *problem, "--tuning", "off", CARAT_TUNING=str(self.file))["kernel"], slow[0]["kernel"])
        self.assertIsNone(carat_json("explain", *problem, "--tuning", "off")["tuned"])

    def test_the_default_place(self):
        carat("tune", *SMALL, "-q", XDG_DATA_HOME=str(self.dir))
        self.assertEqual(len(self.rows(self.dir / "carat" / "tuning.json")), 2)
        self.assertIn("2 rows", carat("tune", *SMALL, XDG_DATA_HOME=str(self.dir)).stdout)
        self.assertEqual(carat("tune", "list", XDG_DATA_HOME=str(self.dir)).stdout.count("f32 nt"), 2 + 2)
        self.assertIn("give --tuning FILE", carat("tune", *SMALL, CARAT_TUNING="off", expect=2).stderr)

    def test_what_is_fresh_is_not_measured_again(self):
        self.tune(*SMALL)
        before = self.file.read_text()
        data = self.tune("--m", "5,6,8", *SMALL[2:])
        self.assertEqual((data["fresh"], [result["m"] for result in data["results"]]), (2, [8]))
        self.assertEqual(len(self.rows()), 3)
        self.assertEqual(before.splitlines()[1], self.file.read_text().splitlines()[1])
        self.assertEqual(self.tune(*SMALL, "--force")["fresh"], 0)
        rows = self.rows()
        rows[0]["kernels"] = 0  # older kernels
        self.file.write_text(json.dumps({"schema": "carat.tuning/1", "rows": rows}))
        self.assertEqual([result["m"] for result in self.tune(*SMALL)["results"]], [5])

    def test_interrupt_keeps_what_is_done(self):
        many = ["tune", "--m", "1:1000:1", "--n", "64", "--k", "64", "--backend", "cpu", "--budget", "0.05", "--tuning", str(self.file)]
        process = subprocess.Popen([cli_test.CARAT, *many], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        while not self.file.exists() and process.poll() is None:
            time.sleep(0.1)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        done = len(self.rows())
        self.assertGreater(done, 0)
        self.assertLess(done, 1000)
        self.assertIn(f"{done} of 1000 problems are in", errors)
        self.assertEqual([path.name for path in self.file.parent.iterdir()], ["tuning.json"])
        done = carat(*many, "--timeout", "3", expect=7)
        self.assertIn("--timeout has passed", done.stderr)

    def test_dry_run(self):
        plan = self.tune(*SMALL, "--dry-run")
        self.assertEqual((plan["schema"], len(plan["problems"])), ("carat.tune_plan/1", 2))
        self.assertIn(plan["problems"][0]["own"], [c["kernel"] for c in plan["problems"][0]["contenders"]])
        self.assertFalse(self.file.exists())
        gpu = self.tune("--m", 64, "--n", 4096, "--k", 4096, "--dtype", "bf16", "--target", "h200", "--dry-run", "--most", 12)
        self.assertEqual(gpu["device"]["name"], "NVIDIA H200")
        self.assertEqual(len(gpu["problems"][0]["contenders"]), 12)

    def test_sources(self):
        shapes = self.dir / "shapes.txt"
        shapes.write_text("3 4 5\n6 7 8 bf16 nn\n")
        self.assertEqual([r["dtype"] for r in self.tune("--file", shapes, *SMALL[6:])["results"]], ["f32", "bf16"])
        self.assertEqual(self.tune("--shapes", shapes, *SMALL[6:])["fresh"], 2)

    def test_merge_and_export(self):
        one, two, both = self.dir / "one.json", self.dir / "two.json", self.dir / "both.json"
        carat("tune", *SMALL, "-q", "--tuning", one)
        carat("tune", "--m", "6,9", *SMALL[2:], "-q", "--tuning", two)
        foreign = self.rows(two)
        for row in foreign:
            row["provenance"]["date"] = "2999-01-01T00:00:00Z"
        foreign.append({**foreign[0], "device": {"name": "NVIDIA H200", "compute_capability": "9.0", "units": 132}})
        two.write_text(json.dumps({"schema": "carat.tuning/1", "rows": foreign}))
        carat("tune", "merge", one, two, "--out", both)
        merged = self.rows(both)
        self.assertEqual(len(merged), 4)
        self.assertEqual([row for row in merged if row["device"] == foreign[0]["device"] and row["problem"]["m"] == 6], foreign[:1])
        self.assertEqual(json.loads(carat("tune", "merge", two, one).stdout)["rows"], merged)
        self.assertEqual(len(json.loads(carat("tune", "export", both, "--backend", "cpu").stdout)["rows"]), 3)
        carat("tune", "export", both, "--all", "-o", self.dir / "all.json")
        self.assertEqual((self.dir / "all.json").read_text(), both.read_text())
        listed = json.loads(carat("tune", "list", both, "--json").stdout)
        self.assertEqual((len(listed["rows"]), list(listed["summary"])), (4, SUMMARY))

    def test_bad_files(self):
        self.file.parent.mkdir()
        self.file.write_text('{"schema": "carat.tuning/1", "rows": [\n{"probl')
        done = carat("tune", *SMALL, "--tuning", self.file, expect=6)
        self.assertIn("is no tuning database (all of it: it is not JSON, perhaps cut short)", done.stderr)
        self.assertIn("absent.json cannot be read", carat("tune", "list", self.dir / "absent.json", expect=6).stderr)
        self.file.unlink()
        self.tune(*SMALL)
        rows = self.rows()
        rows[0]["us"] = None
        self.file.write_text(json.dumps({"schema": "carat.tuning/1", "rows": rows}))
        done = carat("tune", "list", self.file)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn('left out row 1: its "us" is of another type', done.stderr)
        log = self.dir / "log"
        carat("run", *SMALL[2:6], "--m", "6", "--backend", "cpu", CARAT_TUNING=str(self.file), CARAT_LOG_FILE=str(log))
        self.assertEqual(log.read_text().count(f"the tuning database {self.file} is used without row 1"), 1)

    def test_bad_flags(self):
        for word, arguments in [("--m", []), ("--trace", [*SMALL, "--trace", "x"]), ("--kernel", [*SMALL, "--kernel", "cpu_avx2"]), ("--within", [*SMALL, "--within", "0.5"]),
                                ("--most", [*SMALL, "--most", "0"]), ("--budget", [*SMALL, "--budget", "0"]), ("--dry-run", [*SMALL[:6], "--target", "h200"]),
                                ("files", ["merge"]), ("--tuning is off", [*SMALL, "--tuning", "off"])]:
            with self.subTest(arguments=arguments):
                self.assertIn(word, carat("tune", *arguments, expect=2).stderr)

    def test_a_problem_that_cannot_be_measured_is_left_out(self):
        data = json.loads(carat("tune", "--m", "4", "--n", "4", "--k", "8", "--dtype", "s8", "--dtype-d", "f64", "--backend", "cpu", "--tuning", self.file, "--json",
                                expect=2).stdout or "null")
        self.assertIsNone(data)
        self.assertFalse(self.file.exists())


class Traces(Case):
    def setUp(self):
        super().setUp()
        self.trace = self.dir / "trace.jsonl"
        for m, dtype in ((5, "f32"), (6, "bf16")):
            carat("run", "--m", m, "--n", 8, "--k", 16, "--dtype", dtype, "--backend", "cpu", "--beta", "0.5", CARAT_TRACE=str(self.trace))

    def test_records_are_lines(self):
        records = [json.loads(line) for line in self.trace.read_text().splitlines()]
        self.assertEqual([(r["schema"], r["problem"]["m"]) for r in records], [("carat.trace/1", 5), ("carat.trace/1", 6)])
        self.assertGreater(min(r["count"] for r in records), 0)

    def test_replay(self):
        records = [json.loads(line) for line in self.trace.read_text().splitlines()]
        with self.trace.open("a") as file:
            file.write(json.dumps({**records[0], "count": 10 ** 6}) + "\n")
            file.write("no record\n" + json.dumps({**records[1], "count": -1}) + "\n")
        done = carat("bench", "--replay", self.trace, "--backend", "cpu", "--budget", "0.05", "--json", "--peer", "cublaslt")
        self.assertIn("line 4 is left out: it is no record of \"carat.trace/1\" (and 1 more lines)", done.stderr)
        data = json.loads(done.stdout)
        self.assertEqual([(r["m"], r["count"]) for r in data["results"]], [(5, 10 ** 6 + records[0]["count"]), (6, records[1]["count"])])
        self.assertTrue(all(r["check"]["ok"] for r in data["results"]))
        replay = data["replay"]
        self.assertEqual(replay["executions"], sum(r["count"] for r in data["results"]))
        self.assertAlmostEqual(replay["us"], sum(r["count"] * r["us"] for r in data["results"]), delta=1e-6 * replay["us"])
        self.assertEqual((replay["problems"], replay["peers"]), (2, {}))
        shown = carat("bench", "--replay", self.trace, "--backend", "cpu", "--budget", "0.05").stdout
        self.assertIn(f"The {replay['executions']} executions of 2 problems take", shown)

    def test_other_pitches_are_replayed_and_what_cannot_be_is_left_out(self):
        record = json.loads(self.trace.read_text().splitlines()[0])
        padded, sparse = json.loads(json.dumps(record)), json.loads(json.dumps(record))
        padded["problem"]["a"]["ld"], padded["problem"]["d"]["ld"] = 40, 11
        sparse["problem"].update(sparsity="a", m=4)
        self.trace.write_text(json.dumps(padded) + "\n" + json.dumps(sparse) + "\n")
        done = carat("bench", "--replay", self.trace, "--backend", "cpu", "--budget", "0.05", "--json", expect=1)
        data = json.loads(done.stdout)
        self.assertEqual([r["m"] for r in data["results"]], [5])
        self.assertTrue(data["results"][0]["check"]["ok"])
        self.assertIn("2:4 sparse", data["skipped"][0]["reason"])

    def test_tune_reads_it(self):
        data = carat_json("tune", "--trace", self.trace, "--backend", "cpu", "--budget", "0.02", "--tuning", self.dir / "t.json")
        self.assertEqual(sorted(r["m"] for r in data["results"]), [5, 6])

    def test_nothing_in_it(self):
        self.trace.write_text("nothing\n")
        self.assertIn("holds no problem", carat("bench", "--replay", self.trace, "--backend", "cpu", expect=6).stderr)
        self.assertIn("--replay", carat("bench", "--replay", self.trace, "--m", "4", expect=2).stderr)
        self.assertIn("--all-candidates", carat("bench", "--replay", self.trace, "--all-candidates", expect=2).stderr)


class FakeGpu(Case):
    def test_wrong_results_are_reported_and_never_kept(self):
        if not cli_test.FAKE_CUDA:
            self.skipTest("built without the tests of src/cuda")
        self.needs_nvrtc()
        cache = self.dir / "cache"
        cache.mkdir(mode=0o700)
        done = carat("tune", "--m", 64, "--n", 256, "--k", 256, "--budget", 0.05, "--most", 2, "--tuning", self.dir / "t.json", "--json", expect=4,
                     CARAT_CUDA_PATH=cli_test.FAKE_CUDA, CARAT_CACHE_DIR=str(cache), FAKE_CUDA_ANY_CODE="1")
        data = json.loads(done.stdout)
        self.assertFalse((self.dir / "t.json").exists())
        self.assertEqual({c["state"] for c in data["results"][0]["contenders"]}, {"wrong"})
        self.assertEqual(len(data["wrong"]), len(data["results"][0]["contenders"]))
        self.assertIn("is wrong for 64 x 256 x 256 f32 nt: entry (", done.stderr)


if __name__ == "__main__":
    cli_test.CARAT = os.path.abspath(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].endswith(".so"):
        cli_test.FAKE_CUDA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
