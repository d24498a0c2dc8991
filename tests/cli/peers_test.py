#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peers_test.py CARAT FAKE_CUDA FAKE_CUTLASS: other libraries in `carat bench`: how --peer reads, that a missing or failing peer is a
reason and never a failure, one run with several of them, and the protocol of DeepGEMM's worker. The driver, CUTLASS's plugin,
torch and DeepGEMM are stand-ins that compute nothing fast, so it is the same with and without a GPU."""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
WORKER = HERE.parents[1] / "bench/peers/deepgemm_worker.py"
CARAT = FAKE_CUDA = FAKE_CUTLASS = ""
CPU = ["bench", "--m", "5", "--n", "7", "--k", "9", "--backend", "cpu", "--budget", "0.01"]
PEERS = ["cublaslt", "cutlass", "deepgemm"]


def environment(**more):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CARAT_", "FAKE_"))}
    return {**env, "PYTHONPATH": str(HERE / "fake_deepgemm"), **more}


class Case(unittest.TestCase):
    def carat(self, *arguments, expect=0, **more):
        done = subprocess.run([CARAT, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=environment(**more), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout[-500:])
        return done


class Flags(Case):
    def test_lists_and_repeats(self):
        for flags in (["--peer", "cublaslt,cutlass,deepgemm"], ["--peer", "cublaslt", "--peer", "cutlass,deepgemm,cublaslt"]):
            data = json.loads(self.carat(*CPU, *flags, "--json").stdout)
            self.assertEqual(list(data["env"]["peers"]), PEERS)

    def test_unknown(self):
        for given in ("mkl", "cublaslt,mkl", "cublaslt,", ""):
            done = self.carat(*CPU, "--peer", given, expect=2)
            self.assertIn("cublaslt, cutlass, deepgemm", done.stderr)

    def test_left_out_on_the_cpu(self):
        done = self.carat(*CPU, "--peer", ",".join(PEERS), "--json")
        data = json.loads(done.stdout)
        self.assertEqual(done.stderr.count("is left out"), 3)
        for peer in PEERS:
            self.assertIn("CPU", data["env"]["peers"][peer]["left_out"])
            self.assertEqual(data["results"][0]["peers"][peer]["us"], None)
            self.assertIn("CPU", data["results"][0]["peers"][peer]["choice"])

    def test_a_typed_dtype_replaces_those_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            shapes = pathlib.Path(folder, "shapes.txt")
            shapes.write_text("3 4 5 bf16 nt\n3 4 5\n")
            given = ["bench", "--shapes", shapes, "--backend", "cpu", "--budget", "0.01", "--json"]
            types = [[r["dtype"] for r in json.loads(self.carat(*given, *more).stdout)["results"]] for more in ([], ["--dtype", "f16"])]
        self.assertEqual(types, [["bf16", "f32"], ["f16", "f16"]])


class Together(Case):
    """All in one run, on a driver that runs no kernel: what is timed is noise, and --no-check lets it through."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.cache = folder.name  # kernels are compiled once for all of these

    def setUp(self):
        if not FAKE_CUDA:
            self.skipTest("built without the tests of src/cuda")
        self.gpu = {"CARAT_CUDA_PATH": FAKE_CUDA, "CARAT_CACHE_DIR": self.cache, "FAKE_CUDA_ANY_CODE": "1", "CARAT_CUBLASLT_PATH": "/no/libcublasLt.so",
                    "CARAT_CUTLASS_PLUGIN": FAKE_CUTLASS, "CARAT_DEEPGEMM_PYTHON": sys.executable}
        checks = json.loads(self.carat("doctor", "--json", **self.gpu).stdout)["checks"]
        if next(check for check in checks if check["name"] == "NVRTC")["state"] != "ok":
            self.skipTest("there is no NVRTC here")

    def bench(self, *more, peers="cublaslt,cutlass,deepgemm", n="128", dtype="bf16", expect=0, **env):
        return self.carat("bench", "--m", "64", "--n", n, "--k", "64", "--dtype", dtype, "--budget", "0.05", "--peer", peers, *more, expect=expect,
                          **{**self.gpu, **env})

    def results(self, *more, **env):
        return json.loads(self.bench("--json", "--no-check", *more, **env).stdout)

    def test_json(self):
        data = self.results()
        self.assertIn("/no/libcublasLt.so", data["env"]["peers"]["cublaslt"]["left_out"])
        self.assertEqual(data["env"]["peers"]["cutlass"], {"version": "4.0.0", "left_out": None})
        self.assertEqual(data["env"]["peers"]["deepgemm"], {"version": "0.0-fake, torch 0.0-fake", "left_out": None})
        peers = data["results"][0]["peers"]
        self.assertEqual(list(peers["cutlass"]), ["us", "p05_us", "p95_us", "choice"])
        self.assertRegex(peers["cutlass"]["choice"], r"^one swizzle [124] \(best of 6\)$")
        self.assertGreater(peers["cutlass"]["us"], 0)
        self.assertEqual(peers["deepgemm"]["choice"], "128x160x64 cluster 2x1, 5 stages (its heuristic)")
        self.assertEqual(peers["deepgemm"]["us"], peers["deepgemm"]["p95_us"])

    def test_table_and_csv(self):
        lines = self.bench("--no-check", n="64,128").stdout.splitlines()
        for title in ("cuBLASLt us", "CUTLASS us", "DeepGEMM us", "ratio", "best peer"):
            self.assertIn(title, lines[0])
        self.assertRegex(lines[-1], r"^2 problems beside the best peer: geometric mean of the ratios [\d.]+, least [\d.]+ \(64 x (64|128) x 64 bf16 nt\)$")
        self.assertNotIn("best peer", self.bench("--no-check", peers="cutlass").stdout)
        (row,) = csv.DictReader(self.bench("--no-check", "--csv").stdout.splitlines())
        self.assertEqual(row["cublaslt_us"], "")
        self.assertGreater(float(row["cutlass_us"]), 0)
        self.assertGreater(float(row["deepgemm_us"]), 0)

    def test_a_wrong_result_is_no_contestant(self):
        done = self.bench("--json", expect=4, peers="cutlass,deepgemm")  # nothing computes on this driver, Carat neither
        peers = json.loads(done.stdout)["results"][0]["peers"]
        self.assertIsNone(peers["cutlass"]["us"])
        self.assertIn("differs from the reference", peers["cutlass"]["choice"])
        self.assertGreater(peers["deepgemm"]["us"], 0)
        peers = json.loads(self.bench("--json", expect=4, peers="deepgemm", FAKE_DEEPGEMM="wrong").stdout)["results"][0]["peers"]
        self.assertIsNone(peers["deepgemm"]["us"])
        self.assertIn("differs from torch's", peers["deepgemm"]["choice"])

    def test_missing(self):
        for peer, reason, env in (("cutlass", "/no/plugin.so", {"CARAT_CUTLASS_PLUGIN": "/no/plugin.so"}),
                                  ("cutlass", "lacks carat_cutlass_plugin", {"CARAT_CUTLASS_PLUGIN": FAKE_CUDA}),
                                  ("cutlass", "interface 7, wanted 1", {"FAKE_CUTLASS_ABI": "7"}),
                                  ("deepgemm", "/no/python", {"CARAT_DEEPGEMM_PYTHON": "/no/python"}),
                                  ("deepgemm", "CARAT_DEEPGEMM_PYTHON", {"PYTHONPATH": ""})):
            with self.subTest(reason=reason):
                done = self.bench("--json", "--no-check", n="64,128", peers=peer, **env)
                data = json.loads(done.stdout)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for text in (done.stderr, data["env"]["peers"][peer]["left_out"], *(r["peers"][peer]["choice"] for r in data["results"])):
                    self.assertIn(reason, text)

    def test_the_plugin_lies_beside_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = shutil.copy(CARAT, folder)
            flags = [program, "bench", "--m", "64", "--n", "64", "--k", "64", "--dtype", "bf16", "--budget", "0.05", "--peer", "cutlass", "--no-check", "--json"]
            env = environment(**{**self.gpu, "CARAT_CUTLASS_PLUGIN": ""})
            for found in (False, True):
                if found:
                    shutil.copy(FAKE_CUTLASS, pathlib.Path(folder, "libcarat_cutlass.so"))
                done = subprocess.run(flags, capture_output=True, text=True, timeout=60, env=env)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["env"]["peers"]["cutlass"]["version"], "4.0.0" if found else None)
                self.assertEqual(f"{folder}/libcarat_cutlass.so" in done.stderr, not found, done.stderr)

    def test_refused_problems(self):
        for flags, reason in ((["--layout", "tn"], "layout nt"), (["--bias", "n"], "epilogue"), (["--dtype-d", "f32"], "one type"), (["--batch", "2"], "single")):
            peers = self.results(*flags, peers="cutlass,deepgemm")["results"][0]["peers"]
            for peer in ("cutlass", "deepgemm"):
                self.assertIsNone(peers[peer]["us"])
                self.assertIn(reason, peers[peer]["choice"])
        self.assertIn("bf16 only", self.results(dtype="f16", peers="deepgemm")["results"][0]["peers"]["deepgemm"]["choice"])

    def test_a_failing_worker(self):
        for mode, reason in (("crash", "failed while it was timed: its worker ended"), ("refuse", "k % 64 == 0")):
            data = self.results(n="64,128", peers="deepgemm,cutlass", FAKE_DEEPGEMM=mode)
            for result in data["results"]:
                self.assertIsNone(result["peers"]["deepgemm"]["us"])
                self.assertIn(reason, result["peers"]["deepgemm"]["choice"])
                self.assertGreater(result["peers"]["cutlass"]["us"], 0)


class Protocol(unittest.TestCase):
    def ask(self, *questions, **env):
        text = "".join(json.dumps(question) + "\n" for question in questions)
        done = subprocess.run([sys.executable, WORKER], input=text, capture_output=True, text=True, timeout=60, env=environment(**env))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    START = {"do": "start", "device": 0}
    PREPARE = {"do": "prepare", "m": 3, "n": 5, "k": 8, "seed": 1}

    def test_a_problem(self):
        start, prepare, verify, sample, release = self.ask(self.START, self.PREPARE, {"do": "verify"}, {"do": "sample"}, {"do": "release"})
        self.assertEqual(start["version"], "0.0-fake, torch 0.0-fake")
        self.assertEqual(prepare["choice"], "128x160x64 cluster 2x1, 5 stages (its heuristic)")
        self.assertLessEqual(verify["error_norm"], verify["bound"])
        self.assertAlmostEqual(sample["us"], 100 / 1024)  # a graph of one launch for each of the most sets
        self.assertEqual(release, {})

    def test_a_configuration_is_of_its_problem(self):  # the first is prepared again, and not printed again
        choices = [answer["choice"] for answer in self.ask(self.START, self.PREPARE, {**self.PREPARE, "m": 1}, self.PREPARE)[1:]]
        self.assertEqual([choice.partition("x")[0] for choice in choices], ["128", "64", "128"])

    def test_reasons(self):
        self.assertIn("cannot import it", self.ask(self.START, PYTHONPATH="")[0]["error"])
        unloadable = self.ask(self.START, FAKE_DEEPGEMM="unloadable")[0]["error"]
        self.assertIn("cannot import it: Could not load this library: _C.so: undefined symbol: newer", unloadable)
        self.assertEqual(self.ask(self.START, self.PREPARE, FAKE_DEEPGEMM="refuse")[1], {"error": "Assertion error: k % 64 == 0"})
        verify = self.ask(self.START, self.PREPARE, {"do": "verify"}, FAKE_DEEPGEMM="wrong")[2]
        self.assertGreater(verify["error_norm"], verify["bound"])
        self.assertIn("does not print", self.ask(self.START, self.PREPARE, FAKE_DEEPGEMM="silent")[1]["choice"])
        self.assertIn("error", self.ask({"do": "dance"})[0])


if __name__ == "__main__":
    CARAT, FAKE_CUDA, FAKE_CUTLASS = (sys.argv[1:] + ["", ""])[:3]
    unittest.main(argv=sys.argv[:1], verbosity=1)
