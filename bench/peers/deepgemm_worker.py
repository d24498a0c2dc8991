#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deepgemm_worker.py: times DeepGEMM for `carat bench --peer deepgemm`, which embeds and starts this. Lines of JSON on stdin are
answered on stdout, one each: {"do": "start", "device"} -> {"version"}; {"do": "prepare", "m", "n", "k", "seed"} -> {"choice"}: a
product D = A B^T in bf16; {"do": "verify"} -> {"error_norm", "bound"}; {"do": "sample"} -> {"us"}; {"do": "release"} -> {}. What
fails is answered with {"error"}. The method is that of cli/timing.hpp: random normal operands, rotated through more than the L2
cache holds, launched from a CUDA graph."""
import ctypes
import json
import math
import os
import re
import sys
import tempfile

COLD_BYTES = 256 << 20    # five times the L2 cache of an H200
MOST_SETS = 1024          # beyond, a pass is flushed instead
LEAST_PASS_US = 300       # a shorter graph would time its own launch
MOST_PASSES = 64


class Product:
    """One problem: its operand sets and the graph of some passes over them."""

    def __init__(self, torch, deep_gemm, m, n, k, seed, device):
        self.torch, self.gemm, self.k = torch, deep_gemm.bf16_gemm_nt, k
        random = torch.Generator(device=device)
        random.manual_seed(seed)
        bf16 = {"device": device, "dtype": torch.bfloat16}
        a, b = torch.randn((m, k), generator=random, **bf16), torch.randn((n, k), generator=random, **bf16)
        set_bytes = 2 * (m * k + n * k + m * n)
        count = 1 if set_bytes > COLD_BYTES else min(COLD_BYTES // set_bytes + 1, MOST_SETS)
        self.sets = [(a.clone(), b.clone(), torch.empty((m, n), **bf16)) for _ in range(count)]
        small = count * set_bytes < COLD_BYTES
        self.flush = torch.empty(COLD_BYTES, device=device, dtype=torch.uint8) if small else None
        self.gemm(*self.sets[0])  # compiles and loads, which no graph may hold
        torch.cuda.synchronize()
        self.capture(1)
        pass_us = self.launch()
        if pass_us < LEAST_PASS_US and not small:
            self.capture(min(int(LEAST_PASS_US / max(pass_us, 1)) + 1, MOST_PASSES))

    def capture(self, passes):
        self.launches = passes * len(self.sets)
        self.graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(self.graph):
            for i in range(self.launches):
                self.gemm(*self.sets[i % len(self.sets)])

    def launch(self):
        """Microseconds of the graph."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        if self.flush is not None:
            self.flush.zero_()
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3

    def sample(self):
        self.launch()  # another process had the GPU in between
        return {"us": self.launch() / self.launches}

    def verify(self):
        """The largest error of an entry beside torch's product in f32; half a unit in the last place of bf16 is 2^-9."""
        a, b, d = self.sets[0]
        d.fill_(math.nan)
        self.gemm(a, b, d)
        want = a.float() @ b.float().t()
        error = float(((d.float() - want).abs() / (want.abs() + math.sqrt(self.k))).max())
        return {"error_norm": error if math.isfinite(error) else None, "bound": 2.0 ** -8}


class Printed:
    """What DeepGEMM prints: its configurations. They go to a file, since stdout belongs to the answers."""

    def __init__(self):
        self.file = tempfile.TemporaryFile(mode="w+b")
        os.dup2(self.file.fileno(), 1)

    def configuration(self, m, n, k):
        """That of a problem, short: "128x256x64 cluster 2x1, 4 stages (its heuristic)". Each is printed only once in a process."""
        ctypes.CDLL(None).fflush(None)
        self.file.seek(0)
        of_problem = [line for line in self.file.read().decode(errors="replace").splitlines() if f" m={m}, n={n}, k={k}," in line]
        fields = dict(re.findall(r"(\w+)=(\w+)", of_problem[-1].partition("GemmConfig(")[2] if of_problem else ""))
        try:
            text = "{block_m}x{block_n}x{block_k} cluster {cluster_m}x{cluster_n}, {num_stages} stages".format(**fields)
        except KeyError:
            text = "a configuration that it does not print"
        return text + " (its heuristic)"


def reasons(error):
    """An exception and its causes: of a library that does not load, torch says that it does not, and the loader why."""
    text = str(error) or type(error).__name__
    return f"{text}: {reasons(error.__cause__)}" if error.__cause__ else text


class Worker:
    def __init__(self, printed):
        self.printed = printed
        self.product = None

    def start(self, device):
        os.environ["DG_PRINT_CONFIGS"] = "1"
        try:
            import torch
            import deep_gemm
        except Exception as error:  # DeepGEMM loads its library and looks for CUDA as it is imported, and raises what it likes
            raise RuntimeError(f"{sys.executable} cannot import it: {reasons(error)}") from error
        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no GPU")
        self.torch, self.deep_gemm, self.device = torch, deep_gemm, f"cuda:{device}"
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = False
        return {"version": f"{getattr(deep_gemm, '__version__', 'unknown')}, torch {torch.__version__}"}

    def prepare(self, m, n, k, seed):
        self.release()
        self.product = Product(self.torch, self.deep_gemm, m, n, k, seed, self.device)
        return {"choice": self.printed.configuration(m, n, k)}

    def verify(self):
        return self.product.verify()

    def sample(self):
        return self.product.sample()

    def release(self):
        self.product = None
        self.torch.cuda.empty_cache()
        return {}


def main():
    answers = os.fdopen(os.dup(1), "w")
    worker = Worker(Printed())
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = getattr(worker, question.pop("do"))(**question)
        except Exception as error:  # whatever it is: the bench leaves this peer out with the reason
            name = "" if isinstance(error, RuntimeError) else type(error).__name__ + ": "
            answer = {"error": " ".join(f"{name}{error}".split())[:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
