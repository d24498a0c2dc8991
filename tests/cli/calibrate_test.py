#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calibrate_test.py CARAT [FAKE_CUDA]: `carat calibrate` without a GPU: plans, fits to committed measurements and to samples, reports;
and on a driver that runs no kernel, whose results are all wrong."""
import json
import os
import sys
import unittest

import cli_test
from cli_test import Case, ROOT, carat, carat_json

SWEEP = ROOT / "bench/results/h200/llm_sweep.json"
H200 = ["--target", "h200"]


class Calibrate(Case):
    def short_sweep(self, every=20):
        sweep = json.loads(SWEEP.read_text())
        sweep["results"] = sweep["results"][::every]
        path = self.dir / "sweep.json"
        path.write_text(json.dumps(sweep))
        return path

    def test_what_would_be_measured(self):
        data = carat_json("calibrate", *H200, "--dry-run")
        self.assertEqual((data["schema"], data["device"]["target"], len(data["problems"])), ("carat.calibrate_plan/1", "h200", 14))
        for problem in data["problems"]:
            self.assertGreaterEqual(len(problem["kernels"]), 12)
            self.assertLessEqual(len(problem["kernels"]), 49)
        self.assertIn("64 x 6144 x 4096 bf16 nt", carat("calibrate", *H200, "--dry-run").stdout)
        shapes = self.dir / "shapes.txt"
        shapes.write_text("24 1024 512\n24 1024 512 f16 nn\n")
        problems = carat_json("calibrate", *H200, "--dry-run", "--shapes", shapes)["problems"]
        self.assertEqual([(p["m"], p["dtype"], p["layout"]) for p in problems], [(24, "bf16", "nt"), (24, "f16", "nn")])

    def test_a_fit_to_measurements_is_better_and_is_used(self):
        sweep, file = self.short_sweep(), self.dir / "new" / "device.json"
        fitted = carat_json("calibrate", *H200, "--samples", sweep, "-o", file)
        self.assertEqual(fitted["schema"], "carat.calibration/1")
        self.assertEqual(json.loads(file.read_text()), fitted)
        self.assertEqual(file.read_text().count("\n"), len(fitted["parameters"]) + 7)
        self.assertEqual(fitted["provenance"]["driver"], "580.159.04")
        before, after = fitted["error"]["shipped"], fitted["error"]["fitted"]
        self.assertEqual(before["samples"], after["samples"])
        report = lambda **more: carat_json("calibrate", *H200, "--report", sweep, **more)["files"][0]
        for wanted, got in ((before, report(CARAT_DEVICE_FILE="off")), (after, report(CARAT_DEVICE_FILE=str(file)))):
            self.assertEqual({key: got[key] for key in wanted}, wanted)
        again = self.dir / "again.json"
        carat("calibrate", *H200, "--samples", sweep, "-o", again, CARAT_DEVICE_FILE=str(file))
        self.assertEqual(again.read_text(), file.read_text())

    def test_the_default_place(self):
        sweep = self.short_sweep(100)
        shown = carat("calibrate", *H200, "--samples", sweep, XDG_DATA_HOME=str(self.dir)).stdout
        place = self.dir / "carat" / "device-h200.json"
        self.assertIn(f"Plans use {place} from now on.", shown)
        self.assertIn("The shipped parameters are off by", shown)
        self.assertEqual(json.loads(place.read_text())["device"]["target"], "h200")
        place.unlink()
        carat("calibrate", *H200, "--samples", sweep, "--dry-run", XDG_DATA_HOME=str(self.dir))
        self.assertFalse(place.exists())
        self.assertIn("give -o FILE", carat("calibrate", *H200, "--samples", sweep, CARAT_DEVICE_FILE="off", expect=2).stderr)

    def test_reports(self):
        sweep = json.loads(SWEEP.read_text())
        plain = sweep["results"][0]
        sweep["results"] = [plain, {**plain, "epilogue": "silu"}, {**plain, "us": None}, {**plain, "kernel": "sm70_gone"}]
        path = self.dir / "unlike.json"
        path.write_text(json.dumps(sweep))
        data = carat_json("calibrate", *H200, "--report", path, self.short_sweep(50))
        self.assertEqual(data["schema"], "carat.calibrate_report/1")
        self.assertEqual([(f["samples"], f["left_out"]) for f in data["files"]], [(1, 3), (44, 0)])
        self.assertIsNone(data["files"][0]["within_5_percent"])
        self.assertIn("1 samples (3 left out), off by", carat("calibrate", *H200, "--report", path).stdout)

    def test_a_report_of_the_tuner_has_many_kernels_of_a_problem(self):
        sweep = json.loads(SWEEP.read_text())
        first = sweep["results"][0]
        of_first = [r for r in sweep["results"] if all(r[key] == first[key] for key in ("m", "n", "k"))]
        timed = [{"kernel": r["kernel"], "us": r["us"]} for r in of_first]
        wanted = {**sweep, "results": of_first}
        tuned = {"schema": "carat.tune/1", "env": sweep["env"], "results": [{**first, "contenders": timed + [{"kernel": "x", "us": None}]}]}
        reports = []
        for name, data in (("bench.json", wanted), ("tune.json", tuned)):
            (self.dir / name).write_text(json.dumps(data))
            reports += carat_json("calibrate", *H200, "--report", self.dir / name)["files"]
        self.assertEqual(reports[1].pop("left_out"), reports[0].pop("left_out") + 1)
        self.assertEqual({**reports[1], "file": ""}, {**reports[0], "file": ""})
        self.assertEqual(reports[1]["problems"], 1)

    def test_wrong_use(self):
        sweep = self.short_sweep(500)
        other = self.dir / "other.json"
        other.write_text("{}")
        for arguments, code, word in (([*H200], 2, "--samples, --report or --dry-run"),
                                      ([*H200, "--samples", sweep, "--save-samples", "x"], 2, "give one of them"),
                                      ([*H200, "--report", sweep, "-o", "x"], 2, "--report writes no file"),
                                      ([*H200, "--budget", "0"], 2, "--budget"),
                                      ([*H200, "--report", self.dir / "absent.json"], 6, "absent.json"),
                                      ([*H200, "--report", other], 6, "nor a report of `carat bench`"),
                                      (["--target", "h100", "--report", sweep], 6, "choose it with --target"),
                                      ([*H200, "--samples", sweep, "-o", self.dir], 6, str(self.dir))):
            self.assertIn(word, carat("calibrate", *arguments, expect=code, XDG_DATA_HOME=str(self.dir)).stderr)

    def test_wrong_results_are_never_fitted_to(self):
        if not cli_test.FAKE_CUDA:
            self.skipTest("built without the tests of src/cuda")
        self.needs_nvrtc()
        cache = self.dir / "cache"
        cache.mkdir(mode=0o700)
        file, kept = self.dir / "device.json", self.dir / "samples.json"
        shapes = self.dir / "shapes.txt"
        shapes.write_text("64 256 256 f32\n")
        done = carat("calibrate", "--budget", 0.05, "--shapes", shapes, "-o", file, "--save-samples", kept, expect=4,
                     CARAT_CUDA_PATH=cli_test.FAKE_CUDA, CARAT_CACHE_DIR=str(cache), FAKE_CUDA_ANY_CODE="1")
        self.assertIn("is wrong for", done.stderr)
        self.assertFalse(file.exists())
        self.assertEqual(json.loads(kept.read_text())["samples"], [])


if __name__ == "__main__":
    cli_test.CARAT = os.path.abspath(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].endswith(".so"):
        cli_test.FAKE_CUDA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
