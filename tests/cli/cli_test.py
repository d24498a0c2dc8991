#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cli_test.py CARAT [FAKE_CUDA]: exit codes and sentences of bad input, the JSON of every subcommand field by field, comparison of
results, colours, files, interruption. Everything runs on the CPU backend, or on a CUDA
driver that runs no kernel (FAKE_CUDA), so it is the same with and without a GPU."""
import ast
import json
import math
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARAT = "carat"
FAKE_CUDA = ""
SMALL = ["--m", "5", "--n", "7", "--k", "9", "--backend", "cpu"]
NUMBER, TEXT, FLAG = (int, float), str, bool
MAYBE_NUMBER, MAYBE_TEXT = (int, float, type(None)), (str, type(None))
KEYS = {"m": int, "n": int, "k": int, "batch": (int, type(None)), "groups": (int, type(None)), "dtype": TEXT, "layout": TEXT,
        "recipe": MAYBE_TEXT, "epilogue": MAYBE_TEXT}
RESULT = {**KEYS, "kernel": TEXT, "us": NUMBER, "p05_us": NUMBER, "p95_us": NUMBER, "tflops": MAYBE_NUMBER, "gbps": MAYBE_NUMBER,
          "floor_us": MAYBE_NUMBER, "predicted_us": MAYBE_NUMBER, "peers": dict, "check": (dict, type(None))}
CHECK = {"ok": FLAG, "error": NUMBER, "bound": NUMBER}
FULL_CHECK = {**CHECK, "full": FLAG, "entries": int, "freivalds": MAYBE_NUMBER}


def environment(**more):
    env = {key: value for key, value in os.environ.items() if not key.startswith("CARAT_") and key not in ("NO_COLOR", "TERM")}
    return {**env, "TERM": "xterm", **more}


def carat(*arguments, expect=0, **more):
    """The finished process; it must have ended with `expect`."""
    done = subprocess.run([CARAT, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=environment(**more), stdin=subprocess.DEVNULL)
    if done.returncode != expect:
        raise AssertionError(f"carat {' '.join(map(str, arguments))} gave {done.returncode}, wanted {expect}: {done.stderr}{done.stdout[-500:]}")
    return done


def carat_json(*arguments, **more):
    return json.loads(carat(*arguments, "--json", **more).stdout)


def write_npy(path, values, shape, descr="<f4", fortran=False):
    header = repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    code = {"<f4": "f", "<f8": "d", "|i1": "b"}[descr]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}{code}", *values))


def read_npy(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10:10 + length].decode())
    code, size = {"<f4": ("f", 4), "<f8": ("d", 8)}[header["descr"]]
    count = math.prod(header["shape"])
    return header["shape"], struct.unpack_from(f"<{count}{code}", data, 10 + length)


def write_safetensors(path, name, values, shape):
    header = json.dumps({name: {"dtype": "F32", "shape": list(shape), "data_offsets": [0, 4 * len(values)]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(values)}f", *values))


def bench_file(path, *rows, device="a machine", schema="carat.bench/1"):
    results = [{"m": m, "n": 8, "k": 8, "batch": 1, "groups": None, "dtype": "f32", "layout": "nt", "recipe": None, "epilogue": None,
                "kernel": "k", "us": us, "p05_us": low, "p95_us": high} for m, us, low, high in rows]
    path.write_text(json.dumps({"schema": schema, "env": {"device": device}, "results": results}))
    return str(path)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def needs_nvrtc(self):
        if next(check for check in carat_json("doctor")["checks"] if check["name"] == "NVRTC")["state"] != "ok":
            self.skipTest("there is no NVRTC here")

    def has(self, data, fields, exactly=False):
        for name, kind in fields.items():
            self.assertIn(name, data)
            self.assertIsInstance(data[name], kind, f"{name} is {data[name]!r}")
            if kind in (int, NUMBER):
                self.assertNotIsInstance(data[name], bool, name)
        if exactly:
            self.assertEqual(list(data), list(fields))


class BadInput(Case):
    def refused(self, code, word, *arguments, **more):
        """Exit code `code`, nothing on stdout, and on stderr one sentence that holds `word`."""
        with self.subTest(arguments=arguments):
            done = carat(*arguments, expect=code, **more)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertTrue(done.stderr.startswith("carat: "), done.stderr)
            self.assertIn(word, done.stderr)

    def test_flags(self):
        run = ["run", *SMALL]
        for word, arguments in [
            ("subcommand", []), ("frobnicate", ["frobnicate"]), ("--frobnicate", ["run", "--frobnicate"]), ("--m", ["run", "--n", "4", "--k", "4"]),
            ("--k", ["explain", "--m", "4", "--n", "4"]), ("--m", ["run", "--m", "-3", "--n", "4", "--k", "4"]), ("--n", ["run", "--m", "4", "--n", "x", "--k", "4"]),
            ("--k", ["run", "--m", "4", "--n", "4", "--k", "4.5"]), ("--m", ["run", "--m", "99999999999999999999", "--n", "4", "--k", "4"]),
            ("--dtype", [*run, "--dtype", "f33"]), ("--dtype-d", [*run, "--dtype-d", "f33"]), ("--layout", [*run, "--layout", "nx"]),
            ("--d-order", [*run, "--d-order", "diagonal"]), ("--alpha", [*run, "--alpha", "one"]), ("--beta", [*run, "--beta", "1,5"]),
            ("--activation", [*run, "--activation", "tanhh"]), ("--gate", [*run, "--gate", "left"]), ("--clamp", [*run, "--clamp", "1"]),
            ("--out-scale", [*run, "--out-scale", "column"]), ("--recipe", [*run, "--recipe", "1x7"]), ("--recipe", [*run, "--recipe", "rowwise,rowwise,rowwise"]),
            ("--compute", [*run, "--compute", "f16"]), ("batch_invariant, fast", [*run, "--numerics", "wrong"]),
            ("--backend", ["run", "--m", "4", "--n", "4", "--k", "4", "--backend", "tpu"]),
            ("--threads", [*run, "--threads", "0"]), ("--device", [*run, "--device", "first"]), ("--seed", [*run, "--seed", "-1"]),
            ("--groups", [*run, "--batch", "2", "--groups", "2"]), ("run takes one", ["run", "--m", "4,5", "--n", "4", "--k", "4"]),
            ("no_such_kernel", [*run, "--kernel", "no_such_kernel"]), ("h9000", ["explain", "--m", "4", "--n", "4", "--k", "4", "--target", "h9000"]),
            ("--color", ["list", "--color", "sometimes"]), ("--tokens", ["models", "llama-3.1-8b", "--tokens", "many"]), ("--tp", ["models", "llama-3.1-8b", "--tp", "0"]),
            ("--m", ["bench"]), ("--shapes", ["bench", "--m", "4", "--n", "4", "--k", "4", "--shapes", "x"]), ("--tokens", ["bench", "--m", "4", "--n", "4", "--k", "4", "--tokens", "3"]),
            ("--m", ["bench", "--m", "8:4:1", "--n", "4", "--k", "4"]), ("--m", ["bench", "--m", "0:4:x2", "--n", "4", "--k", "4"]), ("--m", ["bench", "--m", "1:100000:1", "--n", "4", "--k", "4"]),
            ("--peer", ["bench", *SMALL, "--peer", "mkl"]), ("--fail-above", ["bench", *SMALL, "--fail-above", "-3"]), ("--budget", ["bench", *SMALL, "--budget", "0"]),
            ("--timeout", ["bench", *SMALL, "--timeout", "soon"]), ("--csv", ["bench", *SMALL, "--csv", "--json"]), ("--load", ["bench", "--load", "x.json"]),
            ("defragment", ["cache", "defragment"]), ("multiplied", [*run, "--dtype-b", "f64"]), ("gate", [*run, "--gate", "split"]),
        ]:
            self.refused(2, word, *arguments)

    def test_no_device(self):
        self.refused(3, "/no/libcuda.so", "run", "--m", "4", "--n", "4", "--k", "4", "--backend", "cuda", CARAT_CUDA_PATH="/no/libcuda.so")

    def test_files(self):
        broken, list_file, folder = self.dir / "broken.npy", self.dir / "shapes.txt", self.dir / "folder"
        broken.write_bytes(b"\x93NUMPY\x01\x00")
        list_file.write_text("# a comment\n4 4 4\n4 4\n")
        folder.mkdir()
        good = bench_file(self.dir / "good.json", (1, 10, 9, 11))
        other = self.dir / "other.json"
        other.write_text('{"schema": "carat.run/1"}')
        text = self.dir / "text.json"
        text.write_text("no JSON")
        absent = str(self.dir / "absent")
        for word, arguments in [
            (absent, ["run", "--a", absent + ".npy", "--b", absent + ".npy"]), ("broken.npy", ["run", "--a", str(broken), "--n", "4"]),
            ("shapes.txt line 3", ["bench", "--shapes", str(list_file)]), (absent, ["bench", "--shapes", absent]),
            ("other.json", ["bench", *SMALL, "--compare", str(other)]), ("text.json", ["bench", *SMALL, "--compare", str(text)]),
            (absent, ["bench", *SMALL, "--compare", absent]), ("folder", ["bench", *SMALL, "-o", str(folder)]), ("nowhere", ["bench", *SMALL, "-o", str(self.dir / "nowhere" / "x.json")]),
            ("absent", ["bench", "--load", absent, "--compare", good]), ("nowhere", ["run", *SMALL, "--out", str(self.dir / "nowhere" / "y.npy")]),
        ]:
            self.refused(6, word, *arguments)
        self.refused(2, "--a", "run", "--a", "x.txt", "--n", "4")
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([CARAT, "list"], stdout=full, stderr=subprocess.PIPE, text=True, env=environment())
        self.assertEqual((done.returncode, done.stderr.count("\n")), (6, 1), done.stderr)

    def test_mismatched_files(self):
        a, b, bias = self.dir / "a.npy", self.dir / "b.npy", self.dir / "bias.npy"
        write_npy(a, [0.0] * 12, (3, 4))
        write_npy(b, [0.0] * 10, (2, 5))
        write_npy(bias, [0.0] * 7, (7,))
        done = carat("run", "--a", a, "--b", b, expect=2)
        for word in ("a.npy", "(3, 4)", "b.npy", "(2, 5)", "K = 4", "K = 5"):
            self.assertIn(word, done.stderr)
        self.refused(2, "--m", "run", "--a", a, "--m", "4", "--n", "2")
        self.refused(2, "bias.npy", "run", "--a", a, "--n", "2", "--bias", bias, "--backend", "cpu")
        self.refused(2, "a.npy", "run", *SMALL, "--c", a)

    def test_a_model_that_is_none(self):
        self.refused(2, "no-such-model", "models", "no-such-model")
        config = self.dir / "config.json"
        config.write_text('{"model_type": "llama", "num_hidden_layers": 2}')
        self.assertIn("hidden_size", carat("bench", "--model", config, "--backend", "cpu", expect=2).stderr)


class Schemas(Case):
    def test_list(self):
        data = carat_json("list")
        self.assertEqual(data["schema"], "carat.list/1")
        self.has(data, {"version": TEXT, "rows": list, "targets": list, "env": list, "statuses": list, "dtypes": list, "exit_codes": list})
        for row in data["rows"]:
            self.has(row, {"name": TEXT, "summary": TEXT, "source": TEXT, "backend": TEXT, "supports": list, "typical": dict})
            self.has(row["typical"], {"problem": TEXT, "compute_capability": MAYBE_TEXT, "configurations": list}, exactly=True)
            self.assertNotIn(row["typical"]["configurations"], ([], None))
            self.assertEqual(row["typical"]["compute_capability"] is None, row["backend"] == "cpu")
        for row in data["exit_codes"]:
            self.has(row, {"code": int, "name": TEXT, "meaning": TEXT}, exactly=True)
        self.assertEqual([row["code"] for row in data["exit_codes"]], [0, 1, 2, 3, 4, 5, 6, 7, 130])
        table = carat("list").stdout
        for row in data["rows"] + data["env"] + data["statuses"]:
            self.assertIn(row["name"], table)

    def test_doctor(self):
        data = carat_json("doctor")
        self.assertEqual(data["schema"], "carat.doctor/1")
        self.has(data, {"version": TEXT, "ok": FLAG, "checks": list, "gpus": list, "cpu": dict, "cache": dict, "environment": list})
        for check in data["checks"]:
            self.has(check, {"name": TEXT, "state": TEXT, "value": TEXT, "fix": MAYBE_TEXT})
            self.assertIn(check["state"], ("ok", "warn", "missing"))
        table = carat("doctor", CARAT_CUDA_PATH="/no/libcuda.so").stdout
        self.assertIn("CPU", table)
        self.assertIn("CARAT_CUDA_PATH", table)

    def test_models(self):
        data = carat_json("models")
        self.assertEqual(data["schema"], "carat.models/1")
        self.assertGreaterEqual(len(data["models"]), 6)
        model = carat_json("models", "llama-3.1-8b", "--tokens", 16, "--tp", 2)
        self.has(model, {"schema": TEXT, "model": TEXT, "tokens": int, "tp": int, "layers": int, "gemms": list})
        for gemm in model["gemms"]:
            self.has(gemm, {"name": TEXT, "m": int, "n": int, "k": int, "count": int})
        self.assertIn("lm_head", carat("models", "llama-3.1-8b").stdout)

    def test_cache(self):
        place = self.dir / "cache"
        place.mkdir(mode=0o700)
        for command in ("stats", "verify", "prune", "clear", "path"):
            data = carat_json("cache", command, "--cache-dir", place)
            self.assertEqual((data["schema"], data["command"]), ("carat.cache/1", command))
            self.has(data, {"path": MAYBE_TEXT, "entries": int, "bytes": int, "limit_bytes": int})
        self.assertIn(str(place), carat("cache", "path", "--cache-dir", place).stdout)

    def test_explain(self):
        data = carat_json("explain", *SMALL)
        self.assertEqual(data["schema"], "carat.explain/1")
        self.has(data, {"problem": TEXT, "target": TEXT, "rows": list, "chosen": dict, "floor": dict})
        self.has(data["chosen"], {"kernel": TEXT, "row": TEXT, "predicted_us": NUMBER, "bound": TEXT, "workspace_bytes": int})
        for row in data["rows"]:
            self.assertTrue(row["refusal"] or row["candidates"], row)
            self.assertEqual(row["ruled_out"], [])
        planned = carat_json("explain", "--m", 64, "--n", 512, "--k", 512, "--target", "h200")
        self.assertEqual(planned["target"], "h200")
        self.assertIn(planned["chosen"]["kernel"], carat("explain", "--m", 64, "--n", 512, "--k", 512, "--target", "h200").stdout)

    def test_numerics(self):
        data = carat_json("explain", *SMALL, "--numerics", "batch_invariant")
        self.assertEqual(data["numerics"], "batch_invariant")
        self.assertIn("batch_invariant", data["problem"])
        offering = [row["row"] for row in data["rows"] if row["candidates"]]
        self.assertEqual(offering, [data["chosen"]["row"]])
        self.assertIn(f"all batch-invariant results come from {offering[0]}", [row["refusal"] for row in data["rows"]])
        self.assertEqual(carat_json("explain", *SMALL)["numerics"], "deterministic")
        self.assertTrue(carat_json("run", *SMALL, "--numerics", "batch-invariant", "--check")["check"]["ok"])

    def test_run(self):
        data = carat_json("run", *SMALL, "--check", "--bias", "n", "--activation", "silu", "--beta", "0.5")
        self.assertEqual(data["schema"], "carat.run/1")
        self.has(data, {"env": dict, **KEYS, "backend": TEXT, "kernel": TEXT, "us": NUMBER, "tflops": NUMBER, "gbps": NUMBER, "floor_us": NUMBER,
                        "predicted_us": NUMBER, "check": dict, "out": MAYBE_TEXT})
        self.has(data["check"], FULL_CHECK, exactly=True)
        self.assertEqual((data["backend"], data["check"]["ok"], data["check"]["full"], data["check"]["entries"]), ("cpu", True, True, 35))
        self.assertIsNone(carat_json("run", *SMALL)["check"])

    def test_bench(self):
        data = carat_json("bench", "--m", "3,5", "--n", 7, "--k", 9, "--dtype", "bf16", "--backend", "cpu", "--budget", 0.1, "--peer", "cublaslt")
        self.assertEqual(data["schema"], "carat.bench/1")
        self.has(data["env"], {"carat": TEXT, "backend": TEXT, "device": TEXT, "threads": int, "date": TEXT, "command": TEXT, "l2": TEXT, "nvrtc": MAYBE_TEXT,
                               "driver": MAYBE_TEXT, "device_before": dict, "device_after": dict, "peers": dict})
        self.assertIn("CPU", data["env"]["peers"]["cublaslt"]["left_out"])
        self.assertTrue(data["env"]["command"].startswith("carat bench --m 3,5"))
        self.assertEqual([result["m"] for result in data["results"]], [3, 5])
        for result in data["results"]:
            self.has(result, RESULT, exactly=True)
            self.has(result["check"], CHECK, exactly=True)
            self.assertLessEqual(result["p05_us"], result["us"])
            self.assertLessEqual(result["us"], result["p95_us"])
            self.assertTrue(result["check"]["ok"])
        self.assertIsNone(carat_json("bench", *SMALL, "--budget", 0.1, "--no-check")["results"][0]["check"])


class Runs(Case):
    def test_every_type_and_feature(self):
        for flags in (["--dtype", "f64"], ["--dtype", "f16"], ["--dtype", "bf16", "--layout", "tn"], ["--dtype", "s8"], ["--dtype", "e4m3", "--recipe", "tensorwise"],
                      ["--dtype", "e5m2", "--recipe", "1x128,128x128", "--dtype-d", "f32"], ["--dtype", "bf16", "--dtype-b", "s4", "--recipe", "groupwise:4:zero"],
                      ["--batch", "3", "--beta", "2"], ["--groups", "2"], ["--clamp", "-1,1", "--bias", "m"], ["--n", "8", "--gate", "split", "--activation", "silu", "--beta", "2"],
                      ["--dtype-d", "e4m3", "--out-scale", "1x128", "--amax"], ["--d-order", "col", "--alpha", "-0.5"], ["--compute", "tf32"], ["--m", "0"], ["--k", "0"]):
            with self.subTest(flags=flags):
                given = SMALL if not {"--n", "--m", "--k"} & set(flags) else [x for pair in zip(SMALL[::2], SMALL[1::2]) if pair[0] not in flags for x in pair]
                self.assertTrue(carat_json("run", *given, *flags, "--check")["check"]["ok"])

    def test_files_round_trip(self):
        a = [math.sin(i) for i in range(2 * 3 * 4)]
        b = [math.cos(i) for i in range(5 * 4)]
        bias, c = [0.5 * i for i in range(5)], [float(i) for i in range(6 * 5)]
        write_npy(self.dir / "a.npy", a, (2, 3, 4))
        write_safetensors(self.dir / "w.safetensors", "up.weight", b, (5, 4))
        write_npy(self.dir / "bias.npy", bias, (5,))
        write_npy(self.dir / "c.npy", c, (6, 5))
        data = carat_json("run", "--a", self.dir / "a.npy", "--b", f"{self.dir}/w.safetensors:up.weight", "--bias", self.dir / "bias.npy", "--c", self.dir / "c.npy",
                          "--beta", "2", "--out", self.dir / "y.npy", "--check", "--backend", "cpu")
        self.assertEqual((data["m"], data["n"], data["k"], data["dtype"]), (6, 5, 4, "f32"))
        shape, y = read_npy(self.dir / "y.npy")
        self.assertEqual(shape, (2, 3, 5))
        for i in range(6):
            for j in range(5):
                want = sum(a[i * 4 + t] * b[j * 4 + t] for t in range(4)) + bias[j] + 2 * c[i * 5 + j]
                self.assertAlmostEqual(y[i * 5 + j], want, delta=1e-4)
        carat("run", "--a", self.dir / "a.npy", "--b", f"{self.dir}/w.safetensors:up.weight", "--dtype", "f64", "--out", f"{self.dir}/z.safetensors:z", "--backend", "cpu", "--check")
        again = carat_json("run", "--a", f"{self.dir}/z.safetensors:z", "--n", 3, "--backend", "cpu")
        self.assertEqual((again["m"], again["k"], again["dtype"]), (6, 5, "f64"))

    def test_bench_sources(self):
        shapes = self.dir / "shapes.txt"
        shapes.write_text("# m n k dtype layout\n3 4 5\n\n6 7 8 bf16 nn # second\n")
        results = carat_json("bench", "--shapes", shapes, "--backend", "cpu", "--budget", 0.05)["results"]
        self.assertEqual([(r["m"], r["dtype"], r["layout"]) for r in results], [(3, "f32", "nt"), (6, "bf16", "nn")])
        config = self.dir / "config.json"
        config.write_text(json.dumps({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64,
                                      "num_hidden_layers": 2, "vocab_size": 96}))
        results = carat_json("bench", "--model", config, "--tokens", "1,2", "--backend", "cpu", "--budget", 0.05)["results"]
        self.assertEqual({r["m"] for r in results}, {1, 2})
        demo = carat_json("demo", "--model", config, "--tokens", "3", "--backend", "cpu")
        self.assertEqual(demo["schema"], "carat.demo/1")
        self.assertTrue(demo["results"] and all(r["check"]["ok"] for r in demo["results"]))
        self.assertEqual(carat("bench", *SMALL, "--budget", 0.05, "--csv").stdout.splitlines()[0].split(",")[:3], ["m", "n", "k"])
        sweep = carat_json("bench", "--m", "1:4:x2,7", "--n", "2:6:2", "--k", 3, "--backend", "cpu", "--budget", 0.01)["results"]
        self.assertEqual(sorted({r["m"] for r in sweep}), [1, 2, 4, 7])
        self.assertEqual(len(sweep), 12)


class FakeGpu(Case):
    """What only a GPU shows: its kernels are compiled and launched, and none of them computes anything."""

    def setUp(self):
        super().setUp()
        if not FAKE_CUDA:
            self.skipTest("built without the tests of src/cuda")
        cache = self.dir / "cache"
        cache.mkdir(mode=0o700)
        self.gpu = {"CARAT_CUDA_PATH": FAKE_CUDA, "CARAT_CACHE_DIR": str(cache), "FAKE_CUDA_ANY_CODE": "1", "CARAT_CUBLASLT_PATH": "/no/libcublasLt.so"}
        self.problem = ["--m", 64, "--n", 256, "--k", 256]


    def test_compile_failures(self):
        for setting in ({"CARAT_JIT": "never"}, {"CARAT_NVRTC_PATH": "/no/libnvrtc.so"}):
            done = carat("run", *self.problem, expect=5, **self.gpu, **setting)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)

    def test_wrong_results(self):
        self.needs_nvrtc()
        out = self.dir / "y.npy"
        done = carat("run", *self.problem, "--check", "--json", "--out", out, expect=4, **self.gpu)
        self.assertIs(json.loads(done.stdout)["check"]["ok"], False)
        self.assertIn("is wrong: entry (", done.stderr)
        self.assertFalse(out.exists())
        done = carat("bench", *self.problem, "--budget", 0.05, "--json", expect=4, **self.gpu)
        self.assertIs(json.loads(done.stdout)["results"][0]["check"]["ok"], False)

    def test_bench_of_a_gpu(self):
        self.needs_nvrtc()
        done = carat("bench", *self.problem, "--budget", 0.05, "--no-check", "--peer", "cublaslt", "--json", **self.gpu)
        data = json.loads(done.stdout)
        self.assertEqual((data["env"]["backend"], data["env"]["device"]), ("cuda", "NVIDIA H200"))
        self.assertIn("/no/libcublasLt.so", data["env"]["peers"]["cublaslt"]["left_out"])
        self.assertIn("/no/libcublasLt.so", done.stderr)
        self.has(data["results"][0], RESULT, exactly=True)
        self.assertTrue(data["results"][0]["kernel"].startswith("v"))

    def test_explain_compiles_on_request(self):
        self.needs_nvrtc()
        flags = ["explain", *self.problem, "--kernel", "v2_registers", "--compile"]
        plan = json.loads(carat(*flags, "--json", **self.gpu).stdout)["plan"]
        self.assertEqual((plan["schema"], plan["spill_bytes"], plan["warnings"], plan["refused"]), ("carat.plan/1", 0, None, []))
        self.assertIn(f"Planned {plan['kernel']}: {plan['registers']} registers, 0 bytes spilled", carat(*flags, **self.gpu).stdout)

    def test_every_candidate_of_a_row(self):
        self.needs_nvrtc()
        flags = ["bench", *self.problem, "--kernel", "v2_registers", "--all-candidates", "--budget", 0.05]
        data = json.loads(carat(*flags, "--no-check", "--json", **self.gpu).stdout)
        self.assertNotIn("skipped", data)
        for result in data["results"]:
            self.has({key: value for key, value in result.items() if key != "chosen"}, RESULT, exactly=True)
        explained = json.loads(carat("explain", *self.problem, "--kernel", "v2_registers", "--json", **self.gpu).stdout)
        candidates = [c["kernel"] for row in explained["rows"] if row["row"] == "v2_registers" for c in row["candidates"]]
        self.assertEqual(sorted(result["kernel"] for result in data["results"]), sorted(candidates))
        self.assertEqual([result["kernel"] for result in data["results"] if result["chosen"]], [explained["chosen"]["kernel"]])
        predicted = [result["predicted_us"] for result in data["results"]]
        self.assertEqual(predicted, sorted(predicted))
        self.assertIn("(chosen)", carat(*flags, "--no-check", **self.gpu).stdout)
        self.assertIn("is wrong", carat(*flags, expect=4, **self.gpu).stderr)  # nothing is computed here

    def test_candidates_that_cannot_be_compiled_are_skipped_with_the_reason(self):
        self.needs_nvrtc()
        sources = self.dir / "kernels"
        shutil.copytree(ROOT / "kernels", sources)
        page = sources / "ladder" / "v2_registers.cuh"
        page.write_text(page.read_text().replace("    static_assert(Config::kGate", "    static_assert(Config::kBM != 128 && Config::kGate", 1))
        flags = ["bench", *self.problem, "--kernel", "v2_registers", "--all-candidates", "--budget", 0.05, "--no-check", "--json"]
        data = json.loads(carat(*flags, **self.gpu, CARAT_KERNEL_DIR=str(sources)).stdout)
        self.assertEqual([("128x" in r["kernel"], r["chosen"]) for r in data["results"]], [(False, True)])
        self.assertEqual(["128x" in s["kernel"] for s in data["skipped"]], [True])
        self.assertIn("did not compile", data["skipped"][0]["reason"])

    def test_a_sweep_goes_on_after_a_problem_that_no_kernel_takes(self):
        self.needs_nvrtc()
        shapes = self.dir / "shapes.txt"
        shapes.write_text("64 64 64 s8\n64 64 64 f32\n")
        done = carat("bench", "--shapes", shapes, "--budget", 0.05, "--no-check", "--json", expect=3, **self.gpu)
        data = json.loads(done.stdout)
        self.assertEqual([r["dtype"] for r in data["results"]], ["f32"])
        self.assertIn("s8", data["skipped"][0]["reason"])
        self.assertEqual(done.stderr.count("\n"), 1)


class Compare(Case):
    OLD = [(1, 100, 99, 101), (2, 100, 99, 101), (3, 100, 99, 101), (4, 100, 99, 101), (5, 100, 99, 101)]
    NEW = [(1, 102, 101, 103), (2, 110, 108, 112), (3, 110, 95, 125), (4, 80, 79, 81), (6, 5, 4, 6)]

    def compare(self, new, expect, *flags, device="a machine"):
        old_file, new_file = bench_file(self.dir / "old.json", *self.OLD), bench_file(self.dir / "new.json", *new, device=device)
        return carat("bench", "--load", new_file, "--compare", old_file, *flags, "--json", expect=expect)

    def test_verdicts(self):
        done = self.compare(self.NEW, 1)
        changes = json.loads(done.stdout)["compare"]["changes"]
        self.assertEqual([change["verdict"] for change in changes], ["same", "slower", "noise", "faster", "added", "gone"])
        self.assertAlmostEqual(changes[1]["percent"], 10)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("--fail-above 3%", done.stderr)

    def test_limits(self):
        self.compare(self.NEW, 0, "--fail-above", "15%")
        self.compare(self.NEW[:1], 0)
        self.compare(self.NEW[:1], 1, "--fail-above", "1")

    def test_another_device_is_said(self):
        self.assertIn("another machine", self.compare(self.NEW[:1], 0, device="another machine").stderr)

    def test_same_run_twice(self):
        first = self.dir / "first.json"
        carat("bench", *SMALL, "--budget", 0.1, "-o", first, "-q")
        self.assertEqual(json.loads(first.read_text())["schema"], "carat.bench/1")
        data = carat_json("bench", *SMALL, "--budget", 0.1, "--compare", first, "--fail-above", "100000%")
        self.assertEqual(len(data["compare"]["changes"]), 1)
        self.assertNotIn(data["compare"]["changes"][0]["verdict"], ("added", "gone"))


def on_terminal(*arguments, **more):
    """What a command writes when stdout and stderr are a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([CARAT, *arguments], stdout=follower, stderr=follower, stdin=subprocess.DEVNULL, env=environment(**more))
    os.close(follower)
    text = b""
    while True:
        try:
            block = os.read(leader, 65536)
        except OSError:
            break
        if not block:
            break
        text += block
    os.close(leader)
    process.wait()
    return text.decode()


class Terminal(Case):
    def test_colours(self):
        escape = "\x1b["
        self.assertNotIn(escape, carat("list", "--exit-codes").stdout)
        self.assertIn(escape, carat("list", "--exit-codes", "--color", "always").stdout)
        self.assertIn(escape, on_terminal("list", "--exit-codes"))
        self.assertNotIn(escape, on_terminal("list", "--exit-codes", NO_COLOR="1"))
        self.assertNotIn(escape, on_terminal("list", "--exit-codes", "--color", "never"))
        self.assertNotIn(escape, on_terminal("list", "--exit-codes", TERM="dumb"))
        self.assertNotIn(escape, on_terminal("list", "--exit-codes", "--json"))

    def test_progress_on_a_terminal_only(self):
        flags = ["bench", "--m", "3,4", "--n", "3", "--k", "3", "--backend", "cpu", "--budget", "0.05"]
        self.assertIn("[2/2]", on_terminal(*flags))
        self.assertNotIn("[2/2]", on_terminal(*flags, "--quiet"))
        self.assertEqual(carat(*flags).stderr, "")

    def test_help_and_version(self):
        self.assertRegex(carat("--version").stdout, r"^carat \d+\.\d+\.\d+ \(")
        text = carat("--help").stdout
        for word in ("doctor", "run", "bench", "list", "explain", "models", "cache", "demo", "130"):
            self.assertIn(word, text)
        for word in ("run", "bench", "explain"):
            self.assertIn("--layout", carat(word, "--help").stdout)

    def test_quiet(self):
        self.assertEqual(carat("run", *SMALL, "--quiet").stdout, "")


class Stopping(Case):
    MANY = ["bench", "--m", "1:1000:1", "--n", "64", "--k", "64", "--backend", "cpu", "--budget", "0.1"]

    def test_interrupt_saves_what_is_done(self):
        out = self.dir / "out.json"
        process = subprocess.Popen([CARAT, *self.MANY, "-o", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(errors.count("\n"), 1, errors)
        done = len(json.loads(out.read_text())["results"])
        self.assertGreater(done, 0)
        self.assertLess(done, 1000)
        self.assertIn(f"{done} of 1000", errors)
        self.assertEqual([path.name for path in self.dir.iterdir()], ["out.json"])

    def test_timeout_saves_what_is_done(self):
        done = carat(*self.MANY, "--timeout", "5", "--json", expect=7)
        self.assertGreater(len(json.loads(done.stdout)["results"]), 0)
        self.assertIn("--timeout", done.stderr)

    def test_a_failed_run_leaves_the_old_file(self):
        out = self.dir / "out.json"
        out.write_text("old")
        carat("bench", "--m", "4", "--n", "4", "--k", "4", "--kernel", "no_such_kernel", "--backend", "cpu", "-q", expect=2)
        carat("run", *SMALL, "--kernel", "no_such_kernel", "-o", out, expect=2)
        self.assertEqual(out.read_text(), "old")
        self.assertEqual([path.name for path in self.dir.iterdir()], ["out.json"])


if __name__ == "__main__":
    CARAT = os.path.abspath(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].endswith(".so"):
        FAKE_CUDA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
