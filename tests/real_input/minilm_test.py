#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""minilm_test.py CARAT: runs every linear layer of all-MiniLM-L6-v2 on real sentences through `carat run`, on the CPU and,
where there is a GPU, on the GPU; compares each result with an f64 product within the bound that docs/numerics.md states;
and at the end compares the meaning of the sentences."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import minilm

SENTENCES = ["A man is eating food.", "Someone is having a meal.", "The spectral norm bounds the error of matrix products.",
             "Caf\u00e9 owners reopened on Tuesday, despite unbelievably heavy rainfall!"]
UNIT = 2.0**-24  # unit round-off of f32
GELU_SLOPE = 1.13


def expect(condition, sentence):
    if not condition:
        raise SystemExit(f"FAILED: {sentence}")


def call(carat, *arguments):
    done = subprocess.run([carat, *arguments], capture_output=True, text=True, timeout=120)
    expect(done.returncode == 0, f"carat {' '.join(arguments)} exited with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Bounded:
    """The f64 value of every entry, and how far a correct f32 result may stray from it (docs/numerics.md)."""

    def __init__(self, x, weight, bias, gelu):
        x, weight, bias = np.float64(x), np.float64(weight), np.float64(bias)
        depth = x.shape[1]
        self.value = x @ weight.T + bias
        absolute = np.abs(x) @ np.abs(weight).T
        self.magnitude = absolute + np.abs(bias)
        grown = np.empty_like(self.value)  # sum of |partial sum| over k
        for i, row in enumerate(x):
            grown[i] = np.abs(np.cumsum(row * weight, axis=1)).sum(axis=1)
        tiny = (depth + 8) * 2.0**-149
        self.error = np.maximum(4 * np.sqrt(depth) * UNIT * absolute, 2 * UNIT * grown) + 8 * UNIT * self.magnitude + 2 * tiny
        if gelu:
            self.error = GELU_SLOPE * self.error + 8 * UNIT * np.abs(self.value)
            self.value = minilm.gelu(self.value)

    def tolerance(self):
        """With the one rounding of the result to f32."""
        low, high = np.float32(self.value - self.error), np.float32(self.value + self.error)
        return np.maximum(np.abs(high - self.value), np.abs(low - self.value))


def compare(name, y, want, check):
    """y against the f64 product, and the program's own figures against ours."""
    expect(y.dtype == np.float32 and y.shape == want.value.shape, f"{name}: got {y.dtype} {y.shape}")
    off, allowed = np.abs(np.float64(y) - want.value), want.tolerance()
    worst = np.unravel_index(np.argmax(off / allowed), off.shape)
    expect(np.all(off <= allowed), f"{name}: entry {worst} is {y[worst]}, the f64 product {want.value[worst]}, "
                                   f"{off[worst] / allowed[worst]:.2f} of the bound")
    expect(check["ok"] and check["full"] and check["entries"] == y.size, f"{name}: --check says {check}")
    expect(check["error"] <= check["bound"], f"{name}: error {check['error']} above bound {check['bound']}")
    # --check reports the entry that came nearest to its bound; with ours it is the same one up to rounding in f64.
    error, bound = off[worst] / want.magnitude[worst], allowed[worst] / want.magnitude[worst]
    expect(abs(check["error"] - error) <= 1e-3 * error, f"{name}: --check says error {check['error']}, numpy {error}")
    expect(abs(check["bound"] - bound) <= 1e-2 * bound, f"{name}: --check says bound {check['bound']}, numpy {bound}")
    return off[worst] / allowed[worst]


class Runner:
    def __init__(self, carat, backend, model, weights, scratch):
        self.carat, self.backend, self.model, self.weights, self.scratch = carat, backend, model, weights, scratch
        self.worst, self.runs = 0.0, 0

    def linear(self, x, layer, gelu=False):
        """activation(x W^T + b) by carat, checked."""
        x = np.float32(x)
        source, result = self.scratch / "x.npy", self.scratch / "y.npy"
        np.save(source, x)
        result.unlink(missing_ok=True)
        out = call(self.carat, "run", "--backend", self.backend, "--a", str(source), "--b", f"{self.model}:{layer}.weight",
                   "--layout", "nt", "--bias", f"{self.model}:{layer}.bias", "--activation", "gelu_erf" if gelu else "none",
                   "--out", str(result), "--check", "--json")
        expect(out["backend"] == self.backend, f"{layer}: ran on {out['backend']}, not {self.backend}")
        weight, bias = self.weights[layer + ".weight"], self.weights[layer + ".bias"]
        expect((out["m"], out["n"], out["k"]) == (len(x), *weight.shape), f"{layer}: shape {out['m'], out['n'], out['k']}")
        y = np.load(result)
        share = compare(f"{layer} on {self.backend}", y, Bounded(x, weight, bias, gelu), out["check"])
        self.worst, self.runs = max(self.worst, share), self.runs + 1
        return y

    def encode(self, sentences, layers=6):
        x = minilm.embed(sentences, self.weights)
        for i in range(layers):
            at = f"encoder.layer.{i}."
            q, k, v = (self.linear(x, f"{at}attention.self.{part}") for part in ("query", "key", "value"))
            mixed = self.linear(minilm.attention(q, k, v, sentences), at + "attention.output.dense")
            x = minilm.layer_norm(np.float32(x) + np.float64(mixed), self.weights, at + "attention.output.LayerNorm")
            wide = self.linear(x, at + "intermediate.dense", gelu=True)
            narrow = self.linear(wide, at + "output.dense")
            x = minilm.layer_norm(np.float32(x) + np.float64(narrow), self.weights, at + "output.LayerNorm")
        return minilm.pool(x, sentences)


def main():
    carat = sys.argv[1]
    directory = minilm.model_directory()
    model = directory / "model.safetensors"
    weights = minilm.read_safetensors(model)
    vocabulary = minilm.read_vocabulary(directory / "vocab.txt")
    sentences = [minilm.tokenise(text, vocabulary) for text in SENTENCES]
    backends = ["cpu"] + (["cuda"] if call(carat, "doctor", "--json")["backend"] == "cuda" else [])
    with tempfile.TemporaryDirectory() as scratch:
        for backend in backends:
            runner = Runner(carat, backend, model, weights, pathlib.Path(scratch))
            vectors = runner.encode(sentences)
            alike = vectors @ vectors.T
            print(f"{backend}: {runner.runs} layers of {sum(map(len, sentences))} tokens agree with f64, at most "
                  f"{runner.worst:.2f} of the bound; likeness of the sentences:\n{np.round(alike, 3)}")
            expect(alike[0, 1] > 0.5, f"two sentences of one meaning have likeness {alike[0, 1]:.2f}")
            expect(max(alike[0, 2], alike[0, 3], alike[1, 2]) < 0.25, f"unlike sentences are alike:\n{alike}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
