"""cache_blocks.py BIN SCRATCH: the model of examples/tiny with keys and values
in blocks (--kv=q8_0).

The model's heads have 16 numbers, half a block. Columns of zeros widen them to 32, which
changes no result: in f32 the logits are those of transformers. With blocks the logits
differ from these by no more than 8 bits allow, over a text of the model's own. They agree
however ids are fed, on the CPU and on the emulated GPU, and also with weights in blocks.
"""

import json
import sys

import numpy as np

from capi import Model
from harness import HERE, Tools, check, divergence
from weights import read_safetensors, write_safetensors

TINY = HERE.parent.parent / "examples" / "tiny"
# KL divergence from transformers: with the cache in blocks it may be LOSS times that
# without blocks, plus BAR.
LOSS, BAR = 1.5, 2e-6
EXACT = 1e-9  # f32, with the cache in f32
# If ids are fed in other pieces: a key near the middle of two integers may be rounded to
# either.
PIECED = 1e-9
WIDE = 32
TEXT, GPU_TEXT = 200, 24  # ids, and those of them for the emulated GPU


def widened(config, arrays):
    """The same model with heads of WIDE numbers. Pair (i, i + n) of n becomes pair
    (r i, r i + WIDE / 2) of the wide head, with r = WIDE / (2 n): RoPE rotates both by
    the same angle."""
    size, heads = config["head_dim"], config["num_attention_heads"]
    half, step = size // 2, WIDE // size
    place = np.arange(half) * step
    place = np.concatenate([place, place + WIDE // 2])
    result = {}
    for name, array in arrays.items():
        part = name.split(".")[-2]
        if part in ("q_proj", "k_proj", "v_proj"):
            rows = array.reshape(-1, size, array.shape[1]).astype(np.float64)
            wide = np.zeros((len(rows), WIDE, array.shape[1]))
            # Scores are divided by the square root of the head's size.
            wide[:, place] = rows * (step**0.5 if part == "q_proj" else 1)
            array = wide.reshape(-1, array.shape[1])
        elif part == "o_proj":
            columns = array.reshape(len(array), heads, size)
            wide = np.zeros((len(array), heads, WIDE))
            wide[:, :, place] = columns
            array = wide.reshape(len(array), -1)
        result[name] = array
    return config | {"head_dim": WIDE}, result


def fed(model, ids, pieces):
    session = model.session(threads=1)
    parts = np.split(np.array(ids), np.cumsum(pieces)[:-1])
    rows = [session.feed(part.tolist()) for part in parts]
    session.rewind(len(ids) // 2)
    again = session.feed(ids[len(ids) // 2 :])
    return np.concatenate(rows), again


def check_cache(tools, config, weights, exact, ids, flags):
    """Measures the loss of the cache's blocks against `exact`. Returns the logits."""
    wide = tools.compile(config, *flags, out="wide.cria")
    artifact = tools.compile(config, *flags, "--kv=q8_0", out="blocks.cria")
    plain = tools.logits(wide, ids, weights)
    before = divergence(exact, plain)
    whole = tools.logits(artifact, ids, weights)
    loss = divergence(exact, whole)
    what = " ".join(flags)
    most = LOSS * before + BAR
    check(loss <= most, f"{what}: KLD in blocks {loss:.2e} > {most:.2e}")
    check(not np.array_equal(whole, plain), f"{what}: nothing was rounded")
    for chunk in [1, 7]:
        small = tools.compile(config, *flags, "--kv=q8_0", f"--chunk={chunk}")
        apart = divergence(whole, tools.logits(small, ids, weights))
        # In bf16 a call of one id may round elsewhere. Two roundings that are `loss` away
        # from the exact logits are at most twice as far apart: four times the divergence.
        most = 4 * loss if "bf16" in what else loss
        check(apart <= most, f"{what}, chunks of {chunk}: KLD {apart:.2e}")
    print(f"{what}: KLD {before:.2e}, in blocks {loss:.2e}")
    return whole


def main():
    tools = Tools(*sys.argv[1:3])
    expected = json.loads((TINY / "expected.json").read_text())
    with np.load(TINY / "expected.npz") as stored:
        prompt_logits = stored["f32"]
    config, arrays = widened(
        json.loads((TINY / "config.json").read_text()),
        read_safetensors(TINY / "model.safetensors"),
    )
    path = tools.scratch / "config.json"
    path.write_text(json.dumps(config))
    write_safetensors(tools.scratch / "model.safetensors", arrays, "f32")
    weights = f"--weights={tools.scratch}"

    wide = tools.compile(path, "--dtype=f32", out="exact.cria")
    prompt = expected["prompts"][0]["ids"]
    ids = prompt + tools.greedy(wide, prompt, TEXT - len(prompt), weights)
    exact = tools.logits(wide, ids, weights)
    apart = divergence(prompt_logits, exact[: len(prompt)])
    check(apart <= EXACT, f"wide heads: KLD {apart:.2e} from transformers")
    arguments = (tools, path, weights, exact, ids)
    whole = check_cache(*arguments, ["--dtype=f32"])
    check_cache(*arguments, ["--dtype=bf16"])
    check_cache(*arguments, ["--dtype=f32", "--quantize=q8_0"])

    flags = ["--dtype=f32", "--kv=q8_0", "--target=cpu,cuda"]
    both = tools.compile(path, *flags, out="both.cria")
    for device, count in [("cpu", TEXT), ("emulated", GPU_TEXT)]:
        model = Model(tools, both, 0, config["vocab_size"], device, tools.scratch)
        text = ids[:count]
        got, again = fed(model, text, [len(text) - 9, 1, 7, 1])
        for what, rows in [("pieces", got), ("rewound", again)]:
            apart = divergence(whole[: len(text)][-len(rows) :], rows)
            check(apart <= PIECED, f"{device}, {what}: KLD {apart:.2e}")


main()
