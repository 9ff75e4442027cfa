"""attention.py BIN SCRATCH [NAME...]: attention of prompts on tensor cores of an emulated
GPU, by warpgroups where it is not latent.

Heads have both widths. A block computes one query head or several that share keys: all
of them, or as many as make the rows of a block whole tokens. There are windows and caps.
Prompts end anywhere in a tile of rows and of keys, chunks begin after earlier positions,
and the caches hold NaN after the last key. Logits are compared with the CPU's.
"""

import json
import os
import sys

import numpy as np

from capi import Model
from families import config
from harness import Tools, check, nmse, some

POSITIONS = 384


def model(family, heads, kv_heads, size, **more):
    heads = {"num_attention_heads": heads, "num_key_value_heads": kv_heads}
    sizes = {"head_dim": size, "num_hidden_layers": 1, "intermediate_size": 64}
    sizes["max_position_embeddings"] = POSITIONS
    return config(family, heads | sizes, **more)


# (config, type, chunks of prompts: each prompt begins at position 0; --chunk)
CAPPED = {"sliding_window": 150, "attn_logit_softcapping": 2.0, "num_hidden_layers": 2}
SCALED = {"embedding_multiplier": 12.0, "attention_multiplier": 0.11}
LATENT = {"kv_lora_rank": 96, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 32}
CASES = {
    "grouped-64": (model("granite", 8, 2, 64, **SCALED), "bf16", [[300], [1, 129], [200, 130, 2]]),
    "grouped-128": (model("llama", 4, 2, 128), "f16", [[384], [65], [120, 140]]),
    "alone-64": (model("llama", 2, 2, 64), "f16", [[257], [128], [127, 2, 255]]),
    "alone-128": (model("granite", 1, 1, 128, **SCALED), "bf16", [[290], [30, 99, 190]]),
    "three-64": (model("llama", 3, 1, 64), "bf16", [[300], [10, 140]]),
    "six-128": (model("llama", 6, 1, 128), "bf16", [[70], [50, 129]]),
    "window-64": (model("mistral", 4, 1, 64, sliding_window=140), "bf16", [[384], [20, 270]]),
    # Of a ring of 256 places: tiles of keys begin where it does, and a text turns it.
    "ring-64": (model("mistral", 4, 1, 64, sliding_window=60), "bf16", [[384]], 120),
    "capped-64": (model("gemma2", 4, 2, 64, **CAPPED), "bf16", [[260], [129, 100]]),
    "latent": (model("minicpm3", 6, 6, 32, **LATENT), "bf16", [[70], [15, 34]]),
}
LIMITS = {"bf16": 5e-5, "f16": 1e-6}  # NMSE that logits may differ by


def products(file):
    """Kernels of attention of prompts that the emulator has counted, and their products."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {
        (line["kernel"], *line["operations"])
        for line in lines
        if "attn_prefill" in line["kernel"]
    }


def spoil(session, hidden):
    """Leaves NaN in the caches of a model that multiplies its embeddings."""
    largest = np.full((POSITIONS - 1, hidden), 3.38e38)
    problem = session.feed_embeddings(largest)
    check(problem is None, problem)
    check(np.isnan(session.feed([0])).all(), "no NaN is in the caches")


def check_case(tools, name, keys, dtype, prompts, chunk=POSITIONS):
    path = tools.scratch / f"{name}.json"
    path.write_text(json.dumps(keys))
    flags = ["--target=cpu,cuda", "--chip=sm_90a", f"--dtype={dtype}"]
    artifact = tools.compile(path, *flags, f"--chunk={chunk}", out=f"{name}.cria")
    counts = tools.scratch / f"{name}.counts"
    counts.unlink(missing_ok=True)
    os.environ["CRIA_EMULATOR_COUNT"] = str(counts)
    device, cpu = (
        Model(tools, artifact, 1, keys["vocab_size"], each).session()
        for each in ("emulated", "cpu")
    )
    if "embedding_multiplier" in keys:
        spoil(device, keys["hidden_size"])
    for seed, chunks in enumerate(prompts):
        os.environ["CRIA_EMULATOR_SEED"] = str(seed)
        device.rewind(0)
        cpu.rewind(0)
        for index, length in enumerate(chunks):
            ids = [(7 * i + i * i + seed) % keys["vocab_size"] for i in range(length)]
            error, limit = nmse(cpu.feed(ids), device.feed(ids)), LIMITS[dtype]
            what = f"{name}, {chunks}, chunk {index}: NMSE {error:.2e}"
            check(error <= limit, f"{what}, expected <= {limit:.0e}")
    used, kind = products(counts), "mma" if "kv_lora_rank" in keys else "wgmma"
    check(all(each[1:] and each[1].startswith(kind) for each in used), used)


def main():
    tools = Tools(*sys.argv[1:3])
    os.environ["CRIA_EMULATOR_DEVICE"] = "sm_90"
    for name in some(sys.argv[3:] or CASES, 3):
        check_case(tools, name, *CASES[name])


main()
