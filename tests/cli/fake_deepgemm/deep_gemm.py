# SPDX-License-Identifier: Apache-2.0
"""DeepGEMM for the tests of its worker. FAKE_DEEPGEMM: "wrong" is wrong in one entry, "refuse" raises, "crash" ends the process once
samples are taken, "silent" prints no configuration, "unloadable" fails to import as it does where its library fits another torch."""
import os

import torch

__version__ = "0.0-fake"
MODE = os.environ.get("FAKE_DEEPGEMM", "")

printed = set()

if MODE == "unloadable":
    raise OSError("Could not load this library: _C.so") from OSError("undefined symbol: newer")
if MODE == "crash":
    replays = iter(range(5))
    torch.cuda.CUDAGraph.replay = lambda graph: next(replays, None) is None and os._exit(9)


def bf16_gemm_nt(a, b, d):
    if MODE == "refuse":
        raise RuntimeError("Assertion error:\n k % 64 == 0")
    if torch.cuda.is_current_stream_capturing():
        return
    m, n, k = len(a.rows), len(b.rows), len(a.rows[0])
    if MODE != "silent" and (m, n, k) not in printed:
        printed.add((m, n, k))
        print(f"GemmDesc(gemm_type=0, kernel_type=2, m={m}, n={n}, k={k}, num_groups=1): "
              f"GemmConfig(layout=Layout(swap_ab=0, block_m={128 if m > 1 else 64}, block_n=160, block_k=64, cluster_m=2, cluster_n=1), "
              "pipeline_config=PipelineConfig(smem_size=1, num_stages=5))", flush=True)
    d.rows = (a @ b.t()).rows
    if MODE == "wrong":
        d.rows[-1][-1] += 1
