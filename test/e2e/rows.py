"""rows.py BIN SCRATCH FORMAT...: prompts of few and many rows on the emulated CUDA driver.

The number of a prompt's rows decides which tile multiplies it, and over how many blocks k
is split. Logits of prompts on both sides of each bound are compared with the CPU's. A
seed draws the order in which blocks run. Sums of splits have a fixed order, so that
another seed gives the same bits.
"""

import json
import os
import sys

import numpy as np

from capi import Model
from harness import Tools, check, nmse, some

# Rows of k long enough to be split, by seven for `down`; tiles that are not full.
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1824,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 601,
    "max_position_embeddings": 384,
    "tie_word_embeddings": True,
}
# The 132 blocks of sm_90a have a second tile here: of 45 tiles across and
# three down the last one is alone in its pair, and not full.
MORE_TILES = CONFIG | {
    "hidden_size": 128,
    "intermediate_size": 2848,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
# The terms of a product are one tile, so that copies of several weights have no loops.
ONE_TILE = CONFIG | {"hidden_size": 64, "intermediate_size": 64, "head_dim": 64}
LENGTHS, SOME = [2, 16, 17, 32, 33, 64, 65, 128, 129, 200], [17, 65, 129]
# Rows that sm_90a has special tiles for: two or three tiles, whose blocks are pairs. Of
# fewer rows, the blocks of a tile are a cluster.
HOPPER, WIDE = ["--chip=sm_90a"], [129, 256, 300]
# Other sizes of schedules: tiles, splits, stages.
SIZES = {
    "gemv_floats": {"threads": 64, "warp_rows": 2, "ahead": 3, "turns": 2, "resident": 4},
    "gemv_floats_bulk": {"threads": 64, "warps": 64, "grain": 1},
    "gemm": {"most_splits": 3, "least_terms": 128},
    "gemm_few": {"rows": 16, "m": 64, "stages": 3, "warps_down": 2},
    "gemm_some": {
        "rows": 80, "m": 32, "stages": 2, "terms": 32, "warps_down": 1, "cluster_blocks": 40,
    },
    "gemm_many": {"m": 64, "n": 64, "terms": 64, "warps_down": 4},
    "gemm_warpgroups": {"stages": 2, "wide": 128, "blocks": 8},
    "attention_decode": {"keys_per_split": 32},
    "attention_scan": {"blocks": 64},
    "attention_scan_tile": {"blocks": 8, "deep_blocks": 16, "deep_keys": 24, "heads": 1},
    "attention_prompt": {"rows": 32},
    "attention_warpgroups": {"keys": 64, "stages": 3},
}
# Formats, and the NMSE that the CPU's logits may differ by. In bf16 both devices are 4e-5
# from f32.
FORMATS = {
    "bf16": (["--dtype=bf16"], LENGTHS, 5e-5),
    "f16": (["--dtype=f16"], SOME, 1e-6),
    "f32": (["--dtype=f32"], SOME, 1e-8),
    "bf16-wgmma": (["--dtype=bf16", *HOPPER], [17, 65, 128, *WIDE], 5e-5),
    "f16-wgmma": (["--dtype=f16", *HOPPER], WIDE, 1e-6),
    "bf16-wgmma-more": (["--dtype=bf16", *HOPPER], [300], 5e-5),
    "bf16-wgmma-one": (["--dtype=bf16", *HOPPER], [300], 5e-5),
    "bf16-sizes": (["--dtype=bf16"], [16, 17, 130], 5e-5),
    "bf16-wgmma-sizes": (["--dtype=bf16", *HOPPER], [17, 200], 5e-5),
    "q8_0": (["--quantize=q8_0"], SOME, 1e-4),
    "q4_0": (["--quantize=q4_0"], SOME, 1e-4),
}


def check_lengths(tools, artifact, name, lengths, limit):
    vocab = CONFIG["vocab_size"]
    ids = [(7 * i + i * i) % vocab for i in range(max(lengths))]
    os.environ["CRIA_EMULATOR_SEED"] = "0"
    os.environ["CRIA_EMULATOR_DEVICE"] = "sm_90" if "wgmma" in name else "sm_80"
    device, cpu = (
        Model(tools, artifact, 1, vocab, each).session() for each in ("emulated", "cpu")
    )
    os.environ["CRIA_EMULATOR_SEED"] = "1"
    for length in some(lengths, 5):
        what, prompt = f"{name}, {length} tokens", ids[:length]
        device.rewind(0)
        cpu.rewind(0)
        got = device.feed(prompt)
        error = nmse(cpu.feed(prompt), got)
        check(error <= limit, f"{what}: NMSE {error:.2e}, expected <= {limit:.0e}")
        if name.endswith("sizes"):
            error = nmse(cpu.feed(ids[-1:]), device.feed(ids[-1:]))
            check(error <= 2 * limit, f"{what} and one: NMSE {error:.2e}")
        if name.startswith("bf16") and length in [*SOME, 200, 300]:
            flags = ["--device=emulated", "--random-weights=1"]
            other = tools.logits(artifact, prompt, *flags)
            check(np.array_equal(got, other), f"{what}: other bits with a seed")


def main():
    tools = Tools(*sys.argv[1:3])
    config = tools.scratch / "config.json"
    for name in sys.argv[3:]:
        model = {"more": MORE_TILES, "one": ONE_TILE}.get(name.split("-")[-1], CONFIG)
        config.write_text(json.dumps(model))
        flags, lengths, limit = FORMATS[name]
        flags = ["--target=cpu,cuda", "--max-seq=384", *flags]
        if name.endswith("sizes"):
            sizes = tools.scratch / "sizes.json"
            sizes.write_text(json.dumps(SIZES))
            flags.append(f"--schedules={sizes}")
        artifact = tools.compile(config, *flags, out=f"{name}.cria")
        check_lengths(tools, artifact, name, lengths, limit)


main()
