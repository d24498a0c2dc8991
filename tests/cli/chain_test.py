#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chain_test.py CARAT [FAKE_CUDA FAKE_CUTLASS]: `carat bench --chain`: which flags go together, the JSON field by field, which products
read which results, models with experts, chains of peers and what leaves them out, interruption. On the CPU backend, and on a CUDA
driver that runs no kernel, with stand-ins for the peers, so it is the same with and without a GPU."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
CARAT = FAKE_CUDA = FAKE_CUTLASS = ""
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "num_hidden_layers": 3, "vocab_size": 96}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
QWEN3_MOE = {**LLAMA, "model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "mlp_only_layers": [0, 2]}
GEMM = ["name", "m", "n", "k", "batch", "groups", "dtype", "layout", "recipe", "epilogue", "input", "kernel", "floor_us", "predicted_us", "check"]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.config = self.model(LLAMA)

    def model(self, config):
        path = self.dir / f"{config['model_type']}.json"
        path.write_text(json.dumps(config))
        return path

    def carat(self, *arguments, expect=0, **more):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("CARAT_", "FAKE_"))}
        done = subprocess.run([CARAT, *map(str, arguments)], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                              env={**env, "PYTHONPATH": str(HERE / "fake_deepgemm"), **more})
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout[-500:])
        return done

    def chain(self, *flags, tokens="3", config=None, **more):
        return self.carat("bench", "--model", config or self.config, "--tokens", tokens, "--chain", "--budget", "0.02", *flags, **more)

    def chains(self, *flags, **more):
        return json.loads(self.chain(*flags, "--json", **more).stdout)


class Flags(Case):
    def test_what_does_not_go_with_it(self):
        for flags, reason in ((["--csv"], "--csv"), (["--all-candidates"], "--all-candidates"), (["--compare", "x.json"], "--compare"), (["--load", "x.json"], "--load"),
                              (["--m", "3"], "one source of problems"), (["--peer", "mkl"], "it takes cublaslt"), (["--tokens", "0"], "tokens")):
            done = self.chain(*flags, "--backend", "cpu", expect=2)
            self.assertIn(reason, done.stderr)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))
        for source in (["--m", "3", "--n", "4", "--k", "5"], ["--shapes", "x.txt"], ["--replay", "x.jsonl"], []):
            self.assertIn("give --model NAME", self.carat("bench", *source, "--chain", "--backend", "cpu", expect=2).stderr)


class Cpu(Case):
    def test_json(self):
        data = self.chains("--backend", "cpu", "--peer", "cublaslt", tokens="1,3")
        self.assertEqual((data["schema"], list(data)), ("carat.bench_chain/1", ["schema", "env", "chains"]))
        self.assertIn("CPU", data["env"]["peers"]["cublaslt"]["left_out"])
        self.assertEqual([(one["model"], one["tokens"]) for one in data["chains"]], [("llama", 1), ("llama", 3)])
        for one in data["chains"]:
            self.assertEqual(list(one), ["model", "tokens", "layers", "us", "p05_us", "p95_us", "floor_us", "of_floor", "ratio", "peers", "gemms"])
            self.assertGreaterEqual(one["layers"], 2)
            self.assertLessEqual(one["p05_us"], one["us"])
            self.assertLessEqual(one["us"], one["p95_us"])
            self.assertIsNone(one["ratio"])
            self.assertEqual(one["peers"]["cublaslt"]["us"], None)
            self.assertIn("CPU", one["peers"]["cublaslt"]["choice"])
            self.assertEqual([(gemm["name"], gemm["m"], gemm["n"], gemm["k"], gemm["input"]) for gemm in one["gemms"]],
                             [("qkv_proj", one["tokens"], 128, 64, "down_proj"), ("o_proj", one["tokens"], 64, 64, None),
                              ("gate_up_proj", one["tokens"], 256, 64, "o_proj"), ("down_proj", one["tokens"], 64, 128, None)])
            for gemm in one["gemms"]:
                self.assertEqual((list(gemm), gemm["check"]["ok"]), (GEMM, True))
            self.assertEqual(one["floor_us"], None if gemm["floor_us"] is None else sum(gemm["floor_us"] for gemm in one["gemms"]))

    def test_table(self):
        text = self.chain("--backend", "cpu", "--peer", "cublaslt", tokens="1,3").stdout
        self.assertIn("One decoder layer of llama, as a chain", text)
        for title in ("us a layer", "sum of floors", "cuBLASLt us", "ratio", "reads the result of"):
            self.assertIn(title, text)
        self.assertRegex(text, r"gate_up_proj, 3 x 256 x 64 f32 nt +\S+ +o_proj ")
        self.assertIn("not checked", self.chain("--backend", "cpu", "--no-check").stdout)
        self.assertEqual(self.chain("--backend", "cpu", "--quiet").stdout, "")

    def test_types_and_features_are_of_every_product(self):
        for flags, inputs in ((["--dtype", "bf16", "--numerics", "batch_invariant"], ["down_proj", None, "o_proj", None]),
                              (["--dtype", "e4m3", "--dtype-d", "bf16"], [None] * 4), (["--layout", "tn"], [None] * 4),
                              (["--gate", "split", "--activation", "silu"], [None, "qkv_proj", None, "gate_up_proj"]),
                              (["--bias", "n", "--beta", "0.5"], ["down_proj", None, "o_proj", None])):
            with self.subTest(flags=flags):
                (one,) = self.chains("--backend", "cpu", *flags)["chains"]
                self.assertEqual([gemm["input"] for gemm in one["gemms"]], inputs)
                self.assertTrue(all(gemm["check"]["ok"] for gemm in one["gemms"]))

    def test_a_layer_with_experts(self):
        names = ["qkv_proj", "o_proj", "router", "experts.gate_up_proj", "experts.down_proj"]
        for config in (MIXTRAL, QWEN3_MOE):
            (one,) = self.chains("--backend", "cpu", config=self.model(config))["chains"]
            self.assertEqual([gemm["name"] for gemm in one["gemms"]], names)
            self.assertEqual([gemm["groups"] for gemm in one["gemms"]], [None, None, None, 4, 4])
            self.assertEqual([gemm["input"] for gemm in one["gemms"]], [None, None, "o_proj", None, None])
            self.assertTrue(all(gemm["check"]["ok"] for gemm in one["gemms"]))

    def test_tensor_parallel(self):
        (one,) = self.chains("--backend", "cpu", "--tp", "2")["chains"]
        self.assertEqual([(gemm["n"], gemm["k"]) for gemm in one["gemms"]], [(64, 64), (64, 32), (128, 64), (64, 64)])

    def test_a_chain_that_no_kernel_takes_is_skipped(self):
        done = self.chain("--backend", "cpu", "--kernel", "v0_naive", "--json", expect=3)
        data = json.loads(done.stdout)
        self.assertEqual((data["chains"], len(data["skipped"]), done.stderr.count("\n")), ([], 1, 1))
        self.assertEqual((data["skipped"][0]["model"], data["skipped"][0]["tokens"]), ("llama", 3))
        self.assertIn(data["skipped"][0]["reason"], done.stderr)

    def test_a_timeout_saves_what_is_done(self):
        out = self.dir / "out.json"
        done = self.chain("--backend", "cpu", "--timeout", "5", "-o", out, tokens="1:300:1", expect=7)
        count = len(json.loads(out.read_text())["chains"])
        self.assertIn(f"{count} of 300 chains", done.stderr)
        self.assertLess(count, 300)


class FakeGpu(Case):
    """Kernels are compiled and launched, and none of them computes anything."""

    def setUp(self):
        super().setUp()
        if not FAKE_CUTLASS:
            self.skipTest("built without the tests of src/cuda")
        cache = self.dir / "cache"
        cache.mkdir(mode=0o700)
        self.gpu = {"CARAT_CUDA_PATH": FAKE_CUDA, "CARAT_CACHE_DIR": str(cache), "FAKE_CUDA_ANY_CODE": "1", "CARAT_CUBLASLT_PATH": "/no/libcublasLt.so",
                    "CARAT_CUTLASS_PLUGIN": FAKE_CUTLASS, "CARAT_DEEPGEMM_PYTHON": sys.executable}
        checks = json.loads(self.carat("doctor", "--json", **self.gpu).stdout)["checks"]
        if next(check for check in checks if check["name"] == "NVRTC")["state"] != "ok":
            self.skipTest("there is no NVRTC here")

    def test_chains_of_peers(self):
        data = self.chains("--dtype", "bf16", "--no-check", "--peer", "cublaslt,cutlass,deepgemm", **self.gpu)
        (one,) = data["chains"]
        self.assertEqual(one["layers"], 1024)
        peers = one["peers"]
        self.assertRegex(peers["cutlass"]["choice"], "; ".join(rf"{gemm['name']}: one swizzle [124] \(best of 6\)" for gemm in one["gemms"]))
        self.assertGreater(peers["cutlass"]["us"], 0)
        self.assertAlmostEqual(one["ratio"], peers["cutlass"]["us"] / one["us"])
        self.assertAlmostEqual(one["of_floor"], sum(gemm["floor_us"] for gemm in one["gemms"]) / one["us"])
        self.assertEqual((peers["cublaslt"]["us"], peers["deepgemm"]["us"]), (None, None))
        self.assertIn("/no/libcublasLt.so", peers["cublaslt"]["choice"])
        self.assertIn("DeepGEMM runs in a process of its own", peers["deepgemm"]["choice"])

    def test_a_peer_that_lacks_a_product_is_left_out(self):
        (one,) = self.chains("--dtype", "bf16", "--no-check", "--peer", "cutlass", "--bias", "n", **self.gpu)["chains"]
        self.assertEqual((one["peers"]["cutlass"]["us"], one["ratio"]), (None, None))
        self.assertRegex(one["peers"]["cutlass"]["choice"], "^qkv_proj: CUTLASS is timed without scales and epilogue only")
        self.assertGreater(one["us"], 0)

    def test_wrong_results(self):
        done = self.chain("--dtype", "bf16", "--json", "--peer", "cutlass", expect=4, **self.gpu)
        (one,) = json.loads(done.stdout)["chains"]
        self.assertIs(one["gemms"][0]["check"]["ok"], False)
        self.assertRegex(one["peers"]["cutlass"]["choice"], "^qkv_proj: its result differs from the reference")
        self.assertRegex(done.stderr, r"^carat: the result of qkv_proj, 3 x 128 x 64 bf16 nt is wrong: entry \(")


if __name__ == "__main__":
    CARAT, FAKE_CUDA, FAKE_CUTLASS = (sys.argv[1:] + ["", ""])[:3]
    unittest.main(argv=sys.argv[:1], verbosity=1)
