"""bulk.py BIN SCRATCH DTYPE CHIP: weights that come by bulk copies give the bits of
cp.async.

Code of one model for sm_80 and for CHIP, sm_90 or later, runs on the emulated device,
with ids fed one by one. In decode sm_80 copies weights by cp.async, CHIP by bulk copies. Some rows of
weights are shorter than a stage of the ring, others go round the ring. Rows end within a
stage, within a turn, or within the last elements of a lane.
"""

import json
import sys

import numpy as np

from capi import Model
from harness import Tools, check

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 101,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}
# Elements of a row: 64 and 4352 of bf16; 704 and 1300 of f32. Large matrices have four
# rows a warp.
MODELS = {
    "bf16": {"hidden_size": 64, "intermediate_size": 4352},
    "f32": {
        "hidden_size": 704,
        "intermediate_size": 1300,
        "head_dim": 64,
        "vocab_size": 8449,
    },
}
IDS = [5, 100]
PRODUCTS = ["attn_qkv", "attn_out", "mlp_gate_up", "mlp_down"]


def decoded(tools, config, dtype, chip):
    """The logits of IDS, and the artifact, whose manifest names the kernels."""
    flags = ["--target=cuda", f"--dtype={dtype}", f"--chip={chip}"]
    artifact = tools.compile(config, *flags, out=f"{dtype}.{chip}.cria")
    vocab = json.loads(config.read_text())["vocab_size"]
    session = Model(tools, artifact, 1, vocab, "emulated").session()
    return np.concatenate([session.feed([id]) for id in IDS]), artifact.read_bytes()


def main():
    tools = Tools(*sys.argv[1:3])
    dtype, chip = sys.argv[3:]
    config = tools.scratch / f"{dtype}.json"
    config.write_text(json.dumps(CONFIG | MODELS[dtype]))
    expected, by_lanes = decoded(tools, config, dtype, "sm_80")
    got, in_bulk = decoded(tools, config, dtype, chip)
    for name in ["head", *(f"layers_{product}" for product in PRODUCTS)]:
        kernel = f'"{name}_decode_bulk"'.encode()
        check(kernel in in_bulk and kernel not in by_lanes, f"{dtype}: {name}")
    check(np.array_equal(expected, got), f"{dtype}: other bits in bulk")


main()
