# SPDX-License-Identifier: Apache-2.0
"""DeepGEMM for the tests of its worker. FAKE_DEEPGEMM: "wrong" is wrong in one entry, "refuse" raises, "crash" ends the process once
samples are taken, "silent" prints no configuration."""
import os

import torch

__version__ = "0.0-fake"
MODE = os.environ.get("FAKE_DEEPGEMM", "")

if MODE == "crash":
    replays = iter(range(5))
    torch.cuda.CUDAGraph.replay = lambda graph: next(replays, None) is None and os._exit(9)


def bf16_gemm_nt(a, b, d):
    if MODE == "refuse":
        raise RuntimeError("Assertion error:\n k % 64 == 0")
    if torch.cuda.is_current_stream_capturing():
        return
    if MODE != "silent":
        print("GemmConfig(layout=Layout(swap_ab=0, block_m=128, block_n=160, block_k=64, cluster_m=2, cluster_n=1), "
              "pipeline_config=PipelineConfig(smem_size=1, num_stages=5))", flush=True)
    d.rows = (a @ b.t()).rows
    if MODE == "wrong":
        d.rows[-1][-1] += 1
