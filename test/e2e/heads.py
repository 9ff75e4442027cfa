"""heads.py BIN SCRATCH few|many: decode attention of grouped heads on the emulated CUDA
driver, of at most eight query heads of a KV head or of more.

The number of query heads of a KV head, and the width of heads, decide which products a
warp computes and what a lane copies. Logits of tokens after prompts are compared with the
CPU's.
"""

import json
import sys

from capi import Model
from harness import Tools, check, nmse, some

CONFIG = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "vocab_size": 101,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
LLAMA = {"model_type": "llama"}
WINDOW = {"model_type": "mistral", "sliding_window": 150}
CAPPED = {
    "model_type": "gemma2",
    "sliding_window": 90,
    "query_pre_attn_scalar": 20,
    "attn_logit_softcapping": 2.0,
}
# (query heads of a KV head, KV heads, columns of a head, type, what else). More than 16
# query heads are computed in parts, for example 17 in parts of 9; with 128 columns, more
# than six are. With 264 KV heads keys have two splits, and a warp has several tiles of one.
SHAPES = [
    (2, 2, 32, "bf16", LLAMA),
    (3, 2, 80, "bf16", WINDOW),
    (4, 2, 64, "f16", WINDOW),
    (4, 1, 112, "bf16", LLAMA),
    (7, 1, 96, "f16", CAPPED),
    (8, 1, 128, "bf16", CAPPED),
    (12, 1, 64, "bf16", LLAMA),
    (16, 1, 128, "f16", LLAMA),
    (17, 1, 48, "bf16", CAPPED),
    (20, 1, 128, "bf16", WINDOW),
    (3, 264, 16, "bf16", WINDOW),
]
# NMSE that the CPU's logits may differ by. Tensor cores round the weights of values, the
# CPU does not: measured were up to 7e-5 and 7e-7.
LIMITS = {"bf16": 1.2e-4, "f16": 1.2e-6}
# Tokens before those that are fed one by one: a tile less one or two, and several splits
# with a last one that is not full.
PROMPTS, SINGLE = [14, 200], 2


def check_shape(tools, group, kv_heads, size, dtype, more):
    what = f"{group} x {kv_heads} heads of {size}, {dtype}, {more['model_type']}"
    heads = {"num_attention_heads": group * kv_heads, "num_key_value_heads": kv_heads}
    config = tools.scratch / "config.json"
    config.write_text(json.dumps(CONFIG | heads | {"head_dim": size} | more))
    flags = ["--target=cpu,cuda", "--max-seq=512", f"--dtype={dtype}"]
    artifact = tools.compile(config, *flags, out="model.cria")
    device, cpu = (
        Model(tools, artifact, 1, CONFIG["vocab_size"], name).session()
        for name in ("emulated", "cpu")
    )
    ids = [(7 * i + i * i) % CONFIG["vocab_size"] for i in range(512)]
    for length in PROMPTS:
        for session in (device, cpu):
            session.rewind(0)
            session.feed(ids[:length])
        for i in range(length, length + SINGLE):
            known, got = cpu.feed(ids[i : i + 1]), device.feed(ids[i : i + 1])
            error, limit = nmse(known, got), LIMITS[dtype]
            place = f"{what}, behind {i} tokens"
            check(error <= limit, f"{place}: NMSE {error:.2e}, expected <= {limit:.1e}")


def main():
    tools = Tools(*sys.argv[1:3])
    is_many = sys.argv[3] == "many"
    for shape in some((each for each in SHAPES if (each[0] > 8) == is_many), 5):
        check_shape(tools, *shape)


main()
