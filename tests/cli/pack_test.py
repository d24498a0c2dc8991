#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pack_test.py CARAT LIBRARY [FAKE_CUDA]: `carat pack` and `carat prepare`: a small pack is built without a GPU, looked at, damaged,
moved with the program and with the library, and used where nothing may be compiled."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import cli_test
from cli_test import FLAG, TEXT, Case, carat, carat_json

LIBRARY = FAKE_CUDA = ""
NO_GPU = {"CARAT_CUDA_PATH": "/no/libcuda.so"}
PACK = {"schema": TEXT, "command": TEXT, "path": TEXT, "bytes": int, "entries": int, "archs": TEXT, "compiler": TEXT, "library": TEXT,
        "of_this_library": FLAG, "bad": (int, type(None)), "kernels": list}
SHAPE = ["--m", 512, "--n", 1024, "--k", 512, "--dtype"]  # and a type


def has_nvrtc():
    return next(check for check in carat_json("doctor")["checks"] if check["name"] == "NVRTC")["state"] == "ok"


def pack_check(**more):
    """The doctor's words on packs."""
    report = carat_json("doctor", **NO_GPU, **more)
    return next(check for check in report["checks"] if check["name"] == "kernel pack"), report["packs"]


class Refused(Case):
    def test_flags(self):
        build = ["pack", "build", "--out", self.dir / "x.pack"]
        for word, arguments in [
            ("subcommand", ["pack"]), ("--out", ["pack", "build", "--model", "llama-3.1-8b"]), ("--model", build), ("sm_20", [*build, "--model", "llama-3.1-8b", "--arch", "sm_20"]),
            ("h9000", [*build, "--model", "llama-3.1-8b", "--target", "h9000"]), ("glu", [*build, "--model", "llama-3.1-8b", "--epilogues", "glu"]),
            ("--jobs", [*build, "--model", "llama-3.1-8b", "--jobs", "-1"]), ("--tokens", [*build, "--model", "llama-3.1-8b", "--tokens", "few"]),
            ("--dtype", [*build, "--model", "llama-3.1-8b", "--dtype", "f33"]), ("--model", ["prepare"]), ("file", ["pack", "list"]),
        ]:
            with self.subTest(arguments=arguments):
                done = carat(*arguments, expect=2)
                self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
                self.assertIn(word, done.stderr)
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_what_is_no_pack(self):
        file = self.dir / "x.pack"
        for text in ("", "no pack", "CARATPAK" + "x" * 100):
            file.write_text(text)
            for command in ("list", "verify"):
                self.assertIn(str(file), carat("pack", command, file, expect=6).stderr)
        self.assertIn("absent", carat("pack", "list", self.dir / "absent", expect=6).stderr)

    def test_prepare_needs_a_gpu_or_a_target(self):
        self.assertIn("/no/libcuda.so", carat("prepare", "--model", "llama-3.1-8b", expect=3, **NO_GPU).stderr)


class Pack(Case):
    """With one small pack of a suite of two problems."""
    @classmethod
    def setUpClass(cls):
        if not has_nvrtc():
            raise unittest.SkipTest("there is no NVRTC here")
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="carat pack "))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        (cls.place / "cache").mkdir(mode=0o700)
        (cls.place / "suite.txt").write_text("512 1024 512 bf16 nt\n512 1024 512 f16 nt\n")
        cls.pack, cls.cache = cls.place / "new" / "small.pack", str(cls.place / "cache")
        cls.build = ["pack", "build", "--out", cls.pack, "--target", "h200", "--suite", cls.place / "suite.txt", "--epilogues", "none,silu-split",
                     "--cache-dir", cls.cache]
        cls.report = carat_json(*cls.build)

    def setUp(self):
        super().setUp()
        # Nothing may be compiled, and nothing comes from a cache.
        self.never = {**NO_GPU, "CARAT_JIT": "never", "CARAT_PACK": str(self.pack), "CARAT_CACHE_DIR": str(self.dir / "empty")}

    def plan(self, dtype, *more, **env):
        return carat_json("explain", "--target", "h200", "--compile", *SHAPE, dtype, *more, **env)["plan"]

    def test_build(self):
        self.has(self.report, PACK)
        self.assertEqual((self.report["schema"], self.report["command"], self.report["archs"]), ("carat.pack/1", "build", "sm_90a"))
        (target,) = self.report["targets"]
        self.assertEqual(len(target["problems"]), 4)
        for problem in target["problems"]:
            self.has(problem, {"m": int, "kernel": TEXT, "refused": list, "status": TEXT, "failure": type(None)})
        self.assertEqual(target["from"], {"compiled": self.report["entries"]})
        self.assertEqual(len({kernel["name"] for kernel in self.report["kernels"]} & {problem["kernel"] for problem in target["problems"]}),
                         len({problem["kernel"] for problem in target["problems"]}))

    def test_built_again_it_is_the_same_from_the_cache(self):
        before = self.pack.read_bytes()
        again = self.dir / "again.pack"
        report = carat_json(*[again if word == self.pack else word for word in self.build])
        self.assertEqual(report["targets"][0]["from"], {"disk cache": self.report["entries"]})
        self.assertEqual(again.read_bytes(), before)
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["again.pack"])

    def test_list_and_verify(self):
        listed, verified = carat_json("pack", "list", self.pack), carat_json("pack", "verify", self.pack)
        self.has(listed, PACK, exactly=True)
        self.assertEqual((listed["bad"], verified["bad"], listed["of_this_library"]), (None, 0, True))
        for kernel in verified["kernels"]:
            self.has(kernel, {"name": TEXT, "arch": TEXT, "bytes": int, "registers": int, "spill_bytes": int, "damage": type(None)}, exactly=True)
        self.assertIn(verified["kernels"][0]["name"], carat("pack", "list", self.pack).stdout)
        damaged = self.dir / "damaged.pack"
        data = bytearray(self.pack.read_bytes())
        data[-100] ^= 1
        damaged.write_bytes(data)
        done = carat("pack", "verify", damaged, "--json", expect=6)
        self.assertEqual(json.loads(done.stdout)["bad"], 1)
        self.assertIn(f"1 of {self.report['entries']} kernels", done.stderr)
        carat("pack", "list", damaged)
        for length in (10, 1000, len(data) - 1):
            damaged.write_bytes(data[:length])
            carat("pack", "verify", damaged, expect=6)

    def test_plans_without_compiling(self):
        for more in (["bf16"], ["f16"], ["bf16", "--activation", "silu", "--gate", "split"]):
            with self.subTest(more=more):
                plan = self.plan(*more, **self.never)
                self.assertEqual((plan["compiled_from"], plan["compile_ms"], plan["refused"]), ("pack", 0, []))
                self.assertEqual(plan["kernel"], self.plan(*more, CARAT_CACHE_DIR=self.cache, CARAT_PACK="none", **NO_GPU)["kernel"])
        with self.subTest("no compiler"):
            self.assertEqual(self.plan("bf16", **{**self.never, "CARAT_JIT": "auto", "CARAT_NVRTC_PATH": "/no/libnvrtc.so"})["compiled_from"], "pack")

    def test_what_is_not_there_names_the_remedy(self):
        for env in (self.never, {**self.never, "CARAT_JIT": "auto", "CARAT_NVRTC_PATH": "/no/libnvrtc.so"}, {**self.never, "CARAT_PACK": "none"}):
            done = carat("explain", "--target", "h200", "--compile", *SHAPE, "bf16", "--bias", "n", expect=5, **env)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("carat pack build", done.stderr)
            self.assertIn("carat prepare", done.stderr)

    def test_doctor(self):
        check, packs = pack_check(CARAT_PACK=str(self.pack))
        self.assertEqual(check["state"], "ok")
        self.assertIn(str(self.pack), check["value"])
        self.assertEqual((packs[0]["entries"], packs[0]["bytes"]), (self.report["entries"], self.pack.stat().st_size))
        check, packs = pack_check(CARAT_PACK="none")
        self.assertEqual((check["state"], packs), ("ok", []))
        broken = self.dir / "broken.pack"
        broken.write_text("broken")
        check, packs = pack_check(CARAT_PACK=str(broken))
        self.assertEqual((check["state"], packs), ("warn", []))
        self.assertIn("broken.pack", check["value"])

    def test_moved_with_the_program(self):
        for place in ("bin/carat", "lib/carat/small.pack"):
            (self.dir / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(cli_test.CARAT, self.dir / "bin" / "carat")
        shutil.copy(self.pack, self.dir / "lib" / "carat")
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir()
        env = cli_test.environment(**NO_GPU, PATH=f"{self.dir / 'bin'}:{os.environ['PATH']}")
        done = subprocess.run(["carat", "doctor", "--json"], cwd=elsewhere, env=env, capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual([pack["path"] for pack in json.loads(done.stdout)["packs"]], [str(self.dir / "lib/carat/small.pack")])

    def test_moved_with_the_library(self):
        (self.dir / "carat").mkdir()
        library = shutil.copy(LIBRARY, self.dir)
        shutil.copy(self.pack, self.dir / "carat")
        ask = ("import ctypes, sys\ncarat, text = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()\nassert carat.carat_doctor(ctypes.byref(text)) == 0\n"
               "carat.carat_text_data.restype, carat.carat_text_data.argtypes = ctypes.c_char_p, [ctypes.c_void_p]\nprint(carat.carat_text_data(text).decode())")
        done = subprocess.run([sys.executable, "-c", ask, library], env=cli_test.environment(**NO_GPU), capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual([pack["path"] for pack in json.loads(done.stdout)["packs"]], [str(self.dir / "carat/small.pack")])

    def test_prepare(self):
        prepare = ["prepare", "--target", "h200", "--suite", self.place / "suite.txt", "--epilogues", "none,silu-split"]
        report = carat_json(*prepare, **self.never)
        self.assertEqual((report["schema"], report["target"], report["from"]), ("carat.prepare/1", "h200", {"pack": self.report["entries"]}))
        report = carat_json(*prepare, CARAT_PACK="none", CARAT_CACHE_DIR=self.cache, **NO_GPU)
        self.assertEqual(report["from"], {"disk cache": self.report["entries"]})
        self.assertIn("from the disk cache", carat(*prepare, CARAT_PACK="none", CARAT_CACHE_DIR=self.cache, **NO_GPU).stdout)
        done = carat(*prepare[:-1], "bias", "--json", expect=5, **self.never)
        self.assertIn("carat prepare", done.stderr)
        self.assertTrue(all("is in no" in problem["failure"] for problem in json.loads(done.stdout)["problems"]))

    def test_models(self):
        prepare = ["prepare", "--target", "h200", "--model", "mixtral-8x7b", "--tokens", "4096", "--epilogues", "plain", "--cache-dir", self.cache]
        problems = carat_json(*prepare, CARAT_PACK="none", **NO_GPU)["problems"]
        grouped = [problem for problem in problems if problem["groups"]]
        self.assertTrue(grouped)
        for problem in problems:
            self.assertNotEqual(problem["kernel"] is None, problem["failure"] is None, problem)
        self.assertEqual({problem["status"] for problem in grouped}, {"CARAT_NOT_SUPPORTED"})
        said = carat(*prepare, CARAT_PACK="none", **NO_GPU).stdout
        self.assertEqual([said.count(word) for word in ("left out", f"{len(grouped)} by CARAT_NOT_SUPPORTED")], [1, 1])
        sizes = {(problem["n"], problem["k"]) for problem in problems}
        common = carat_json(*prepare[:-3], "common", "--jobs", 3, "--cache-dir", self.cache, CARAT_PACK="none", **NO_GPU)["problems"]
        self.assertGreater(len(common), len(problems))
        self.assertEqual({(problem["n"], problem["k"]) for problem in common}, sizes)
        self.assertFalse([problem for problem in common if "gelu" in (problem["epilogue"] or "")], "no layer of it has a GELU")

    def test_every_gpu_of_an_architecture(self):
        out = self.dir / "all.pack"
        report = carat_json("pack", "build", "--out", out, "--shapes", self.place / "suite.txt", "--epilogues", "plain", "--dtype", "bf16", "--cache-dir", self.cache)
        self.assertEqual([target["target"] for target in report["targets"]], ["h200", "h100", "h20"])
        self.assertLessEqual(report["entries"], sum(len(target["kernels"]) for target in report["targets"]))

    def test_interrupted(self):
        out = self.dir / "never.pack"
        (self.dir / "cache").mkdir(mode=0o700)
        build = subprocess.Popen([cli_test.CARAT, "pack", "build", "--out", out, "--target", "h200", "--model", "llama-3.1-8b", "--jobs", "1",
                                  "--cache-dir", self.dir / "cache"], env=cli_test.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not list(self.dir.glob("cache/v1/*/*/*.cubin")) and time.monotonic() < deadline:
            time.sleep(0.05)
        build.send_signal(signal.SIGINT)
        stdout, stderr = build.communicate(timeout=60)
        self.assertEqual((build.returncode, stdout, stderr.count("\n")), (130, "", 1), stderr)
        self.assertFalse(out.exists())

    def test_runs_on_a_device(self):
        if not FAKE_CUDA:
            self.skipTest("built without the tests of src/cuda")
        env = {**self.never, "CARAT_CUDA_PATH": FAKE_CUDA, "FAKE_CUDA_ANY_CODE": "1"}
        carat("run", *SHAPE, "bf16", "--backend", "cuda", **env)
        carat("run", *SHAPE, "bf16", "--backend", "cuda", "--bias", "n", expect=5, **env)


if __name__ == "__main__":
    cli_test.CARAT, LIBRARY = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].endswith(".so"):
        FAKE_CUDA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
