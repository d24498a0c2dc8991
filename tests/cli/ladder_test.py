#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ladder_test.py CARAT [FAKE_CUDA]: `carat ladder`: which rungs it takes and what it refuses, the compile report of a machine without a
GPU, the schema of its results, the page made of them, and a run on a CUDA driver that runs no kernel (FAKE_CUDA)."""
import html.parser
import json
import os
import re
import sys
import unittest
import xml.etree.ElementTree

import cli_test
from cli_test import FLAG, MAYBE_NUMBER, MAYBE_TEXT, NUMBER, TEXT, Case, carat, carat_json

FAKE_CUDA = ""
NO_GPU = {"CARAT_CUDA_PATH": "/no/libcuda.so"}
MAYBE_INT = (int, type(None))
TILE = {name: MAYBE_INT for name in ("bm", "bn", "bk", "tm", "tn", "stages", "cluster_m", "cluster_n")} | {"swapped": FLAG, "aligned": FLAG}
TOP = {"schema": TEXT, "env": dict, "timed": FLAG, "note": MAYBE_TEXT, "limits": dict, "results": list, "peers": list, "skipped": list}
LIMITS = {"device": TEXT, "target": TEXT, "units": int, "hbm_tbs": MAYBE_NUMBER, "l2_tbs": MAYBE_NUMBER, "f32_tflops": MAYBE_NUMBER,
          "tf32_tflops": MAYBE_NUMBER, "f16_tflops": MAYBE_NUMBER, "launch_us": NUMBER, "source": TEXT}
RESULT = {"rung": TEXT, "row": TEXT, "kernel": TEXT, "summary": TEXT, "source": TEXT, "m": int, "n": int, "k": int, "dtype": TEXT, "layout": TEXT,
          "us": MAYBE_NUMBER, "p05_us": MAYBE_NUMBER, "p95_us": MAYBE_NUMBER, "tflops": MAYBE_NUMBER, "peer": MAYBE_TEXT,
          "peer_us": MAYBE_NUMBER, "peer_choice": MAYBE_TEXT, "of_peer": MAYBE_NUMBER, "of_limit": MAYBE_NUMBER, "floor_us": NUMBER,
          "predicted_us": NUMBER, "bound": TEXT, "intensity": NUMBER, "tile": dict, "threads": MAYBE_INT, "registers": MAYBE_INT,
          "spill_bytes": MAYBE_INT, "shared_bytes": MAYBE_NUMBER, "blocks_per_unit": MAYBE_INT, "occupancy": MAYBE_NUMBER, "check": (dict, type(None))}
VOID = {"meta", "link", "br", "hr", "img"}


def rungs_there():
    """The rungs of the registry with the type each is shown with."""
    rungs = {}
    for row in carat_json("list")["rows"]:
        found = re.fullmatch(r"(v\d+)_\w+", row["name"])
        if found and row["backend"] == "cuda":
            f32 = any(types["a"] == types["b"] == types["d"] == "f32" for types in row["supports"])
            rungs[found[1]] = (row["name"], "f32" if f32 else "bf16")
    return rungs


def has_nvrtc():
    return next(check for check in carat_json("doctor")["checks"] if check["name"] == "NVRTC")["state"] == "ok"


class Page(html.parser.HTMLParser):
    """The text of a page; fails on a tag that is closed wrongly."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.tags, self.wrong = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def kept_result(path, name="a <device> & \"co\"", sizes=(4096,), rungs=9):
    """A result as an H200 with every rung might give it."""
    tiles = [(8, 32, 1), (32, 32, 32), (128, 128, 16), (128, 128, 16), (128, 128, 32), (128, 256, 32), (128, 256, 64), (128, 256, 64), (128, 256, 64)]
    tflops, intensity = [5, 6.6, 27, 42, 153, 474, 603, 716, 772], [0.25, 8, 32, 32, 64, 85.3, 85.3, 85.3, 128]
    results, peers = [], []
    for size in sizes:
        for i in range(rungs):
            f32, us = i < 4, 2 * size ** 3 / tflops[i] * 1e-6
            tile = dict(zip(("bm", "bn", "bk"), tiles[i]), tm=None, tn=None, stages=None, cluster_m=2 if i == 8 else None, cluster_n=1 if i == 8 else None)
            results.append({"rung": f"v{i}", "row": f"v{i}_some_<name>", "kernel": "k", "summary": f"Rung {i}: x < y & z, and more.", "source": "s", "m": size, "n": size,
                            "k": size, "dtype": "f32" if f32 else "bf16", "layout": "nn" if f32 else "nt", "us": us, "p05_us": us, "p95_us": us, "tflops": tflops[i],
                            "peer": "cublaslt", "peer_us": us / 2, "peer_choice": "c", "of_peer": 0.5, "of_limit": 0.4, "floor_us": us / 3, "predicted_us": us,
                            "bound": "shared memory", "intensity": intensity[i], "tile": tile, "threads": 256, "registers": 128, "spill_bytes": 0,
                            "shared_bytes": 65536, "blocks_per_unit": 2, "occupancy": 0.25, "check": {"ok": i != 2, "error": 1e-7, "bound": 1e-5}})
        for dtype, layout, speed in (("f32", "nn", 50.8), ("bf16", "nt", 794)):
            peers.append({"peer": "cublaslt", "dtype": dtype, "layout": layout, "m": size, "n": size, "k": size, "us": 2 * size ** 3 / speed * 1e-6, "tflops": speed,
                          "choice": "algo=<66>"})
    limits = {"device": name, "target": "h200", "units": 132, "hbm_tbs": 4.594, "l2_tbs": 10.19, "f32_tflops": 62, "f16_tflops": 800, "launch_us": 0.57, "source": "m"}
    env = {"carat": "0.1.0", "device": name, "date": "2026-01-31T12:00:00Z", "command": "carat ladder --x '<script>alert(1)</script>'"}
    report = {"schema": "carat.ladder/1", "env": env, "timed": True, "note": None, "limits": limits, "results": results, "peers": peers,
              "skipped": [{"rung": "v9", "m": sizes[0], "n": sizes[0], "k": sizes[0], "reason": "it <needs> more"}]}
    path.write_text(json.dumps(report))
    return report


class BadInput(Case):
    def refused(self, code, word, *arguments, **more):
        with self.subTest(arguments=arguments):
            done = carat("ladder", *arguments, expect=code, **more)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
            self.assertIn(word, done.stderr)

    def test_flags(self):
        for word, arguments in [
            ("v0_naive", ["--rungs", "v77"]), ("--rungs", ["--rungs", "v0,"]), ("--rungs", ["--rungs", "cpu_reference"]), ("--size", ["--size", "0"]),
            ("--size", ["--size", "many"]), ("--size", ["--size", "1024,2048"]), ("--k", ["--m", "4", "--n", "4"]), ("--n", ["--m", "4", "--n", "-4", "--k", "4"]),
            ("together", ["--size", "64", "--sweep"]), ("together", ["--size", "64", "--m", "4", "--n", "4", "--k", "4"]), ("--layout", ["--layout", "nx"]),
            ("--dtype", ["--dtype", "f64"]), ("--budget", ["--budget", "0"]), ("--timeout", ["--timeout", "-1"]), ("h9000", ["--target", "h9000"]),
            ("--load", ["--load", "x.json", "--sweep"]), ("--frobnicate", ["--frobnicate"]),
        ]:
            self.refused(2, word, *arguments)

    def test_files(self):
        other = self.dir / "other.json"
        other.write_text('{"schema": "carat.bench/1", "results": []}')
        nowhere = str(self.dir / "nowhere" / "x")
        for word, arguments in [("carat.ladder/1", ["--load", other]), ("nowhere", ["--load", nowhere]), ("--html", ["--html", nowhere]),
                                ("--output", ["-o", nowhere]), ("--html", ["--html", self.dir])]:
            self.refused(6, word, *arguments)

    def test_a_device_that_is_asked_for_must_be_there(self):
        self.refused(3, "/no/libcuda.so", "--device", "0", **NO_GPU)


class Report(Case):
    """Without a GPU: compiled and predicted, not timed."""

    def setUp(self):
        super().setUp()
        cache = self.dir / "cache"
        cache.mkdir(mode=0o700)
        self.flags = ["--cache-dir", cache]

    def test_schema(self):
        data = carat_json("ladder", "--size", 512, *self.flags, **NO_GPU)
        self.has(data, TOP, exactly=True)
        self.has(data["limits"], LIMITS, exactly=True)
        self.assertEqual((data["schema"], data["timed"], data["limits"]["target"], data["peers"]), ("carat.ladder/1", False, "h200", []))
        for word in ("no CUDA driver was found", "h200", "--load"):
            self.assertIn(word, data["note"])
        self.assertTrue(data["env"]["command"].startswith("carat ladder --size 512"))
        there = rungs_there()
        self.assertEqual([(r["rung"], r["row"], r["dtype"]) for r in data["results"]],
                         [(name, *there[name]) for name in sorted(there, key=lambda rung: int(rung[1:]))])
        compiled = has_nvrtc()
        for result in data["results"]:
            self.has(result, RESULT, exactly=True)
            self.has(result["tile"], TILE, exactly=True)
            self.assertEqual((result["m"], result["n"], result["k"], result["us"], result["check"]), (512, 512, 512, None, None))
            self.assertEqual(result["layout"], "nn" if result["dtype"] == "f32" else "nt")
            self.assertGreater(result["predicted_us"], 0)
            for name in ("threads", "registers", "spill_bytes", "shared_bytes", "blocks_per_unit", "occupancy"):
                self.assertEqual(result[name] is not None, compiled, name)
        self.assertEqual(data["results"][0]["intensity"], 0.25)
        self.assertEqual(data["results"][1]["intensity"], data["results"][1]["tile"]["bm"] / 4)

    def test_table(self):
        done = carat("ladder", "--rungs", "v1,v0", "--m", 64, "--n", 96, "--k", 128, *self.flags, **NO_GPU)
        lines = done.stdout.splitlines()
        self.assertIn("not timed", lines[0])
        self.assertIn("M x N x K = 64 x 96 x 128", lines)
        table = lines[lines.index("M x N x K = 64 x 96 x 128") + 1:]
        self.assertEqual([line.split()[0] for line in table], ["rung", "v0", "v1"])
        self.assertIn("one thread an element of D", table[1])
        for word in ("registers", "spill B", "blocks/SM", "FLOP/B", "predicted us", "bound by"):
            self.assertIn(word, table[0])
        self.assertEqual(done.stderr, "")

    def test_choices(self):
        data = carat_json("ladder", "--rungs", "v0_naive", "--layout", "tn", "--target", "a100", *self.flags)
        self.assertEqual([(r["rung"], r["layout"], r["m"]) for r in data["results"]], [("v0", "tn", 4096)])
        self.assertEqual(data["limits"]["target"], "a100")
        self.assertIsNone(data["limits"]["l2_tbs"])
        self.assertIn("a100", data["note"])
        every = carat_json("ladder", "--rungs", "v1", "--all-candidates", *self.flags, **NO_GPU)["results"]
        self.assertGreater(len(every), 1)
        self.assertEqual(len({r["kernel"] for r in every}), len(every))
        self.assertEqual([r["predicted_us"] for r in every], sorted(r["predicted_us"] for r in every))

    def test_sweep(self):
        data = carat_json("ladder", "--sweep", "--rungs", "v0,v1", *self.flags, **NO_GPU)
        self.assertEqual([r["m"] for r in data["results"]], [512, 512, 1024, 1024, 2048, 2048])
        self.assertEqual([(s["rung"], s["m"]) for s in data["skipped"]], [("v0", 4096), ("v1", 4096), ("v0", 8192), ("v1", 8192)])
        self.assertIn("2048", data["skipped"][0]["reason"])

    def test_without_a_compiler(self):
        data = carat_json("ladder", "--rungs", "v0", *self.flags, CARAT_NVRTC_PATH="/no/libnvrtc.so", **NO_GPU)
        self.assertIn("NVRTC", data["note"])
        result = data["results"][0]
        self.assertEqual((result["tile"]["bm"], result["intensity"], result["registers"]), (8, 0.25, None))
        carat("ladder", "--rungs", "v0", *self.flags, expect=5, CARAT_JIT="never", **NO_GPU)


class Pages(Case):
    def page_of(self, report, *flags):
        page = self.dir / "page.html"
        carat("ladder", "--load", report, "--html", page, "--quiet", *flags)
        return page.read_text(encoding="utf-8")

    def test_page(self):
        kept = self.dir / "kept.json"
        report = kept_result(kept)
        text = self.page_of(kept)
        page = Page(text)
        self.assertEqual((page.wrong, page.open), ([], []))
        words = " ".join(page.words)
        for word in (report["limits"]["device"], "2026-01-31", report["env"]["command"], "x < y & z, and more.", "v8 some <name>", "cuBLAS 794", "algo=<66>",
                     "HBM 4.59 TB/s", "L2 10.2 TB/s", "f32 units 62.0 TFLOP/s", "tensor cores 800 TFLOP/s", "WRONG", "it <needs> more", "served by a cache"):
            self.assertIn(word, words)
        self.assertNotIn("script", [tag for tag, _ in page.tags])
        for _, attributes in page.tags:  # nothing from elsewhere
            for name in ("src", "href", "onload"):
                self.assertNotIn(name, attributes)
        self.assertNotIn("url(", text)
        self.assertIn("prefers-color-scheme: dark", text)
        identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        self.assertEqual(len(identifiers), len(set(identifiers)))

    def test_drawings(self):
        kept = self.dir / "kept.json"
        kept_result(kept, sizes=(1024, 4096))
        drawings = re.findall(r"<svg .*?</svg>", self.page_of(kept), re.S)
        self.assertEqual(len(drawings), 2 * 3)
        for drawing in drawings:
            root = xml.etree.ElementTree.fromstring(drawing)
            space = "{http://www.w3.org/2000/svg}"
            for part in ("title", "desc"):
                self.assertTrue(root.find(space + part).text)
            width, height = map(float, root.get("viewBox").split()[2:])
            boxes = []
            for text in root.iter(space + "text"):
                x, y, long = float(text.get("x")), float(text.get("y")), 7 * len(text.text)
                self.assertTrue(0 <= x <= width and 0 <= y <= height, text.text)
                if text.get("transform"):
                    continue
                left = {"start": x, "middle": x - long / 2, "end": x - long}[text.get("text-anchor")]
                boxes.append((left, y - 10, left + long, y + 3, text.text))
            for i, one in enumerate(boxes):
                for two in boxes[:i]:
                    apart = one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
                    self.assertTrue(apart, f"{one[4]!r} lies on {two[4]!r}")

    def test_a_kept_result_is_shown_as_it_was(self):
        kept = self.dir / "kept.json"
        report = kept_result(kept)
        self.assertEqual(carat_json("ladder", "--load", kept), report)
        table = carat("ladder", "--load", kept).stdout
        for word in ("v8", "772", "cuBLAS", "128x256x64 c2x1", "WRONG", "v9 left out: it <needs> more", "bf16 nt (v4, v5, v6, v7, v8)"):
            self.assertIn(word, table)

    def test_strange_files_make_a_page_too(self):
        kept = self.dir / "kept.json"
        for text in ('{"schema": "carat.ladder/1", "results": []}', '{"schema": "carat.ladder/1", "results": [1, null, {}], "peers": 3, "skipped": {"a": 1}, "limits": []}',
                     '{"schema": "carat.ladder/1", "timed": true, "limits": {"f16_tflops": -1, "hbm_tbs": 0}, "results": [{"rung": "v0", "m": 1e300, "tflops": 1e300,'
                     ' "intensity": 1e-300, "dtype": "f32"}, {"rung": "v1", "tflops": -4, "intensity": 0}]}'):
            kept.write_text(text)
            page = Page(self.page_of(kept))
            self.assertEqual((page.wrong, page.open), ([], []))
            carat("ladder", "--load", kept)

    def test_page_of_a_report(self):
        page = self.dir / "page.html"
        carat("ladder", "--rungs", "v0,v1", "--size", 256, "--html", page, "-q", "--cache-dir", self.dir, **NO_GPU)
        text = page.read_text(encoding="utf-8")
        self.assertIn("predicted", text)
        self.assertIn("Nothing is timed", text)


class FakeGpu(Case):
    def setUp(self):
        super().setUp()
        if not FAKE_CUDA:
            self.skipTest("built without the tests of src/cuda")
        if not has_nvrtc():
            self.skipTest("there is no NVRTC here")
        cache = self.dir / "cache"
        cache.mkdir(mode=0o700)
        self.gpu = {"CARAT_CUDA_PATH": FAKE_CUDA, "CARAT_CACHE_DIR": str(cache), "FAKE_CUDA_ANY_CODE": "1", "CARAT_CUBLASLT_PATH": "/no/libcublasLt.so"}

    def test_times_and_finds_wrong_results(self):
        out, page = self.dir / "out.json", self.dir / "page.html"
        done = carat("ladder", "--rungs", "v0,v1", "--m", 64, "--n", 96, "--k", 128, "--budget", 0.05, "-o", out, "--html", page, expect=4, **self.gpu)
        data = json.loads(out.read_text())
        self.has(data, TOP, exactly=True)
        self.assertEqual((data["timed"], data["note"], data["env"]["device"]), (True, None, "NVIDIA H200"))
        self.assertIn("/no/libcublasLt.so", data["env"]["peers"]["cublaslt"]["left_out"])
        self.assertIn("is wrong: entry (", done.stderr)
        for result in data["results"]:
            self.has(result, RESULT, exactly=True)
            self.has(result["check"], {"ok": FLAG, "error": MAYBE_NUMBER, "bound": MAYBE_NUMBER}, exactly=True)  # D was NaN and stays it
            self.assertIs(result["check"]["ok"], False)
            self.assertGreater(result["us"], 0)
            self.assertGreater(result["of_limit"], 0)
            self.assertIsNone(result["of_peer"])
        self.assertIn("WRONG", done.stdout)
        self.assertIn("WRONG", page.read_text())

    def test_a_kernel_that_cannot_be_made(self):
        done = carat("ladder", "--rungs", "v0", "--size", 64, "--no-peer", expect=5, CARAT_JIT="never", **self.gpu)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("v0_naive was left out", done.stderr)

    def test_timeout_saves_what_is_done(self):
        done = carat("ladder", "--sweep", "--rungs", "v0,v1", "--no-peer", "--timeout", 0.001, "--json", expect=7, **self.gpu)
        self.assertEqual(json.loads(done.stdout)["schema"], "carat.ladder/1")
        self.assertIn("--timeout", done.stderr)

    def test_a_target_is_planned_for_on_a_gpu_too(self):
        data = carat_json("ladder", "--rungs", "v0", "--target", "h100", **self.gpu)
        self.assertEqual((data["timed"], data["limits"]["target"]), (False, "h100"))


if __name__ == "__main__":
    cli_test.CARAT = os.path.abspath(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].endswith(".so"):
        FAKE_CUDA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
